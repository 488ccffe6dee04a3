"""Where a chunk that may answer stands: its index, its row, and what its score is made of."""

from __future__ import annotations

from dataclasses import dataclass
from sqlite3 import Row

from memd.indexer.query.evidence import WeighedCandidates
from memd.indexer.store.stores import WorkspaceIndex


@dataclass(slots=True)
class Candidate:
    """A candidate on its way to being a hit."""

    index: WorkspaceIndex
    row: Row
    score: float
    ranks: dict[str, int]
    weighed: WeighedCandidates | None = None
    at: int = 0

    @property
    def parts(self) -> dict[str, float]:
        """What its score is made of."""
        return {name: float(values[self.at]) for name, values in self.weighed.parts.items()} if self.weighed else {}
