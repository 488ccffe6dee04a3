"""The facts of one source file, independent of its path: symbols, imports, references."""

import json
from sys import intern
from typing import Any, NamedTuple

FORMAT = 3
"""Grows when the same bytes give other facts, so that cached ones are discarded."""

HOLDERS = frozenset({"module", "class", "interface", "type"})
"""Kinds whose members can be reached from elsewhere."""

MODULE = 0
"""The number of the file's own symbol."""


class Symbol(NamedTuple):
    """A definition. `parent` is the number of the symbol around it; `owner` the type it belongs to from outside."""

    name: str
    kind: str
    parent: int
    line: int
    end_line: int
    signature: str
    owner: tuple[str, ...] = ()


class ImportFact(NamedTuple):
    """One imported name, as written: `from ..a import b as c` is ("..a", "b", "c")."""

    module: str
    name: str
    alias: str
    line: int
    source: int
    """The number of the symbol around it."""


class Reference(NamedTuple):
    """A use of a name in a symbol.

    `via` says what the first part of the name is: `symbol` (of this file, number `target`), `import` (number
    `target`), `super` (what `target` inherits), `value` (of unknown type) or `free` (nothing in this file).
    """

    kind: str
    source: int
    via: str
    target: int
    chain: tuple[str, ...]
    """The rest of the name, part by part."""
    line: int
    typed: int = 0
    """1 if the name was resolved through the type of a value."""


class Facts(NamedTuple):
    """The facts of a file; `package` is its package clause, if the language has one."""

    language: str
    package: str
    symbols: tuple[Symbol, ...]
    imports: tuple[ImportFact, ...]
    references: tuple[Reference, ...]
    problem: str = ""
    """Why the file could not be read, or not completely."""


def encode(facts: Facts) -> str:
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def decode(text: str) -> Facts:
    """Decode facts; names are interned, since a project repeats them thousands of times."""
    language, package, symbols, imports, references, problem = _interned(json.loads(text))
    rows = (tuple(map(Symbol._make, symbols)), tuple(map(ImportFact._make, imports)))
    return Facts(language, package, *rows, tuple(map(Reference._make, references)), problem)


def _interned(value: Any) -> Any:
    """The same with tuples for lists, and each text once in memory."""
    if isinstance(value, list):
        return tuple(map(_interned, value))
    return intern(value) if isinstance(value, str) else value


def no_facts(language: str, problem: str) -> Facts:
    """The facts of a file that could not be read."""
    return Facts(language, "", (Symbol("", "module", -1, 1, 1, ""),), (), (), problem)
