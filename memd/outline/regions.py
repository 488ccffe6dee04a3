"""The regions of a file, each in the one around it: definitions, blocks that belong to a type, nodes with own names."""

from __future__ import annotations

from dataclasses import dataclass, field

from memd.outline.facts import MODULE
from memd.outline.grammar import Definition, Findings
from memd.outline.scopes import Nest, Scope

CLASSES = frozenset({"class", "interface", "type"})
CALLABLE = frozenset({"function", "method"})


@dataclass(slots=True, eq=False)
class Region:
    """A definition or a node with names of its own; `symbol` is its number, or that of what is around it."""

    kind: str
    scope: Scope
    parent: Region | None = None
    definition: Definition | None = None
    symbol: int = MODULE
    parts: dict[str, str] = field(default_factory=dict)
    """Of a class: the types of the object's parts, as far as they are told."""

    def part_type(self, name: str) -> str:
        """The type of a part, as it was set or as the class declares it."""
        declared = self.scope.names.get(name)
        return self.parts.get(name) or (declared.type if declared else "")

    @property
    def belongs_to(self) -> str:
        """The type that a block or a method says it belongs to."""
        return self.definition.owner if self.definition is not None else ""

    @property
    def owner(self) -> str:
        """The type that a block around belongs to, up to the next definition."""
        at = self
        while at.kind == "scope" and at.parent is not None:
            at = at.parent
        return at.belongs_to if at.kind == "impl" else ""


class Regions:
    """All regions of a file, from the outside in; a place is in a node (signature included) or in a body."""

    def __init__(self, found: Findings, open_classes: bool) -> None:
        spans: list[tuple[int, int, tuple[int, int], Definition | None]]
        spans = [(one.node.start, one.node.end, _body(one), one) for one in _once(found.definitions)]
        spans += [(one.start, one.end, (one.start, one.end), None) for one in found.scopes]
        spans.sort(key=lambda one: (one[0], -one[1]))
        self._nodes = Nest((start, end, nth) for nth, (start, end, _, _) in enumerate(spans))
        self._bodies = Nest((*body, nth) for nth, (_, _, body, _) in enumerate(spans) if body[0] < body[1])
        self.starts = [start for start, _, _, _ in spans]
        self.file = Region("module", Scope(None))
        self.all: list[Region] = []
        around: list[int] = []
        for nth, (start, end, body, definition) in enumerate(spans):
            while around and spans[around[-1]][1] <= start:
                around.pop()
            # What stands in a head, such as a lambda among the defaults, is not within the body.
            holding = (one for one in reversed(around) if spans[one][2][0] <= start and end <= spans[one][2][1])
            holder = next(holding, -1)
            self._add(definition, body, self.all[holder] if holder >= 0 else self.file, open_classes)
            around.append(nth)

    def _add(self, definition: Definition | None, body: tuple[int, int], parent: Region, open_classes: bool) -> None:
        kind = definition.kind if definition else "scope"
        own = body[0] < body[1] and kind != "impl"
        scope = Scope(parent.scope, kind not in CLASSES or open_classes) if own else parent.scope
        self.all.append(Region(kind, scope, parent, definition))

    def in_body(self, place: int) -> Region:
        """The innermost region whose body holds a place."""
        nth = self._bodies.around(place, -1)
        return self.all[nth] if nth >= 0 else self.file

    def in_node(self, place: int) -> Region:
        """The innermost region that holds a place, with its head and all."""
        nth = self._nodes.around(place, -1)
        return self.all[nth] if nth >= 0 else self.file


def _body(one: Definition) -> tuple[int, int]:
    return (one.body.start, one.body.end) if one.body else (one.node.end, one.node.end)


def _once(definitions: list[Definition]) -> list[Definition]:
    """Where two patterns fit one name, the first in the query counts."""
    found: dict[tuple[int, str], Definition] = {}
    for one in definitions:
        known = found.get((one.node.start, one.name))
        if known is None or (known.body is None and one.body is not None):
            found[one.node.start, one.name] = one
    return list(found.values())
