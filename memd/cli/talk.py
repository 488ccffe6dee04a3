"""Talks to the daemon for the commands: connects, finds the workspace that is meant, shows progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memd.cli import say
from memd.cli.pages import must_be_workspace, working_directory, workspace_of
from memd.errors import NoDaemon, UnknownWorkspace
from memd.protocol.client import Client

if TYPE_CHECKING:
    from memd.protocol.methods.server import HelloResult, WorkspaceStatus


def client(start: bool = True) -> Client:
    """A client that starts or upgrades the daemon where it must, and says so."""
    return Client(autostart=start, notice=say.note, who="cli")


def running() -> HelloResult | None:
    """What the running daemon says of itself, or None."""
    try:
        with Client() as caller:
            return caller.hello()
    except NoDaemon:
        return None


def chosen(caller: Client, ns: str | None, directory: Path | None) -> str | None:
    """The workspace that was named, else the one around the working directory, else None for all."""
    if ns or directory:
        return ns or must_be_workspace(caller, directory or Path())
    here = working_directory()
    return workspace_of(caller, here) if here else None


def named(caller: Client, name: str) -> WorkspaceStatus:
    """The workspace that a person calls `name`: its name, or its directory."""
    known = caller.workspace_list()["workspaces"]
    for entry in known:
        if entry["ns"] == name:
            return entry
    place = Path(name).expanduser().resolve()
    for entry in known:
        if Path(entry["root"]).resolve() == place:
            return entry
    names = ", ".join(str(entry["ns"]) for entry in known)
    raise UnknownWorkspace(f"no workspace is called {name}", f"there are: {names}" if names else "begin: memd add .")
