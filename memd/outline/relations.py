"""What a symbol has to do with others: what it holds, uses and inherits, and who uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from memd.outline.facts import MODULE
from memd.outline.linking import Linker, Resolution
from memd.outline.project import Id, Use

FORWARD = ("contains", "calls", "imports", "inherits", "implements", "uses_type", "decorates")
BACKWARD = ("called_by", "imported_by", "inherited_by")
RELATIONS = (
    "contains", "calls", "called_by", "imports", "imported_by", "inherits", "inherited_by", "implements", "uses_type",
    "decorates",
)  # fmt: skip
REVERSED = {"called_by": ("calls",), "inherited_by": ("inherits", "implements"), "decorates": ("decorates",)}
"""These are read from the other end."""


class Relation(NamedTuple):
    """One relation of a symbol; where `targets` has several, only one of them is meant."""

    kind: str
    targets: tuple[Id, ...]
    name: str
    """What it is called where it is used; for what is not in the project that is all there is."""
    how: str
    origin: str
    """`native` or `external` for what is not in the project; empty also for what was not found."""
    path: str
    line: int
    """Where the relation stands."""
    times: int = 1
    unsure: bool = False
    """The other side could also mean something else."""


def relations_of(linker: Linker, of: Id, wanted: Iterable[str]) -> list[Relation]:
    """The relations of a symbol, kind by kind, each target once."""
    found: list[Relation] = []
    for kind in wanted:
        reader = READERS.get(kind, _used)
        found += _once(reader(linker, of, kind))
    return found


def _once(relations: Iterable[Relation]) -> list[Relation]:
    """Each target once, with how often it occurs."""
    known: dict[object, Relation] = {}
    for one in relations:
        key = (one.kind, one.targets or one.name)
        before = known.get(key)
        known[key] = before._replace(times=before.times + 1) if before else one
    return list(known.values())


def _contained(linker: Linker, of: Id, kind: str) -> Iterator[Relation]:
    project = linker.project
    symbol = project.symbol(of)
    elsewhere = [
        one for one in sorted(project.owned.get(symbol.name, ())) if of in linker.holders(one)
    ] if of.number else []  # fmt: skip
    for one in [*project.all_children(of), *elsewhere]:
        part = project.symbol(one)
        yield Relation(kind, (one,), part.name, "scope", "", one.path, part.line)


def _used(linker: Linker, of: Id, kind: str) -> Iterator[Relation]:
    for number, reference in linker.project.references(of):
        if reference.kind == kind:
            yield _forward(kind, linker.reference(Use(of.path, number)), of.path)


def _brought(linker: Linker, of: Id, kind: str) -> Iterator[Relation]:
    for number, _ in linker.project.imports(of):
        yield _forward(kind, linker.imported(Use(of.path, number)), of.path)


def _forward(kind: str, found: Resolution, path: str) -> Relation:
    return Relation(kind, found.targets, found.name, found.how, found.origin, path, found.line)


def _users(linker: Linker, of: Id, kind: str) -> Iterator[Relation]:
    """Everyone whose reference means this symbol, or could mean it."""
    for use in linker.users(of):
        reference = linker.project.files[use.path].references[use.number]
        if reference.kind in REVERSED[kind]:
            yield _backward(kind, linker.reference(use), Id(use.path, reference.source))


def _importers(linker: Linker, of: Id, kind: str) -> Iterator[Relation]:
    """The modules that import a symbol; a module is imported also by who imports something from it."""
    for use in linker.importers(of):
        if use.path != of.path:
            yield _backward(kind, linker.imported(use), Id(use.path, MODULE))


def _backward(kind: str, found: Resolution, source: Id) -> Relation:
    return Relation(kind, (source,), found.name, found.how, "", source.path, found.line, unsure=found.ambiguous)


READERS: dict[str, Callable[[Linker, Id, str], Iterator[Relation]]] = {
    "contains": _contained,
    "imports": _brought,
    "imported_by": _importers,
    "called_by": _users,
    "inherited_by": _users,
    "decorates": _users,
}
