"""Being told of changes: `subscribe`, `unsubscribe` and `watch`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from memd.models import Kind
from memd.protocol.methods.base import MAX_QUERY, AcrossWorkspaces, Count, Fresh, Request, Scoped, Texts, method, unset

Event = Literal["indexed", "written", "accessed", "moved", "job"]


class SubscribeResult(AcrossWorkspaces):
    """The answer of `subscribe` and of `watch`: a number, and the workspaces; none means all."""

    subscription: int


@method("subscribe", SubscribeResult, "query", reads=True, notifies=True)
class SubscribeRequest(Scoped):
    """Sends each new or changed memory that matches, as it is saved."""

    query: Annotated[str, Meta(max_length=MAX_QUERY)] = ""
    """The words to wait for; without any, every memory counts."""
    match: Literal["all", "any"] = "all"
    """`all`: every telling word must be there; `any`: one is enough."""
    kind: Annotated[Kind | None, unset("any")] = None
    """As in `query`."""
    tags: Annotated[Texts, unset("any")] = ()
    """As in `query`."""
    role: Annotated[str, unset("any")] = ""
    """As in `query`."""
    path: Annotated[str, unset("any")] = ""
    """As in `query`."""
    marks: bool = False
    """As in `query`."""


@method("watch", SubscribeResult, "events", reads=True, notifies=True)
class WatchRequest(Scoped):
    """Sends what happens as it happens: what is indexed, written, read and moved, by whom, and the jobs."""

    events: Annotated[tuple[Event, ...], unset("all")] = ()
    """Only these kinds of events."""


class UnsubscribeResult(Fresh):
    """The answer of `unsubscribe`."""

    unsubscribed: bool


@method("unsubscribe", UnsubscribeResult, "subscription", about_daemon=True, for_bound=True, local=True)
class UnsubscribeRequest(Request):
    """Ends a subscription of this connection."""

    subscription: Count
    """The number that `subscribe` or `watch` answered."""
