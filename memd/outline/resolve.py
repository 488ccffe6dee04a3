"""Resolves names across files: by scope, then by import, then as the only symbol of that name; ranks symbols by it."""

import posixpath
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cache, cached_property
from typing import NamedTuple

from memd.models import grouped
from memd.outline.facts import CLASSES, HOLDERS, MODULE, ImportFact, Reference
from memd.outline.languages import Language, Parts
from memd.outline.project import Project, SymbolId, Use, original_name, stem, uses_of

MAX_HOPS = 8
"""How many re-exports or base classes are followed."""

NATIVE, EXTERNAL = "native", "external"
Ids = tuple[SymbolId, ...]
RANKED = frozenset({"class", "interface", "function", "method", "type"})
"""Kinds of symbols that are ranked."""


class Relation(NamedTuple):
    """The meaning of a name where it is used: no symbol, one, or several candidates, of which one is meant."""

    targets: Ids
    how: str
    """`scope`, `type`, `import` or `name`; empty if nothing was found."""
    name: str
    """The name as it is used, qualified as far as known; all that is known of a target outside of the project."""
    origin: str = ""
    """For a name outside of the project: `native` (comes with the language) or `external` (another package)."""
    kind: str = ""
    path: str = ""
    line: int = 0
    """Where it is in the source."""
    times: int = 1
    unsure: bool = False
    """Seen from the other side: the name could also mean another symbol."""


UNRESOLVED = Relation((), "", "")


class RankedSymbol(NamedTuple):
    """A symbol with the weight of the references to it."""

    resolver: "Resolver"
    id: SymbolId
    weight: float
    referrers: int


