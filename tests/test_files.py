import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trtspec.files import (
    atomic_directory,
    cache_dir,
    discard,
    is_abandoned,
    is_partial,
    partial_of,
    remove_directory,
    sweep_partials,
    write_json,
    write_text,
)


def test_a_failed_directory_leaves_the_old_one(tmp_path: Path) -> None:
    final = tmp_path / "engine"
    with atomic_directory(final) as folder:
        (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), atomic_directory(final) as folder:  # noqa: PT012
        (folder / "a").write_text("half")
        raise RuntimeError
    assert (final / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def test_a_second_result_replaces_the_first_whole(tmp_path: Path) -> None:
    final = tmp_path / "engine"
    for name in ("one", "two"):
        with atomic_directory(final) as folder:
            (folder / name).write_text(name)
    assert [path.name for path in final.iterdir()] == ["two"]
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def test_a_killed_process_leaves_a_partial_that_is_swept(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from trtspec.files import atomic_directory\n"
        f"with atomic_directory(Path({str(tmp_path)!r}) / 'engine') as f:\n"
        "    (f / 'a').write_text('half'); print('in', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    sweep_partials(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1, "a partial of a living process stays"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert all(is_partial(path) for path in tmp_path.iterdir())
    sweep_partials(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_text_and_no_sibling(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"x": float("nan")})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# a file in the place of /dev/stdout would stay there for all who may write to /dev
@pytest.mark.parametrize("name", ["/dev/fd/1", "/proc/self/fd/1", *(["/dev/stdout"] if os.getuid() else [])])
def test_our_own_stream_is_written_to_also_where_it_is_a_plain_file(tmp_path: Path, name: str) -> None:
    script = (
        "from pathlib import Path; from trtspec.files import write_text\n"
        f"print('one'); write_text(Path({name!r}), 'two\\n'); print('three')"
    )
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"TRTSPEC_CACHE": "a"}, "a"),
        ({"XDG_CACHE_HOME": "b"}, "b/trtspec"),
        ({"HOME": "c"}, "c/.cache/trtspec"),
        ({"TRTSPEC_CACHE": "a", "XDG_CACHE_HOME": "b"}, "a"),
    ],
)
def test_cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str) -> None:
    for name in ("TRTSPEC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert cache_dir() == tmp_path / expected


def test_a_cache_that_cannot_be_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRTSPEC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    assert cache_dir() == Path(tempfile.gettempdir()) / f"trtspec-{os.getuid()}"


def test_what_a_temporary_sibling_was_to_become(tmp_path: Path) -> None:
    final = tmp_path / "engine"
    with atomic_directory(final) as folder:
        assert partial_of(folder) == final
        assert not is_abandoned(folder)
    assert partial_of(final) == final
    assert not is_abandoned(final)
    assert is_abandoned(tmp_path / f"engine.partial-{2**22 + 1}-aa")
    assert is_abandoned(tmp_path / "engine.partial-x")


def test_a_folder_is_removed_whole(tmp_path: Path) -> None:
    for name in ("engine", "engine.partial-1-aa"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "file").write_text("x")
        remove_directory(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        remove_directory(tmp_path / "engine")


def test_half_a_surrogate_pair_is_written_as_json_escapes_it(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"text": "\ud800é"})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"text": "\ud800é"}


@pytest.mark.parametrize("failing", [1, 2])
def test_an_interruption_between_the_renames_loses_neither_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    final = tmp_path / "engine"
    with atomic_directory(final) as folder:
        (folder / "a").write_text("old")
    renamed = Path.rename
    calls: list[Path] = []

    def rename(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == failing:
            raise KeyboardInterrupt
        return renamed(path, target)

    with pytest.raises(KeyboardInterrupt), atomic_directory(final) as folder:  # noqa: PT012
        (folder / "a").write_text("new")
        monkeypatch.setattr(Path, "rename", rename)
    assert (final / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """Through a link, so that a fault costs the link and not the machine's /dev/null."""
    for device in ("null", "full"):
        (tmp_path / device).symlink_to(f"/dev/{device}")
    write_text(tmp_path / "null", "text")
    with pytest.raises(OSError, match="No space left on device"):
        write_text(tmp_path / "full", "text")
    assert all(path.is_symlink() and path.is_char_device() for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", ".", "folder"])
def test_a_folder_is_no_file_to_write(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path / name if name == "folder" else Path(name), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_is_discarded_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("kept")
    for name, target in (("a", "folder"), ("b", "folder/file"), ("c", "c"), ("d", "nowhere")):
        (tmp_path / name).symlink_to(target)
        discard(tmp_path / name)
    discard(tmp_path / "missing")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (tmp_path / "folder" / "file").read_text() == "kept"
    discard(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "engine").symlink_to("elsewhere")
    with atomic_directory(tmp_path / "engine") as folder:
        (folder / "a").write_text("new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "engine"]
    assert not (tmp_path / "engine").is_symlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_full_disk_is_told_with_the_place(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from trtspec.files import write_bytes\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "try: write_bytes(Path(sys.argv[1]), bytes(5000))\n"
        "except OSError as error: print(error)\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "file")]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "file") in told
    assert list(tmp_path.iterdir()) == []
