"""Tending: proposals and findings that wait for a person, how the daemon is, and the buttons."""

from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from memd.errors import MemdError, NoDaemon
from memd.protocol.async_client import AsyncClient
from memd.web.visit import Visit

# --- each button is one method of the daemon, with the values of its form -----------------------------------------


def _words(text: str) -> list[str]:
    return [word.lstrip("#") for word in text.replace(",", " ").split() if word.strip("#")]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HTTPException(400)
    return int(text)


OFFERED = {
    "curate": ("key", "verb"), "useful": ("key",), "rm": ("key",), "put": ("key", "tags"), "undo": ("action",),
    "restore": ("key", "version"), "note": ("text",), "edge_add": ("from_", "rel", "to"),
    "edge_rm": ("from_", "rel", "to"), "conflict_settle": ("path", "take"), "job_run": ("name",), "reflect": (),
    "rule_set": ("name", "rule"), "sync": ("accept_missing",), "proposal_accept": ("proposal",),
    "proposal_reject": ("proposal",),
}  # fmt: skip
"""The methods that have a button, and what its form says. No other method can be called from the page."""
READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("action", "version", "proposal"), _number), "tags": _words,
    "accept_missing": lambda text: text == "yes",
}  # fmt: skip
"""Fields of a form that are more than a text."""
WITHOUT_NS = frozenset({"job_run", "rule_set", "undo"})
"""About the daemon, or known by a number of their own."""


async def do(visit: Visit) -> Response:
    name = visit.request.path_params["action"]
    if name not in OFFERED:
        raise HTTPException(404)
    given = {field: READ.get(field, str)(visit.get(field)) for field in OFFERED[name] if field in visit.form}
    scope = {} if name in WITHOUT_NS else visit.scope
    async with visit.client() as memory:
        done = await getattr(memory, name)(**given, **scope)
    said = given.get("verb") or ("tags" if name == "put" else name)
    return visit.back(str(said), done.get("action"))


# --- what waits for a person: each thing with the one or two actions that settle it -------------------------------

PAIRS = 20
ALIKE = 0.9
"""From this weight on two memories may say the same."""


async def review(visit: Visit) -> Response:
    async with visit.client() as memory:
        pairs = (await memory.edge_candidates(limit=PAIRS, **visit.scope))["candidates"]
        status = await memory.status()
        trash = await memory.trash(limit=20, **visit.scope)
        proposals = (await memory.proposal_list(**visit.scope))["proposals"]
        conflicts = (await memory.conflict_list(**visit.scope))["notes"]
        expired = (await memory.gc(dry_run=True, **visit.scope))["expired"]
        # It looks at everything, so it is asked for.
        report = (await memory.reflect(dry_run=True, **visit.scope))["workspaces"] if visit.get("look") else None
        secrets = await _secrets(memory) if visit.get("secrets") and not visit.clients.bind else None
    workspaces = [one for one in status["workspaces"] if visit.ns in ("", one["ns"])]
    return await visit.page(
        "review.html", "review", pairs=[pair for pair in pairs if pair["weight"] >= ALIKE],
        trash=trash, proposals=proposals, conflicts=conflicts, expired=expired, report=report,
        secrets=secrets, held=[one for one in workspaces if one["held"] or one["missing"]],
        skipped=[{"ns": one["ns"], **left} for one in workspaces for left in one["skipped"]],
    )  # fmt: skip


async def _secrets(memory: AsyncClient) -> dict[str, Any]:
    try:
        return {"found": (await memory.doctor(secrets=True)).get("secrets", []), "error": ""}
    except MemdError as error:
        return {"found": [], "error": error.message}


# --- how the daemon is: fresh, pending, degraded, jobs, and what the nightly exam found ---------------------------


def exam_trend(exams: list[dict[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The nightly exam of each workspace, oldest first: how much was found, and how quickly."""
    trends: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in reversed(exams):
        trend = trends.setdefault(row["ns"], {"recall": [], "latency": []})
        trend["recall"].append({"date": row["date"], "value": row["recall"], "text": f"{row['recall']:.0%}"})
        trend["latency"].append({"date": row["date"], "value": row["p95_ms"], "text": f"{row['p95_ms']:.0f} ms"})
    return {ns: trend for ns, trend in trends.items() if len(trend["recall"]) > 1}


async def health(visit: Visit) -> Response:
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
