"""Out and in: `export`, `import`, `ingest` and `backup`."""

from typing import Annotated, Any

from memd.errors import UsageError
from memd.protocol.methods import base


class ExportResult(base.Fresh):
    """One page of an export."""

    memd_export: int
    workspaces: list[dict[str, Any]]
    files: list[dict[str, Any]]
    unread: list[dict[str, str]]
    """Files of which nothing is here, as they cannot be read now."""
    gone: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    next: str


class ExportRequest(base.Scoped, method="export", result=ExportResult, reads=True, slow=True):
    """Returns every memory with its text, its versions and its life, page by page."""

    after: str = ""
    """The `next` of the page before."""
    limit: Annotated[int, base.between(1, 5_000)] = 500
    """Memories in the page, at most 5,000."""


class ImportResult(base.AcrossWorkspaces):
    """The answer of `import` and `ingest`."""

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


class Incoming(base.Scoped, base.Signed, base.Numbered, base.Progressing):
    """The parameters that `import` and `ingest` share: how memories are taken in."""

    dry_run: bool = False
    """Only say what would change."""
    overwrite: bool = False
    """Take the text from there where a memory here has another one; the history keeps the old."""
    allow_secret: Annotated[bool, base.local()] = False
    """Also write what seems to hold a key, a token or a password."""


class ImportRequest(Incoming, method="import", args="path", result=ImportResult):
    """Takes in an export, or Ghost's own store: files, versions, lives, links."""

    path: Annotated[base.Text, base.place(opened=True)]
    """The file, absolute or with `~`; the daemon opens it."""


class IngestRequest(Incoming, method="ingest", args="paths", result=ImportResult, local=True):
    """Copies memories that other tools keep into a workspace."""

    paths: Annotated[base.Texts, base.place(opened=True)] = ()
    """Folders and files, absolute or with `~`; the daemon opens them."""
    since: Annotated[str, base.unset("any")] = ""
    """Only sessions with agents that began on this day or later, in this month, in this year; or `last week`."""
    project: Annotated[str, base.unset("any")] = ""
    """Only sessions with agents in a folder whose path has this in it."""

    def check(self) -> None:
        if not self.paths:
            raise UsageError("`ingest` needs `paths`", "name a folder, a Markdown file or a file of JSON lines")


class BackupResult(base.Fresh):
    """The answer of `backup`."""

    backup: str
    bytes: int


class BackupRequest(base.Request, method="backup", args="path", result=BackupResult, slow=True):
    """Copies the ledger while it is in use."""

    path: Annotated[str, base.place(unset="`backups` in the state directory")] = ""
    """The directory for it, absolute or with `~`; made where it is missing."""
