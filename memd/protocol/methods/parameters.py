"""The parameters of a method as plain values: what error messages, docs, options, flags and schemas are made from."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as kinds

from memd.errors import TooLarge, UsageError, did_you_mean
from memd.protocol.methods.base import METHODS, Method, Request, python_name, wire_name

R = TypeVar("R", bound=Request)

SHARED = ("ns", "cwd", "now", "sync", "who", "observe", "request_id", "allow_secret", "progress")
"""Parameters that many methods have; they come last wherever parameters are listed."""
NO_DEFAULT = (msgspec.NODEFAULT, None)
TYPES = {
    kinds.StrType: "text", kinds.LiteralType: "text", kinds.IntType: "whole number", kinds.FloatType: "number",
    kinds.BoolType: "true or false", kinds.VarTupleType: "list of texts", kinds.ListType: "list of objects",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a method."""

    name: str
    """On the wire."""
    type: str
    """text, whole number, number, true or false, list of texts, or list of objects."""
    about: str
    required: bool = False
    default: Any = None
    """None where there is none."""
    unset: str = ""
    """What holds when it is left out, where that is no plain value."""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    max_length: int | None = None
    place: bool = False
    """It is a path, which need not be valid Unicode."""
    opened: bool = False
    """It is a path that the daemon opens, wherever it is."""
    local: bool = False
    """Only a caller on this machine may set it: a path of this machine, or what cannot be undone."""
    nullable: bool = False
    """Leaving it out differs from every value."""

    @property
    def python_name(self) -> str:
        return python_name(self.name)

    @property
    def is_list(self) -> bool:
        return self.type == "list of texts"

    @property
    def meaning(self) -> str:
        """What it must be, in words: `a whole number from 0 to 200`."""
        if self.choices and not self.is_list:
            return f"one of {', '.join(self.choices)}"
        bounds = f" from {self.low:.15g} to {self.high:.15g}" if self.low is not None and self.high is not None else ""
        return f"{'' if self.type in ('text', 'true or false') else 'a '}{self.type}{bounds}"


@cache
def parameters_of(method: str) -> dict[str, Parameter]:
    """The parameters of a method by name: first those that are its own, positional ones before the others."""
    declared = METHODS[method]
    info = kinds.type_info(declared.request)
    assert isinstance(info, kinds.DataclassType)
    hints = get_type_hints(declared.request, include_extras=True)
    docs = {name: text for kind in reversed(declared.request.__mro__) for name, text in _field_docs(kind).items()}
    found = {
        wire_name(one.name): _parameter(one, tuple(_choices(hints[one.name])), docs.get(one.name, ""))
        for one in info.fields
    }
    first = [wire_name(name) for name in declared.args]
    order = [*first, *(name for name in found if name not in (*first, *SHARED)), *(n for n in SHARED if n in found)]
    return {name: found[name] for name in order}


def _parameter(field: kinds.Field, choices: tuple[str, ...], about: str) -> Parameter:
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    inner = list(_unwrapped(field.type, known, extra))
    plain = [one for one in inner if not isinstance(one, kinds.NoneType)]
    kind = plain[0]
    low, high = getattr(kind, "ge", None), getattr(kind, "le", None)
    default = None if field.default in NO_DEFAULT else field.default
    return Parameter(
        name=wire_name(field.name),
        type=TYPES[type(kind)],
        about=about or known.get("description", ""),
        required=field.required,
        default=list(default) if isinstance(default, tuple) else default,
        unset=extra.get("unset", ""),
        choices=choices,
        low=low,
        high=high,
        max_length=getattr(kind, "max_length", None),
        place=extra.get("place", False),
        opened=extra.get("opened", False),
        local=extra.get("local", False) or extra.get("place", False),
        nullable=len(plain) < len(inner),
    )


def _field_docs(kind: type) -> dict[str, str]:
    """The docstrings under the fields of a class, as they stand in its source; none where that was not installed."""
    return _module_docs(kind.__module__).get(kind.__qualname__, {}) if kind.__module__.startswith("memd.") else {}


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(_docs_in(node)) for node in classes}


