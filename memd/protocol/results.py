"""What the methods answer that find and read, as types; for type checkers and readers, never loaded by `memd query`.

Every answer is a dict, as the wire has it. A later daemon may send keys that do not stand here.
"""

from typing import Any, NotRequired, TypedDict


class Fresh(TypedDict):
    """What every answer says: how new it is and what is missing from it."""

    clock: str
    """`c:<ledger>:<number>`; the number grows with each change of the index."""
    lag_ms: float
    """How long the oldest change that is not yet searchable has waited."""
    pending: int
    """Files and vectors that are still to be made."""
    degraded: list[str]
    """Empty when all is well."""


# --- finding ------------------------------------------------------------------------------------------------


class Hit(TypedDict):
    """A piece of a memory that answers."""

    id: int
    ns: str
    root: str
    key: str
    path: str
    start_line: int
    end_line: int
    heading: str
    text: str
    score: float
    kind: str
    tier: str
    role: str
    tags: list[str]
    date: str | None
    ranks: NotRequired[dict[str, int]]
    also: NotRequired[list[dict[str, Any]]]
    explain: NotRequired[dict[str, dict[str, float]]]
    marks: NotRequired[list[list[int]]]
    version: NotRequired[int]


class Found(Fresh):
    """The answer of `query`."""

    hits: list[Hit]
    verdict: str
    """found, weak or none."""
    confidence: float
    checked: bool
    """The files themselves were looked at."""
    corrected: dict[str, list[str]]
    ns: list[str]
    mode: str
    total: int
    took_ms: float


class Absence(Fresh):
    """The answer of `why_not`."""

    ns: str
    indexed: bool
    path: str
    shown: bool
    reasons: list[str]
    start_line: NotRequired[int]
    end_line: NotRequired[int]
    text: NotRequired[str]
    rank: NotRequired[int | None]
    ranks: NotRequired[dict[str, int | None]]
    score: NotRequired[float | None]
    parts: NotRequired[dict[str, float]]
    best: NotRequired[dict[str, Any] | None]


class Got(Fresh):
    """The answer of `get`: a memory, or lines of a file, which has no more than a text."""

    ns: str
    root: str
    path: str
    start_line: int
    end_line: int
    text: str
    key: NotRequired[str]
    heading: NotRequired[str]
    kind: NotRequired[str]
    tier: NotRequired[str]
    role: NotRequired[str]
    tags: NotRequired[list[str]]
    date: NotRequired[str | None]
    declared: NotRequired[dict[str, Any]]
    expires: NotRequired[str | None]
    life: NotRequired[dict[str, Any]]
    version: NotRequired[int | None]
    supersedes: NotRequired[int | None]
    estimated_tokens: NotRequired[int]


class Blocks(Fresh):
    """The answer of `grep`."""

    blocks: list[dict[str, Any]]
    next: str
    skipped: list[dict[str, Any]]
    ns: list[str]
    took_ms: float


class Row(TypedDict):
    """A memory in a list."""

    ns: str
    root: str
    key: str
    path: str
    start_line: int
    end_line: int
    role: str
    title: str
    kind: str
    tier: str
    tags: list[str]
    date: str | None
    time: str | None


class Entry(Row):
    """A whole entry with its text."""

    score: float
    text: str


class Entries(Fresh):
    """The answer of `bus`."""

    entries: list[Entry]
    total: int
    checked: bool
    ns: list[str]
    took_ms: float


class Listed(Fresh):
    """The answer of `memories`."""

    memories: list[Row]
    total: int
    roles: dict[str, int]
    ns: list[str]


class Tags(Fresh):
    """The answer of `tags`."""

    ns: list[str]
    tags: list[dict[str, Any]]


class RoleFile(Fresh):
    """The answer of `read`."""

    ns: str
    root: str
    role: str
    path: str
    text: str


class Recent(Fresh):
    """The answer of `recent`."""

    ns: str
    root: str
    role: str
    entries: list[dict[str, Any]]
    left_out: int
    tokens: int
    text: str


class Subscribed(Fresh):
    """The answer of `subscribe` and of `watch`: a number, and the workspaces; none means all."""

    subscription: int
    ns: list[str]


class Unsubscribed(Fresh):
    """The answer of `unsubscribe`."""

    unsubscribed: bool


# --- the source code ----------------------------------------------------------------------------------------


class Skipped(TypedDict):
    """A source that was not read, or not wholly."""

    path: str
    why: str


class Outlined(Fresh):
    """The answer of `outline`."""

    ns: str
    root: str
    skipped: list[Skipped]
    took_ms: float
    language: NotRequired[str]
    format: NotRequired[str]
    text: NotRequired[str]
    """A tree, or the map; not where the format is json."""
    symbols: NotRequired[list[dict[str, Any]]]
    """Of a tree in json, as docs/outline.md has it; of the map always."""
    tokens: NotRequired[int]
    left_out: NotRequired[int]
    languages: NotRequired[dict[str, int]]
