"""What an agent should know for a task: `context`, and the summaries that stand for others: `consolidate`, `expand`."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from msgspec import Meta

from memd.protocol.methods.base import (
    MAX_TOKENS,
    Filtered,
    Fresh,
    Key,
    Observed,
    Question,
    Scoped,
    Share,
    Sync,
    Texts,
    Timed,
    Writing,
    Written,
    method,
    unset,
)


class ContextResult(Fresh):
    """The answer of `context`."""

    ns: list[str]
    text: str
    """Markdown for a prompt."""
    memories: list[dict[str, Any]]
    tokens: int
    budget: int
    verdict: str
    tokens_estimated: bool
    compaction_suggested: bool
    explain: dict[str, Any]


@method("context", ContextResult, "query", reads=True)
class ContextRequest(Filtered, Observed):
    """Assembles what is known for a task, within a budget of tokens, as Markdown for a prompt."""

    query: Question
    """The task, in words; operators as in `query`."""
    budget: Annotated[int, Meta(ge=50, le=MAX_TOKENS)] = 2_000
    """Tokens, from 50 to 200,000."""
    min_score: Share = 0.0
    """Leave out what is worth less, from 0 to 1; not what is pinned."""
    min_spread: Share = 0.0
    """Leave out everything but pinned memories when the best and the worst differ by less."""
    sync: Sync = "auto"


class ConsolidateResult(Written):
    """The answer of `consolidate`."""

    sources: list[str]
    version: int | None


@method("consolidate", ConsolidateResult, "key", "text", "sources")
class ConsolidateRequest(Timed, Writing):
    """Writes a memory that sums up others and contains them."""

    key: Key
    """The key of the summary, as in `put`."""
    text: str = ""
    """The summary."""
    sources: Texts = ()
    """The keys of what it sums up."""


class ExpandResult(Fresh):
    """The answer of `expand`: the summaries there are, or what one contains."""

    ns: str | list[str]
    summaries: NotRequired[list[dict[str, Any]]]
    key: NotRequired[str]
    children: NotRequired[list[dict[str, Any]]]


@method("expand", ExpandResult, "key", reads=True)
class ExpandRequest(Scoped):
    """Lists the memories that sum up others, or returns what one of them contains."""

    key: Annotated[str, unset("none")] = ""
    """The summary."""
