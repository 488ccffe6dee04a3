"""What the outline needs to know of a language: its grammar, its query, how it names modules, what is built in.

The query (a file in `languages/queries/`) captures:

- `@def.<kind>` with `@name`, and where they apply `@body` and `@owner` (the type of a method that stands outside of it)
- `@impl` with `@owner`: a block whose functions belong to a type defined elsewhere
- `@ref.<relation>`: a name that is used; `@head` and `@tail` if its parts stand apart
- `@types`: a whole annotation; the language's `annotation_types` finds the types in it
- `@bind`: a name that gets a value here, with `@type` if that shows its type
- `@bind.part` with `@type`: a part of the object itself that gets a value
- `@bind.outer`: a name bound outside of the nearest `@scope`; `@bind.global`: a name that is not bound here
- `@scope`: a node with its own names that is no definition; `@import`, `@package`: those statements, as text
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple


class ImportedName(NamedTuple):
    """One name from an import statement: `name` is empty for a whole module, `*` for everything in it."""

    module: str
    name: str
    alias: str
    """Its name in this file; empty if it keeps its own."""


Parts = tuple[str, ...]


def path_parts(path: str, package: str) -> Parts:
    """A module is its path without the suffix."""
    return PurePosixPath(path).with_suffix("").parts


def dotted_parts(module: str, path: str, package: str) -> Parts:
    return tuple(part for part in re.split(r"[./:]+", module) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """One language; each file in `languages/` defines one as `TABLE`."""

    name: str
    grammars: dict[str, tuple[str, str]]
    """By suffix: the package of the grammar, and its function."""
    imports: Callable[[str], Iterable[ImportedName]]
    """Parses an import statement."""
    queries: tuple[str, ...] = ()
    """Query files, joined; by default the one of the language's name."""
    module_name: Callable[[str, str], Parts] = path_parts
    """The name of a file's module, from its path and its package clause."""
    import_target: Callable[[str, str, str], Parts] = dotted_parts
    """The name of an imported module, from the import's text and the path and package of its file."""
    family: str = ""
    """Languages of one family see each other's symbols; by default a language is alone."""
    aliases: tuple[str, ...] = ()
    separator: str = "."
    self_words: frozenset[str] = frozenset()
    """Words for the object itself."""
    super_words: frozenset[str] = frozenset()
    """Words for what the object inherits."""
    builtins: frozenset[str] = frozenset()
    """Names that need no import."""
    methods: frozenset[str] = frozenset()
    """Methods of built-in types: a call of one on an unknown value means nothing."""
    is_native: Callable[[Parts], bool] = lambda parts: False
    """Whether a module comes with the language."""
    package_scope: bool = False
    """Whether the files of a package see each other's names without an import."""
    includes_names: bool = False
    """Whether an import brings every name of the file, as an include does."""
    bare_members: bool = False
    """Whether code in a class sees the members without a word for the object."""
    module_alias: Callable[[str], str] | None = None
    """The name of a module that is imported whole and without an alias; by default its first part."""
    repair: Callable[[bytes], bytes] | None = None
    """Rewrites a source that the grammar cannot parse, keeping its lines."""
    named_by_package: bool = False
    """Whether qualified names begin with the package clause instead of the path."""
    sniff: re.Pattern[bytes] | None = None
    """Recognises a file of this language where another language has the same suffix."""
    annotation_types: Callable[[str], Iterable[str] | None] | None = None
    """The types that an annotation names; None if the text is no single annotation."""
    pointer_receivers: bool = False
    """Whether a method is written `(*Owner).name`, as in Go."""

    @property
    def family_name(self) -> str:
        return self.family or self.name
