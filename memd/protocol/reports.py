"""What the methods answer about the lives of memories and about what there is, as types; not loaded by `memd query`."""

from typing import Any, NotRequired, TypedDict

from memd.protocol.outcomes import Written
from memd.protocol.results import Fresh

Link = TypedDict("Link", {"from": str, "rel": str, "to": str, "weight": float})
"""An edge on the way from one memory to another."""


class Edge(Link):
    """An edge, and where it comes from."""

    origin: str
    accesses: int
    ns: NotRequired[str]


class Place(TypedDict):
    """A memory, as edges name it."""

    key: str
    path: str
    start_line: int
    heading: str
    tier: str


# --- how memories live --------------------------------------------------------------------------------------


class Useful(Fresh):
    """The answer of `useful`."""

    ns: str
    key: str
    action: int
    useful: int


class Reflected(Fresh):
    """The answer of `reflect`: a report of each workspace."""

    ns: list[str]
    dry_run: bool
    workspaces: list[dict[str, Any]]


class Rule(TypedDict):
    """A rule by which memories age."""

    name: str
    enabled: bool
    origin: str
    of_pairs: bool
    rule: str
    doc: str


class Rules(Fresh):
    """The answer of `rules`."""

    rules: list[Rule]


class RuleSet(Fresh):
    """The answer of `set_rule`."""

    rule: Rule


class RuleGone(Fresh):
    """The answer of `remove_rule`: what holds under the name now."""

    name: str
    removed: bool
    rule: Rule | None


class RulesTested(Fresh):
    """The answer of `test_rules`."""

    memories: int
    moved: int
    faded: int
    matches: list[dict[str, Any]]
    rules: list[str]
    of_pairs: list[str]
    ns: list[str]


class Context(Fresh):
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


class Consolidated(Written):
    """The answer of `consolidate`."""

    sources: list[str]
    version: int | None


class Expanded(Fresh):
    """The answer of `expand`: the summaries there are, or what one contains."""

    ns: str | list[str]
    summaries: NotRequired[list[dict[str, Any]]]
    key: NotRequired[str]
    children: NotRequired[list[dict[str, Any]]]


class Curated(Written):
    """The answer of `curate`: what was changed, what it was and what it is."""

    what: str
    before: Any
    after: Any
    changed: bool
    verb: str


class Expired(Fresh):
    """The answer of `gc`."""

    ns: list[str]
    expired: list[dict[str, Any]]
    hard: bool
    purged: list[Any]
    dormant: list[dict[str, Any]]
    dormant_total: int


# --- what belongs together ----------------------------------------------------------------------------------


class EdgeAdded(Written):
    """The answer of `add_edge`."""

    edge: Edge


class EdgeRemoved(Written):
    """The answer of `remove_edge`."""

    removed: list[Edge]


class EdgeList(Fresh):
    """The answer of `edges`."""

    ns: list[str]
    edges: list[Edge]


class Near(Place):
    """A memory that edges lead to."""

    weight: float
    way: list[Link]


class Related(Fresh):
    """The answer of `related`."""

    ns: str
    root: str
    key: str
    memories: list[Near]


class Cluster(TypedDict):
    """Memories that belong together."""

    ns: str
    size: int
    summary: str | None
    wants_summary: bool
    memories: list[Place]


class Clusters(Fresh):
    """The answer of `clusters`."""

    ns: list[str]
    min_weight: float
    clusters: list[Cluster]


class Candidates(Fresh):
    """The answer of `edge_candidates`."""

    ns: list[str]
    relations: dict[str, float]
    candidates: list[dict[str, Any]]


# --- what there is ------------------------------------------------------------------------------------------


class JobState(TypedDict):
    """Something that runs by the clock."""

    name: str
    schedule: str
    last: str | None
    took_ms: float
    result: str
    running: bool
    next: str | None


class JobRun(JobState):
    """And whether it went well."""

    ok: bool


class Jobs(Fresh):
    """The answer of `jobs`."""

    jobs: list[JobState]


class JobDone(Fresh):
    """The answer of `run_job`."""

    job: JobRun


class Peek(Fresh):
    """The answer of `peek`."""

    text: str
    tokens: int
    ns: list[str]


class Stats(Fresh):
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
    ns: list[str]


class Leaf(TypedDict):
    """A memory in the tree."""

    ns: str
    key: str
    path: str
    start_line: int
    heading: str
    kind: str
    tier: str
    date: str | None
    importance: float
    pinned: bool


class Tree(Fresh):
    """The answer of `tree`."""

    memories: list[Leaf]
    total: int
    ns: list[str]


class Day(TypedDict):
    """What a day was about, and what was done that day."""

    date: str
    notes: int
    headings: list[dict[str, Any]]
    written: dict[str, int]
    moves: dict[str, int]
    deeds: list[dict[str, Any]]


class Timeline(Fresh):
    """The answer of `timeline`."""

    days: list[Day]
    total: int
    ns: list[str]
