"""Repositories whose paths a shell would take apart: Triton's Python backend writes them into a `bash -c` line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import toy_spec
from tests.repository.tensorrt import tensorrt_spec
from tests.serving.models import model_repository
from tests.serving.toy import build_toy
from trtspec.errors import ServerError
from trtspec.serving import Ports, ServeOptions, free_ports, launch_plan, start_server
from trtspec.serving.installation import find_installation
from trtspec.serving.plain_paths import is_plain, make_link, plain_cache, plain_name

PORTS = Ports(8000, 8001, 8002)
ODD = "it's $(touch ran) a;b ünï 模型"


@pytest.mark.parametrize("text", ["/a/b-c_1.0+x@y", "/a=b,c:d%"])
def test_plain_paths_stay_as_they_are(text: str) -> None:
    assert is_plain(Path(text))
    assert plain_name(Path(text)) == Path(text)


@pytest.mark.parametrize("letter", [*" '\"$`\\;&|<>(){}[]*?!#~^\t\n", "ü", "模"])
def test_other_paths_get_a_link(letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / f"a{letter}b"
    folder.mkdir()
    link = plain_name(folder)
    assert is_plain(link)
    assert link == plain_name(folder) != plain_name(tmp_path / f"a{letter}c")
    make_link(link, folder)
    make_link(link, folder)
    assert link.samefile(folder)
    assert list(link.parent.iterdir()) == [link]


def test_a_cache_folder_with_a_space_is_not_used_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "my cache"))
    assert is_plain(plain_cache())
    assert is_plain(find_installation().backends)


def test_a_link_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match="cannot write"):
        make_link(tmp_path / "file" / "served" / "x", tmp_path)


def test_the_server_is_told_the_link_and_the_user_why(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path / "a b")
    plan = launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log")
    assert plan.link is not None
    assert f"--model-repository={plan.link}" in plan.argv
    assert any(f"ln -sfn '{plan.repository}' {plan.link}" in note for note in plan.notes)
    assert not plan.link.exists()
    assert launch_plan(toy_spec(tmp_path / "ab"), "baseline", PORTS, log=tmp_path / "log").link is None


@pytest.mark.parametrize(("root", "seen"), [(None, "/trtspec-repository"), ("/models", "/models")])
def test_a_container_sees_it_at_a_plain_path(tmp_path: Path, root: str | None, seen: str) -> None:
    serving = {} if root is None else {"engines": "copy", "repository_root": root}
    spec_file = tensorrt_spec(tmp_path / "a, b", serving=serving)
    options = ServeOptions(way="docker", preview=True)
    argv = launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log", options=options).argv
    repository = spec_file.repository("baseline")
    assert f"--model-repository={seen}" in argv
    assert f'type=bind,"source={repository}",target={seen},readonly' in argv
    own = f'type=bind,"source={repository}","target={repository}",readonly'
    assert (own in argv) == (root is None)


@pytest.mark.triton
def test_a_repository_is_served_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines, tokenizer and repository in a folder whose name is neither plain nor ASCII, in the locale C."""
    for name in ("LC_ALL", "LANG", "LC_CTYPE"):
        monkeypatch.setenv(name, "C")
    monkeypatch.chdir(tmp_path)
    spec_file = build_toy(tmp_path / ODD)
    plan = launch_plan(spec_file, "speculative", free_ports(), log=tmp_path / ODD / "server.log")
    with start_server(plan, ready_timeout=120) as server:
        assert len(server.warm_up(60)) == 4
        server.stop(now=True)
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.triton
def test_a_cache_with_a_space_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "my cache"))
    spec_file = toy_spec(tmp_path)
    model_repository(spec_file.repository("baseline"))
    plan = launch_plan(spec_file, "baseline", free_ports(), log=tmp_path / "log")
    with start_server(plan, ready_timeout=120) as server:
        assert server.alive()
        server.stop(now=True)
