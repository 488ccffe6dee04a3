"""What one source file says by itself: its symbols, its imports and its references, free of where the file stands."""

from __future__ import annotations

import json
from sys import intern
from typing import NamedTuple

FORMAT = 3
"""Grows when the same bytes give other facts, so that kept ones are made again."""

KINDS = ("module", "class", "interface", "function", "method", "constant", "type")
HOLDERS = frozenset({"module", "class", "interface", "type"})
"""Kinds whose parts are named after them and can be reached from elsewhere."""

MODULE = 0
"""The number of the file itself among its symbols."""


class Symbol(NamedTuple):
    """A definition. `parent` is the number of what it stands in; `owner` what it belongs to without standing in it."""

    name: str
    kind: str
    parent: int
    line: int
    end_line: int
    signature: str
    owner: tuple[str, ...] = ()


class Import(NamedTuple):
    """One imported name, as it is written: `from ..a import b as c` is ("..a", "b", "c")."""

    module: str
    name: str
    alias: str
    line: int
    source: int
    """The number of the symbol that it stands in."""


class Reference(NamedTuple):
    """A place where a symbol names another.

    `via` says what is known of the first part of the name: `symbol` (of this file, `target` is its number), `import`
    (`target` is the import's number), `super` (what `target` inherits), `value` (something of unknown type) or `free`.
    """

    kind: str
    source: int
    via: str
    target: int
    chain: tuple[str, ...]
    """The rest of the name, part by part."""
    line: int
    typed: int = 0
    """1 where the name is a value's, and what it means follows from the type that the value was given."""


class Facts(NamedTuple):
    """A file's facts; `package` is what its package clause says, where the language has one."""

    language: str
    package: str
    symbols: tuple[Symbol, ...]
    imports: tuple[Import, ...]
    references: tuple[Reference, ...]
    problem: str = ""
    """What was wrong with the file, even where something could be read."""


def encode(facts: Facts) -> str:
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def decode(text: str) -> Facts:
    """Facts from their text; a name that occurs a thousand times in a project is one string in memory."""
    language, package, symbols, imports, references, problem = json.loads(text)
    return Facts(
        intern(language),
        package,
        tuple(_symbol(*row) for row in symbols),
        tuple(_import(*row) for row in imports),
        tuple(_reference(*row) for row in references),
        problem,
    )


def _symbol(name: str, kind: str, parent: int, line: int, end: int, signature: str, owner: list[str]) -> Symbol:
    return Symbol(intern(name), intern(kind), parent, line, end, signature, tuple(map(intern, owner)))


def _import(module: str, name: str, alias: str, line: int, source: int) -> Import:
    return Import(intern(module), intern(name), intern(alias), line, source)


def _reference(kind: str, source: int, via: str, target: int, chain: list[str], line: int, typed: int) -> Reference:
    return Reference(intern(kind), source, intern(via), target, tuple(map(intern, chain)), line, typed)


def nothing(language: str, problem: str) -> Facts:
    """A file of which nothing could be read."""
    return Facts(language, "", (Symbol("", "module", -1, 1, 1, ""),), (), (), problem)
