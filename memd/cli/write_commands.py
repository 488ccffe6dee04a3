"""`memd note`, `memd save`, `memd write`, `memd read` and `memd recent`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from memd.cli import given, options, pages, say, talk
from memd.errors import UsageError

Text = Annotated[
    list[str], typer.Argument(metavar="TEXT|-", help="What to write down; - reads it from standard input.")
]
Title = Annotated[str | None, typer.Option(metavar="T", help="A title for it.")]
Tags = Annotated[list[str] | None, typer.Option(metavar="a,b", help="Tags for it.")]


def note(
    text: Text,
    title: Title = None,
    tags: Tags = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    allow_secret: options.AllowSecret = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Write something down in today's note.

    It becomes a section with the time and the title. Your time zone decides which day it is.
    """
    body = given.text_of(text)
    with talk.client(not no_start) as caller:
        how = given.aimed(
            caller, ns, workspace, now=given.now(), tags=options.tags_of(tags or None), allow_secret=allow_secret
        )
        result = caller.note(body, title=title, **how)
    given.tell(result, f"Noted in {result['path']} ({result['key']})", json)


def save(
    text: Text,
    target: Annotated[
        Literal["daily", "long_term"], typer.Option(help="Today's note, or what is to be known from now on.")
    ],
    title: Title = None,
    tags: Tags = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    allow_secret: options.AllowSecret = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Save a text to today's note or to MEMORY.md."""
    body = given.text_of(text)
    with talk.client(not no_start) as caller:
        how = given.aimed(
            caller, ns, workspace, now=given.now(), tags=options.tags_of(tags or None), allow_secret=allow_secret
        )
        result = caller.save(body, target, title=title, **how)
    given.tell(result, result["saved"], json)


def write(
    section: Annotated[str, typer.Argument(help="The title of the entry.")],
    text: Text,
    role: Annotated[str | None, typer.Option(metavar="R", help="Write to the file of this role.")] = None,
    shared: Annotated[bool, typer.Option("--shared", help="Write to the file that all roles share.")] = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    allow_secret: options.AllowSecret = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Write an entry for the agents of a role, or for all of them."""
    if bool(role) == shared:
        raise UsageError("for whom is it?", "name a role with --role R, or write for all with --shared")
    body = given.text_of(text)
    with talk.client(not no_start) as caller:
        how = given.aimed(caller, ns, workspace, now=given.now(), allow_secret=allow_secret)
        result = caller.write(section, body, role=role, shared=shared, **how)
    given.tell(result, f"Written to {result['path']} ({result['key']})", json)


def read(
    role: Annotated[str | None, typer.Option(metavar="R", help="The role; without one, the shared file.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Print the notes of a role as they are."""
    with talk.client(not no_start) as caller:
        result = caller.read(role, **pages.aimed(caller, {"ns": ns, "workspace": workspace}, {}))
    _show(result, json)


def recent(
    role: Annotated[str, typer.Option(metavar="R", help="The role that reads.")],
    days: Annotated[int, typer.Option(min=1, help="Entries of the last so many days.")] = 7,
    budget: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="At most about this many tokens.")] = 2_000,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Print what was written lately for all roles and for one, newest first."""
    with talk.client(not no_start) as caller:
        how = pages.aimed(caller, {"ns": ns, "workspace": workspace}, {"now": given.now()})
        result = caller.recent(role, days=days, budget=budget, **how)
    _show(result, json)


def _show(result: Mapping[str, Any], json: bool) -> None:
    if json:
        say.json(result)
    else:
        say.quoted(result["text"])


def register(app: typer.Typer) -> None:
    for command in (note, save, write, read, recent):
        app.command()(command)
