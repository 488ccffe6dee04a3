"""What waits for a person: each thing with the one or two actions that settle it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from memd.errors import MemdError
from memd.protocol.async_client import AsyncClient
from memd.web.visit import Visit

PAIRS = 20
ALIKE = 0.9
"""From this weight on two memories may say the same."""


async def show(visit: Visit) -> Response:
    async with visit.client() as memory:
        pairs = (await memory.edge_candidates(limit=PAIRS, **visit.scope))["candidates"]
        status = await memory.status()
        trash = await memory.trash(limit=20, **visit.scope)
        proposals = (await memory.proposal_list(**visit.scope))["proposals"]
        conflicts = (await memory.conflict_list(**visit.scope))["notes"]
        expired = (await memory.gc(dry_run=True, **visit.scope))["expired"]
        report = await _report(memory, visit) if visit.get("look") else None
        secrets = await _secrets(memory) if visit.get("secrets") and not visit.clients.bind else None
    workspaces = [one for one in status["workspaces"] if visit.ns in ("", one["ns"])]
    return await visit.page(
        "review.html", "review", pairs=[pair for pair in pairs if pair["weight"] >= ALIKE],
        trash=trash, proposals=proposals, conflicts=conflicts, expired=expired, report=report,
        secrets=secrets, held=[one for one in workspaces if one["held"] or one["missing"]],
        skipped=[{"ns": one["ns"], **left} for one in workspaces for left in one["skipped"]],
    )  # fmt: skip


async def _report(memory: AsyncClient, visit: Visit) -> list[dict[str, Any]]:
    """What a reflection would point out; it looks at everything, so it is asked for."""
    return (await memory.reflect(dry_run=True, **visit.scope))["workspaces"]


async def _secrets(memory: AsyncClient) -> dict[str, Any]:
    try:
        return {"found": (await memory.doctor(secrets=True)).get("secrets", []), "error": ""}
    except MemdError as error:
        return {"found": [], "error": error.message}