class Resolver:
    """Resolves references and imports of a project, as its files are now; keeps the results."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._resolved: dict[Use, Relation] = {}
        self._lookups: dict[tuple[str, Parts], tuple[Ids, str]] = {}
        self._users: dict[SymbolId, list[Use]] | None = None
        self.qualified = cache(project.qualified)

    def meaning(self, use: Use) -> Relation:
        """Resolve a reference or an import."""
        if use not in self._resolved:
            # A class among its own bases is resolved while it is being resolved.
            self._resolved[use] = UNRESOLVED
            one = self.project.used(use)
            found = self._imported(use.path, one) if isinstance(one, ImportFact) else self._referred(use.path, one)
            how, targets = found.how if found.targets else "", _distinct(found.targets)
            self._resolved[use] = found._replace(targets=targets, how=how, kind=one.kind, path=use.path, line=one.line)
        return self._resolved[use]

    def _meant(self, use: Use) -> set[SymbolId]:
        """The symbols that a use means, or may mean; whoever imports a member imports its module too."""
        targets = self.meaning(use).targets
        return {*targets, *(SymbolId(target.path, MODULE) for target in targets if use.of_import)}

    def index(self) -> None:
        """Resolve everything, to find the users of many symbols at once; not worth it for one."""
        if self._users is None:
            uses = [use for path, facts in self.project.files.items() for use, _ in uses_of(path, facts)]
            self._users = grouped((target, use) for use in uses for target in self._meant(use))

    def users(self, of: SymbolId, kinds: Container[str]) -> list[Use]:
        """The uses of some kinds that mean a symbol, or may mean it."""
        if self._users is not None:
            return [use for use in self._users.get(of, ()) if self.project.used(use).kind in kinds]
        named = {use for name in self._names_of(of) for use in self.project.uses.get(name, ())}
        return sorted(use for use in named if self.project.used(use).kind in kinds and of in self._meant(use))

    def _names_of(self, of: SymbolId) -> set[str]:
        """Every name that a symbol has in the project, aliases included."""
        module_names = {*self.project.module_name(of.path)[-1:], stem(of.path)}
        names = {self.project.symbol(of).name} if of.number else module_names
        waiting = set(names)
        while waiting:
            further = self.project.aliases.get(waiting.pop(), set()) - names
            names |= further
            waiting |= further
        return names

    def members(self, of: SymbolId, name: str, hops: int = MAX_HOPS) -> Ids:
        """The members of a symbol with a name: its own, else inherited ones."""
        return self._own_members(of, name) or self._inherited(of, name, hops)

    def _inherited(self, of: SymbolId, name: str, hops: int = MAX_HOPS) -> Ids:
        found = (self.members(base, name, hops - 1) for base in self.bases(of) if hops and base != of)
        return next(filter(None, found), ())

    def bases(self, of: SymbolId) -> Iterator[SymbolId]:
        """The base classes and interfaces of a class that resolve to one symbol of the project."""
        for use in self.project.uses_in(of, "inherits", "implements"):
            targets = self.meaning(use).targets
            if len(targets) == 1:
                yield targets[0]

    # --- importance -----------------------------------------------------------------------------------------

    @cached_property
    def ranked(self) -> list[RankedSymbol]:
        """Every symbol that another one refers to, the most important first."""
        weights: dict[SymbolId, float] = defaultdict(float)
        referrers: dict[SymbolId, int] = defaultdict(int)
        for target, source, share in self._links():
            # A symbol used from another file is more of a landmark than a helper within its own.
            weights[target] += share * (1.0 if source.path != target.path else 0.25)
            referrers[target] += 1
        known = {one: weight for one, weight in weights.items() if self.project.symbol(one).kind in RANKED}
        ranked = (RankedSymbol(self, one, round(weight, 3), referrers[one]) for one, weight in known.items())
        return sorted(ranked, key=lambda one: (-one.weight, one.id))

    def _links(self) -> Iterator[tuple[SymbolId, SymbolId, float]]:
        """Each pair of target and source once; candidates of an ambiguous reference share its weight."""
        seen: set[tuple[SymbolId, SymbolId]] = set()
        for path, facts in self.project.files.items():
            for number, reference in enumerate(facts.references):
                targets = self.meaning(Use(path, number)).targets
                source = SymbolId(path, reference.source)
                for target in targets:
                    if target != source and (target, source) not in seen:
                        seen.add((target, source))
                        yield target, source, 1 / len(targets)

    # --- references -----------------------------------------------------------------------------------------

    def _referred(self, path: str, reference: Reference) -> Relation:
        language, how = self.project.language(path), "type" if reference.typed else "scope"
        name, target = ".".join(reference.chain), SymbolId(path, reference.target)
        if reference.via == "symbol":
            ids, symbol = self._follow((target,), reference.chain), self.project.symbol(target)
            if not ids and symbol.kind == "module":
                # A namespace goes on in other files, and what is defined outside of it may not name all of it.
                whole = (symbol.name, *reference.chain)
                ids, how = next(filter(None, (self._by_path(whole[at:]) for at in range(len(whole) - 1))), ()), "name"
            name = name or symbol.name
        elif reference.via == "super":
            ids = self._follow(self._inherited(target, reference.chain[0]), reference.chain[1:])
        elif reference.via == "import":
            return self._through_import(path, reference)
        elif reference.via == "free":
            return self._free(path, reference, language)
        elif reference.chain[-1] not in language.methods:
            ids, how = self._candidates(reference.chain[-1], methods=True), "name"
        else:
            return Relation((), "", name, NATIVE)
        return Relation(ids, how, name)

    def _through_import(self, path: str, reference: Reference) -> Relation:
        imported = self.project.files[path].imports[reference.target]
        target = self._target(path, imported)
        if not imported.name and not imported.alias and self.project.language(path).whole_module == "first":
            # `import a.b` binds `a`, and `a.c` may be another module.
            target = target[:1]
        ids, origin = self._lookup(path, target + reference.chain)
        name = ".".join((*(part for part in target if part), *reference.chain))
        return Relation(ids, "type" if reference.typed else "import", name, origin)

    def _free(self, path: str, reference: Reference, language: Language) -> Relation:
        """Resolve a name that the file itself does not define or import."""
        chain = reference.chain
        head, rest, name = chain[0], chain[1:], ".".join(chain)
        how = "type" if reference.typed else "scope"
        members = self._inherited_name(SymbolId(path, reference.source), head) if language.bare_members else ()
        ids = self._follow(members, rest)
        if not ids and rest and (words := language.path_words):
            way = language.separator.join(chain if head in words else ("self", *chain))
            ids = self._lookup(path, language.import_target(way, path))[0]
            chain = tuple(part for part in chain if part not in words)
        if not ids and language.package_scope:
            files = self.project.modules[self.project.module_of[path]]
            ids = self._follow(self._in_files(files, head), rest)
        if not ids:
            ids, how = self._follow(self._from_stars(path, head), rest), "type" if reference.typed else "import"
        if not ids and head in language.builtins:
            return Relation((), "", name, NATIVE)
        if not ids:
            ids, how = self._by_path(chain), "name"
        return Relation(ids, how, name)

    def _by_path(self, chain: Parts) -> Ids:
        """The symbols of the project whose qualified name ends in a chain."""
        if len(chain) == 1:
            return self._candidates(chain[0], methods=False)
        named = self.project.named[chain[-1]]
        return _distinct(one for one in named if self.project.segments(one)[-len(chain) :] == chain)

    def _candidates(self, name: str, methods: bool) -> Ids:
        """Every symbol with a name that can be meant."""
        kinds = {"method"} if methods else {"class", "interface", "function", "type", "module"}
        ids = (one for one in self.project.named[name] if self.project.symbol(one).kind in kinds)
        return _distinct(one for one in ids if methods or self._reachable(one))

    def _reachable(self, one: SymbolId) -> bool:
        """Whether a symbol can be meant elsewhere: one inside a function cannot."""
        symbol = self.project.symbol(one)
        return self.project.symbol(SymbolId(one.path, max(symbol.parent, 0))).kind in HOLDERS

    def _inherited_name(self, source: SymbolId, name: str) -> Ids:
        """A member of the class around, for languages in which a bare name can mean it."""
        at = source
        while at.number > MODULE:
            symbol = self.project.symbol(at)
            holders = [at] if symbol.kind in HOLDERS else []
            if symbol.owner:
                holders += self._by_path(symbol.owner)[:1]
            for holder in holders:
                if members := self.members(holder, name):
                    return members
            at = SymbolId(at.path, symbol.parent)
        return ()

    # --- imports --------------------------------------------------------------------------------------------

    def _imported(self, path: str, fact: ImportFact) -> Relation:
        ids, origin = self._lookup(path, self._target(path, fact))
        separator = self.project.language(path).separator if fact.module.strip(".") and fact.name else ""
        return Relation(ids, "import", f"{fact.module}{separator}{fact.name}", origin)

    def _target(self, path: str, fact: ImportFact) -> Parts:
        """The qualified name that an import of a file means."""
        module = self.project.language(path).import_target(fact.module, path)
        return (*module, original_name(fact)) if fact.name and fact.name != "*" else module

    def _lookup(self, path: str, target: Parts, hops: int = MAX_HOPS) -> tuple[Ids, str]:
        """The meaning of a qualified name to a file, or its origin if it is outside of the project."""
        # What a path in Rust means depends on the file around it, not on its folder.
        key = (path if self.project.language(path).path_words else path.rpartition("/")[0], target)
        if key not in self._lookups:
            self._lookups[key] = (), ""  # ends a lookup that leads back to itself
            self._lookups[key] = self._look_up(path, target, hops)
        return self._lookups[key]

    def _look_up(self, path: str, target: Parts, hops: int) -> tuple[Ids, str]:
        """Find the longest prefix that is a module, then the rest in that module."""
        native = self.project.language(path).is_native(target)
        for length in range(len(target), 0, -1):
            if files := module_files(self.project, path, target[:length]):
                if length == len(target):
                    return tuple(SymbolId(file, MODULE) for file in files), ""
                return self._follow(self._exported(files, target[length], hops), target[length + 1 :]), ""
        if not native and target and () in self.project.modules:
            ids = self._follow(self._exported(self.project.modules[()], target[0], hops), target[1:])
            if ids:
                return ids, ""
        language = self.project.language(path)
        if not native and target and language.path_words:
            beside = language.import_target(language.separator.join(("self", *target)), path)
            if hops and beside != target and (ids := self._look_up(path, beside, 0)[0]):
                return ids, ""
        return (), NATIVE if native else EXTERNAL

    def _exported(self, files: list[str], name: str, hops: int) -> Ids:
        """A module's symbol of a name: defined in it, or imported into it."""
        ids = self._in_files(files, name)
        if ids or not hops:
            return ids
        for file in files:
            for one in self.project.files[file].imports:
                same = (one.alias or one.name) == name and one.source == MODULE
                if same and (ids := self._lookup(file, self._target(file, one), hops - 1)[0]):
                    return ids
        return next(filter(None, (self._from_stars(file, name, hops - 1) for file in files)), ())

    def _in_files(self, files: Iterable[str], name: str) -> Ids:
        return tuple(one for file in files for one in self.project.children(SymbolId(file, MODULE), name))

    def _from_stars(self, path: str, name: str, hops: int = MAX_HOPS) -> Ids:
        """The symbols that star imports and includes bring under a name."""
        if not hops:
            return ()
        for one in self.project.files[path].imports:
            if one.name == "*" or (self.project.language(path).includes_names and not one.name):
                files = module_files(self.project, path, self._target(path, one._replace(name="")))
                if path not in files and (ids := self._exported(files, name, hops - 1)):
                    return ids
        return ()

    # --- members---------------------------------------------------------------------------------------------

    def _follow(self, ids: Ids, chain: Parts) -> Ids:
        """Follow a chain of names from symbol to member."""
        for name in chain:
            ids = tuple(member for one in ids for member in self._member(one, name))
        return ids

    def _member(self, one: SymbolId, name: str) -> Ids:
        if one.number == MODULE:
            return self._exported([one.path], name, MAX_HOPS)
        return self.members(one, name)

    def _own_members(self, of: SymbolId, name: str) -> Ids:
        """The members defined in a symbol, else those defined outside of it."""
        own = tuple(self.project.children(of, name))
        if own:
            return own
        known = self.project.owned.get(self.project.symbol(of).name, ())
        return _distinct(one for one in known if self.project.symbol(one).name == name and of in self.owners(one))

    def owners(self, one: SymbolId) -> Ids:
        """The types that a symbol belongs to from outside: those of its module, else any of that name."""
        owner = self.project.symbol(one).owner
        if not owner:
            return ()
        module = self.project.module_of[one.path]
        known = [of for of in self.project.named[owner[-1]] if self.project.symbol(of).kind in CLASSES]
        near = [of for of in known if self.project.module_of[of.path] == module]
        return _distinct(near or known)


