"""How memories age: the tiers, what the rules did and will do, and the rules with their effect."""

from __future__ import annotations

from itertools import dropwhile
from typing import Any

from starlette.responses import Response

from memd.protocol.async_client import AsyncClient
from memd.web.visit import Visit

TIERS = {
    "pinned": "Pinned", "ltm": "Long-term", "stm": "Short-term", "sensory": "Raw captures", "dormant": "Laid aside",
}  # fmt: skip
DAYS = 60
STACKED = ("ltm", "stm", "sensory", "dormant")
WIDE, HIGH = 600, 120
"""The size of the picture of the tiers over time."""


async def show(visit: Visit) -> Response:
    tried = visit.get("rule")
    async with visit.client() as memory:
        stats = await memory.stats(days=DAYS, **visit.scope)
        done = await memory.log(who="job", limit=20, **visit.scope)
        days = await memory.timeline(limit=DAYS, only_counts=True, **visit.scope)
        # Both are about the daemon: a page that is bound to a workspace does without.
        rules = [] if visit.clients.bind else (await memory.rule_list())["rules"]
        next_moves = await _preview(memory, visit, tried) if tried or visit.get("next") else None
    known = _since_the_first(stats["tier_days"])
    return await visit.page(
        "life.html", "life", stats=stats, tiers=_tiers(stats["memories"]), days=known, areas=_areas(known),
        entries=done["entries"], rules=rules, tried=tried, preview=next_moves,
        moves=[(day["date"], day["moves"]) for day in days["days"] if day["moves"]],
    )  # fmt: skip


def _since_the_first(days: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The days from the first on which there was something."""
    return list(dropwhile(lambda day: not any(day["tiers"].values()), days))


async def _preview(memory: AsyncClient, visit: Visit, rule: str) -> dict[str, Any]:
    """What the rules, or one of them, would do now."""
    return await memory.call("rule.test", {**({"rule": rule} if rule else {}), "limit": 100, **visit.scope})


def _areas(days: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The tiers over time, one on top of the other, as the points of polygons; none if nothing ever changed."""
    counts = [[day["tiers"][tier] for tier in STACKED] for day in days]
    if not counts or all(one == counts[0] for one in counts):
        return []
    highest, areas, bases = max(map(sum, counts)), [], [0] * len(days)
    for nth, tier in enumerate(STACKED):
        tops = [base + count[nth] for base, count in zip(bases, counts, strict=True)]
        edge = [*enumerate(tops), *reversed(list(enumerate(bases)))]
        points = (f"{WIDE * at / (len(days) - 1):.1f},{HIGH * (1 - value / highest):.1f}" for at, value in edge)
        areas.append({"tier": tier, "name": TIERS[tier], "points": " ".join(points)})
        bases = tops
    return areas


def _tiers(memories: dict[str, Any]) -> list[dict[str, Any]]:
    counts = {**memories["tier"], "pinned": memories["pinned"]}
    total = max(memories["total"], 1)
    return [
        {"tier": tier, "name": name, "count": counts.get(tier, 0), "share": counts.get(tier, 0) / total}
        for tier, name in TIERS.items()
    ]  # fmt: skip
