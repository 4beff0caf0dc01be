"""The file that `trtspec init` writes: it loads, has every field, and stays valid without comment marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from trtspec.spec import Spec, parse_spec, spec_json_schema
from trtspec.spec.template import spec_name, spec_template

GIVEN = {"version": 1, "name": "pair", "target.checkpoint": "./target", "draft.checkpoint": "./draft"}
# a commented line that is a key of the file, not a sentence
_COMMENTED = re.compile(r"^( *)# ( *\w+:( .*)?)$", re.MULTILINE)


def uncommented(text: str) -> str:
    head, mark, body = text.partition("version:")
    return head + mark + _COMMENTED.sub(r"\1\2", body)


def keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        inner = next((item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)), None)
        if inner is None:
            yield f"{path}{name}"
        else:
            yield from keys(inner, f"{path}{name}.")


def dotted(data: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from dotted(value, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def test_it_loads_and_says_only_what_is_given() -> None:
    text = spec_template(GIVEN)
    expected = {"name": "pair", "target": {"checkpoint": "./target"}, "draft": {"checkpoint": "./draft"}}
    assert parse_spec(text) == Spec.model_validate(expected)
    assert yaml.safe_load(text) == {"version": 1, **expected}


def test_without_comment_marks_it_has_every_field_at_its_default() -> None:
    text = uncommented(spec_template(GIVEN)).replace("runtime: torch", "runtime: tensorrt_llm")
    assert set(dotted(yaml.safe_load(text))) == set(keys(Spec))
    spec = parse_spec(text)
    assert spec.model_copy(update={"hardware": None, "baseline": None}) == parse_spec(
        spec_template({**GIVEN, "runtime": "tensorrt_llm"})
    )


def test_the_json_schema_accepts_both_forms_and_refuses_a_wrong_one() -> None:
    schema = spec_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for text in (spec_template(GIVEN), uncommented(spec_template(GIVEN))):
        jsonschema.validate(yaml.safe_load(text), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**yaml.safe_load(spec_template(GIVEN)), "targte": 1}, schema)


def test_every_line_tells_what_it_is_for_and_fits_on_a_screen() -> None:
    lines = spec_template(GIVEN).splitlines()
    assert max(len(line) for line in lines) <= 140
    assert all(line == line.rstrip() for line in lines)


@given(st.text(min_size=1).filter(lambda text: "\x00" not in text and text.isprintable()))
def test_any_path_is_written_so_that_it_is_read_back(path: str) -> None:
    data = yaml.safe_load(spec_template({**GIVEN, "draft.checkpoint": path}))
    assert data["draft"]["checkpoint"] == path


@given(st.text())
def test_a_name_is_made_of_anything(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", spec_name(text))


def test_names_stay_recognisable() -> None:
    assert spec_name("Llama-3.1-70B-Instruct") == "llama-3.1-70b-instruct"
    assert spec_name("__ä__") == "my-pair"
