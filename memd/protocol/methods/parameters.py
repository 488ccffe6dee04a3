"""The parameters of a method as plain values: what error messages, docs, options, flags and schemas are made from."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from memd.config.declared import Parameter, checked, docs_of, fields_of, is_unicode, wire_name
from memd.errors import UsageError, did_you_mean
from memd.protocol.methods.base import METHODS, Method

SHARED = ("ns", "cwd", "now", "sync", "who", "observe", "request_id", "allow_secret", "progress")
"""Parameters that many methods have; they come last wherever parameters are listed."""


@cache
def parameters_of(method: str) -> dict[str, Parameter]:
    """The parameters of a method by name: first those that are its own, positional ones before the others."""
    declared = METHODS[method]
    docs = {wire_name(name): _inline(text) for name, text in docs_of(declared.request).items()}
    found = {name: replace(one, about=docs.get(name) or one.about) for name, one in fields_of(declared.request).items()}
    first = [wire_name(name) for name in declared.args]
    order = [*first, *(name for name in found if name not in (*first, *SHARED)), *(n for n in SHARED if n in found)]
    return {name: found[name] for name in order}


def _inline(text: str) -> str:
    """A docstring for tables and options, which go on in the middle of a line: no capital, no full stop."""
    plain = text.removesuffix(".")
    return plain if plain[1:2].isupper() else plain[0].lower() + plain[1:]


def parse(method: Method, params: dict[str, Any]) -> Any:
    """The request that a call makes; UsageError says which parameter is wrong and what it must be."""
    known = parameters_of(method.name)
    for name, value in params.items():
        if name not in known:
            raise UsageError(f"`{method.name}` has no parameter `{name}`{did_you_mean(name, sorted(known))}")
        if not known[name].place and not is_unicode(value):
            raise UsageError(f"`{name}` is not valid Unicode")
    # A caller may give a single text where a list is asked for.
    listed = {name: [one] if known[name].is_list and isinstance(one, str) else one for name, one in params.items()}
    given = {known[name].python_name: value for name, value in listed.items() if value is not None}
    try:
        return msgspec.convert(given, method.request)
    except msgspec.ValidationError:
        # Says the same of one parameter at a time, which takes longer.
        return method.request(**checked(method.name, known, listed))


# --- signatures and help of the clients' methods --------------------------------------------------------------


PYTHON_TYPES = {
    "text": "str", "whole number": "int", "number": "float", "true or false": "bool",
    "list of texts": "str | Sequence[str]", "list of objects": "Sequence[dict[str, Any]]",
}  # fmt: skip
PROGRESS = "on_progress"


def annotation(parameter: Parameter) -> str:
    """The type of a parameter as Python writes it."""
    if parameter.place and parameter.name != "cwd":
        path = "str | PathLike[str]"
        return f"Sequence[{path}]" if parameter.is_list else path
    if parameter.choices:
        choices = f"Literal[{', '.join(repr(choice) for choice in parameter.choices)}]"
        return f"{choices} | Sequence[{choices}]" if parameter.is_list else choices
    return PYTHON_TYPES[parameter.type]


def client_parameters(method: str) -> list[Parameter]:
    """What a client's method takes; progress is a callback there."""
    return [one for one in parameters_of(method).values() if one.name != "progress"]


def signature(method: str) -> inspect.Signature:
    """The signature of a client's method, as `help()` shows it."""
    positional = METHODS[method].args
    found = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for one in client_parameters(method):
        kind = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD if one.python_name in positional else inspect.Parameter.KEYWORD_ONLY
        )
        default = inspect.Parameter.empty if one.required else None
        shown = annotation(one) + ("" if one.required else " | None")
        found.append(inspect.Parameter(one.python_name, kind, default=default, annotation=shown))
    if "progress" in parameters_of(method):
        found.append(inspect.Parameter(PROGRESS, inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(_positional_required(found), return_annotation=METHODS[method].result.__name__)


def _positional_required(found: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Python wants no default before a parameter without one: `edge_add(from_, rel, to)`."""
    last = max(
        (nth for nth, one in enumerate(found) if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty)
    )
    return [one.replace(default=one.empty) if nth < last else one for nth, one in enumerate(found)]


def help_text(method: str) -> str:
    """The method's sentence and a line for each parameter."""
    lines = [f"`{one.python_name}`: {one.about}" for one in client_parameters(method)]
    return "\n".join([METHODS[method].sentence, *([""] if lines else []), *lines])
