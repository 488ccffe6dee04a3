"""What the methods answer that write, look back or keep memd in order, as types; never loaded by `memd query`."""

from typing import Any, NotRequired, TypedDict

from memd.protocol.results import Fresh


class Written(Fresh):
    """The answer of everything that changes files."""

    ns: str
    root: str
    action: int | None
    """The number by which it can be undone; None when nothing was written."""
    paths: list[str]
    conflicts: list[str]
    """Copies that were put aside because someone else wrote at the same moment."""
    repeated: bool
    """The same request had been carried out before."""
    key: str
    visible: str
    """The clock at which questions see it."""


class Placed(Written):
    """The answer of `note` and `write`: where it stands."""

    path: str


class Saved(Placed):
    """The answer of `save`."""

    target: str
    saved: str


class Put(Written):
    """The answer of `put`."""

    written: bool
    version: int | None
    similar: list[dict[str, Any]]


class Patched(Written):
    """The answer of `patch`."""

    version: int | None


class Removed(Written):
    """The answer of `rm`."""

    hard: bool
    purged: NotRequired[dict[str, Any]]
    kept: NotRequired[list[dict[str, Any]]]


class Retagged(Written):
    """The answer of `rename_tag` and `remove_tag`."""

    dry_run: bool
    diff: str


class Restored(Written):
    """The answer of `restore`."""

    path: str
    version: int | None
    was_gone: bool


class Undone(Written):
    """The answer of `undo`."""

    undid: dict[str, Any]
    back: int
    """Changes of what was observed that were taken back; of text it is 0."""


class Touching(Fresh):
    """The answer of `files`: the files of a memory, or the memories of a file; of a write what `Written` has."""

    ns: str | list[str]
    files: NotRequired[list[dict[str, str]]]
    memories: NotRequired[list[dict[str, Any]]]
    root: NotRequired[str]
    key: NotRequired[str]
    action: NotRequired[int | None]
    paths: NotRequired[list[str]]
    conflicts: NotRequired[list[str]]
    repeated: NotRequired[bool]
    visible: NotRequired[str]


# --- the past -----------------------------------------------------------------------------------------------


class Version(TypedDict):
    """One version of a memory."""

    version: int
    at: str
    who: str
    action: int | None
    path: str
    heading: str
    gone: bool
    current: bool
    characters: int | None


class History(Fresh):
    """The answer of `history`."""

    ns: str
    root: str
    key: str
    path: str
    gone: str | None
    versions: list[Version]


class Difference(Fresh):
    """The answer of `diff`."""

    ns: str
    root: str
    key: str
    path: str
    gone: str | None
    old: int
    new: int
    diff: str


class Deed(TypedDict):
    """One entry of the log; without an action it was found changed in the files."""

    action: int | None
    at: str
    ns: str
    who: str
    what: str
    key: str
    state: str
    undone: int | None
    undoable: bool
    paths: list[str]
    detail: dict[str, Any]
    keys: NotRequired[list[str]]


class Log(Fresh):
    """The answer of `log`."""

    entries: list[Deed]
    ns: list[str]


class Trash(Fresh):
    """The answer of `trash`."""

    memories: list[dict[str, Any]]
    total: int
    files: list[dict[str, Any]]
    ns: list[str]


# --- in and out ---------------------------------------------------------------------------------------------


class Exported(Fresh):
    """One page of an export."""

    memd_export: int
    workspaces: list[dict[str, Any]]
    files: list[dict[str, Any]]
    gone: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    next: str


class Imported(Fresh):
    """The answer of `import_` and `ingest`."""

    ns: list[str]
    dry_run: bool
    files: int
    paths: list[str]
    added: int
    replaced: int
    same: int
    gone: int
    kept: list[dict[str, Any]]
    kept_count: int
    problems: list[Any]
    secrets: list[dict[str, Any]]
    actions: list[int]
    conflicts: list[str]
    visible: str


class Backup(Fresh):
    """The answer of `backup`."""

    backup: str
    bytes: int


class Graded(Fresh):
    """The answer of `eval`."""

    ns: list[str]
    mode: str
    questions: int
    figures: dict[str, float]
    categories: NotRequired[dict[str, Any]]
    mean_length: NotRequired[float]
    p50_ms: float
    p95_ms: float
    missed: int
    misses: list[dict[str, Any]]
    problems: NotRequired[list[dict[str, Any]]]


# --- the daemon ---------------------------------------------------------------------------------------------


class Hello(Fresh):
    """The answer of `hello`."""

    protocol: int
    version: str
    pid: int
    capabilities: list[str]
    limits: dict[str, int]
    bound: str | None
    """The workspace that this connection is bound to."""


class Pong(Fresh):
    """The answer of `ping`."""

    pong: bool


class WorkspaceStatus(TypedDict):
    """A workspace and how it is."""

    ns: str
    root: str
    globs: list[str]
    files: int
    memories: int
    chunks: int
    vectors: int
    pending_vectors: int
    watch: str
    watch_note: str
    held: int
    missing: bool
    last_change: str | None
    skipped: list[dict[str, str]]
    exam: dict[str, Any]


class Status(Fresh):
    """The answer of `status`."""

    pid: int
    version: str
    protocol: int
    started: str
    uptime_s: float
    pending_files: int
    pending_vectors: int
    eta_s: float | None
    embedded: int
    subscriptions: int
    memory_mb: float
    degraded_details: list[dict[str, Any]]
    model: dict[str, Any]
    workspaces: list[WorkspaceStatus]
    jobs: list[dict[str, Any]]
    log: str
    state_dir: str
    config: str
    socket: str


class Synced(Fresh):
    """The answer of `sync`."""

    files: int
    changed: int
    removed: int
    held: int
    took_ms: float


class Rebuilt(Fresh):
    """The answer of `rebuild`."""

    files: int
    chunks: int
    vectors: int
    took_ms: float


class Diagnosis(Fresh):
    """The answer of `doctor`."""

    ok: bool
    findings: list[dict[str, Any]]
    secrets: NotRequired[list[dict[str, Any]]]


class Added(Fresh):
    """The answer of `add`."""

    workspace: WorkspaceStatus
    files: int
    chunks: int
    added: bool


class Dropped(Fresh):
    """The answer of `remove`."""

    ns: str
    root: str
    removed: bool


class Stopping(Fresh):
    """The answer of `shutdown`."""

    stopping: bool
