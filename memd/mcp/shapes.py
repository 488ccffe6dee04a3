"""The words in which tools say what they take and what they give: JSON Schema, as little of it as is needed."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def text(about: str, **more: Any) -> Schema:
    return {"type": "string", "description": about, **more}


def choice(about: str, values: tuple[str, ...], **more: Any) -> Schema:
    return {"type": "string", "enum": list(values), "description": about, **more}


def whole(about: str, low: int, high: int, **more: Any) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "description": about, **more}


def share(about: str, **more: Any) -> Schema:
    return {"type": "number", "minimum": 0, "maximum": 1, "description": about, **more}


def number(about: str) -> Schema:
    return {"type": "number", "description": about}


def flag(about: str, **more: Any) -> Schema:
    return {"type": "boolean", "description": about, **more}


def texts(about: str, **more: Any) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": about, **more}


def rows(about: str, properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """A list of objects that have all these properties, but for the optional ones."""
    return {"type": "array", "items": record(properties, optional), "description": about}


def record(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def maybe(schema: Schema) -> Schema:
    """The same, or null."""
    return {**schema, "type": [schema["type"], "null"]}


LINE: Schema = {"type": "integer", "minimum": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
FLAG: Schema = {"type": "boolean"}

NOTES = texts("What memd has to say beside the answer: what was cut, what is missing, what to do about it.")
"""Every tool gives these; mostly there are none."""

ERROR: Schema = {
    **record(
        {
            "code": text("The tool's name with `_args` for arguments that make no sense, `_fail` for all else."),
            "cause": text("memd's own word for it: not_found, conflict, busy, …"),
            "message": text("What happened."),
            "hint": text("What can be done about it; may be empty."),
            "retryable": flag("Whether the same call may go through later."),
        }
    ),
    "description": "Instead of everything else, when the call failed.",
}
