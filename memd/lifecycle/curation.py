"""What a person's word does to one memory: where it goes, how important it becomes. Pure."""

from __future__ import annotations

STEP = 0.1
"""How much a boost adds to the declared importance, and a diminishing takes away."""

UP = {"sensory": "stm", "stm": "ltm", "ltm": "ltm"}
DOWN = {"ltm": "stm", "stm": "dormant", "sensory": "dormant", "dormant": "dormant"}
ASIDE = "dormant"
MOVES = ("promote", "demote", "archive", "delete")
DECLARES = ("boost", "diminish", "pin", "unpin")
VERBS = (*MOVES, *DECLARES)


def tier_after(verb: str, tier: str, home: str) -> str:
    """The tier that a memory goes to; one that rests comes back to where it was before."""
    if verb == "promote":
        awake = home if home in ("stm", "ltm") else "stm"
        return UP.get(tier, awake)
    return DOWN[tier] if verb == "demote" else ASIDE


def fact_of(verb: str) -> str:
    """Which declared fact a verb changes."""
    return "pinned" if verb in ("pin", "unpin") else "importance"


def fact_after(verb: str, before: bool | float) -> bool | float:
    """A fact as the verb leaves it."""
    if verb in ("pin", "unpin"):
        return verb == "pin"
    step = STEP if verb == "boost" else -STEP
    return round(min(1.0, max(0.0, before + step)), 2)
