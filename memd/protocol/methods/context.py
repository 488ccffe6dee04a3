"""Context for a task: `context`, and the summaries that stand for others: `consolidate`, `expand`."""

from typing import Annotated, Any, NotRequired

from memd.protocol.methods import base

TokenLimit = Annotated[int, base.between(-1, base.MAX_TOKENS)]


class ContextResult(base.AcrossWorkspaces):
    """The answer of `context`."""

    text: str
    """For a prompt, in Markdown."""
    memories: list[dict[str, Any]]
    tokens: int
    budget: int
    verdict: str
    tokens_estimated: bool
    compaction_suggested: bool
    explain: dict[str, Any]


class ContextRequest(
    base.Filtered, base.AllTiers, base.Observed, method="context", args="query", result=ContextResult, reads=True
):
    """Assembles what is known for a task, within a budget of tokens, as Markdown for a prompt."""

    query: base.Question
    """The task, in words; operators as in `query`."""
    budget: Annotated[int, base.between(50, base.MAX_TOKENS)] = 2_000
    """Tokens, from 50 to 200,000."""
    min_score: base.Share = 0.0
    """Leave out what is worth less, from 0 to 1; not what is pinned."""
    min_spread: base.Share = 0.0
    """Leave out everything but pinned memories when the best and the worst differ by less."""
    memory_tokens: Annotated[TokenLimit | None, base.unset("`context.memory_tokens` (400)")] = None
    """At most this many tokens of one memory; -1 for no limit."""
    no_edges: bool = False
    """Follow no edges from what was found; `context.edges = false` does the same for every call."""
    sync: base.Sync = "auto"


class ConsolidateResult(base.Written):
    """The answer of `consolidate`."""

    sources: list[str]
    version: int | None


class ConsolidateRequest(
    base.Timed, base.Writing, method="consolidate", args="key text sources", result=ConsolidateResult
):
    """Writes a memory that sums up others and contains them."""

    key: base.Key
    """The key of the summary, as in `put`."""
    text: str = ""
    """The summary."""
    sources: base.Texts = ()
    """The keys of what it sums up."""


class ExpandResult(base.Fresh):
    """The answer of `expand`: the summaries there are, or what one contains."""

    ns: str | list[str]
    summaries: NotRequired[list[dict[str, Any]]]
    key: NotRequired[str]
    children: NotRequired[list[dict[str, Any]]]


class ExpandRequest(base.Scoped, method="expand", args="key", result=ExpandResult, reads=True):
    """Lists the memories that sum up others, or returns what one of them contains."""

    key: Annotated[str, base.unset("none")] = ""
    """The summary."""
