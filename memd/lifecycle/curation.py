"""What a person decides about one memory: its tier, its importance, whether it is pinned. Pure."""

from __future__ import annotations

from memd.lifecycle.lives import DORMANT, awake_tier
from memd.models import Tier

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
