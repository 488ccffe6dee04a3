"""The arguments of a tool: parameters of its method, with names and sentences for a model."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from memd.errors import UsageError
from memd.protocol.methods.parameters import Parameter, parameters_of

Arguments = dict[str, Any]
Schema = dict[str, Any]

TYPES: dict[str, tuple[Any, Schema]] = {
    "text": (str, {"type": "string"}),
    "whole number": (int, {"type": "integer"}),
    "number": (float, {"type": "number"}),
    "true or false": (bool, {"type": "boolean"}),
    "list of texts": (
        list[Annotated[str, msgspec.Meta(min_length=1)]],
        {"type": "array", "items": {"type": "string"}},
    ),
}
"""Each type of a parameter, for msgspec and in JSON Schema."""
SHOWN_CHARS = 60
"""How much of a wrong value an error message repeats."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter as a tool takes it: what is not changed here is as the method declares it."""

    about: str
    parameter: str
    """Its name in the method; empty where the argument has the same."""
    changes: dict[str, Any]
    """Fields of `Parameter`; `low` of a list is the number of entries that it must have."""

    def declare(self, method: str, name: str) -> Parameter:
        """The parameter with its changes; a text where the method has none of this name."""
        parameter = parameters_of(method).get(self.parameter or name, Parameter(name, "text", ""))
        return replace(parameter, name=name, about=self.about, **self.changes)


def takes(about: str, parameter: str = "", **changes: Any) -> Argument:
    return Argument(about, parameter, changes)


def input_schema(parameters: dict[str, Parameter]) -> Schema:
    """What a tool takes, in JSON Schema."""
    properties = {name: _schema(parameter) for name, parameter in parameters.items()}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [name for name, parameter in parameters.items() if parameter.required]
    return {**schema, "required": required} if required else schema


def _schema(parameter: Parameter) -> Schema:
    optional = {
        "enum": list(parameter.choices) or None,
        "minItems" if parameter.is_list else "minimum": parameter.low,
        "maximum": parameter.high,
        "default": parameter.default or None,
    }
    known = {name: value for name, value in optional.items() if value is not None}
    return {**TYPES[parameter.type][1], **known, "description": parameter.about}


def check(tool: str, parameters: dict[str, Parameter], arguments: Arguments) -> Arguments:
    """The arguments with their defaults; UsageError for the first that is wrong. Null means left out."""
    for name in arguments:
        if name not in parameters:
            raise UsageError(f"`{tool}` has no argument `{name}`", _suggestion(name, parameters))
    given = {name: value for name, value in arguments.items() if value is not None}
    for parameter in parameters.values():
        value = given.get(parameter.name)
        if parameter.required and (value is None or (isinstance(value, str) and not value.strip())):
            raise UsageError(f"`{tool}` needs `{parameter.name}`", parameter.about)
    defaults = {name: parameter.default for name, parameter in parameters.items() if parameter.default}
    return {**defaults, **{name: _convert(parameters[name], value) for name, value in given.items()}}


def _suggestion(name: str, parameters: dict[str, Parameter]) -> str:
    similar = difflib.get_close_matches(name, parameters, n=1, cutoff=0.5)
    return f"did you mean `{similar[0]}`?" if similar else f"it takes: {', '.join(parameters) or 'nothing'}"


def _convert(parameter: Parameter, value: Any) -> Any:
    """The value in the parameter's type."""
    if parameter.type == "whole number" and isinstance(value, float) and value.is_integer():
        # JSON has one type of number, and some clients write 5.0.
        value = int(value)
    try:
        converted = msgspec.convert(value, TYPES[parameter.type][0])
    except msgspec.ValidationError:
        raise _wrong(parameter, value) from None
    if parameter.is_list and len(converted) < (parameter.low or 0):
        raise UsageError(f"`{parameter.name}` must have {parameter.low} or more entries")
    if not parameter.is_list and not _allowed(parameter, converted):
        raise _wrong(parameter, value)
    return converted


def _allowed(parameter: Parameter, value: Any) -> bool:
    if parameter.choices:
        return value in parameter.choices
    return (parameter.low is None or value >= parameter.low) and (parameter.high is None or value <= parameter.high)


def _wrong(parameter: Parameter, value: Any) -> UsageError:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"
    return UsageError(f"`{parameter.name}` must be {parameter.meaning}, not {shown}")
