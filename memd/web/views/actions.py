"""What a person can do on the page: each button is one method of the daemon, with the values of its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from memd.web.visit import Visit


def _words(text: str) -> list[str]:
    return [word.lstrip("#") for word in text.replace(",", " ").split() if word.strip("#")]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HTTPException(400)
    return int(text)


def _lines(text: str) -> str:
    """What was typed, with the line ends that files have."""
    return text.replace("\r\n", "\n")


def _switch(text: str) -> bool:
    return text == "yes"


Take = Callable[[str], Any]
OFFERED: dict[str, dict[str, Take]] = {
    "curate": {"key": str, "verb": str},
    "useful": {"key": str},
    "rm": {"key": str},
    "put": {"key": str, "tags": _words},
    "undo": {"action": _number},
    "restore": {"key": str, "version": _number},
    "note": {"text": _lines},
    "edge_add": {"from_": str, "rel": str, "to": str},
    "edge_rm": {"from_": str, "rel": str, "to": str},
    "conflict_settle": {"path": str, "take": str},
    "job_run": {"name": str},
    "reflect": {},
    "rule_set": {"name": str, "rule": str},
    "sync": {"accept_missing": _switch},
    "proposal_accept": {"proposal": _number},
    "proposal_reject": {"proposal": _number},
}
"""The methods that have a button, and what its form says. No other method can be called from the page."""
WITHOUT_NS = frozenset({"job_run", "rule_set", "undo"})
"""About the daemon, or known by a number of their own."""


async def do(visit: Visit) -> Response:
    name = visit.request.path_params["action"]
    if name not in OFFERED:
        raise HTTPException(404)
    given = {field: take(visit.get(field)) for field, take in OFFERED[name].items() if field in visit.form}
    scope = {} if name in WITHOUT_NS else visit.scope
    async with visit.client() as memory:
        done = await getattr(memory, name)(**given, **scope)
    said = given.get("verb") or ("tags" if name == "put" else name)
    return visit.back(str(said), done.get("action"))
