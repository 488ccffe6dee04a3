"""Signatures and help of the clients' methods, from the declarations; loaded only for `help()` and generated stubs."""

from __future__ import annotations

import inspect

from memd.protocol.methods import METHODS
from memd.protocol.methods.parameters import Parameter, parameters_of

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
