"""The files of one family of languages together: which modules there are, who has which name, who uses it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memd.outline import languages
from memd.outline.facts import MODULE, Facts, Import, Reference, Symbol
from memd.outline.language import Language, Parts


class Id(NamedTuple):
    """A symbol: the file it is defined in, and its number there."""

    path: str
    number: int


class Use(NamedTuple):
    """A reference of a file, by its number."""

    path: str
    number: int


class _Insides:
    """What is looked up often in one file's facts, laid out."""

    def __init__(self, facts: Facts) -> None:
        self.children: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.by_source: dict[int, list[int]] = defaultdict(list)
        for number, symbol in enumerate(facts.symbols):
            if number and not symbol.owner:
                self.children[symbol.parent][symbol.name].append(number)
        for number, reference in enumerate(facts.references):
            self.by_source[reference.source].append(number)


class Project:
    """Everything that is known of one family; a file can be put in, exchanged or taken out at any time."""

    def __init__(self) -> None:
        self.files: dict[str, Facts] = {}
        self.parts: dict[str, Parts] = {}
        self.modules: dict[Parts, list[str]] = {}
        self.ending: dict[str, set[Parts]] = defaultdict(set)
        """Modules by the last part of their names."""
        self.named: dict[str, set[Id]] = defaultdict(set)
        self.owned: dict[str, set[Id]] = defaultdict(set)
        """Symbols that belong to a type elsewhere, by the type's name."""
        self.uses: dict[str, set[Use]] = defaultdict(set)
        """References by the last part of what they name."""
        self.imported: dict[str, set[Use]] = defaultdict(set)
        """Imports by the last part of what they name, and by that of the module they name it from."""
        self.aliases: dict[str, set[str]] = defaultdict(set)
        """What a name is called where it is imported under another one."""
        self.changes = 0
        self._insides: dict[str, _Insides] = {}

    # --- files ----------------------------------------------------------------------------------------------

    def put(self, path: str, facts: Facts) -> None:
        self.drop(path)
        self.files[path] = facts
        parts = self.parts[path] = self.language(path).parts(path, facts.package)
        self.modules.setdefault(parts, []).append(path)
        if parts:
            self.ending[parts[-1]].add(parts)
        for keys, name, entry in self._entries(path, facts):
            keys[name].add(entry)
        for one in facts.imports:
            if one.alias and called(one) not in ("", one.alias):
                self.aliases[one.name].add(one.alias)

    def drop(self, path: str) -> None:
        self.changes += 1
        self._insides.pop(path, None)
        facts = self.files.pop(path, None)
        if facts is None:
            return
        parts = self.parts.pop(path)
        self.modules[parts].remove(path)
        if not self.modules[parts]:
            del self.modules[parts]
            if parts:
                self.ending[parts[-1]].discard(parts)
        for keys, name, entry in self._entries(path, facts):
            keys[name].discard(entry)

    def _entries(self, path: str, facts: Facts) -> Iterator[tuple[dict[str, set[Any]], str, Id | Use]]:
        """Where a file is to be found, and under which names."""
        for number, symbol in enumerate(facts.symbols):
            if number:
                yield self.named, symbol.name, Id(path, number)
            if symbol.owner:
                yield self.owned, symbol.owner[-1], Id(path, number)
        for number, reference in enumerate(facts.references):
            yield self.uses, last_name(facts, reference), Use(path, number)
        for number, one in enumerate(facts.imports):
            for name in {called(one), *last_parts(one.module)} - {"", "*"}:
                yield self.imported, name, Use(path, number)

    def language(self, path: str) -> Language:
        return languages.known()[self.files[path].language]

    # --- symbols --------------------------------------------------------------------------------------------

    def symbol(self, of: Id) -> Symbol:
        return self.files[of.path].symbols[of.number]

    def children(self, of: Id, name: str) -> list[Id]:
        """The parts of a symbol with a name."""
        return [Id(of.path, number) for number in self._inside(of.path).children[of.number].get(name, ())]

    def all_children(self, of: Id) -> list[Id]:
        """The parts that stand in a symbol, in order."""
        numbers = sorted(one for found in self._inside(of.path).children[of.number].values() for one in found)
        return [Id(of.path, number) for number in numbers]

    def references(self, of: Id) -> Iterator[tuple[int, Reference]]:
        """The references that a symbol makes itself."""
        every = self.files[of.path].references
        return ((number, every[number]) for number in self._inside(of.path).by_source.get(of.number, ()))

    def imports(self, of: Id) -> Iterator[tuple[int, Import]]:
        """The imports that stand in a symbol; those of a module are all in its file."""
        for number, one in enumerate(self.files[of.path].imports):
            if of.number in (MODULE, one.source):
                yield number, one

    def ids(self, paths: Iterable[str]) -> Iterator[Id]:
        """Every symbol of some files."""
        return (Id(path, number) for path in paths for number in range(len(self.files[path].symbols)))

    def _inside(self, path: str) -> _Insides:
        found = self._insides.get(path)
        if found is None:
            found = self._insides[path] = _Insides(self.files[path])
        return found

    # --- names ----------------------------------------------------------------------------------------------

    def segments(self, of: Id) -> Parts:
        """The whole name of a symbol, part by part."""
        names: list[str] = []
        number = of.number
        while number > MODULE:
            symbol = self.files[of.path].symbols[number]
            names += [symbol.name, *reversed(symbol.owner)]
            number = symbol.parent
        return (*self.module_name(of.path), *reversed(names))

    def module_name(self, path: str) -> Parts:
        facts, parts = self.files[path], self.parts[path]
        return parts or (PurePosixPath(path).stem,) if not self.language(path).named_by_package else (facts.package,)

    def qualified(self, of: Id) -> str:
        """The whole name as people write it in the language."""
        language, symbol = self.language(of.path), self.symbol(of)
        if language.pointer and symbol.owner:
            *before, _, last = self.segments(of)
            star = "*" if f"*{symbol.owner[-1]}" in symbol.signature.partition(")")[0].replace(" ", "") else ""
            return language.separator.join([*before, f"({star}{symbol.owner[-1]})" if star else symbol.owner[-1], last])
        return language.separator.join(self.segments(of))


def last_name(facts: Facts, reference: Reference) -> str:
    """The name that a reference ends in, as the thing itself is called."""
    if reference.chain:
        return reference.chain[-1]
    if reference.via == "import":
        one = facts.imports[reference.target]
        return called(one) or next(iter(last_parts(one.module)), "")
    return facts.symbols[reference.target].name


def called(one: Import) -> str:
    """What an import calls a thing where it comes from; a default export mostly has the name that it gets here."""
    return one.alias if one.name == "default" else one.name


def stem(path: str) -> str:
    """A file's name without any ending."""
    return path.rpartition("/")[2].partition(".")[0]


def last_parts(module: str) -> list[str]:
    """The last part of a module's name, however the language writes it."""
    name = module.rstrip("/.:").replace("::", "/").rpartition("/")[2]
    stem = name.rpartition(".")
    return [one for one in dict.fromkeys((stem[2], stem[0].rpartition(".")[2], name)) if one]
