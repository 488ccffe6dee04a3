"""Directories that hold memory, `workspace.…`, and keeping them in order: `sync`, `rebuild`, `doctor` and `job.…`."""

from typing import Annotated, Any, NotRequired, TypedDict

from memd.errors import UsageError
from memd.protocol.methods import base
from memd.protocol.methods.server import WorkspaceStatus


class SyncResult(base.Fresh):
    """The answer of `sync`."""

    files: int
    changed: int
    removed: int
    held: int
    took_ms: float


class SyncRequest(base.Scoped, base.Progressing, method="sync", result=SyncResult):
    """Compares every file with the index and returns when all changes are searchable."""

    vectors: bool = False
    """Wait for the vectors too; not while vectors are degraded, which would be for ever."""
    accept_missing: Annotated[bool, base.local()] = False
    """Files that vanished all at once are meant to be gone."""


class RebuildResult(base.Fresh):
    """The answer of `rebuild`."""

    files: int
    chunks: int
    vectors: int
    took_ms: float


class RebuildRequest(base.Scoped, base.Progressing, method="rebuild", result=RebuildResult, local=True):
    """Builds the text index and the vectors again from the files and the ledger."""


class DoctorResult(base.Fresh):
    """The answer of `doctor`."""

    ok: bool
    findings: list[dict[str, Any]]
    secrets: NotRequired[list[dict[str, Any]]]


class DoctorRequest(base.Request, method="doctor", result=DoctorResult, slow=True):
    """Checks the stores against each other, and repairs them when asked to."""

    file: Annotated[str, base.place()] = ""
    """Instead say why this file is memory, or is not; absolute or with `~`."""
    fix: bool = False
    """Repair what can be repaired."""
    secrets: bool = False
    """Also look for keys and passwords in the notes, the newest first, for 30 seconds at most."""


class JobState(TypedDict):
    """A job that runs on a schedule."""

    name: str
    schedule: str
    last: str | None
    took_ms: float
    result: str
    running: bool
    next: str | None


class JobRun(JobState):
    """A job that was run, and whether it succeeded."""

    ok: bool


class JobListResult(base.Fresh):
    """The answer of `job.list`."""

    jobs: list[JobState]


class JobListRequest(base.Request, method="job.list", result=JobListResult, reads=True):
    """Lists the scheduled jobs: when each runs, its last run and what came of it, the next."""


class JobRunResult(base.Fresh):
    """The answer of `job.run`."""

    job: JobRun


class JobRunRequest(base.Request, method="job.run", args="name", result=JobRunResult, slow=True):
    """Runs a job now and returns what came of it."""

    name: base.Text
    """The job, as `job.list` names it."""


# --- the directories ----------------------------------------------------------------------------------------------


class UnwatchedWorkspace(TypedDict):
    """A workspace that was removed, or is no longer in the config file."""

    ns: str
    root: str


class WorkspaceListResult(base.Fresh):
    """The answer of `workspace.list`."""

    workspaces: list[WorkspaceStatus]
    unwatched: list[UnwatchedWorkspace]
    """Those that are no longer watched, and what is known of whose memories is kept."""


class WorkspaceListRequest(
    base.Request, method="workspace.list", result=WorkspaceListResult, reads=True, for_bound=True
):
    """Lists the directories that hold memory."""


class WorkspaceAddResult(base.Fresh):
    """The answer of `workspace.add`."""

    workspace: WorkspaceStatus
    files: int
    chunks: int
    added: bool


class WorkspaceAddRequest(base.Progressing, method="workspace.add", args="path", result=WorkspaceAddResult):
    """Begins to watch a directory."""

    path: Annotated[base.Text, base.place()]
    """The directory, absolute or with `~`; it need not exist yet."""
    ns: Annotated[str, base.unset("the directory's name")] = ""
    """Its name, without spaces and slashes."""
    globs: Annotated[base.Texts, base.unset("see [configuration](configuration.md)")] = ()
    """Which files are memory."""
    follow: bool = False
    """Follow symbolic links that lead out of it."""
    exclude: base.Texts = ()
    """Which files are left out, as in a `.gitignore`."""
    gitignore: bool = False
    """Leave out what its `.gitignore` files name."""
    project: Annotated[str, base.place(), base.unset("none")] = ""
    """A directory elsewhere whose memory it is."""
    wait: bool = True
    """Answer when its text is searchable, not at once."""


class WorkspaceRmResult(base.WithinWorkspace):
    """The answer of `workspace.rm`."""

    removed: bool
    tokens: list[str]
    """The tokens of the hub that were for it, and no longer are."""
    globs: list[str]
    """Which of its files were memory."""


class WorkspaceRmRequest(base.Request, method="workspace.rm", result=WorkspaceRmResult, slow=True):
    """Stops watching a directory. Its files stay, and the history of its memories, for when it is added again."""

    ns: str = ""
    """The workspace's name."""
    path: Annotated[str, base.place()] = ""
    """Its directory, absolute or with `~`."""
    hard: bool = False
    """Forget all that is known of its memories, for good; with `path` also of one that is no longer watched."""

    def check(self) -> None:
        if bool(self.ns) == bool(self.path):
            raise UsageError("`workspace.rm` needs an `ns` or a `path`")
