"""How the daemon is: fresh, pending, degraded and how to mend it, jobs, and what the nightly exam found."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from memd.errors import NoDaemon
from memd.web.visit import Visit


def exam_trend(exams: list[dict[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """What the nightly exam found in each workspace, oldest first: how much was found, and how quickly."""
    trends: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in reversed(exams):
        trend = trends.setdefault(row["ns"], {"recall": [], "latency": []})
        trend["recall"].append({"date": row["date"], "value": row["recall"], "text": f"{row['recall']:.0%}"})
        trend["latency"].append({"date": row["date"], "value": row["p95_ms"], "text": f"{row['p95_ms']:.0f} ms"})
    return {ns: trend for ns, trend in trends.items() if len(trend["recall"]) > 1}


async def show(visit: Visit) -> Response:
    try:
        async with visit.client() as memory:
            status = await memory.status()
            stats = await memory.stats(**visit.scope)
            checked = (await memory.doctor())["findings"] if visit.get("check") and not visit.clients.bind else None
    except NoDaemon as error:
        return await visit.page("health.html", "health", status=None, error=error, stats=None, checked=None)
    return await visit.page(
        "health.html", "health", status=status, stats=stats, error=None, checked=checked,
        trends=exam_trend(stats["exams"]),
    )  # fmt: skip
