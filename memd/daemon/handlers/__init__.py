"""One handler a method: do it, answer. Importing this package registers them all."""

from memd.daemon.handlers import (  # noqa: F401 (each registers its handlers)
    context,
    edges,
    events,
    exam,
    history,
    lifecycle,
    maintenance,
    mcp,
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
from memd.daemon.handlers.registry import HANDLERS, dispatch

__all__ = ["HANDLERS", "dispatch"]
