"""Specs with mistakes: all of them at once, each with its path, its line and the nearest key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trtspec.errors import Problem, SpecError
from trtspec.spec import Spec, load_spec, parse_spec, spec_json_schema

GOOD = """\
version: 1
name: pair
target: {checkpoint: ./a}
draft: {checkpoint: ./b}
"""


def problems_of(text: str) -> dict[str, Problem]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "trtspec.yaml")
    assert caught.value.where == "trtspec.yaml"
    return {problem.path: problem for problem in caught.value.problems}


def test_the_smallest_spec_and_its_defaults() -> None:
    spec = parse_spec(GOOD)
    assert (spec.runtime, spec.speculation.draft_length, spec.build.max_seq_len) == ("torch", 4, None)
    assert spec.speculation.engine_draft_length == 8
    assert spec.hardware is None
    assert (spec.serving.http_port, spec.loadtest.concurrency) == (8000, [1, 4])


def test_three_mistakes_are_listed_with_path_line_and_nearest_key() -> None:
    found = problems_of("""\
name: pair
target:
  checkpoint: ./a
  dtyp: float16
draft: {checkpoint: ./b, tp: 0}
speculation:
  draft_lenght: 5
""")
    assert set(found) == {"target.dtyp", "draft.tp", "speculation.draft_lenght"}
    assert "line 4" in found["target.dtyp"].message
    assert found["target.dtyp"].hint == "did you mean 'dtype'?"
    assert "line 5" in found["draft.tp"].message
    assert "(given: 0)" in found["draft.tp"].message
    assert found["speculation.draft_lenght"].hint == "did you mean 'draft_length'?"


def test_a_key_that_resembles_none_lists_what_is_known() -> None:
    found = problems_of(GOOD + "serving: {zzz: 1}\n")
    assert "http_port" in str(found["serving.zzz"].hint)


def test_missing_sections_and_fields_are_named() -> None:
    found = problems_of("name: pair\ndraft: {}\n")
    assert set(found) == {"target", "draft.checkpoint"}
    assert all(problem.message == "is required" for problem in found.values())


def test_a_section_without_keys_says_so() -> None:
    found = problems_of(GOOD + "torch:\nserving: fast\nbuild: [1]\n")
    assert "is an empty section: give it a key, or remove its line" in found["torch"].message
    assert "is a section of keys, {key: value} (given: 'fast')" in found["serving"].message
    assert "is a section of keys" in found["build"].message


def test_keys_given_twice_are_a_mistake_with_both_lines() -> None:
    found = problems_of(GOOD + "serving:\n  http_port: 1\n  http_port: 2\nname: other\n")
    assert set(found) == {"serving.http_port", "name"}
    assert "lines 6 and 7" in found["serving.http_port"].message
    assert "lines 2 and 8" in found["name"].message


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text", "3"])
def test_something_that_is_no_mapping(text: str) -> None:
    assert "a mapping of keys to values is expected" in problems_of(text)[""].message


@pytest.mark.parametrize("text", ["name: [", "a: b: c", "\tname: x", "{name: x", "name: !!python/object:os.system x"])
def test_text_that_is_no_yaml(text: str) -> None:
    assert "not valid YAML" in problems_of(text)[""].message


CROSS_FIELD: dict[str, tuple[str, str]] = {
    "speculation.draft_length": ("speculation: {draft_length: 9, max_draft_length: 8}", "more than"),
    "speculation.min_draft_length": ("speculation: {min_draft_length: 5}", "more than"),
    "target.quantization": ("runtime: torch", "only for runtime tensorrt_llm"),
    "serving": ("serving: {http_port: 8001}", "must differ"),
}


@pytest.mark.parametrize("path", CROSS_FIELD)
def test_values_that_do_not_fit_together(path: str) -> None:
    extra, expected = CROSS_FIELD[path]
    text = GOOD.replace("./a}", "./a, quantization: fp8}") if path.startswith("target") else GOOD
    assert expected in problems_of(f"{text}{extra}\n")[path].message


def test_all_cross_field_mistakes_come_at_once() -> None:
    text = GOOD.replace("./b}", "./b, tp: 2}") + "speculation: {min_draft_length: 5}\nserving: {grpc_port: 8000}\n"
    assert set(problems_of(text)) == {"draft.tp", "speculation.min_draft_length", "serving"}


def test_the_tensorrt_llm_runtime_allows_what_torch_refuses() -> None:
    text = GOOD.replace("./a}", "./a, quantization: fp8, tp: 4}")
    spec = parse_spec(f"{text}runtime: tensorrt_llm\nspeculation: {{acceptance: logits}}\n")
    assert (spec.target.tp, spec.target.quantization, spec.speculation.acceptance) == (4, "fp8", "logits")


def numbers(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every number in a JSON Schema, with the way to it."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number") and not schema.keys() & {"enum", "const"}:
            yield path, schema
        for key, value in schema.items():
            yield from numbers(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from numbers(value, f"{path}/{index}")


def test_every_number_has_limits() -> None:
    """What is computed from a spec stays a number, and ends."""
    found = {path: item for path, item in numbers(spec_json_schema()) if "/extra_flags/" not in path}
    assert len(found) > 30
    for path, item in found.items():
        assert item.keys() & {"maximum", "exclusiveMaximum"}, path
        assert item.keys() & {"minimum", "exclusiveMinimum"}, path


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "1.0e+400"])
@pytest.mark.parametrize("place", ["hardware: {gpu: L4, price_per_hour: VALUE}", "serving: {ready_timeout: VALUE}",
                                   "build: {extra_flags: {a: VALUE}}"])  # fmt: skip
def test_numbers_are_finite(value: str, place: str) -> None:
    assert problems_of(f"{GOOD}runtime: tensorrt_llm\n{place.replace('VALUE', value)}\n")


def test_more_ranks_than_gpus_in_any_machine() -> None:
    text = GOOD.replace("./a}", "./a, tp: 64, pp: 64}")
    assert "4096 ranks" in problems_of(f"{text}runtime: tensorrt_llm\n")["target.tp"].message


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", "x" * 65, "../up"])
def test_names_that_are_no_folder_names(name: str) -> None:
    assert "name" in problems_of(GOOD.replace("name: pair", f"name: {name!r}"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
)
def test_whatever_is_written_gives_a_spec_or_a_spec_error(value: Any) -> None:
    for document in (value, {"name": value, "target": value, "loadtest": {"seed": value}}):
        assert outcome(yaml.safe_dump(document))


def outcome(text: str) -> Spec | tuple[Problem, ...]:
    try:
        return parse_spec(text)
    except SpecError as error:
        return error.problems


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    (tmp_path / "large.yaml").write_bytes(b"#" * (2 << 20))
    for path, expected in (
        (tmp_path / "large.yaml", "larger than any spec"),
        (Path("/dev/zero"), "larger than any spec"),
        (tmp_path / "nothing.yaml", "no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "latin.yaml", "cannot be read"),
    ):
        with pytest.raises(SpecError, match=expected) as caught:
            load_spec(path)
        assert caught.value.where == str(path)


def test_paths_belong_to_the_spec_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "trtspec.yaml").write_text(GOOD.replace("./b", "~/b"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    spec_file = load_spec(Path("sub/trtspec.yaml"))
    assert spec_file.root == tmp_path / "sub"
    assert spec_file.checkpoint("target") == spec_file.checkpoint("baseline") == tmp_path / "sub" / "a"
    assert spec_file.checkpoint("draft") == Path("/home/someone/b")
    assert spec_file.engines("draft") == tmp_path / "sub" / "engines" / "pair" / "draft"
    assert spec_file.repository("baseline") == tmp_path / "sub" / "model_repo" / "pair" / "baseline"
    assert spec_file.runs == tmp_path / "sub" / "runs" / "pair"


BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]", "a: " + "[" * 5000 + "]" * 5000], ids=["bomb", "loop", "deep"])
def test_text_that_would_expand_without_end_is_refused_at_once(text: str) -> None:
    assert "line" in problems_of(text)[""].message


@pytest.mark.parametrize(
    "line", ["x: 2026-99-99", "2026-01-01: x", "? !!binary aGk=\n: x", f"speculation: {{draft_length: {'9' * 5000}}}"]
)
def test_a_value_that_python_cannot_hold_is_a_mistake(line: str) -> None:
    assert "cannot be read" in problems_of(f"{GOOD}{line}\n")[""].message


@pytest.mark.parametrize("path", [r'"a\0b"', r'"\ud800"', "~nobody-of-this-name/x"])
def test_a_checkpoint_that_cannot_be_a_path_is_a_mistake(path: str) -> None:
    found = problems_of(GOOD.replace("./a", path).replace("./b", path))
    assert "is not a path" in found["target.checkpoint"].message
    assert "is not a path" in found["draft.checkpoint"].message


def test_a_number_where_text_is_meant_counts_as_it_is_typed() -> None:
    engines = "runtime: tensorrt_llm\ntensorrt_llm: {image: 25.10, version: 1.2}\nhardware: {gpu: 3090}\n"
    spec = parse_spec(GOOD.replace("name: pair", "name: 2024") + engines)
    assert (spec.name, spec.tensorrt_llm.image, spec.tensorrt_llm.version) == ("2024", "25.10", "1.2")
    assert spec.hardware is not None
    assert spec.hardware.gpu == "3090"
    assert parse_spec(GOOD + "tensorrt_llm: {image: null}\n").tensorrt_llm.image is None
    assert set(problems_of(GOOD + "tensorrt_llm: {image: [26.04]}\n")) == {"tensorrt_llm.image"}


@pytest.mark.parametrize("value", ["26.04", "7", "'26.04'", "[26.04]", "true", "null", "{a: 1}"])
@pytest.mark.parametrize(
    "key",
    [
        "name", "serving.host", "serving.repository_root", "hardware.gpu", "tensorrt_llm.version",
        "tensorrt_llm.image", "calibration.dataset", "loadtest.prompts", "target.dtype", "tensorrt_llm.examples",
        "speculation.policy",
    ],
)  # fmt: skip
def test_the_json_schema_takes_what_is_read_as_text(key: str, value: str) -> None:
    section, _, name = key.rpartition(".")
    data = yaml.safe_load(GOOD) | {"runtime": "tensorrt_llm"}
    place = data.setdefault(section, {}) if section else data
    place[name] = "HERE"
    text = yaml.safe_dump(data).replace("HERE", value)
    try:
        parse_spec(text)
        read = True
    except SpecError:
        read = False
    assert jsonschema.Draft202012Validator(spec_json_schema()).is_valid(yaml.safe_load(text)) == read


def test_paths_are_told_without_dots_where_that_is_the_same_place(tmp_path: Path) -> None:
    for folder in ("specs", "models/a", "elsewhere/deep", "elsewhere/models/a"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "specs" / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    path = tmp_path / "specs" / "trtspec.yaml"
    path.write_text(GOOD.replace("./a", "../models/a").replace("./b", "link/../models/a"))
    spec_file = load_spec(path)
    assert str(spec_file.checkpoint("target")) == str(tmp_path / "models" / "a")
    assert spec_file.checkpoint("draft").samefile(tmp_path / "elsewhere" / "models" / "a")
    path.write_text(GOOD.replace("./a", "../models/gone"))
    assert str(load_spec(path).checkpoint("target")) == str(tmp_path / "models" / "gone")


def test_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    folder.mkdir()
    (folder / "trtspec.yaml").write_text("version: 1\nname: x\ntarget: {checkpoint: a}\ndraft: {checkpoint: b}\n")
    with pytest.raises(SpecError, match="whose name is no UTF-8"):
        load_spec(folder / "trtspec.yaml")
