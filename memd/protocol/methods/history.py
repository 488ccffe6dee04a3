"""The past: `history`, `diff`, `restore`, `log`, `undo` and `trash`."""

from typing import Annotated, Any, NotRequired, TypedDict

from memd.errors import UsageError
from memd.protocol.methods import base


class OfPast(base.Scoped):
    """About a memory that may be gone."""

    key: base.Text
    """As in `get`; `key~NUMBER`, as `trash` has it, is one of several that had the key."""


class VersionRow(TypedDict):
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


class PastMemory(base.WithinWorkspace):
    """A memory that has a past, and when it went, if it is gone."""

    key: str
    path: str
    gone: str | None


class HistoryResult(PastMemory):
    """The answer of `history`."""

    versions: list[VersionRow]


class HistoryRequest(OfPast, method="history", args="key", result=HistoryResult, reads=True):
    """Lists every version of a memory, newest first: when, by whom, how long; also of one that is gone."""


class DiffResult(PastMemory, base.Shown):
    """The answer of `diff`."""

    old: int
    new: int
    diff: str


class DiffRequest(OfPast, method="diff", args="key old new", result=DiffResult, reads=True):
    """Returns how two versions of a memory differ, as a unified diff."""

    old: Annotated[base.Version, base.unset("the one before `new`")] = None
    """A version."""
    new: Annotated[base.Version, base.unset("the last")] = None
    """Another version."""


class RestoreResult(base.Written):
    """The answer of `restore`."""

    path: str
    version: int | None
    was_gone: bool


class RestoreRequest(base.Writing, method="restore", args="key version", result=RestoreResult):
    """Writes a version of a memory back into its file, or brings back a file that was removed."""

    key: str = ""
    """As in `history`."""
    version: Annotated[base.Version, base.unset("the text before the present one")] = None
    """With `key`: which version."""
    path: str = ""
    """A file that is gone, relative to its workspace."""

    def check(self) -> None:
        if bool(self.key) == bool(self.path) or (self.path and self.version):
            raise UsageError("`restore` needs a `key`, with a `version`, or the `path` of a file that is gone")


class LogRow(TypedDict):
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


class LogResult(base.AcrossWorkspaces):
    """The answer of `log`."""

    entries: list[LogRow]


class LogRequest(base.Scoped, base.Timed, method="log", result=LogResult, reads=True):
    """Lists everything that was done, by memd and in editors, newest first."""

    who: Annotated[str, base.unset("anyone")] = ""
    """`cli`, `editor`, `job` for all jobs, `job:reflect` for one, …."""
    what: Annotated[str, base.unset("anything")] = ""
    """`put`, `note`, `undo`, `changed`, …."""
    since: Annotated[str, base.unset("any")] = ""
    """`YYYY`, `YYYY-MM` or `YYYY-MM-DD`, or words such as `yesterday` or `last week`: what was done then or later."""
    key: Annotated[str, base.unset("any")] = ""
    """Only entries about this memory."""
    limit: base.Rows = 50


class UndoResult(base.Written):
    """The answer of `undo`."""

    undid: dict[str, Any]
    back: int
    """Changes of what was observed that were taken back; of text it is 0."""


class UndoRequest(base.Scoped, base.Signed, base.Numbered, method="undo", args="action", result=UndoResult):
    """Takes a change back, or explains why that would overwrite someone."""

    action: Annotated[base.Version, base.unset("the last change of text by `who`")] = None
    """Which action; without it never a job's."""


class TrashResult(base.AcrossWorkspaces):
    """The answer of `trash`."""

    memories: list[dict[str, Any]]
    total: int
    files: list[dict[str, Any]]


class TrashRequest(base.Scoped, method="trash", result=TrashResult, reads=True):
    """Lists what was removed from the files, and how it comes back."""

    limit: base.Rows = 200
    """At most this many of each, up to 1,000."""
