"""Checks a tool's arguments against what it says it takes, in words that a model can act upon."""

from __future__ import annotations

import difflib
from typing import Any

from memd.errors import UsageError
from memd.mcp.shapes import Schema

KINDS: dict[str, tuple[type[Any], ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}
NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list of texts",
}


def checked(tool: str, schema: Schema, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with their defaults; UsageError for the first that makes no sense. Null is as if left out."""
    takes: dict[str, Schema] = schema["properties"]
    told = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in takes:
            near = difflib.get_close_matches(name, takes, n=1, cutoff=0.5)
            meant = f"did you mean `{near[0]}`?" if near else f"it takes: {', '.join(takes) or 'nothing'}"
            raise UsageError(f"`{tool}` has no argument `{name}`", meant)
    for name in schema.get("required", ()):
        if name not in told or (isinstance(told[name], str) and not told[name].strip()):
            raise UsageError(f"`{tool}` needs `{name}`", takes[name]["description"])
    known = {name: _value(name, takes[name], value) for name, value in told.items()}
    defaults = {name: takes[name]["default"] for name in takes if "default" in takes[name]}
    return {**defaults, **known}


def _value(name: str, schema: Schema, value: Any) -> Any:
    kind = schema["type"]
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        # JSON knows one kind of number, and some clients write every one of them as 5.0.
        value = int(value)
    if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise UsageError(f"`{name}` must be {NAMES[kind]}, not {_short(value)}")
    if isinstance(value, list):
        return _texts(name, schema, value)
    if "enum" in schema and value not in schema["enum"]:
        raise UsageError(f"`{name}` must be one of {', '.join(schema['enum'])}, not {_short(value)}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        raise UsageError(f"`{name}` must be {NAMES[kind]} from {low} to {high}, not {_short(value)}")
    return value


def _texts(name: str, schema: Schema, value: list[Any]) -> list[str]:
    if not all(isinstance(entry, str) and entry for entry in value):
        raise UsageError(f"`{name}` must be a list of texts, not {_short(value)}")
    if len(value) < schema.get("minItems", 0):
        raise UsageError(f"`{name}` must have {schema['minItems']} or more entries")
    return value


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 60 else f"{told[:60]}…"
