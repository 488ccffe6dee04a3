"""Every method of the socket, declared once: name, sentence, parameters, result, and what kind of method it is.

Validation, the typed requests of the handlers, both clients, `hello`, the tables of docs/protocol.md, the options of
the command line, the flags of the fast path and the input schemas of MCP tools all follow from these declarations.
"""

from __future__ import annotations

from memd.protocol.methods import (
    context,
    edges,
    events,
    exam,
    history,
    lifecycle,
    maintenance,
    memories,
    notes,
    outline,
    overview,
    search,
    server,
    topics,
    transfer,
    workspaces,
)
from memd.protocol.methods.base import METHODS, Method, Request

GROUPS = (
    server, search, context, overview, exam, transfer, maintenance, workspaces, lifecycle, events, memories, history,
    notes, topics, edges, outline,
)  # fmt: skip
"""The subjects, a module each, in the order of the documentation."""

_ORDER = [group.__name__ for group in GROUPS]
for _name, _method in sorted(METHODS.items(), key=lambda item: _ORDER.index(item[1].request.__module__)):
    METHODS[_name] = METHODS.pop(_name)

__all__ = ["GROUPS", "METHODS", "Method", "Request"]
