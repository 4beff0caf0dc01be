"""Changing values in the text of a spec: only their own characters change, so comments and order stay."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import yaml

from trtspec.errors import Problem, SpecError
from trtspec.spec.load import parse_spec
from trtspec.spec.model import Spec

__all__ = ["diff_text", "with_section_values"]


def with_section_values(text: str, section: str, values: Mapping[str, Any], where: str = "<spec>") -> str:
    """`text` with `values` set in a section, those that are None taken out; SpecError when that cannot be done.

    The result is read back: it must be a valid spec that differs in these values only.
    """
    before = parse_spec(text, where)
    after = text
    # from the end, so that the places found before stay right
    for name, value in values.items():
        after = _without(after, section, name) if value is None else _with(after, section, name, value)
    try:
        made = parse_spec(after, where)
    except SpecError as error:
        raise _by_hand(where, section, values, f"the changed spec would not be valid: {error.message}") from None
    if made != _expected(before, section, values):
        raise _by_hand(where, section, values, "the section is written in a way that cannot be changed safely")
    return after


def diff_text(before: str, after: str, name: str) -> str:
    """What changes, as a unified diff; empty for nothing."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    return "\n".join(lines)


def _expected(spec: Spec, section: str, values: Mapping[str, Any]) -> Spec:
    data = spec.model_dump(mode="json", exclude_unset=True)
    inner = {**data.get(section, {}), **values}
    data[section] = {name: value for name, value in inner.items() if value is not None}
    return Spec.model_validate(data)


def _by_hand(where: str, section: str, values: Mapping[str, Any], why: str) -> SpecError:
    wanted = {name: value for name, value in values.items() if value is not None}
    text = yaml.safe_dump({section: wanted}, sort_keys=False, default_flow_style=None).rstrip()
    return SpecError(where, [Problem(section, why)], fix=f"write it by hand:\n{text}")


def _section(text: str, section: str) -> tuple[yaml.MappingNode, yaml.Node | None, yaml.Node | None]:
    """The whole spec's node, and key and value of the section where it is there."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return (root, *_entry(root, section))


def _entry(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key, value
    return None, None


def _with(text: str, section: str, name: str, value: Any) -> str:
    root, _, node = _section(text, section)
    written = _flow(value)
    if root.flow_style:
        return text
    if node is None:
        return f"{text.rstrip()}\n\n{section}:\n  {name}: {written}\n"
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return f"{text[: node.start_mark.index]}{{{name}: {written}}}{text[node.end_mark.index :]}"
    _, old = _entry(node, name)
    if old is not None:
        return text[: old.start_mark.index] + written + text[_end(old) :]
    first = node.value[0][0].start_mark
    if node.flow_style:
        return f"{text[: first.index]}{name}: {written}, {text[first.index :]}"
    return f"{text[: first.index]}{name}: {written}\n{' ' * first.column}{text[first.index :]}"


def _without(text: str, section: str, name: str) -> str:
    _, _, node = _section(text, section)
    key, value = _entry(node, name)
    if key is None or value is None or node is None:
        return text
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        return _without_in_braces(text, node, key)
    # its lines, with the comments at their ends
    begin = text.rindex("\n", 0, key.start_mark.index) + 1 if "\n" in text[: key.start_mark.index] else 0
    end = text.find("\n", _end(value))
    return text[:begin] + ("" if end < 0 else text[end + 1 :])


def _without_in_braces(text: str, node: yaml.MappingNode, key: yaml.Node) -> str:
    keys = [entry[0] for entry in node.value]
    at = keys.index(key)
    if at + 1 < len(keys):
        return text[: key.start_mark.index] + text[keys[at + 1].start_mark.index :]
    begin = _end(node.value[at - 1][1]) if at else key.start_mark.index
    return text[:begin] + text[_end(node.value[at][1]) :]


def _end(node: yaml.Node) -> int:
    """Where a value's own characters end: a block's mark stands behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")
