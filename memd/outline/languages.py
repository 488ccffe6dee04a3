"""The languages that the outline knows: the tables of languages.toml, how modules are named, what only Python needs.

A new language is a table there and a query in `captures/`, which captures:

- `@def.<kind>` with `@name`, and where they apply `@body` and `@owner` (the type of a method that stands outside of it)
- `@impl` with `@owner`: a block whose functions belong to a type defined elsewhere
- `@ref.<relation>`: a name that is used; `@head` and `@tail` if its parts stand apart
- `@types`: a whole annotation; `annotation_types` finds the types in it
- `@bind`: a name that gets a value here, with `@type` if that shows its type
- `@bind.part` with `@type`: a part of the object itself that gets a value
- `@bind.outer`: a name bound outside of the nearest `@scope`; `@bind.global`: a name that is not bound here
- `@scope`: a node with its own names that is no definition; `@package`: the name in that clause
- `@import` with `@module`, `@name` and `@alias`, where there are such: one match for each imported name; a name or
  module that the source does not spell out is set (`#set!`). The `@tree` of Rust may have several names.
"""

import ast
import builtins
import io
import posixpath
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from memd.errors import UsageError, did_you_mean

Parts = tuple[str, ...]


class ImportedName(NamedTuple):
    """One name from an import statement: `name` is empty for a whole module, `*` for everything in it."""

    module: str
    name: str
    alias: str
    """Its name in this file; empty if it keeps its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """One language."""

    name: str
    family: str
    """Languages of one family see each other's symbols and name modules alike."""
    grammars: dict[str, Parts]
    """By suffix: the package of the grammar, and its function."""
    queries: Parts
    """Query files, joined; by default the one of the language's name."""
    aliases: Parts
    self_words: frozenset[str]
    """Words for the object itself."""
    super_words: frozenset[str]
    """Words for what the object inherits."""
    path_words: frozenset[str]
    """First parts of a path to a module, seen from the one around."""
    builtins: frozenset[str]
    """Names that need no import."""
    methods: frozenset[str]
    """Methods of built-in types: a call of one on an unknown value means nothing."""
    native: frozenset[str]
    """First parts of the names of modules that come with the language."""
    native_pattern: re.Pattern[str] | None = None
    """Matches the whole names of further ones, their parts joined by slashes."""
    sniff: re.Pattern[str] | None = None
    """Recognises a file of this language where another language has the same suffix."""
    separator: str = "."
    whole_module: str = "first"
    """The name that a module has if it is imported whole: its `first` part, its `last`, or `unnamed`."""
    package_scope: bool = False
    """Whether the files of a package see each other's names without an import."""
    includes_names: bool = False
    """Whether an import brings every name of the file, as an include does."""
    bare_members: bool = False
    """Whether code in a class sees the members without a word for the object."""
    named_by_package: bool = False
    """Whether qualified names begin with the package clause instead of the path."""
    pointer_receivers: bool = False
    """Whether a method is written `(*Owner).name`, as in Go."""

    def takes(self, path: str) -> bool:
        """Whether a file may be of this language, by its suffix."""
        return suffix_of(path) in self.grammars

    def is_native(self, parts: Parts) -> bool:
        """Whether a module comes with the language."""
        pattern = self.native_pattern
        return bool(parts) and (parts[0] in self.native or bool(pattern and pattern.fullmatch("/".join(parts))))

    def module_name(self, path: str, package: str) -> Parts:
        """The name of a file's module, from its path and its package clause."""
        return MODULES[self.family][0](path, package)

    def import_target(self, module: str, path: str) -> Parts:
        """The name of an imported module, from the import's text and the path of its file."""
        return MODULES[self.family][1](module, path)

    def bound_name(self, one: ImportedName) -> str:
        """The name that an import gets in its file; empty for none."""
        if one.alias or one.name:
            return one.alias or one.name.strip("*")
        if self.whole_module == "last":
            named = [part for part in one.module.split("/") if not re.fullmatch(r"v\d+", part)]
            return (named or [one.module])[-1].partition(".")[0].replace("-", "")
        return one.module.partition(".")[0] if self.whole_module == "first" else ""


# --- the tables ---------------------------------------------------------------------------------------------

WORDS = ("self_words", "super_words", "path_words", "builtins", "methods", "native")
BUILTIN_TYPES = (
    str, bytes, bytearray, list, dict, set, frozenset, tuple, int, float, object, type(iter("")), Exception,
)  # fmt: skip
PYTHON = {
    "builtins": " ".join(dir(builtins)),
    "methods": " ".join(name for kind in BUILTIN_TYPES for name in dir(kind)),
    "native": " ".join(sys.stdlib_module_names),
}
"""The words that are read from the running Python."""


