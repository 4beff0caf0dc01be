"""The commented spec file that `trtspec init` writes, made from the fields of the spec itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trtspec.spec.model import Spec

__all__ = ["spec_name", "spec_template"]

_HEAD = """\
# trtspec.yaml: one pair of models, how it is built, served and measured.
# Commented lines show defaults: take away the leading "# " of a line (and of its section's line) to change one.
# Relative paths start at this file's folder. Every field with its limits: trtspec schema.

"""
# sections and fields without a default, commented: what a first user could write
_SAMPLES: dict[str, Any] = {"hardware.gpu": "H100-80GB-SXM", "baseline.engine": "./engine"}


def spec_name(text: str) -> str:
    """A valid spec name made from `text`, e.g. the last part of a checkpoint's path."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64]
    return name.lower() or "my-pair"


def spec_template(given: Mapping[str, Any]) -> str:
    """YAML text of a spec with every field: `given` (dotted key → value) as lines that count, the rest commented."""
    return _HEAD + "".join(_lines(Spec, "", given))


def _lines(model: type[BaseModel], path: str, given: Mapping[str, Any]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{path}{name}"
        section = _section(field)
        if section is None:
            yield _field_line(name, field, key, given)
        else:
            mark = "" if any(item.startswith(f"{key}.") for item in given) else "# "
            yield f"\n{mark}{name}:{_comment(inspect.getdoc(section))}\n"
            yield from (_indented(line, mark) for line in _lines(section, f"{key}.", given))


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a section (also where it may be left out), None for a plain value."""
    candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next((item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)), None)


def _field_line(name: str, field: FieldInfo, key: str, given: Mapping[str, Any]) -> str:
    mark = "" if key in given else "# "
    value = given.get(key, _SAMPLES.get(key, field.get_default(call_default_factory=True)))
    return f"{mark}{name}: {_scalar(value)}{_comment(field.description)}\n"


def _indented(line: str, mark: str) -> str:
    """A line of a section: in a commented section everything is commented once, at the left edge."""
    return f"{mark}  {line.removeprefix('# ')}" if mark else f"  {line}"


def _comment(text: str | None) -> str:
    return f"  # {text.splitlines()[0].rstrip('.')}" if text else ""


def _scalar(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
