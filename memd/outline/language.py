"""What a language is to the outline: a grammar, one query, how modules are named, and what comes with it.

The query's captures say what a node is:

- `@def.<kind>` with `@name`, and where it applies `@body` and `@owner` (what a method belongs to but is not in)
- `@impl` with `@owner`: a block whose functions belong to a type that stands elsewhere
- `@ref.<relation>`: a name that is used, where its parts stand apart with `@head` and `@tail`
- `@types`: an annotation, whole, of which the language's `types` says which types it names
- `@bind`: a name that is given a value here, with `@type` where that tells its type
- `@bind.part` with `@type`: a part of the object itself that is given a value
- `@bind.outer`: a name that is bound around the nearest `@scope`; `@bind.global`: one that is not bound here at all
- `@scope`: a node with names of its own that is no definition; `@import`, `@package`: those statements, as text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple


class Imported(NamedTuple):
    """One name that an import statement brings: `name` is empty for a whole module and `*` for all it has."""

    module: str
    name: str
    alias: str
    """What it is called here; empty when it is called nothing."""


Parts = tuple[str, ...]


def path_parts(path: str, package: str) -> Parts:
    """A module is its path without the ending."""
    return PurePosixPath(path).with_suffix("").parts


def dotted(module: str, path: str, package: str) -> Parts:
    """A module as an import names it, in the parts that name modules here."""
    return tuple(part for part in re.split(r"[./:]+", module) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """The table of one language."""

    name: str
    grammars: dict[str, tuple[str, str]]
    """By ending: the package that has the grammar, and its function."""
    query: str
    imports: Callable[[str], Iterable[Imported]]
    """What an import statement brings."""
    parts: Callable[[str, str], Parts] = path_parts
    """What a file's module is called, from its path and its package clause."""
    absolute: Callable[[str, str, str], Parts] = dotted
    """What an import means, from its text and the path and package of the file it stands in."""
    family: str = ""
    """Languages of one family see each other's symbols."""
    aliases: tuple[str, ...] = ()
    separator: str = "."
    selves: frozenset[str] = frozenset()
    """Words that mean the object itself."""
    supers: frozenset[str] = frozenset()
    """Words that mean what the object inherits."""
    builtins: frozenset[str] = frozenset()
    """Names that need no import."""
    methods: frozenset[str] = frozenset()
    """Methods of built-in types: a call of one on an unknown value says nothing."""
    native: Callable[[Parts], bool] = field(default=lambda parts: False)
    """Whether a module comes with the language."""
    sees_package: bool = False
    """Whether the files of one package see each other's names without an import."""
    sees_imports: bool = False
    """Whether an import brings every name of the file, as an include does."""
    open_classes: bool = False
    """Whether what stands in a class sees its parts without a word for the object itself."""
    names_module: Callable[[str], str] | None = None
    """What a module is called here when it is imported whole and without another name; by default its first part."""
    mend: Callable[[bytes], bytes] | None = None
    """Another spelling of a source that the grammar stumbles over, line by line the same."""
    local_first: bool = True
    """Whether a module of the project counts before one that comes with the language and has the same name."""
    named_by_package: bool = False
    """Whether a symbol's whole name begins with the package clause and not with the path."""
    sniff: re.Pattern[bytes] | None = None
    """What a file looks like in this language and not in another that has the same ending."""
    types: Callable[[str], Iterable[str] | None] | None = None
    """The names of types in a piece of source; None where it is not one annotation, but may hold some."""
    pointer: bool = False
    """Whether a method is written `(*Owner).name`, as in Go."""

    @property
    def kin(self) -> str:
        return self.family or self.name
