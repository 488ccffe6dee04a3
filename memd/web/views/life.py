"""How memories age: the tiers, what the rules did and will do, and the rules with their effect."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from memd.protocol.async_client import AsyncClient
from memd.web.visit import Visit

TIERS = {
    "pinned": "Pinned", "ltm": "Long-term", "stm": "Short-term", "sensory": "Raw captures", "dormant": "Laid aside",
}  # fmt: skip
DAYS = 60


async def show(visit: Visit) -> Response:
    tried = visit.get("rule")
    async with visit.client() as memory:
        stats = await memory.stats(**visit.scope)
        done = await memory.log(who="job", limit=20, **visit.scope)
        days = await memory.timeline(limit=DAYS, **visit.scope)
        # Both are about the daemon: a page that is bound to a workspace does without.
        rules = [] if visit.clients.bind else (await memory.rule_list())["rules"]
        next_moves = await _preview(memory, visit, tried) if tried or visit.get("next") else None
    return await visit.page(
        "life.html", "life", stats=stats, tiers=_tiers(stats["memories"]), entries=done["entries"], rules=rules,
        tried=tried, preview=next_moves, moves=[(day["date"], day["moves"]) for day in days["days"] if day["moves"]],
    )  # fmt: skip


async def _preview(memory: AsyncClient, visit: Visit, rule: str) -> dict[str, Any]:
    """What the rules, or one of them, would do now."""
    return await memory.call("rule.test", {**({"rule": rule} if rule else {}), "limit": 100, **visit.scope})


def _tiers(memories: dict[str, Any]) -> list[dict[str, Any]]:
    counts = {**memories["tier"], "pinned": memories["pinned"]}
    total = max(memories["total"], 1)
    return [
        {"tier": tier, "name": name, "count": counts.get(tier, 0), "share": counts.get(tier, 0) / total}
        for tier, name in TIERS.items()
    ]  # fmt: skip
