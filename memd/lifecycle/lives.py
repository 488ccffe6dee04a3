"""What was observed of one memory, how its importance fades, and what a person can decide about it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from memd.models import Kind, Tier

BASE = 0.5
"""The importance of a memory that declares none."""

RULE = "rule:"
"""The prefix of `moved_by` if no person decided."""

DORMANT: Tier = "dormant"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Life:
    """A memory as rules see it; every moment is in UTC."""

    memory: int
    tier: Tier
    kind: Kind
    role: str
    first_seen: datetime
    pinned: bool = False
    tags: tuple[str, ...] = ()
    base: float = BASE
    """The importance that the Markdown declares."""
    importance: float = BASE
    """The same after fading."""
    accesses: int = 0
    days: int = 0
    """The number of days on which it was accessed."""
    accessed: datetime | None = None
    useful: int = 0
    moved: datetime | None = None
    """When its tier last changed; None: it never did."""
    moved_by: str = ""
    """`rule:<name>`, or who did it."""
    home: str = ""
    """The tier that it had before the last move."""
    merged: bool = False
    """It is dormant because another memory says the same, and that one still exists."""
    deleted: bool = False
    """It is dormant and in no answer."""
    inherited: int = 0
    """The accesses of what it renews: a fact that was told anew is as much asked for as before."""
    told: int = 0
    """Its accesses in hours in which the same client said what was useful."""

    @property
    def exempt(self) -> bool:
        """Pinned memories and `MEMORY.md` never age."""
        return self.pinned or self.role == "memory"

    @property
    def decided(self) -> bool:
        """Whether a person put it where it is."""
        return self.moved is not None and not self.moved_by.startswith(RULE)

    @property
    def since(self) -> datetime:
        """When its age began: when it was first seen, or when a person last decided its tier."""
        return max(self.first_seen, self.moved) if self.moved is not None and self.decided else self.first_seen

    def age(self, now: datetime) -> timedelta:
        return now - self.since

    def idle(self, now: datetime) -> timedelta:
        """The time since anyone last asked for it."""
        return now - max(self.since, self.accessed or self.since)

    @property
    def returned(self) -> bool:
        """Whether it was asked for after a rule had laid it aside."""
        if self.moved is None or self.accessed is None or self.decided or self.merged:
            return False
        return self.accessed > self.moved

    @property
    def asked_for(self) -> int:
        """How often it, or what it renews, was accessed."""
        return max(self.accesses, self.inherited)

    @property
    def utility(self) -> float:
        """How often it was useful, as a share of the accesses of which someone could have said so.

        Not a number while nobody could: no condition on it holds then.
        """
        return min(1.0, self.useful / self.told) if self.told else math.nan


def awake_tier(home: str) -> Tier:
    """Where a dormant memory returns to: its former tier, unless it was a raw capture."""
    return "ltm" if home == "ltm" else "stm"


# Fading counts whole days past a limit, never how often anyone looked: applying it twice changes nothing.


def days_past(span: timedelta, limit: timedelta) -> int:
    """The whole days by which a span is over a limit."""
    return max(0, (span - limit) // DAY)


def faded(base: float, factor: float, days: int, floor: float) -> float:
    """What remains of a number after so many days; one that starts below the floor stays as it is."""
    return min(base, max(floor, base * factor**days))


# --- what a person decides about one memory: its tier, its importance, whether it is pinned -------------------


STEP = 0.1
"""What `boost` adds to the declared importance, and `diminish` takes away."""

UP: dict[Tier, Tier] = {"sensory": "stm", "stm": "ltm", "ltm": "ltm"}
MOVES = ("promote", "demote", "archive", "delete")


def tier_after(verb: str, tier: Tier, home: str) -> Tier:
    """The tier that a memory goes to; `promote` brings a dormant one back to where it was before."""
    if verb == "promote":
        return UP.get(tier) or awake_tier(home)
    return "stm" if (verb, tier) == ("demote", "ltm") else DORMANT


def fact_of(verb: str) -> str:
    """Which declared fact a verb changes."""
    return "pinned" if verb in ("pin", "unpin") else "importance"


def fact_after(verb: str, before: bool | float) -> bool | float:
    """The fact after the verb."""
    if verb in ("pin", "unpin"):
        return verb == "pin"
    step = STEP if verb == "boost" else -STEP
    return round(min(1.0, max(0.0, before + step)), 2)