def _docs_in(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Each field that a string follows. Tables and options go on in the middle of a line: no capital, no full stop."""
    for field, below in itertools.pairwise(node.body):
        match (field, below):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                plain = " ".join(text.split()).removesuffix(".")
                yield name, plain if plain[1:2].isupper() else plain[0].lower() + plain[1:]


def _unwrapped(kind: kinds.Type, known: dict[str, Any], extra: dict[str, Any]) -> Iterator[kinds.Type]:
    """The types that a field may have; what is said about them is added to `known` and `extra`, the outermost wins."""
    if isinstance(kind, kinds.Metadata):
        known |= {**(kind.extra_json_schema or {}), **known}
        extra |= {**(kind.extra or {}), **extra}
        yield from _unwrapped(kind.type, known, extra)
    elif isinstance(kind, kinds.UnionType):
        for one in kind.types:
            yield from _unwrapped(one, known, extra)
    else:
        yield kind


def _choices(hint: Any) -> Iterator[str]:
    """The values of every literal in a type, in the order in which they are declared; msgspec sorts them."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for inner in get_args(hint):
            yield from _choices(inner)


# --- checking -----------------------------------------------------------------------------------------------------


def parse(method: Method, params: dict[str, Any]) -> Any:
    """The request that a call makes; UsageError says which parameter is wrong and what it must be."""
    known = parameters_of(method.name)
    given = {}
    for name, value in params.items():
        parameter = known.get(name)
        if parameter is None:
            raise UsageError(_unknown(method.name, name, known))
        if value is not None:
            listed = [value] if parameter.is_list and isinstance(value, str) else value
            given[parameter.python_name] = _valid_unicode(parameter, listed)
    try:
        return msgspec.convert(given, method.request)
    except msgspec.ValidationError as error:
        raise _explained(method.name, known, given, str(error)) from None


def _unknown(method: str, name: str, known: Iterable[str]) -> str:
    return f"`{method}` has no parameter `{name}`{did_you_mean(name, sorted(known))}"


def _valid_unicode(parameter: Parameter, value: Any) -> Any:
    """JSON can spell half of a surrogate pair; no store can keep it. Only a path may hold one."""
    if parameter.place:
        return value
    for text in value if isinstance(value, list) else (value,):
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise UsageError(f"`{parameter.name}` is not valid Unicode")
    return value


def _explained(method: str, known: dict[str, Parameter], given: dict[str, Any], error: str) -> UsageError:
    """msgspec's message in words that name the parameter and say what it must be."""
    missing = [one for one in known.values() if one.required and _blank(given.get(one.python_name))]
    if missing:
        return _missing(METHODS[method], known, given, missing)
    # "Expected `int`, got `str` - at `$.limit[0]`"
    name = wire_name(error.rpartition("`$.")[2].rstrip("`").partition("[")[0])
    wrong = known[name]
    value = given[wrong.python_name]
    if wrong.max_length and isinstance(value, str) and len(value) > wrong.max_length:
        return TooLarge(
            f"`{name}` may have {wrong.max_length:,} characters, this one has {len(value):,}", "use fewer words"
        )
    if wrong.is_list and wrong.choices and isinstance(value, list):
        entry = next((one for one in value if one not in wrong.choices), value)
        return UsageError(f"`{name}` must be among {', '.join(wrong.choices)}, not {entry!r}")
    return UsageError(f"`{name}` must be {wrong.meaning}, not {value!r}")


def _missing(
    method: Method, known: dict[str, Parameter], given: dict[str, Any], missing: list[Parameter]
) -> UsageError:
    """What is missing, unless something that was given is wrong: that is said first."""
    filled = {**given, **{one.python_name: _any_value(one) for one in missing}}
    try:
        msgspec.convert(filled, method.request)
    except msgspec.ValidationError as error:
        return _explained(method.name, known, filled, str(error))
    except UsageError as error:
        return error
    return UsageError(f"`{method.name}` needs `{missing[0].name}`")


def _any_value(parameter: Parameter) -> Any:
    """Something that fits."""
    return parameter.choices[0] if parameter.choices else "x" if parameter.type == "text" else parameter.low or 1


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


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
