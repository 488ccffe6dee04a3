"""`memd add`, `remove`, `workspaces`, `sync` and `rebuild`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import options, say, service, show, talk
from memd.cli.progress import Bar


def add(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="The directory that holds the notes.")] = Path(),
    ns: Annotated[
        str | None, typer.Option("--ns", "-n", metavar="NAME", help="Its name; the directory's when left out.")
    ] = None,
    glob: Annotated[
        list[str] | None, typer.Option(help="Which files are memory, such as '**/*.md'; may be given again.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow symbolic links that lead out of it.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until its text is searchable.")] = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Watch a directory of notes."""
    root = directory.expanduser().resolve()
    service.open_to_service(root)
    with talk.client(not no_start) as caller, Bar() as bar:
        result = caller.workspace_add(root, ns=ns, globs=glob, follow=follow, wait=not no_wait, on_progress=bar.update)
    if json:
        say.json(result)
    else:
        say.out(show.added(result, waited=not no_wait))


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME|DIR", help="The workspace, by its name or directory.")],
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Stop watching a directory; the notes stay."""
    with talk.client(not no_start) as caller:
        result = caller.workspace_rm(ns=str(talk.named(caller, name)["ns"]))
    service.close_to_service()
    if json:
        say.json(result)
    else:
        say.line(f"{result['ns']} is forgotten; the notes in {result['root']} are as they were")


def workspaces(no_start: options.NoStart = False, json: options.Json = False) -> None:
    """List the directories that hold memory."""
    with talk.client(not no_start) as caller:
        result = caller.call("workspace.list")
    if json:
        say.json(result)
    else:
        say.out(show.workspaces(result["workspaces"]) or "no workspaces yet; begin with: memd add .")


def sync(
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="Wait for the vectors too.")] = False,
    accept_missing: Annotated[
        bool, typer.Option("--accept-missing", help="Files that vanished all at once are meant to be gone.")
    ] = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Return when all changes on disk can be found."""
    with talk.client(not no_start) as caller, Bar() as bar:
        name = talk.chosen(caller, ns, workspace)
        result = caller.sync(ns=name, vectors=vectors, accept_missing=accept_missing, on_progress=bar.update)
    _done(result, show.synced(result), json)


def rebuild(
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Make the text index and the vectors anew."""
    with talk.client(not no_start) as caller, Bar() as bar:
        name = talk.chosen(caller, ns, workspace)
        result = caller.rebuild(ns=name, on_progress=bar.update)
    _done(result, show.rebuilt(result), json)


def _done(result: Mapping[str, Any], text: str, json: bool) -> None:
    if json:
        say.json(result)
    else:
        say.out(text)


def register(app: typer.Typer) -> None:
    for command in (add, remove, workspaces, sync, rebuild):
        app.command()(command)