@cache
def known() -> dict[str, Language]:
    """Every language by its name."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: _language(name, tables) for name in sorted(tables)}


def _language(name: str, tables: dict[str, dict[str, Any]]) -> Language:
    family = tables[name].get("family", name)
    kin = [tables[family], tables[name], PYTHON if name == "python" else {}]
    table = {"name": name, "family": family, "queries": name, "aliases": "", **tables[family], **tables[name]}
    table |= {field: frozenset(word for one in kin for word in one.get(field, "").split()) for field in WORDS}
    table |= {field: tuple(table[field].split()) for field in ("queries", "aliases")}
    table |= {field: re.compile(table[field]) for field in ("native_pattern", "sniff") if field in table}
    suffixes = {suffix: grammar for group, grammar in table["grammars"].items() for suffix in group.split()}
    table["grammars"] = {suffix: tuple(grammar.split(".")) for suffix, grammar in suffixes.items()}
    return Language(**table)


@cache
def by_suffix() -> dict[str, tuple[Language, ...]]:
    """The languages of each suffix; the one that takes any file comes last."""
    tables = sorted(known().values(), key=lambda table: (table.sniff is None, table.name))
    suffixes = dict.fromkeys(suffix for table in tables for suffix in table.grammars)
    return {suffix: tuple(table for table in tables if suffix in table.grammars) for suffix in suffixes}


def of_source(suffix: str, source: bytes) -> Language:
    """The language of a file, by its suffix; if several have it, by its content."""
    *rarer, usual = by_suffix()[suffix]
    text = source.decode("latin-1") if rarer else ""
    return next((table for table in rarer if table.sniff and table.sniff.search(text)), usual)


def suffix_of(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def of_path(path: str) -> tuple[Language, ...]:
    """The possible languages of a file; none for what is no source."""
    return by_suffix().get(suffix_of(path), ())


def named(name: str) -> Language:
    """The language with this name, alias or suffix."""
    wanted = name.strip().lower()
    for table in known().values():
        if wanted == table.name or wanted in table.aliases or f".{wanted}" in table.grammars:
            return table
    similar = did_you_mean(wanted, known())
    raise UsageError(f"the outline does not know the language {name!r}{similar}", f"it knows: {', '.join(known())}")


# --- modules ------------------------------------------------------------------------------------------------

ECMASCRIPT_ENDINGS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".d")
RELATIVE = (("self",), ("super",))
RUST_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _bare_parts(path: str) -> Parts:
    return PurePosixPath(path).with_suffix("").parts


def _without_dots(parts: list[str]) -> Parts:
    return tuple(part for part in parts if part not in (".", ".."))


def _c_target(module: str, path: str) -> Parts:
    """An include is relative to its file; one that is not there is found by the end of its path."""
    return _without_dots(posixpath.normpath(module.strip("<>")).split("/"))


def _java_target(module: str, path: str) -> Parts:
    return tuple(part for part in re.split(r"[./:]+", module) if part)


def _python_module(path: str, package: str) -> Parts:
    parts = _bare_parts(path)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _python_target(module: str, path: str) -> Parts:
    """`..a.b` is relative to the folder of the file."""
    name = module.lstrip(".")
    dots, named = len(module) - len(name), tuple(name.split(".")) if name else ()
    if not dots:
        return named
    folder = PurePosixPath(path).parent.parts
    return folder[: len(folder) - dots + 1] + named


def _ecmascript_module(path: str, package: str = "") -> Parts:
    """A file is imported without its suffixes, a folder by the index in it."""
    while path.endswith(ECMASCRIPT_ENDINGS):
        path = path.rpartition(".")[0]
    parts = tuple(part for part in path.split("/") if part)
    return parts[:-1] if len(parts) > 1 and parts[-1] == "index" else parts


def _ecmascript_target(module: str, path: str) -> Parts:
    """A path is relative to the file; `@/` and `~/` stand for the root of the sources."""
    if module.startswith("."):
        absolute = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return _ecmascript_module("/".join(_without_dots(absolute.split("/"))))
    return _ecmascript_module("/".join(part for part in module.split("/") if part not in ("@", "~")))


def _rust_module(path: str, package: str = "") -> Parts:
    """A crate is named after the folder above `src`, its modules after their paths in `src`."""
    crate, inside = _crate(path)
    return (*crate, *(inside[:-1] if inside[-1] in ("mod", "lib", "main") else inside))


def _crate(path: str) -> tuple[Parts, Parts]:
    """The crate of a path, and the rest of the path."""
    parts = _bare_parts(path)
    if "src" in parts[:-1]:
        at = len(parts) - 2 - parts[:-1][::-1].index("src")
        return parts[max(at - 1, 0) : at], parts[at + 1 :]
    return (), parts


def _rust_target(module: str, path: str) -> Parts:
    named = tuple(part for part in module.split("::") if part)
    if named[:1] == ("crate",):
        return (*_crate(path)[0], *named[1:])
    if named[:1] not in RELATIVE:
        return named
    here = _rust_module(path)
    while named[:1] in RELATIVE:
        here = here if named[0] == "self" else here[:-1]
        named = named[1:]
    return (*here, *named)


MODULES: dict[str, tuple[Callable[[str, str], Parts], Callable[[str, str], Parts]]] = {
    # A file is included by its path, with its suffix.
    "c": (lambda path, package: tuple(path.split("/")), _c_target),
    # A package is a folder; at the root, it is what the package clause says.
    "go": (
        lambda path, package: PurePosixPath(path).parent.parts or (package,),
        lambda module, _: tuple(module.split("/")),
    ),
    "java": (lambda path, package: tuple("".join(package.split()).split(".")) if package else (), _java_target),
    "javascript": (_ecmascript_module, _ecmascript_target),
    "python": (_python_module, _python_target),
    "rust": (_rust_module, _rust_target),
}
"""By family: the names of a file's module and of an imported one."""


