"""The days: as a calendar whose cells say how much was written, and as a stream."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from starlette.responses import Response

from memd.web.rendering import address
from memd.web.visit import Visit

WEEKS = 53
STREAM = 14
SHADES = (0, 1, 3, 6, 12)
"""The least notes of each shade."""


async def show(visit: Visit) -> Response:
    end = _day(visit.get("end")) or date.today()
    first = _monday(end) - timedelta(weeks=WEEKS - 1)
    since, until = visit.get("since"), visit.get("until") or visit.get("end")
    span = {name: value for name, value in (("since", since), ("until", until)) if value}
    async with visit.client() as memory:
        year = await memory.timeline(since=str(first), until=str(end), limit=7 * WEEKS, only_counts=True, **visit.scope)
        stream = await memory.call("timeline", {"limit": STREAM, **span, **visit.scope})
    notes = {day["date"]: max(day["notes"], sum(day["written"].values())) for day in year["days"]}
    days = stream["days"]
    older = str(_before(days[-1]["date"])) if days and stream["total"] > len(days) else ""
    return await visit.page(
        "timeline.html", "timeline", weeks=_weeks(first, end, notes), months=_months(first), days=days, older=older,
        since=since, until=until, end=end, total=stream["total"], step=14,
        earlier=address("/timeline", end=str(first - timedelta(days=1)), ns=visit.get("ns")),
        later=address("/timeline", end=str(end + timedelta(weeks=WEEKS)), ns=visit.get("ns"))
        if end < date.today() else "",
    )  # fmt: skip


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _before(day: str) -> date:
    return date.fromisoformat(day) - timedelta(days=1)


def _weeks(first: date, end: date, notes: dict[str, int]) -> list[list[dict[str, Any]]]:
    """A column of days for each week."""
    weeks = []
    for week in range(WEEKS):
        days = [first + timedelta(weeks=week, days=weekday) for weekday in range(7)]
        weeks.append([
            {"date": str(day), "notes": (many := notes.get(str(day), 0)), "shade": _shade(many)}
            for day in days if day <= end
        ])  # fmt: skip
    return weeks


def _shade(notes: int) -> int:
    return max(shade for shade, least in enumerate(SHADES) if notes >= least)


def _months(first: date) -> list[tuple[int, str]]:
    """Which column each month begins in."""
    begins = ((week, first + timedelta(weeks=week)) for week in range(WEEKS - 1))
    return [(week, day.strftime("%b")) for week, day in begins if day.day <= 7]
