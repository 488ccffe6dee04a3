"""Directories that hold memory: `workspace.list`, `workspace.add` and `workspace.rm`."""

from __future__ import annotations

from typing import Annotated

from memd.errors import UsageError
from memd.protocol.methods.base import Fresh, Progressing, Request, Text, Texts, WithinWorkspace, method, place, unset
from memd.protocol.methods.server import WorkspaceStatus


class WorkspaceListResult(Fresh):
    """The answer of `workspace.list`."""

    workspaces: list[WorkspaceStatus]


@method("workspace.list", WorkspaceListResult, reads=True, about_daemon=True, for_bound=True)
class WorkspaceListRequest(Request):
    """Lists the directories that hold memory."""


class WorkspaceAddResult(Fresh):
    """The answer of `workspace.add`."""

    workspace: WorkspaceStatus
    files: int
    chunks: int
    added: bool


@method("workspace.add", WorkspaceAddResult, "path", about_daemon=True, slow=True)
class WorkspaceAddRequest(Progressing):
    """Begins to watch a directory."""

    path: Annotated[Text, place()]
    """The directory, absolute or with `~`; it need not exist yet."""
    ns: Annotated[str, unset("the directory's name")] = ""
    """Its name, without spaces and slashes."""
    globs: Annotated[Texts, unset("see [configuration](configuration.md)")] = ()
    """Which files are memory."""
    follow: bool = False
    """Follow symbolic links that lead out of it."""
    wait: bool = True
    """Answer when its text is searchable, not at once."""


class WorkspaceRmResult(WithinWorkspace):
    """The answer of `workspace.rm`."""

    removed: bool


@method("workspace.rm", WorkspaceRmResult, about_daemon=True, slow=True)
class WorkspaceRmRequest(Request):
    """Stops watching a directory and forgets its index, never its files."""

    ns: str = ""
    """The workspace's name."""
    path: Annotated[str, place()] = ""
    """Its directory, absolute or with `~`."""

    def check(self) -> None:
        if bool(self.ns) == bool(self.path):
            raise UsageError("`workspace.rm` needs an `ns` or a `path`")
