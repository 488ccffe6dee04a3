"""What was observed of one memory: the life that rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

BASE = 0.5
"""The importance of a memory that declares none."""

RULE = "rule:"
"""How `moved_by` begins when no person decided."""


@dataclass(frozen=True, slots=True)
class Life:
    """A memory as rules see it; every moment is in UTC."""

    memory: int
    tier: str
    kind: str
    role: str
    first_seen: datetime
    pinned: bool = False
    tags: tuple[str, ...] = ()
    base: float = BASE
    """The importance that the Markdown declares."""
    importance: float = BASE
    """The same as fading has left it."""
    accesses: int = 0
    days: int = 0
    """On how many days it was accessed."""
    accessed: datetime | None = None
    useful: int = 0
    moved: datetime | None = None
    """When its tier last changed; None: it is where it began."""
    moved_by: str = ""
    """`rule:<name>`, or who did it."""
    home: str = ""
    """The tier that it had before the last move."""
    merged: bool = False
    """It rests because another memory says the same, and that one is still there."""

    @property
    def exempt(self) -> bool:
        """Pinned memories and `MEMORY.md` never age."""
        return self.pinned or self.role == "memory"

    @property
    def decided(self) -> bool:
        """Whether it is where a person put it."""
        return self.moved is not None and not self.moved_by.startswith(RULE)

    @property
    def since(self) -> datetime:
        """When its age began: when it was first seen, or when a person last decided its tier."""
        return max(self.first_seen, self.moved) if self.moved is not None and self.decided else self.first_seen

    def age(self, now: datetime) -> timedelta:
        return now - self.since

    def idle(self, now: datetime) -> timedelta:
        """How long nobody has asked for it."""
        return now - max(self.since, self.accessed or self.since)

    @property
    def returned(self) -> bool:
        """Whether it was asked for after a rule had laid it aside."""
        by_rule = self.moved is not None and self.moved_by.startswith(RULE) and not self.merged
        return by_rule and self.accessed is not None and self.moved is not None and self.accessed > self.moved

    @property
    def utility(self) -> float:
        """The share of its accesses after which someone said that it was useful."""
        return self.useful / self.accesses if self.accesses else 0.0
