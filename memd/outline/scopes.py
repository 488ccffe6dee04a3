"""Which stretch of a file lies in which, and what a name means where it is used."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Nest:
    """Stretches that lie within each other or apart; the innermost one around a place is found by halving."""

    def __init__(self, stretches: Iterable[tuple[int, int, int]]) -> None:
        """Each is start, end and a number of the caller's."""
        ordered = sorted(stretches, key=lambda one: (one[0], -one[1]))
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

    def around(self, place: int, outermost: int) -> int:
        """The number of the innermost stretch that holds a place, else `outermost`."""
        index = bisect_right(self._starts, place) - 1
        while index >= 0 and self._ends[index] <= place:
            index = self._around[index]
        return self._numbers[index] if index >= 0 else outermost


class Meaning(NamedTuple):
    """What a name stands for in a scope: a symbol, an import, or a value with or without a known type."""

    via: str
    target: int
    type: str = ""


RANK = {"symbol": 2, "import": 1, "value": 0}


class Scope:
    """Names that are bound together; `open` says whether what lies within sees them, which a class body's are not."""

    def __init__(self, parent: Scope | None, open_: bool = True) -> None:
        self.parent = parent
        self.open = open_
        self.names: dict[str, Meaning] = {}
        self.elsewhere: set[str] = set()
        """Names that this scope uses and does not bind, whatever it assigns."""

    def bind(self, name: str, meaning: Meaning) -> None:
        """A definition says more than an import, and that more than a value; of two values the typed one."""
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
