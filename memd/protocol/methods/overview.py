"""Overviews without a question: `peek`, `stats`, `tree` and `timeline`."""

from typing import Annotated, Any, TypedDict

from memd.protocol.methods.base import AcrossWorkspaces, InPath, NamedMemory, Offset, Scoped, Timed, between, unset


class PeekResult(AcrossWorkspaces):
    """The answer of `peek`."""

    text: str
    tokens: int


class PeekRequest(Scoped, method="peek", result=PeekResult, reads=True):
    """Returns an index of what the memory holds, as Markdown of at most 200 tokens."""


class StatsResult(AcrossWorkspaces):
    """The answer of `stats`."""

    files: int
    memories: dict[str, Any]
    chunks: int
    vectors: int
    versions: int
    actions: int
    edges: dict[str, Any]
    accesses: dict[str, int]
    most_used: list[dict[str, Any]]
    least_used: list[dict[str, Any]]
    disk: dict[str, int]
    exams: list[dict[str, Any]]
    """The results of the nightly exam, of each workspace, newest first."""
    tier_days: list[dict[str, Any]]
    """With `days`: the number of memories in each tier at the end of each day, oldest first."""


class StatsRequest(Scoped, method="stats", result=StatsResult, reads=True):
    """Counts memories, chunks, versions, edges and accesses, and what they take on the disk."""

    days: Annotated[int, between(0, 400)] = 0
    """Tell the tiers of so many days, up to 400."""


class TreeRow(NamedMemory):
    """A memory in the tree."""

    ns: str
    kind: str
    date: str | None
    importance: float
    pinned: bool


class TreeResult(AcrossWorkspaces):
    """The answer of `tree`."""

    memories: list[TreeRow]
    total: int


class TreeRequest(InPath, method="tree", args="path", result=TreeResult, reads=True):
    """Lists every memory by file, a line each, without its text."""

    limit: Annotated[int, between(1, 5_000)] = 1_000
    """At most this many, up to 5,000."""
    offset: Offset = 0


class TimelineDay(TypedDict):
    """The subjects of a day, and what was done that day."""

    date: str
    notes: int
    headings: list[dict[str, Any]]
    written: dict[str, int]
    moves: dict[str, int]
    actions: list[dict[str, Any]]


class TimelineResult(AcrossWorkspaces):
    """The answer of `timeline`."""

    days: list[TimelineDay]
    total: int


class TimelineRequest(Scoped, Timed, method="timeline", result=TimelineResult, reads=True):
    """Lists the days, newest first: what notes are about and what was done."""

    since: Annotated[str, unset("any")] = ""
    """Only this day and later ones: `2026-02-15`, `2026-02` or `2026`, or words such as `last week`."""
    until: Annotated[str, unset("any")] = ""
    """Only this day and earlier ones."""
    limit: Annotated[int, between(1, 1_000)] = 14
    """At most this many days, up to 1,000."""
    only_counts: bool = False
    """Leave out what the notes are about: `headings` is empty."""
