"""Finding and reading: `query`, `why_not`, `get`, `grep`, `bus` and `list`."""

from typing import Annotated, Any, Literal, NotRequired

from memd.errors import UsageError
from memd.protocol.methods import base


class Limited(base.Request):
    """Has at most so many hits."""

    limit: Annotated[Annotated[int, base.between(0, base.MAX_HITS)] | None, base.unset("`search.limit` (8)")] = None
    """At most this many, up to 200; 0 means 200."""


class AtATime(base.Request):
    """Can be asked of the past."""

    as_of: Annotated[str, base.unset("now")] = ""
    """A day, a month, a year, a time, or words such as yesterday: answer from the texts that were current at its end;
    the lines of a former text count from its own first one."""


class MemoryPlace(base.Shown):
    """A memory or a piece of one: where it is and of what sort."""

    ns: str
    root: str
    key: str
    path: str
    start_line: int
    end_line: int
    kind: str
    tier: str
    role: str
    tags: list[str]
    date: str | None


class HitResult(MemoryPlace):
    """A piece of a memory that answers."""

    id: int
    title: str
    """The title of its memory."""
    heading: str
    """All headings above it."""
    text: str
    score: float
    layer: str
    """`own`, or `team`: a note of the team's layer."""
    ranks: NotRequired[dict[str, int]]
    also: NotRequired[list[dict[str, Any]]]
    explain: NotRequired[dict[str, dict[str, float]]]
    marks: NotRequired[list[list[int]]]
    version: NotRequired[int]
    """With `as_of`: which text of its memory it is of."""


class QueryResult(base.AcrossWorkspaces):
    """The answer of `query`."""

    hits: list[HitResult]
    verdict: str
    """found, weak or none."""
    confidence: float
    checked: bool
    """The files themselves were looked at."""
    unchecked: NotRequired[str]
    """Why an empty answer was not checked, or which file was left out of a weak one that lacks words."""
    corrected: dict[str, list[str]]
    missing: list[str]
    """Words of the question that no note has; a code among them makes the answer weak."""
    near: list[HitResult]
    """The closest passages besides the hits, which are no answer."""
    resting: int
    """How many more would be hits if they did not rest."""
    expired: int
    """Where nothing is found: how many passages would be if their memories had not expired or been deleted."""
    mode: str
    total: int
    took_ms: float


class Search(Limited, base.Filtered, base.AllTiers):
    """The parameters that `query` and `why_not` share: a question and how it is answered."""

    query: base.Question
    mode: base.Mode = "hybrid"
    """`hybrid`, by words and meaning; `text`; `vector`; `exact`, letter by letter in the files, ignoring case."""
    explain: bool = False
    """Add `explain` to each hit: what its score is made of."""
    marks: bool = False
    """Add `marks` to each hit: where the question's words stand in `text`, as `[from, to]` characters."""


class QueryRequest(AtATime, Search, base.Observed, method="query", args="query", result=QueryResult, reads=True):
    """Finds the pieces of memory that answer a question, best first."""

    order: Literal["best", "newest"] = "best"
    """`newest`: of the hits that score at least half as much as the best one, the newest first; undated ones last."""
    sync: base.Sync = "auto"


class WhyNotResult(base.Fresh, base.Shown):
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


class WhyNotRequest(Search, method="why_not", args="file line query", result=WhyNotResult, reads=True):
    """Says why a passage did not come up for a question, which is asked as in `query`."""

    file: base.Text
    """The memory file, relative to its workspace or absolute."""
    line: Annotated[int, base.between(1, base.MAX_NUMBER)] = 1
    """A line of the passage."""


class GetResult(base.WithinWorkspace, base.Shown):
    """The answer of `get`: a memory, or lines of a file, which has no more than a text."""

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
    sections_follow: NotRequired[int]
    """Of a preamble: how many sections its file has besides."""
    version: NotRequired[int | None]
    supersedes: NotRequired[int | None]
    estimated_tokens: NotRequired[int]


class GetRequest(AtATime, base.Asking, base.Observed, method="get", args="key", result=GetResult, reads=True):
    """Returns one memory by its key, or lines of a file by its path."""

    key: str = ""
    """`stem#slug`; the stem alone for a preamble or a file that is one memory; the path in place of a stem that
    two files have. A day (`2026-02-15`) is the whole day; `2026-02-15#` its preamble."""
    path: str = ""
    """A memory file, relative to its workspace or absolute."""
    from_: Annotated[int, base.between(1, base.MAX_NUMBER)] = 1
    """With `path`: the first line."""
    lines: Annotated[int, base.between(0, base.MAX_NUMBER)] = 0
    """With `path`: how many lines; 0 means all."""
    version: Annotated[base.Version, base.unset("the last")] = None
    """With `key`: the memory as it was in this version, also one that is gone."""

    def check(self) -> None:
        if bool(self.key) == bool(self.path):
            raise UsageError("`get` needs a `key` or a `path`")
        if ((self.path or self.as_of) and self.version) or (self.path and self.as_of):
            raise UsageError("`version` and `as_of` need a `key`, and exclude each other")


class GrepResult(base.AcrossWorkspaces):
    """The answer of `grep`."""

    blocks: list[dict[str, Any]]
    next: str
    skipped: list[dict[str, Any]]
    took_ms: float


class GrepRequest(base.InPath, base.Asking, method="grep", args="pattern", result=GrepResult, reads=True):
    """Finds a text or a regular expression in the files themselves, newest first, with the lines around it."""

    pattern: base.Words
    """The text or the regular expression."""
    regex: bool = False
    """It is a regular expression, matched line by line, in the syntax of Python's `regex` package."""
    case: bool = False
    """Upper and lower case differ."""
    context: Annotated[int, base.between(0, 1_000)] = 3
    """Lines to return on either side, up to 1,000."""
    max_results: Annotated[int, base.between(0, 1_000)] = 10
    """At most this many blocks, up to 1,000; 0 means 1,000."""
    after: str = ""
    """The `next` of the answer before, to go on where it ended."""


class ListRow(MemoryPlace):
    """A memory in a list."""

    title: str
    time: str | None
    expired: NotRequired[bool]
    """Its time to live has run out: no question finds it."""
    preview: NotRequired[str]
    """The beginning of its text, where it was asked for."""


class EntryRow(ListRow):
    """A whole entry with its text."""

    score: float
    text: str


class BusResult(base.AcrossWorkspaces):
    """The answer of `bus`."""

    entries: list[EntryRow]
    total: int
    checked: bool
    took_ms: float


class BusRequest(Limited, base.Filtered, base.Asking, method="bus", args="query", result=BusResult, reads=True):
    """Ranks whole entries by how often they have the question's words."""

    query: base.Words
    """The words."""
    offset: base.Offset = 0
    sync: base.Sync = "auto"


class ListResult(base.AcrossWorkspaces):
    """The answer of `list`."""

    memories: list[ListRow]
    total: int
    roles: dict[str, int]


class ListRequest(base.Filtered, method="list", result=ListResult, reads=True):
    """Lists the memories and the roles that there are."""

    sort: Literal["newest", "oldest", "key", "role", "title"] = "newest"
    """The order."""
    limit: Annotated[int, base.between(0, base.MAX_ROWS)] = 200
    """At most this many, up to 1,000; 0 means 1,000."""
    offset: base.Offset = 0
    preview: Annotated[int, base.between(0, 1_000)] = 0
    """So many characters of the beginning of each text."""
