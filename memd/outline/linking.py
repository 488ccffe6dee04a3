"""Finds what a name means across files: by scope, then by imports, then as the only one of its name in the project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memd.outline.facts import HOLDERS, MODULE, Import, Reference
from memd.outline.language import Language, Parts
from memd.outline.modules import module_files
from memd.outline.project import Id, Project, Use, called, stem

FARTHEST = 8
"""How many re-exports or ancestors are followed one after the other."""

NATIVE, EXTERNAL = "native", "external"
OWNERS = HOLDERS - {"module"}
Ids = tuple[Id, ...]


class Resolution(NamedTuple):
    """What a reference means: nothing that is known, one symbol, or several that it could be."""

    targets: Ids
    how: str
    """`scope`, `type`, `import`, `name`, or `` when it was not found."""
    name: str
    """The name as it is used, with what is known of where it comes from."""
    origin: str = ""
    """Of what is not in the project: `native`, it comes with the language; `external`, from another package."""
    line: int = 0

    @property
    def ambiguous(self) -> bool:
        return len(self.targets) > 1


UNFOUND = Resolution((), "", "")


class Linker:
    """Resolves references and imports of a project; what was found is kept until a file changes."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._known: dict[tuple[str, int, bool], Resolution] = {}
        self._lookups: dict[tuple[str, Parts], tuple[Ids, str]] = {}
        self._changes = project.changes
        self._users: dict[Id, list[Use]] | None = None
        self._importers: dict[Id, list[Use]] | None = None
        self._names: dict[Id, str] = {}

    def fresh(self) -> None:
        """Forget what was found before the last change."""
        if self._changes != self.project.changes:
            self._known.clear()
            self._lookups.clear()
            self._names.clear()
            self._users = self._importers = None
            self._changes = self.project.changes

    def reference(self, use: Use) -> Resolution:
        """What a reference means."""
        key = (use.path, use.number, True)
        if key not in self._known:
            # A class that stands among its own bases is looked for while it is being looked for.
            self._known[key] = UNFOUND
            self._known[key] = self._reference(use.path, self.project.files[use.path].references[use.number])
        return self._known[key]

    def imported(self, use: Use) -> Resolution:
        """What an import brings."""
        key = (use.path, use.number, False)
        if key not in self._known:
            self._known[key] = self._import(use.path, self.project.files[use.path].imports[use.number])
        return self._known[key]

    def index(self) -> None:
        """Note for every symbol who means it: worth its while when many symbols are asked for, not for one."""
        if self._users is not None:
            return
        users: dict[Id, list[Use]] = {}
        importers: dict[Id, list[Use]] = {}
        for path, facts in self.project.files.items():
            for number in range(len(facts.references)):
                for target in self.reference(use := Use(path, number)).targets:
                    users.setdefault(target, []).append(use)
            for number in range(len(facts.imports)):
                for target in self.imported(use := Use(path, number)).targets:
                    for one in {target, Id(target.path, MODULE)}:
                        importers.setdefault(one, []).append(use)
        self._users, self._importers = users, importers

    def users(self, of: Id) -> list[Use]:
        """The references that mean a symbol, or could."""
        if self._users is not None:
            return self._users.get(of, [])
        uses = {use for name in self._called(of) for use in self.project.uses.get(name, ())}
        return sorted(use for use in uses if of in self.reference(use).targets)

    def importers(self, of: Id) -> list[Use]:
        """The imports that mean a symbol; of a module also those of something in it."""
        if self._importers is not None:
            return self._importers.get(of, [])
        uses = {use for name in self._called(of) for use in self.project.imported.get(name, ())}
        return sorted(use for use in uses if self._brings(use, of))

    def _brings(self, use: Use, of: Id) -> bool:
        targets = self.imported(use).targets
        return of in targets or (of.number == MODULE and any(target.path == of.path for target in targets))

    def _called(self, of: Id) -> set[str]:
        """Every name that a symbol goes by in the project."""
        names = (
            {self.project.symbol(of).name} if of.number else {*self.project.module_name(of.path)[-1:], stem(of.path)}
        )
        waiting = set(names)
        while waiting:
            further = self.project.aliases.get(waiting.pop(), set()) - names
            names |= further
            waiting |= further
        return names

    def qualified(self, of: Id) -> str:
        """The whole name of a symbol, put together once."""
        if of not in self._names:
            self._names[of] = self.project.qualified(of)
        return self._names[of]

    def members(self, of: Id, name: str, far: int = FARTHEST, inherited_only: bool = False) -> Ids:
        """The parts of a symbol with a name: its own, those that belong to it elsewhere, those that it inherits."""
        own = () if inherited_only else self._own(of, name)
        if own or not far:
            return own
        for base in self.bases(of):
            if base != of and (found := self.members(base, name, far - 1)):
                return found
        return ()

    def bases(self, of: Id) -> Iterator[Id]:
        """What a class inherits or implements, as far as that is in the project and certain."""
        for number, reference in self.project.references(of):
            if reference.kind in ("inherits", "implements"):
                targets = self.reference(Use(of.path, number)).targets
                if len(targets) == 1:
                    yield targets[0]

    # --- references -----------------------------------------------------------------------------------------

    def _reference(self, path: str, one: Reference) -> Resolution:
        found: Ids = ()
        language, how = self.project.language(path), "type" if one.typed else "scope"
        name = ".".join(one.chain)
        if one.via == "symbol":
            found = self._along((Id(path, one.target),), one.chain)
            name = name or self.project.symbol(Id(path, one.target)).name
        elif one.via == "super":
            found = self.members(Id(path, one.target), one.chain[0], inherited_only=True) if one.chain else ()
            found = self._along(found, one.chain[1:])
        elif one.via == "import":
            return self._through_import(path, one)
        elif one.via == "free":
            return self._free(path, one, language)
        elif one.chain[-1] not in language.methods:
            found, how = self._only(one.chain[-1], methods=True), "name"
        else:
            return Resolution((), "", name, NATIVE, line=one.line)
        return Resolution(_distinct(found), how if found else "", name, line=one.line)

    def _through_import(self, path: str, one: Reference) -> Resolution:
        brought = self.project.files[path].imports[one.target]
        chain = one.chain
        whole = _whole(self.project.language(path), brought, path, self.project.files[path].package)
        if not brought.name and not brought.alias and self.project.language(path).names_module is None:
            # `import a.b` brings `a`, and `a.c` may be another module.
            whole = whole[:1]
        found, origin = self._lookup(path, whole + chain)
        name = ".".join((*(part for part in whole if part), *chain))
        how = ("type" if one.typed else "import") if found else ""
        return Resolution(_distinct(found), how, name, origin, one.line)

    def _free(self, path: str, one: Reference, language: Language) -> Resolution:
        """A name that the file itself does not explain."""
        head, rest, name = one.chain[0], one.chain[1:], ".".join(one.chain)
        how = "type" if one.typed else "scope"
        found = self._along(self._inherited_name(Id(path, one.source), head) if language.open_classes else (), rest)
        if not found and language.sees_package:
            files = self.project.modules[self.project.parts[path]]
            found = self._along(self._in_files(files, head), rest)
        if not found:
            found, how = self._along(self._from_stars(path, head), rest), "type" if one.typed else "import"
        if not found and head in language.builtins:
            return Resolution((), "", name, NATIVE, line=one.line)
        if not found:
            found, how = self._by_path(one.chain), "name"
        return Resolution(_distinct(found), how if found else "", name, line=one.line)

    def _by_path(self, chain: Parts) -> Ids:
        """The only symbol of the project whose whole name ends in a chain."""
        if len(chain) == 1:
            return self._only(chain[0], methods=False)
        return _distinct(
            id_ for id_ in self.project.named[chain[-1]] if self.project.segments(id_)[-len(chain) :] == chain
        )

    def _only(self, name: str, methods: bool) -> Ids:
        """Everything with a name that could be meant: one is certain, more are candidates."""
        kinds = {"method"} if methods else {"class", "interface", "function", "type", "module"}
        found = (one for one in self.project.named[name] if self.project.symbol(one).kind in kinds)
        return _distinct(one for one in found if methods or self._reachable(one))

    def _reachable(self, one: Id) -> bool:
        """What stands in a function cannot be meant elsewhere."""
        symbol = self.project.symbol(one)
        return self.project.symbol(Id(one.path, max(symbol.parent, 0))).kind in HOLDERS

    def _inherited_name(self, source: Id, name: str) -> Ids:
        """A part of the class around, as a bare name means it in some languages."""
        at = source
        while at.number > MODULE:
            symbol = self.project.symbol(at)
            holders = [at] if symbol.kind in HOLDERS else []
            if symbol.owner:
                holders += self._by_path(symbol.owner)[:1]
            for holder in holders:
                if found := self.members(holder, name):
                    return found
            at = Id(at.path, symbol.parent)
        return ()

    # --- imports --------------------------------------------------------------------------------------------

    def _import(self, path: str, one: Import) -> Resolution:
        language = self.project.language(path)
        whole = _whole(language, one, path, self.project.files[path].package)
        found, origin = self._lookup(path, whole)
        name = one.module + (language.separator if one.module.strip(".") and one.name else "") + one.name
        return Resolution(_distinct(found), "import" if found else "", name, origin, one.line)

    def _lookup(self, origin: str, whole: Parts, far: int = FARTHEST) -> tuple[Ids, str]:
        """What a whole name means to a file: the longest part of it that is a module, then what is in that."""
        key = (origin.rpartition("/")[0], whole)
        if key not in self._lookups:
            self._lookups[key] = (), ""  # a name that leads back to itself leads nowhere
            self._lookups[key] = self._looked_up(origin, whole, far)
        return self._lookups[key]

    def _looked_up(self, origin: str, whole: Parts, far: int) -> tuple[Ids, str]:
        language = self.project.language(origin)
        for length in range(len(whole), 0, -1):
            files = module_files(self.project, language, origin, whole[:length])
            if files:
                rest = whole[length:]
                found = tuple(Id(file, MODULE) for file in files)
                return self._along(self._exported(files, rest[0], far), rest[1:]) if rest else found, ""
        if not language.native(whole) and () in self.project.modules and len(whole) > 0:
            found = self._along(self._exported(self.project.modules[()], whole[0], far), whole[1:])
            if found:
                return found, ""
        return (), NATIVE if language.native(whole) else EXTERNAL

    def _exported(self, files: list[str], name: str, far: int) -> Ids:
        """What a module has under a name: defined there, or brought there from elsewhere."""
        found = self._in_files(files, name)
        if found or not far:
            return found
        for file in files:
            for one in self.project.files[file].imports:
                if (one.alias or one.name) == name and one.source == MODULE:
                    whole = _whole(self.project.language(file), one, file, self.project.files[file].package)
                    if found := self._lookup(file, whole, far - 1)[0]:
                        return found
        return next((found for file in files if (found := self._from_stars(file, name, far - 1))), ())

    def _in_files(self, files: Iterable[str], name: str) -> Ids:
        return tuple(one for file in files for one in self.project.children(Id(file, MODULE), name))

    def _from_stars(self, path: str, name: str, far: int = FARTHEST) -> Ids:
        """What imports of everything bring under a name."""
        language, package = self.project.language(path), self.project.files[path].package
        if not far:
            return ()
        for one in self.project.files[path].imports:
            if one.name == "*" or (language.sees_imports and not one.name):
                whole = _whole(language, one._replace(name=""), path, package)
                files = module_files(self.project, language, path, whole)
                if path not in files and (found := self._exported(files, name, far - 1)):
                    return found
        return ()

    # --- parts ----------------------------------------------------------------------------------------------

    def _along(self, found: Ids, chain: Parts) -> Ids:
        """Follow a name from symbol to part."""
        for name in chain:
            found = tuple(member for one in found for member in self._part(one, name))
            if not found:
                return ()
        return found

    def _part(self, one: Id, name: str) -> Ids:
        if one.number == MODULE:
            return self._exported([one.path], name, FARTHEST)
        return self.members(one, name)

    def _own(self, of: Id, name: str) -> Ids:
        own = tuple(self.project.children(of, name))
        if own:
            return own
        known = self.project.owned.get(self.project.symbol(of).name, ())
        return _distinct(one for one in known if self.project.symbol(one).name == name and of in self.holders(one))

    def holders(self, one: Id) -> Ids:
        """The types that a symbol belongs to by name: those of its own module, else any of that name."""
        owner = self.project.symbol(one).owner
        if not owner:
            return ()
        parts = self.project.parts[one.path]
        known = [id_ for id_ in self.project.named[owner[-1]] if self.project.symbol(id_).kind in OWNERS]
        near = [id_ for id_ in known if self.project.parts[id_.path] == parts]
        return _distinct(near or known)


def _whole(language: Language, one: Import, path: str, package: str) -> Parts:
    """The whole name that an import means."""
    parts = language.absolute(one.module, path, package)
    return (*parts, called(one)) if one.name and one.name != "*" else parts


def _distinct(found: Iterable[Id]) -> Ids:
    return tuple(sorted(set(found)))
