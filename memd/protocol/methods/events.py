"""Being told of changes: `subscribe`, `unsubscribe` and `watch`."""

from typing import Annotated, Literal

from msgspec import Meta

from memd.protocol.methods.base import MAX_QUERY, AcrossWorkspaces, Count, Fresh, OfSort, Request, Scoped, unset

Event = Literal["indexed", "written", "accessed", "moved", "job"]


class SubscribeResult(AcrossWorkspaces):
    """The answer of `subscribe` and of `watch`: a number, and the workspaces; none means all."""

    subscription: int


class SubscribeRequest(OfSort, method="subscribe", args="query", result=SubscribeResult, reads=True, notifies=True):
    """Sends each new or changed memory that matches, as it is saved."""

    query: Annotated[str, Meta(max_length=MAX_QUERY)] = ""
    """The words to wait for; without any, every memory counts."""
    match: Literal["all", "any"] = "all"
    """`all`: every telling word must be there; `any`: one is enough."""
    marks: bool = False
    """As in `query`."""


class WatchRequest(Scoped, method="watch", args="events", result=SubscribeResult, reads=True, notifies=True):
    """Sends what happens as it happens: what is indexed, written, read and moved, by whom, and the jobs."""

    events: Annotated[tuple[Event, ...], unset("all")] = ()
    """Only these kinds of events."""


class UnsubscribeResult(Fresh):
    """The answer of `unsubscribe`."""

    unsubscribed: bool


class UnsubscribeRequest(
    Request, method="unsubscribe", args="subscription", result=UnsubscribeResult, for_bound=True, local=True
):
    """Ends a subscription of this connection."""

    subscription: Count
    """The number that `subscribe` or `watch` answered."""
