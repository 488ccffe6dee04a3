"""Where a chunk that may answer stands: its shelf, its row, and what its score is made of."""

from __future__ import annotations

from dataclasses import dataclass
from sqlite3 import Row

from memd.indexer.asking.evidence import Weighed
from memd.indexer.store.stores import Shelf


@dataclass(slots=True)
class Place:
    """A candidate on its way to being a hit."""

    shelf: Shelf
    row: Row
    score: float
    ranks: dict[str, int]
    weighed: Weighed | None = None
    at: int = 0

    @property
    def parts(self) -> dict[str, float]:
        """What its score is made of."""
        return {name: float(values[self.at]) for name, values in self.weighed.parts.items()} if self.weighed else {}
