"""Compares an answer with the type that its method declares."""

from __future__ import annotations

import typing
from typing import Any


def wrong(value: Any, kind: Any, where: str) -> list[str]:
    """Where a value is not of a type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return []
    if origin is typing.NotRequired:
        return wrong(value, inner[0], where)
    if typing.is_typeddict(kind) and not isinstance(value, dict):
        return [f"{where} is {value!r}, not {kind}"]
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        found = [f"{where}.{name} is not in the type" for name in value if name not in hints]
        # Not `__required_keys__`: where annotations are strings, it does not know which may be left out.
        required = [name for name, hint in hints.items() if typing.get_origin(hint) is not typing.NotRequired]
        found += [f"{where}.{name} is missing" for name in required if name not in value]
        known = [name for name in value if name in hints]
        return found + [it for name in known for it in wrong(value[name], hints[name], f"{where}.{name}")]
    if origin is list:
        return (
            [it for one in value for it in wrong(one, inner[0], f"{where}[]")] if isinstance(value, list) else [where]
        )
    if origin is dict:
        return [it for key, one in value.items() for it in wrong(one, inner[1], f"{where}.{key}")]
    if inner:  # a union
        return [] if any(not wrong(value, one, where) for one in inner) else [f"{where} is {value!r}, not {kind}"]
    fits = isinstance(value, int | float) and not isinstance(value, bool) if kind is float else type(value) is kind
    return [] if fits else [f"{where} is {value!r}, not {kind}"]
