"""The files of one family of languages, indexed: modules, symbols by name, references by name."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memd.models import grouped
from memd.outline import languages
from memd.outline.facts import MODULE, Facts, ImportFact, Reference, Symbol


class SymbolId(NamedTuple):
    """A symbol: its file, and its number there."""

    path: str
    number: int


class Use(NamedTuple):
    """A reference or an import: its file, and its number there."""

    path: str
    number: int
    of_import: bool = False


def uses_of(path: str, facts: Facts) -> Iterator[tuple[Use, Reference | ImportFact]]:
    """Every reference and every import of a file."""
    yield from ((Use(path, number), one) for number, one in enumerate(facts.references))
    yield from ((Use(path, number, True), one) for number, one in enumerate(facts.imports))


class _FileIndex:
    """An index of one file's facts: symbols, also with their names, and uses by the symbol around them."""

    def __init__(self, path: str, facts: Facts) -> None:
        inside = [(SymbolId(path, number), one) for number, one in enumerate(facts.symbols) if number and not one.owner]
        self.children = grouped((symbol.parent, of) for of, symbol in inside)
        self.named = grouped(((symbol.parent, symbol.name), of) for of, symbol in inside)
        uses = ((use, {one.source, MODULE if use.of_import else one.source}) for use, one in uses_of(path, facts))
        # By the symbol around each; a module also has all imports of its file.
        self.uses = grouped((number, use) for use, holders in uses for number in holders)


class Project:
    """The facts of one family; a file can be added, replaced or removed at any time."""

    def __init__(self) -> None:
        self.files: dict[str, Facts] = {}
        self.module_of: dict[str, languages.Parts] = {}
        self.modules: dict[languages.Parts, list[str]] = {}
        self.ending: dict[str, set[languages.Parts]] = defaultdict(set)
        """Modules by the last part of their names."""
        self.named: dict[str, set[SymbolId]] = defaultdict(set)
        self.owned: dict[str, set[SymbolId]] = defaultdict(set)
        """Symbols defined outside of the type that they belong to, by the type's name."""
        self.uses: dict[str, set[Use]] = defaultdict(set)
        """References by the last part of their names; imports also by that of their module's name."""
        self.aliases: dict[str, set[str]] = defaultdict(set)
        """The aliases under which a name is imported."""
        self._file_indexes: dict[str, _FileIndex] = {}

    # --- files ----------------------------------------------------------------------------------------------

    def put(self, path: str, facts: Facts) -> None:
        self.drop(path)
        self.files[path] = facts
        parts = self.module_of[path] = self.language(path).module_name(path, facts.package)
        self.modules.setdefault(parts, []).append(path)
        if parts:
            self.ending[parts[-1]].add(parts)
        for keys, name, entry in self._entries(path, facts):
            keys[name].add(entry)
        for one in facts.imports:
            if one.alias and original_name(one) not in ("", one.alias):
                self.aliases[one.name].add(one.alias)

    def drop(self, path: str) -> None:
        self._file_indexes.pop(path, None)
        facts = self.files.pop(path, None)
        if facts is None:
            return
        parts = self.module_of.pop(path)
        self.modules[parts].remove(path)
        if not self.modules[parts]:
            del self.modules[parts]
            if parts:
                self.ending[parts[-1]].discard(parts)
        for keys, name, entry in self._entries(path, facts):
            keys[name].discard(entry)

    def _entries(self, path: str, facts: Facts) -> Iterator[tuple[dict[str, set[Any]], str, SymbolId | Use]]:
        """The entries of a file: in which index, under which name."""
        for number, symbol in enumerate(facts.symbols):
            if number:
                yield self.named, symbol.name, SymbolId(path, number)
            if symbol.owner:
                yield self.owned, symbol.owner[-1], SymbolId(path, number)
        for use, one in uses_of(path, facts):
            for name in last_names(facts, one):
                yield self.uses, name, use

    def language(self, path: str) -> languages.Language:
        return languages.known()[self.files[path].language]

    # --- symbols --------------------------------------------------------------------------------------------

    def symbol(self, of: SymbolId) -> Symbol:
        return self.files[of.path].symbols[of.number]

    def children(self, of: SymbolId, name: str) -> list[SymbolId]:
        """The children of a symbol with a name."""
        return self._file_index(of.path).named.get((of.number, name), [])

    def all_children(self, of: SymbolId) -> list[SymbolId]:
        """The children of a symbol, in order."""
        return self._file_index(of.path).children.get(of.number, [])

    def used(self, use: Use) -> Reference | ImportFact:
        facts = self.files[use.path]
        return facts.imports[use.number] if use.of_import else facts.references[use.number]

    def uses_in(self, of: SymbolId, *kinds: str) -> Iterator[Use]:
        """The uses of some kinds in a symbol, without those in its children; a module has all imports of its file."""
        return (use for use in self._file_index(of.path).uses.get(of.number, ()) if self.used(use).kind in kinds)

    def ids(self, paths: Iterable[str]) -> Iterator[SymbolId]:
        """Every symbol of some files."""
        return (SymbolId(path, number) for path in paths for number in range(len(self.files[path].symbols)))

    def _file_index(self, path: str) -> _FileIndex:
        if path not in self._file_indexes:
            self._file_indexes[path] = _FileIndex(path, self.files[path])
        return self._file_indexes[path]

    # --- names ----------------------------------------------------------------------------------------------

    def segments(self, of: SymbolId) -> languages.Parts:
        """The qualified name of a symbol, in parts."""
        names: list[str] = []
        number = of.number
        while number > MODULE:
            symbol = self.files[of.path].symbols[number]
            names += [symbol.name, *reversed(symbol.owner)]
            number = symbol.parent
        return (*self.module_name(of.path), *reversed(names))

    def module_name(self, path: str) -> languages.Parts:
        """A module's name, as qualified names begin with it."""
        if self.language(path).named_by_package:
            return (self.files[path].package,)
        return self.module_of[path] or (PurePosixPath(path).stem,)

    def qualified(self, of: SymbolId) -> str:
        """The qualified name as it is written in the language."""
        language, symbol = self.language(of.path), self.symbol(of)
        if language.pointer_receivers and symbol.owner:
            *before, _, last = self.segments(of)
            star = "*" if f"*{symbol.owner[-1]}" in symbol.signature.partition(")")[0].replace(" ", "") else ""
            return language.separator.join([*before, f"({star}{symbol.owner[-1]})" if star else symbol.owner[-1], last])
        return language.separator.join(self.segments(of))


def last_names(facts: Facts, one: Reference | ImportFact) -> set[str]:
    """The last part of a name, as its target is called where it is defined; of an import also its module's."""
    if isinstance(one, ImportFact):
        return {original_name(one), *last_parts(one.module)} - {"", "*"}
    if one.chain:
        return {one.chain[-1]}
    if one.via == "import":
        imported = facts.imports[one.target]
        return {original_name(imported) or next(iter(last_parts(imported.module)), "")}
    return {facts.symbols[one.target].name}


def original_name(one: ImportFact) -> str:
    """The name of an import where it is defined; a default export mostly has the name that it gets here."""
    return one.alias if one.name == "default" else one.name


def stem(path: str) -> str:
    """A file's name without suffixes."""
    return path.rpartition("/")[2].partition(".")[0]


def last_parts(module: str) -> list[str]:
    """The possible last parts of a module's name, whatever the separator."""
    name = module.rstrip("/.:").replace("::", "/").rpartition("/")[2]
    stem = name.rpartition(".")
    return [one for one in dict.fromkeys((stem[2], stem[0].rpartition(".")[2], name)) if one]
