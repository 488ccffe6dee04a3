"""The relation tree of symbols, as plain values: each symbol is laid out once, where it is reached first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from memd.outline.linking import Linker
from memd.outline.project import Id
from memd.outline.relations import BACKWARD, FORWARD, RELATIONS, Relation, relations_of

Node = dict[str, Any]
DEPTH = 2
MANY = 200
"""Symbols that are asked for at once and make it worth while to look through all references in one go."""
CYCLE, ABOVE, ELSEWHERE = "cycle", "above", "elsewhere"
"""Why a symbol is not laid out where it stands: it leads back to itself, it was before, or it has its own entry."""


class _Open:
    """A symbol that is to be laid out, with the way that led to it."""

    __slots__ = ("around", "id", "level", "node", "wanted")

    def __init__(self, node: Node, of: Id, wanted: tuple[str, ...], around: _Open | None) -> None:
        self.node = node
        self.id = of
        self.wanted = wanted
        self.around = around
        self.level: int = around.level + 1 if around else 0

    def passed(self, of: Id) -> bool:
        """Whether the way here came through a symbol."""
        at: _Open | None = self
        while at is not None and at.id != of:
            at = at.around
        return at is not None


def grow(
    linker: Linker, roots: Iterable[Id], depth: int, wanted: Iterable[str], omit_native: bool, apart: Iterable[Id] = ()
) -> list[Node]:
    """The trees of some symbols, breadth first. What lies further on keeps its direction: callers of callers, never
    the callees of callers. Symbols in `apart` have entries of their own too, which somebody else grows."""
    kinds = tuple(kind for kind in RELATIONS if kind in set(wanted))
    roots = list(roots)
    if len(roots) > MANY:
        linker.index()
    starts = [_Open(node_of(linker, root), root, kinds, None) for root in roots]
    entries, done = {*apart, *(one.id for one in starts)}, set[Id]()
    waiting = deque(starts)
    while waiting:
        at = waiting.popleft()
        done.add(at.id)
        told = at.node["relations"] = []
        for one in relations_of(linker, at.id, at.wanted):
            if not (omit_native and one.origin == "native"):
                told.append(_relation(linker, at, one, depth, entries, done, waiting))
    return [one.node for one in starts]


def _relation(
    linker: Linker, at: _Open, one: Relation, depth: int, entries: set[Id], done: set[Id], waiting: deque[_Open]
) -> Node:
    told: Node = {"relation": one.kind, "name": one.name, "path": one.path, "line": one.line}
    told |= {"how": one.how} if one.how else {one.origin or "unknown": True}
    told |= {"times": one.times} if one.times > 1 else {}
    told |= {"ambiguous": True} if one.unsure or len(one.targets) > 1 else {}
    if len(one.targets) > 1:
        told["candidates"] = [node_of(linker, target) for target in one.targets]
    elif one.targets:
        (target,) = one.targets
        told["to"] = node = node_of(linker, target)
        mark = CYCLE if at.passed(target) else ELSEWHERE if target in entries else ABOVE if target in done else ""
        if mark:
            # It is told in full where it is laid out.
            del node["end_line"], node["signature"]
            node["cut"] = mark
        elif at.level + 1 < depth:
            done.add(target)
            onward = BACKWARD if one.kind in BACKWARD else FORWARD
            waiting.append(_Open(node, target, tuple(kind for kind in at.wanted if kind in onward), at))
    return told


def node_of(linker: Linker, of: Id) -> Node:
    """A symbol by itself."""
    symbol = linker.project.symbol(of)
    return {
        "name": linker.qualified(of),
        "kind": symbol.kind,
        "path": of.path,
        "line": symbol.line,
        "end_line": symbol.end_line,
        "signature": symbol.signature,
    }
