"""Search: hits with their reasons, or every memory there is, newest first; and what an agent would get for a task."""

import asyncio
from datetime import date
from typing import Any

from starlette.responses import Response

from memd.models import KINDS, TIERS
from memd.protocol.async_client import AsyncClient
from memd.web import markdown
from memd.web.rendering import WORDS
from memd.web.visit import Visit

MODES = ("hybrid", "text", "vector", "exact")
FILTERS = ("kind", "tier", "role", "since", "until", "path")
PAGE, HITS, MOST_HITS = 30, 10, 200
PREVIEW = 280
"""Characters of each memory in the list."""
MOST_TODAY, SHOWN_TODAY = 200, 6
MAX_QUERY = 10_000


async def search(visit: Visit) -> Response:
    asked = visit.get("q").strip()[:MAX_QUERY]
    filters = _filters(visit)
    first = not (asked or filters or visit.get("offset"))
    async with visit.client() as memory:
        found = await (_hits(memory, visit, asked, filters) if asked else _listed(memory, visit, filters))
        today = await _today(memory, visit) if first and found["total"] else None
    return await visit.page(
        "search.html", "search", q=asked, filters=filters, mode=visit.get("mode", "hybrid"),
        choices={} if visit.live else await visit.clients.choices(visit.ns), kinds=KINDS, tiers=(*TIERS, "pinned"),
        found=found, pages=_paging(visit, found, asked), today=today,
    )  # fmt: skip


def _filters(visit: Visit) -> dict[str, Any]:
    """The filters that are set, as the daemon's methods take them."""
    given: dict[str, Any] = {name: visit.get(name).strip() for name in FILTERS}
    given["tags"] = [tag for tag in visit.get("tags").replace(",", " ").split() if tag]
    return {name: value for name, value in given.items() if value}


async def _hits(memory: AsyncClient, visit: Visit, asked: str, filters: dict[str, Any]) -> dict[str, Any]:
    mode = visit.get("mode", "hybrid")
    answer: dict[str, Any] = await memory.call("query", {
        "query": asked, "mode": mode if mode in MODES else "hybrid", "limit": visit.number("limit", HITS, 1, MOST_HITS),
        "explain": True, "marks": True, "observe": False, **filters, **visit.scope,
    })  # fmt: skip
    checked = "The files themselves were looked through." if answer["checked"] else answer.get("unchecked", "")
    verdict = f"{WORDS['verdicts'].get(answer['verdict'], '')} {checked}".strip()
    most = max((part["adds"] for hit in answer["hits"] for part in hit.get("explain", {}).values()), default=1.0)
    return {**answer, "verdict_words": verdict, "most": most or 1.0, "rows": answer["hits"]}


async def _listed(memory: AsyncClient, visit: Visit, filters: dict[str, Any]) -> dict[str, Any]:
    offset = visit.number("offset", 0)
    params = {"limit": PAGE, "offset": offset, "preview": PREVIEW, **filters, **visit.scope}
    answer = await memory.call("list", params)
    return {**answer, "rows": answer["memories"]}


async def _today(memory: AsyncClient, visit: Visit) -> dict[str, Any]:
    """The memories that were changed today, each once, and what waits for a decision."""
    done = await memory.log(since=str(date.today()), limit=MOST_TODAY, **visit.scope)
    # The key of an undo is the number of what it took back, which is told there.
    about = [entry for entry in done["entries"] if entry["key"] and entry["what"] != "undo"]
    by_key = {(entry["ns"], entry["key"]): entry for entry in reversed(about)}
    newest = list(reversed(by_key.values()))
    workspaces = await visit.clients.workspaces()
    conflicts = sum(one["conflicts"] for ns, one in workspaces.items() if visit.ns in ("", ns))
    return {"entries": newest[:SHOWN_TODAY], "more": len(newest[SHOWN_TODAY:]), "conflicts": conflicts}


def _paging(visit: Visit, found: dict[str, Any], asked: str) -> dict[str, str]:
    """Where the next rows and those before are."""
    if asked:
        limit = visit.number("limit", HITS, 1, MOST_HITS)
        more = len(found["rows"]) >= limit < MOST_HITS and found["total"] > limit
        return {"more": visit.here(limit=MOST_HITS) if more else "", "newer": ""}
    offset = visit.number("offset", 0)
    after = visit.here(offset=offset + PAGE) if offset + PAGE < found["total"] else ""
    before = visit.here(offset=max(0, offset - PAGE) or None) if offset else ""
    return {"more": after, "newer": before}


async def why_not(visit: Visit) -> Response:
    """Why a passage did not come up for a question."""
    passage, _, line = visit.get("passage").strip().rpartition(":")
    if not line.isdigit():
        passage, line = visit.get("passage").strip(), "1"
    answer: dict[str, Any] | None = None
    if passage and visit.get("q").strip():
        params = {"file": passage, "line": int(line), "query": visit.get("q").strip()[:MAX_QUERY], **_filters(visit)}
        async with visit.client() as memory:
            answer = await memory.call("why_not", {**params, **visit.scope})
    return await visit.page("why_not.html", "search", q=visit.get("q"), answer=answer, passage=visit.get("passage"))


# --- what an agent would get for a task: the text, what is in it and why, and what was left out -------------------


async def context(visit: Visit) -> Response:
    task = visit.get("task").strip()[:MAX_QUERY]
    budget = visit.number("budget", 2_000, 50, 200_000)
    answer: dict[str, Any] | None = None
    if task:
        params = {"query": task, "budget": budget, "observe": False, **visit.scope}
        async with visit.client() as memory:
            answer = await memory.call("context", params)
        answer["body"] = await asyncio.to_thread(markdown.render, answer["text"])
    return await visit.page("context.html", "context", task=task, budget=budget, answer=answer)
