"""Being told of changes: `subscribe`, `unsubscribe` and `watch`."""

from __future__ import annotations

from typing import Annotated, Literal

from memd.models import Kind
from memd.protocol.methods.base import MAX_QUERY, Count, Fresh, Request, Scoped, Texts, doc, method

Event = Literal["indexed", "written", "accessed", "moved", "job"]


class SubscribeResult(Fresh):
    """The answer of `subscribe` and of `watch`: a number, and the workspaces; none means all."""

    subscription: int
    ns: list[str]


@method("subscribe", SubscribeResult, "query", reads=True, notifies=True)
class SubscribeRequest(Scoped):
    """Sends each new or changed memory that matches, as it is saved."""

    query: Annotated[str, doc("the words to wait for; without any, every memory counts", max_length=MAX_QUERY)] = ""
    match: Annotated[Literal["all", "any"], doc("`all`: every telling word must be there; `any`: one is enough")] = (
        "all"
    )
    kind: Annotated[Kind | None, doc("as in `query`", unset="any")] = None
    tags: Annotated[Texts, doc("as in `query`", unset="any")] = ()
    role: Annotated[str, doc("as in `query`", unset="any")] = ""
    path: Annotated[str, doc("as in `query`", unset="any")] = ""
    marks: Annotated[bool, doc("as in `query`")] = False


@method("watch", SubscribeResult, "events", reads=True, notifies=True)
class WatchRequest(Scoped):
    """Sends what happens as it happens: what is indexed, written, read and moved, by whom, and the jobs."""

    events: Annotated[tuple[Event, ...], doc("only these kinds of events", unset="all")] = ()


class UnsubscribeResult(Fresh):
    """The answer of `unsubscribe`."""

    unsubscribed: bool


@method("unsubscribe", UnsubscribeResult, "subscription", about_daemon=True, for_bound=True)
class UnsubscribeRequest(Request):
    """Ends a subscription of this connection."""

    subscription: Annotated[Count, doc("the number that `subscribe` or `watch` answered")]
