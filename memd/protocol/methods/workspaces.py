"""Directories that hold memory: `workspace.list`, `workspace.add` and `workspace.rm`."""

from typing import Annotated

from memd.errors import UsageError
from memd.protocol.methods.base import Fresh, Progressing, Request, Text, Texts, WithinWorkspace, place, unset
from memd.protocol.methods.server import WorkspaceStatus


class WorkspaceListResult(Fresh):
    """The answer of `workspace.list`."""

    workspaces: list[WorkspaceStatus]


class WorkspaceListRequest(
    Request, method="workspace.list", result=WorkspaceListResult, reads=True, about_daemon=True, for_bound=True
):
    """Lists the directories that hold memory."""


class WorkspaceAddResult(Fresh):
    """The answer of `workspace.add`."""

    workspace: WorkspaceStatus
    files: int
    chunks: int
    added: bool


class WorkspaceAddRequest(
    Progressing, method="workspace.add", args="path", result=WorkspaceAddResult, about_daemon=True, slow=True
):
    """Begins to watch a directory."""

    path: Annotated[Text, place()]
    """The directory, absolute or with `~`; it need not exist yet."""
    ns: Annotated[str, unset("the directory's name")] = ""
    """Its name, without spaces and slashes."""
    globs: Annotated[Texts, unset("see [configuration](configuration.md)")] = ()
    """Which files are memory."""
    follow: bool = False
    """Follow symbolic links that lead out of it."""
    exclude: Texts = ()
    """Which files are left out, as in a `.gitignore`."""
    gitignore: bool = False
    """Leave out what its `.gitignore` files name."""
    wait: bool = True
    """Answer when its text is searchable, not at once."""


class WorkspaceRmResult(WithinWorkspace):
    """The answer of `workspace.rm`."""

    removed: bool


class WorkspaceRmRequest(Request, method="workspace.rm", result=WorkspaceRmResult, about_daemon=True, slow=True):
    """Stops watching a directory and forgets its index, never its files."""

    ns: str = ""
    """The workspace's name."""
    path: Annotated[str, place()] = ""
    """Its directory, absolute or with `~`."""

    def check(self) -> None:
        if bool(self.ns) == bool(self.path):
            raise UsageError("`workspace.rm` needs an `ns` or a `path`")
