"""The nested regions of a source file and their scopes: where a position is, and what a name means there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from memd.outline.facts import MODULE
from memd.outline.grammar import Captures, Definition

CLASSES = frozenset({"class", "interface", "type"})
CALLABLE = frozenset({"function", "method"})


class NestedSpans:
    """Finds the innermost of the spans around a position; spans are nested or disjoint."""

    def __init__(self, spans: Iterable[tuple[int, int, int]]) -> None:
        """Each span is start, end and a number of the caller's."""
        ordered = sorted(spans, key=lambda span: (span[0], -span[1]))
        self._starts = [start for start, _, _ in ordered]
        self._ends = [end for _, end, _ in ordered]
        self._numbers = [number for _, _, number in ordered]
        self._around: list[int] = []
        open_: list[int] = []
        for index, start in enumerate(self._starts):
            while open_ and self._ends[open_[-1]] <= start:
                open_.pop()
            self._around.append(open_[-1] if open_ else -1)
            open_.append(index)

    def innermost(self, position: int) -> int:
        """The number of the innermost span around a position; -1 for none."""
        index = bisect_right(self._starts, position) - 1
        while index >= 0 and self._ends[index] <= position:
            index = self._around[index]
        return self._numbers[index] if index >= 0 else -1


class Meaning(NamedTuple):
    """What a name stands for in a scope: a symbol, an import, or a value with or without a known type."""

    via: str
    target: int
    type: str = ""


RANK = {"symbol": 2, "import": 1, "value": 0}


class Scope:
    """Names bound together; `open` if inner scopes see them, which is not so for a class body."""

    def __init__(self, parent: Scope | None, open_: bool = True) -> None:
        self.parent = parent
        self.open = open_
        self.names: dict[str, Meaning] = {}
        self.elsewhere: set[str] = set()
        """Names that this scope assigns but does not bind: global, nonlocal."""

    def bind(self, name: str, meaning: Meaning) -> None:
        """A definition wins over an import, an import over a value, a typed value over an untyped one."""
        known = self.names.get(name)
        if known is None or (RANK[meaning.via], bool(meaning.type)) > (RANK[known.via], bool(known.type)):
            self.names[name] = meaning

    def meaning(self, name: str) -> Meaning | None:
        scope: Scope | None = self
        while scope is not None:
            if (scope.open or scope is self) and name in scope.names and name not in scope.elsewhere:
                return scope.names[name]
            scope = scope.parent
        return None


@dataclass(slots=True, eq=False)
class Region:
    """A definition, or a node with its own names; `symbol` is its number, or that of the symbol around it."""

    kind: str
    scope: Scope
    parent: Region | None = None
    definition: Definition | None = None
    symbol: int = MODULE
    parts: dict[str, str] = field(default_factory=dict)
    """Of a class: the known types of the object's parts."""

    def part_type(self, name: str) -> str:
        """The type of a part, from an assignment or from the class body."""
        declared = self.scope.names.get(name)
        return self.parts.get(name) or (declared.type if declared else "")

    @property
    def own_owner(self) -> str:
        """The type that this block or method itself belongs to."""
        return self.definition.owner if self.definition is not None else ""

    @property
    def owner(self) -> str:
        """The type that the `impl` block directly around belongs to."""
        at = self
        while at.kind == "scope" and at.parent is not None:
            at = at.parent
        return at.own_owner if at.kind == "impl" else ""


class Regions:
    """All regions of a file, outer ones first; a position can be looked up in nodes (with their heads) or in bodies."""

    def __init__(self, captures: Captures, bare_members: bool) -> None:
        spans: list[tuple[int, int, tuple[int, int], Definition | None]]
        spans = [(one.node.start, one.node.end, _body(one), one) for one in _distinct(captures.definitions)]
        spans += [(one.start, one.end, (one.start, one.end), None) for one in captures.scopes]
        spans.sort(key=lambda one: (one[0], -one[1]))
        self._nodes = NestedSpans((start, end, nth) for nth, (start, end, _, _) in enumerate(spans))
        self._bodies = NestedSpans((*body, nth) for nth, (_, _, body, _) in enumerate(spans) if body[0] < body[1])
        self.starts = [start for start, _, _, _ in spans]
        self.file = Region("module", Scope(None))
        self.all: list[Region] = []
        around: list[int] = []
        for nth, (start, end, body, definition) in enumerate(spans):
            while around and spans[around[-1]][1] <= start:
                around.pop()
            # A head is not part of the body: a lambda among the defaults, for example.
            holding = (one for one in reversed(around) if spans[one][2][0] <= start and end <= spans[one][2][1])
            holder = next(holding, -1)
            self._add(definition, body, self.all[holder] if holder >= 0 else self.file, bare_members)
            around.append(nth)

    def _add(self, definition: Definition | None, body: tuple[int, int], parent: Region, bare_members: bool) -> None:
        kind = definition.kind if definition else "scope"
        own = body[0] < body[1] and kind != "impl"
        scope = Scope(parent.scope, kind not in CLASSES or bare_members) if own else parent.scope
        self.all.append(Region(kind, scope, parent, definition))

    def in_body(self, position: int) -> Region:
        """The innermost region whose body contains a position."""
        nth = self._bodies.innermost(position)
        return self.all[nth] if nth >= 0 else self.file

    def in_node(self, position: int) -> Region:
        """The innermost region that contains a position, in its head or its body."""
        nth = self._nodes.innermost(position)
        return self.all[nth] if nth >= 0 else self.file


def _body(one: Definition) -> tuple[int, int]:
    return (one.body.start, one.body.end) if one.body else (one.node.end, one.node.end)


def _distinct(definitions: list[Definition]) -> list[Definition]:
    """If two patterns match one name, the first in the query wins, unless only the other has a body."""
    found: dict[tuple[int, str], Definition] = {}
    for one in definitions:
        known = found.get((one.node.start, one.name))
        if known is None or (known.body is None and one.body is not None):
            found[one.node.start, one.name] = one
    return list(found.values())
