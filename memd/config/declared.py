"""The parameters of methods, the arguments of tools and the settings: declared, described and checked in one way.

A declaration is a dataclass. A field has a type with the bounds of msgspec (`Annotated[int, Meta(ge=1)]`), a default,
and a docstring under it. A field whose name is a word of Python's own ends with an underscore, which the wire does not
have: `from_`.
"""

import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, inspect as kinds

from memd.errors import TooLarge, UsageError, did_you_mean

TYPES: dict[str, Any] = {
    "text": str, "whole number": int, "number": float, "true or false": bool, "list of texts": list[str],
    "list of objects": list[dict[str, Any]],
}  # fmt: skip
"""The types that a value may have, by the names that people read."""
NAMES = {
    kinds.StrType: "text", kinds.LiteralType: "text", kinds.IntType: "whole number", kinds.FloatType: "number",
    kinds.BoolType: "true or false", kinds.VarTupleType: "list of texts", kinds.ListType: "list of objects",
}  # fmt: skip
SHOWN_CHARS = 60
"""How much of a wrong value an error message repeats."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named value."""

    name: str
    """On the wire, or in the config file."""
    type: str
    """A name from `TYPES`."""
    about: str
    required: bool = False
    default: Any = None
    """None where there is none."""
    unset: str = ""
    """The value that holds when it is left out, where that is no plain one."""
    choices: tuple[str, ...] = ()
    low: float | None = None
    """The lowest number; of a list, the number of entries that it must have."""
    high: float | None = None
    max_length: int | None = None
    place: bool = False
    """It is a path, which need not be valid Unicode."""
    opened: bool = False
    """It is a path that the daemon opens, wherever it is."""
    local: bool = False
    """Only a caller on this machine may set it: a path of this machine, or what cannot be undone."""
    problem: Callable[[str], str] | None = None
    """Returns what a text must be instead, or nothing if it is right; for what types cannot say."""
    allowed: str = ""
    """The texts that `problem` lets pass, as the documentation says it."""
    private: bool = False
    """A wrong value is not repeated, since it may hold a key or a password."""
    declared: Any = None
    """The type as it is declared; None where it follows from the fields above."""

    @property
    def python_name(self) -> str:
        return python_name(self.name)

    @property
    def is_list(self) -> bool:
        return self.type == "list of texts"

    @property
    def meaning(self) -> str:
        """Its type and bounds in words: `a whole number from 0 to 200`."""
        if self.choices and not self.is_list:
            return f"one of {', '.join(self.choices)}"
        noun = self.type if self.type in ("text", "true or false") else f"a {self.type}"
        bounded = self.low is not None and self.high is not None
        return f"{noun} from {self.low:.15g} to {self.high:.15g}" if bounded else noun

    @property
    def kind(self) -> Any:
        """Its type, as msgspec checks it."""
        if self.declared is not None:
            return self.declared
        if self.is_list:
            return Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=int(self.low or 0))]
        kind = Literal[self.choices] if self.choices else TYPES[self.type]
        bounds: dict[str, Any] = {"ge": self.low, "le": self.high, "max_length": self.max_length}
        return Annotated[kind, Meta(**bounds)]

    def check(self, value: Any) -> Any:
        """The value in its type; UsageError says what it must be."""
        try:
            checked = msgspec.convert(value, self.kind)
        except msgspec.ValidationError:
            raise self._refused(value) from None
        if self.problem and (wanted := self.problem(checked)):
            raise UsageError(f"`{self.name}` must be {wanted}" + ("" if self.private else f", not {_shown(value)}"))
        return checked

    def _refused(self, value: Any) -> UsageError:
        if self.max_length and isinstance(value, str) and len(value) > self.max_length:
            most = f"`{self.name}` may have {self.max_length:,} characters, this one has {len(value):,}"
            return TooLarge(most, "use fewer words")
        if self.is_list and isinstance(value, list):
            if len(value) < (self.low or 0):
                return UsageError(f"`{self.name}` must have {self.low} or more entries")
            if self.choices:
                wrong = next((one for one in value if one not in self.choices), value)
                return UsageError(f"`{self.name}` must be among {', '.join(self.choices)}, not {_shown(wrong)}")
        similar = did_you_mean(str(value), self.choices)
        return UsageError(f"`{self.name}` must be {self.meaning}, not {_shown(value)}{similar}")


