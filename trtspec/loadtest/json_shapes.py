"""Short words for JSON Schema (draft 2020-12), so that a schema in code reads like the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ANY_OBJECT",
    "COUNT",
    "FLAG",
    "NUMBER",
    "REASON",
    "TEXT",
    "Schema",
    "closed",
    "either",
    "items",
    "keyed",
    "maybe",
    "one_of",
    "shape",
]

Schema = dict[str, Any]

NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
ANY_OBJECT: Schema = {"type": "object"}


def maybe(schema: Schema) -> Schema:
    """`schema` or null."""
    return either(schema, {"type": "null"})


def either(*schemas: Schema) -> Schema:
    """Any of several."""
    kinds = [schema["type"] for schema in schemas if set(schema) == {"type"}]
    return {"type": kinds} if len(kinds) == len(schemas) else {"anyOf": list(schemas)}


REASON = {**maybe(TEXT), "description": "why a value is null; null itself where nothing is missing"}


def items(schema: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": schema}


def keyed(schema: Schema, meaning: str) -> Schema:
    """An object whose keys are data; `meaning` says what they are."""
    return {"type": "object", "description": meaning, "additionalProperties": schema}


def one_of(*values: str) -> Schema:
    """One of some texts."""
    return {"enum": list(values)}


def shape(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, meaning: str = "") -> Schema:
    """An object with these keys; more may come with a later release."""
    told = {"description": meaning} if meaning else {}
    return {"type": "object", **told, "properties": {**required, **(optional or {})}, "required": list(required)}


def closed(schema: Any) -> Any:
    """The same schema with unknown keys forbidden: what a test holds real data against."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: closed(part) for key, part in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in inner and "type" in inner else inner
