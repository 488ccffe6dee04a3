"""The whole memory: the days, the edges between memories, and how memories age."""

import asyncio
from bisect import bisect_right
from datetime import date, timedelta
from itertools import dropwhile
from typing import Any

from starlette.responses import JSONResponse, Response

from memd.models import RELATIONS
from memd.timespans import as_day
from memd.web.rendering import WORDS, address, plain
from memd.web.visit import Visit

# --- the days: as a calendar whose cells say how much was written, and as a stream --------------------------------

WEEKS = 53
STREAM = 14
SHADES = (0, 1, 3, 6, 12)
"""The least notes of each shade."""


async def timeline(visit: Visit) -> Response:
    end = as_day(visit.get("end")) or date.today()
    first = end - timedelta(weeks=WEEKS - 1, days=end.weekday())
    since, until = visit.get("since"), visit.get("until") or visit.get("end")
    async with visit.client() as memory:
        year = await memory.timeline(since=str(first), until=str(end), limit=7 * WEEKS, only_counts=True, **visit.scope)
        stream = await memory.timeline(since=since or None, until=until or None, limit=STREAM, **visit.scope)
    notes = {day["date"]: max(day["notes"], sum(day["written"].values())) for day in year["days"]}
    days = stream["days"]
    more = days and stream["total"] > len(days)
    older = str(date.fromisoformat(days[-1]["date"]) - timedelta(days=1)) if more else ""
    return await visit.page(
        "timeline.html", "timeline", weeks=_weeks(first, end, notes), months=_months(first), days=days, older=older,
        since=since, until=until, earlier=address("/timeline", end=str(first - timedelta(days=1)), ns=visit.get("ns")),
        later=address("/timeline", end=str(end + timedelta(weeks=WEEKS)), ns=visit.get("ns"))
        if end < date.today() else "",
    )  # fmt: skip


def _weeks(first: date, end: date, notes: dict[str, int]) -> list[list[dict[str, Any]]]:
    """A column of days for each week."""
    days = [first + timedelta(days=nth) for nth in range(7 * WEEKS)]
    cells = [
        {"date": str(day), "notes": (many := notes.get(str(day), 0)), "shade": bisect_right(SHADES, many) - 1}
        for day in days if day <= end
    ]  # fmt: skip
    return [cells[monday : monday + 7] for monday in range(0, 7 * WEEKS, 7)]


def _months(first: date) -> list[tuple[int, str]]:
    """Which column each month begins in."""
    begins = ((week, first + timedelta(weeks=week)) for week in range(WEEKS - 1))
    return [(week, day.strftime("%b")) for week, day in begins if day.day <= 7]


# --- edges: as a picture that the browser draws, and as a table of the same ---------------------------------------

TABLE = 100
ENDS = "from", "to"
NEIGHBOURS = 50
EVERY = 1_000
"""The most edges that one answer has; relations are asked for one by one, so that each has its strongest."""


async def graph(visit: Visit) -> Response:
    edges = await _edges(visit)
    offset = visit.number("offset", 0)
    used = sorted({edge["rel"] for edge in edges})
    return await visit.page(
        "graph.html", "graph", edges=edges[offset : offset + TABLE], total=len(edges), offset=offset, page=TABLE,
        relations=used if not visit.get("rel") else list(RELATIONS), rel=visit.get("rel"), least=_least(visit),
        around=visit.get("key"),
        nodes=len({(edge["ns"], end) for edge in edges for end in (edge["from"], edge["to"])}),
    )  # fmt: skip


async def graph_data(visit: Visit) -> Response:
    """The picture: nodes by number, and edges between them."""
    edges = await _edges(visit)
    ends = [(edge["ns"], edge[end], title) for edge in edges for end, title in zip(ENDS, edge["titles"], strict=True)]
    titles = {(ns, key): plain(title) or key for ns, key, title in sorted(ends)}
    number = {name: at for at, name in enumerate(titles)}
    return JSONResponse({
        "nodes": [{"ns": ns, "key": key, "title": title} for (ns, key), title in titles.items()],
        "edges": [
            {"from": number[edge["ns"], edge["from"]], "to": number[edge["ns"], edge["to"]], "rel": edge["rel"],
             "weight": edge["weight"]} for edge in edges
        ],
    })  # fmt: skip


async def _edges(visit: Visit) -> list[dict[str, Any]]:
    rels = [visit.get("rel")] if visit.get("rel") else RELATIONS
    found = await asyncio.gather(*(_of_relation(visit, rel) for rel in rels))
    return sorted((edge for edges in found for edge in edges), key=lambda edge: -edge["weight"])


async def _of_relation(visit: Visit, rel: str) -> list[dict[str, Any]]:
    """The strongest edges of a relation; where the address names a memory, its own and those of its neighbours."""
    params: dict[str, Any] = {"rel": rel, "min_weight": _least(visit), "limit": EVERY, **visit.scope}
    around = visit.get("key")
    async with visit.client() as memory:
        edges = (await memory.edge_list(**params, key=around))["edges"]
        neighbours = {end for edge in edges for end in (edge["from"], edge["to"])} - {around} if around else set()
        for key in sorted(neighbours)[:NEIGHBOURS]:
            edges += (await memory.edge_list(**params, key=key))["edges"]
    return list({(edge["ns"], edge["from"], edge["to"]): edge for edge in edges}.values())


def _least(visit: Visit) -> float:
    try:
        return min(max(float(visit.get("least") or 0), 0.0), 1.0)
    except ValueError:
        return 0.0


# --- how memories age: the tiers, what the rules did and will do, and the rules with their effect -----------------

DAYS = 60
STACKED = ("ltm", "stm", "sensory", "dormant")
WIDE, HIGH = 600, 120
"""The size of the picture of the tiers over time."""


async def life(visit: Visit) -> Response:
    tried = visit.get("rule")
    async with visit.client() as memory:
        stats = await memory.stats(days=DAYS, **visit.scope)
        done = await memory.log(who="job", limit=20, **visit.scope)
        days = await memory.timeline(limit=DAYS, only_counts=True, **visit.scope)
        # Both are about the daemon: a page that is bound to a workspace does without.
        rules = [] if visit.clients.bind else (await memory.rule_list())["rules"]
        asked = tried or visit.get("next")
        next_moves = await memory.rule_test(tried or None, limit=100, **visit.scope) if asked else None
    # From the first day on which there was something.
    known = list(dropwhile(lambda day: not any(day["tiers"].values()), stats["tier_days"]))
    return await visit.page(
        "life.html", "life", stats=stats, tiers=_tiers(stats["memories"]), days=known, areas=_areas(known),
        entries=done["entries"], rules=rules, tried=tried, preview=next_moves,
        moves=[(day["date"], day["moves"]) for day in days["days"] if day["moves"]],
    )  # fmt: skip


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
        areas.append({"tier": tier, "name": WORDS["tiers"][tier], "points": " ".join(points)})
        bases = tops
    return areas


def _tiers(memories: dict[str, Any]) -> list[dict[str, Any]]:
    counts = {**memories["tier"], "pinned": memories["pinned"]}
    total = max(memories["total"], 1)
    return [
        {"tier": tier, "name": name, "count": counts.get(tier, 0), "share": counts.get(tier, 0) / total}
        for tier, name in WORDS["tiers"].items()
    ]  # fmt: skip
