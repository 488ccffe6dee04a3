"""What an agent would get for a task: the text, what is in it and why, and what was left out."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from memd.web import markdown
from memd.web.visit import Visit

MAX_QUERY = 10_000
PHASES = {"pinned": "pinned", "search": "found", "edge": "linked", "contradiction": "contradicts another"}


async def show(visit: Visit) -> Response:
    task = visit.get("task").strip()[:MAX_QUERY]
    budget = visit.number("budget", 2_000, 50, 200_000)
    answer: dict[str, Any] | None = None
    if task:
        params = {"query": task, "budget": budget, "observe": False, **visit.scope}
        async with visit.client() as memory:
            answer = await memory.call("context", params)
        answer["body"] = await asyncio.to_thread(markdown.render, answer["text"])
    return await visit.page("context.html", "context", task=task, budget=budget, answer=answer, phases=PHASES)
