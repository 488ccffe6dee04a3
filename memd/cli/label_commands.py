"""`memd files`, `memd tags` and `memd ns`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from memd.cli import given, options, pages, say, talk, workspace_commands
from memd.errors import UsageError
from memd.protocol.safe_text import neutralise

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]

tags_app = typer.Typer(
    help="List the tags, rename one or take one away.", invoke_without_command=True, rich_markup_mode=None
)
ns_app = typer.Typer(help="The workspaces by another name.", no_args_is_help=True, rich_markup_mode=None)


def files(
    key: Annotated[str | None, typer.Argument(help="The memory's key.")] = None,
    touching: Annotated[
        str | None, typer.Option(metavar="PATH", help="List the memories about this file or folder.")
    ] = None,
    add: Annotated[str | None, typer.Option(metavar="PATH", help="Note that the memory is about this file.")] = None,
    rel: Annotated[
        Literal["modified", "created", "deleted", "read"] | None, typer.Option(help="What was done to it.")
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show which files a memory is about, or which memories are about a file."""
    if bool(key) == bool(touching) or (touching and add):
        raise UsageError(
            "what is asked for?", "memd files KEY, memd files KEY --add PATH, or memd files --touching PATH"
        )
    with talk.client(not no_start) as caller:
        where = given.aimed(caller, ns, workspace)
        # A path is meant as the shell has it, also where the workspace is named.
        cwd = {"cwd": here} if (here := pages.working_directory()) else {}
        result = caller.files(key, touching=touching, add=add, rel=rel, **{**cwd, **where})
    if json:
        say.json(result)
        return
    for one in result["files"] if key else ():
        say.line(f"{one['rel'] or '?'}  {one['file']}")
    for one in result["memories"] if touching else ():
        say.line(f"{one['key']}  {one['rel'] or '?'}  {one['file']}")


@tags_app.callback()
def tags(
    context: typer.Context,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List the tags, rename one or take one away."""
    if context.invoked_subcommand is not None:
        return
    with talk.client(not no_start) as caller:
        result = caller.tag_list(**pages.aimed(caller, {"ns": ns, "workspace": workspace}, {}))
    if json:
        say.json(result)
        return
    for one in result["tags"]:
        say.line(f"{one['memories']:>5}  {one['tag']}")


@tags_app.command()
def rename(
    tag: Annotated[str, typer.Argument(metavar="A", help="The tag as it is.")],
    to: Annotated[str, typer.Argument(metavar="B", help="The tag as it shall be.")],
    dry_run: DryRun = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Give a tag another name, in all files at once."""
    with talk.client(not no_start) as caller:
        result = caller.tag_rename(tag, to, dry_run=dry_run, **given.aimed(caller, ns, workspace))
    _retagged(result, f"{tag} is {to} now", json)


@tags_app.command(name="rm")
def remove(
    tag: Annotated[str, typer.Argument(metavar="A", help="The tag.")],
    dry_run: DryRun = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Take a tag away, in all files at once.

    At the end of a line the #tag goes; within a sentence its word stays, without the #.
    """
    with talk.client(not no_start) as caller:
        result = caller.tag_rm(tag, dry_run=dry_run, **given.aimed(caller, ns, workspace))
    _retagged(result, f"{tag} is gone", json)


def _retagged(result: Mapping[str, Any], done: str, json: bool) -> None:
    if not result["dry_run"]:
        number = len(result["paths"])
        given.tell(result, f"{done}, in {number} file{'' if number == 1 else 's'}; to undo: memd undo", json)
    elif json:
        say.json(result)
    else:
        say.out(neutralise(result["diff"].rstrip("\n")))


ns_app.command(name="list", help="List the workspaces, as `memd workspaces` does.")(workspace_commands.workspaces)
ns_app.command(name="rm", help="Forget a workspace, as `memd remove` does; its files stay.")(workspace_commands.remove)


def register(app: typer.Typer) -> None:
    app.command()(files)
    app.add_typer(tags_app, name="tags")
    app.add_typer(ns_app, name="ns")