def rust_imports(tree: str) -> Iterator[ImportedName]:
    """The names in `a::{b, c::*}`, branch by branch."""
    around = [""]
    for text, mark in re.findall(r"([^{},]*)([{},]|$)", RUST_COMMENT.sub("", tree)):
        path, _, alias = " ".join(text.split()).partition(" as ")
        path = around[-1] + path.replace(" ", "")
        if mark == "{":
            around.append(path)
        elif text.strip():
            module, _, name = path.removesuffix("::self").rpartition("::")
            yield ImportedName(module, name, alias)
        if mark == "}":
            around.pop()


# --- Python -------------------------------------------------------------------------------------------------

CONTINUED = re.compile(r"\\\r?\n")
ESCAPE = re.compile(r"\\.", re.DOTALL)
MAX_NESTED = 8
"""How deep strings within strings are followed."""
TYPE_GROUPS = (ast.Tuple, ast.List, ast.Starred)
"""Nodes that group types: arguments of a generic or of a callable."""


def repair(source: bytes) -> bytes:
    """The source with lines inside brackets indented: the grammar ends a block at one that is indented too little."""
    lines, within, depth, last = source.splitlines(keepends=True), set(), 0, 0
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if depth and token.start[0] > last:
                within.add(token.start[0] - 1)
            last = max(last, token.end[0])
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except (tokenize.TokenError, SyntaxError):
        return source
    return b"".join(b" " * 80 + line if nth in within else line for nth, line in enumerate(lines))


@lru_cache(maxsize=4_096)
def annotation_types(text: str) -> tuple[str, ...] | None:
    """The names of types in an annotation, dotted, each once; None if it is no expression, such as `T: int`.

    Its strings are types only where Python would read them as such.
    """
    # An escape is never part of a type, and the parser warns about unknown ones.
    plain = ESCAPE.sub("$", CONTINUED.sub(" ", text))
    try:
        root = _parsed(plain.strip().lstrip("*"))
        return None if root is None else tuple(dict.fromkeys(_named(root, MAX_NESTED)))
    except RecursionError:
        return None


def _parsed(text: str) -> ast.expr | None:
    try:
        # In brackets, since an annotation may span lines.
        return ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return None


def _named(node: ast.AST, strings: int) -> Iterator[str]:
    """The names below a node; `strings` is how deep strings count as types (0: not at all)."""
    if isinstance(node, ast.Constant):
        yield from _of_constant(node.value, strings)
    elif name := _dotted(node):
        yield name
    elif isinstance(node, ast.Subscript):
        yield from _of_generic(node, strings)
    elif isinstance(node, TYPE_GROUPS) or _is_union(node):
        for child in ast.iter_child_nodes(node):
            yield from _named(child, strings)
    elif not isinstance(node, (ast.Lambda, ast.JoinedStr)):
        # `conlist(Item, title="Save")`: names may be types, but strings are just strings.
        for child in ast.iter_child_nodes(node):
            yield from _named(child, 0)


def _of_constant(value: object, strings: int) -> Iterator[str]:
    if value is None:
        yield "None"
    elif isinstance(value, str) and strings:
        inner = _parsed(value.strip())
        # Prose can parse as an expression too: `Save, or not`.
        if inner is not None and (_dotted(inner) or isinstance(inner, ast.Subscript) or _is_union(inner)):
            yield from _named(inner, strings - 1)


def _of_generic(node: ast.Subscript, strings: int) -> Iterator[str]:
    yield from _named(node.value, 0)
    called, inside = _dotted(node.value).rpartition(".")[2], node.slice
    if called == "Annotated" and isinstance(inside, ast.Tuple) and inside.elts:
        # Only the first argument is a type.
        yield from _named(inside.elts[0], strings)
    else:
        yield from _named(inside, 0 if called == "Literal" else strings)


def _is_union(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _dotted(node: ast.AST) -> str:
    """`a.b.C`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""