def _distinct(ids: Iterable[SymbolId]) -> Ids:
    return tuple(sorted(set(ids)))


def module_files(project: Project, path: str, name: Parts) -> list[str]:
    """The files of a module: with exactly this name, else beside the importing file, else the nearest that fits."""
    if not name:
        return []
    origin = project.module_of[path]
    for exact in (name, (*origin[:-1], *name)):
        if exact in project.modules:
            return project.modules[exact]
    if project.language(path).is_native(name):
        return []
    fitting = [one for one in project.ending.get(name[-1], ()) if _fits(project, one, name)]
    if len(fitting) > 1:
        fitting = _nearest(origin, fitting)
    return [file for one in fitting for file in project.modules[one]]


def _fits(project: Project, module: Parts, name: Parts) -> bool:
    """A module below a source root has a longer path than its name; one named from outside the project a shorter."""
    if len(module) > len(name):
        root = module[: len(module) - len(name)]
        return module[-len(name) :] == name and root not in project.modules
    return len(module) < len(name) and name[-len(module) :] == module


def _nearest(origin: Parts, fitting: list[Parts]) -> list[Parts]:
    """The modules that share the most folders with the file; of these, those with the longest names."""
    nearness = {module: (len(posixpath.commonprefix((origin, module))), len(module)) for module in fitting}
    best = max(nearness.values())
    return sorted(module for module in fitting if nearness[module] == best)
