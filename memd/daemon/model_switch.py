"""A change from one embedding model to another, as `status` tells it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(slots=True)
class ModelSwitch:
    """The model before answers questions until the vectors of the other one are complete."""

    before: str
    """The model that answers meanwhile; empty if none can."""
    to: str
    state: str = "loading"
    """loading, waiting (the other model cannot be had yet), building, done, cancelled."""
    done: int = 0
    total: int = 0
    """Vectors that were made, of those that were to be made when it began."""
    note: str = ""
    """What it waits for."""
    began: str = field(default_factory=_now)

    @property
    def under_way(self) -> bool:
        return self.state in ("loading", "waiting", "building")

    def build(self, name: str, missing: int) -> None:
        """The other model is there."""
        self.to, self.state, self.note, self.total = name, "building", "", missing

    def count(self, missing: int) -> None:
        self.total = max(self.total, missing)
        self.done, self.note = self.total - missing, ""

    def end(self, state: str) -> None:
        self.state, self.note = state, ""
        if state == "done":
            self.done = self.total

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