def checked(
    owner: str, known: Mapping[str, Parameter], given: Mapping[str, Any], *, explain: bool = False
) -> dict[str, Any]:
    """The values that were given, each in its type; UsageError for the first that is wrong, else for one that is
    missing; `explain` adds a hint that says what that is. None means left out."""
    filled = {name: value for name, value in given.items() if not (known[name].required and _is_blank(value))}
    values = {name: known[name].check(value) for name, value in filled.items() if value is not None}
    for name, parameter in known.items():
        if parameter.required and name not in values:
            raise UsageError(f"`{owner}` needs `{name}`", parameter.about if explain else "")
    return values


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def is_unicode(value: Any) -> bool:
    """Whether no text in it has half of a surrogate pair: JSON can spell that, and no store can keep it."""
    texts = (one for one in (value if isinstance(value, list) else (value,)) if isinstance(one, str))
    return not any("\ud800" <= char <= "\udfff" for text in texts if not text.isascii() for char in text)


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"


# --- making declarations, and reading them -------------------------------------------------------------------------


def between(low: float, high: float) -> Meta:
    """The bounds of a number."""
    return Meta(ge=low, le=high)


def python_name(name: str) -> str:
    """A name that is a word of Python's own gets an underscore."""
    return f"{name}_" if name in ("from", "import", "self") else name


def wire_name(name: str) -> str:
    return name.removesuffix("_")


def fields_of(declaration: type[Any]) -> dict[str, Parameter]:
    """The fields of a declaration by their names on the wire; what a docstring under one says is left to `docs_of`."""
    info = kinds.type_info(declaration)
    assert isinstance(info, kinds.DataclassType)
    hints = get_type_hints(declaration, include_extras=True)
    return {wire_name(one.name): _parameter(one, hints[one.name]) for one in info.fields}


def _parameter(field: kinds.Field, hint: Any) -> Parameter:
    said: dict[str, Any] = {}
    kind, *_ = [one for one in _unwrapped(field.type, said) if not isinstance(one, kinds.NoneType)]
    default = None if field.default in (msgspec.NODEFAULT, None) else field.default
    return Parameter(
        name=wire_name(field.name),
        type=NAMES[type(kind)],
        about=said.pop("description", ""),
        required=field.required,
        default=list(default) if isinstance(default, tuple) else default,
        choices=tuple(_choices(hint)),
        low=getattr(kind, "ge", None),
        high=getattr(kind, "le", None),
        max_length=getattr(kind, "max_length", None),
        declared=hint,
        **said,
    )


def _unwrapped(kind: kinds.Type, said: dict[str, Any]) -> Iterator[kinds.Type]:
    """The types that a field may have; what is said about them is added to `said`, the outermost wins."""
    if isinstance(kind, kinds.Metadata):
        said |= {**(kind.extra_json_schema or {}), **(kind.extra or {}), **said}
        yield from _unwrapped(kind.type, said)
    elif isinstance(kind, kinds.UnionType):
        for one in kind.types:
            yield from _unwrapped(one, said)
    else:
        yield kind


def _choices(hint: Any) -> Iterator[str]:
    """The values of every literal in a type, in the order in which they are declared; msgspec sorts them."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for inner in get_args(hint):
            yield from _choices(inner)


def docs_of(declaration: type[Any]) -> dict[str, str]:
    """The docstrings under the fields, as they stand in the source; none where that was not installed."""
    ours = [one for one in reversed(declaration.__mro__) if one.__module__.startswith("memd.")]
    return {name: text for one in ours for name, text in _module_docs(one.__module__).get(one.__name__, {}).items()}


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {node.name: dict(_docs_in(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_in(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Each field that a string follows, and that string in one line."""
    for field, below in itertools.pairwise(node.body):
        match (field, below):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                yield name, " ".join(text.split())
