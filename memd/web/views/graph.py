"""Memories and their edges: as a picture that the browser draws, and as a table of the same."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse, Response

from memd.models import RELATIONS
from memd.protocol.async_client import AsyncClient
from memd.web.visit import Visit

TABLE = 100
NEIGHBOURS = 50
EVERY = 1_000
"""The most edges that one answer has; relations are asked for one by one, so that each has its strongest."""


async def show(visit: Visit) -> Response:
    edges = await _edges(visit)
    offset = visit.number("offset", 0)
    used = sorted({edge["rel"] for edge in edges})
    return await visit.page(
        "graph.html", "graph", edges=edges[offset : offset + TABLE], total=len(edges), offset=offset, page=TABLE,
        relations=used if not visit.get("rel") else list(RELATIONS), rel=visit.get("rel"), least=_least(visit),
        around=visit.get("key"),
        nodes=len({(edge["ns"], end) for edge in edges for end in (edge["from"], edge["to"])}),
    )  # fmt: skip


async def data(visit: Visit) -> Response:
    """What is drawn: nodes by number, and edges between them."""
    edges = await _edges(visit)
    names = sorted({(edge["ns"], end) for edge in edges for end in (edge["from"], edge["to"])})
    number = {name: at for at, name in enumerate(names)}
    return JSONResponse({
        "nodes": [{"ns": ns, "key": key} for ns, key in names],
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
        edges = await _asked(memory, {**params, **({"key": around} if around else {})}, visit.ns)
        neighbours = {end for edge in edges for end in (edge["from"], edge["to"])} - {around} if around else set()
        for key in sorted(neighbours)[:NEIGHBOURS]:
            edges += await _asked(memory, {**params, "key": key}, visit.ns)
    return list({(edge["ns"], edge["from"], edge["to"]): edge for edge in edges}.values())


async def _asked(memory: AsyncClient, params: dict[str, Any], ns: str) -> list[dict[str, Any]]:
    return [{"ns": ns, **edge} for edge in (await memory.call("edge.list", params))["edges"]]


def _least(visit: Visit) -> float:
    try:
        return min(max(float(visit.get("least") or 0), 0.0), 1.0)
    except ValueError:
        return 0.0
