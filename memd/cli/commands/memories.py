"""`memd put`, `memd patch`, `memd rm`, `memd gc`, `memd files` and `memd tags`."""

from difflib import get_close_matches

import typer

from memd.cli import console, reports
from memd.cli.commands import service
from memd.cli.method_command import Args, Result, call, command_group, method_command, standard_input
from memd.config import paths
from memd.protocol.client import Client
from memd.protocol.safe_text import one_line

MAX_PURGES = 20
"""Memories that are named before they are forgotten for good."""

NEAR_MISS = 0.9
"""A name that is so like a known one was mistyped."""

app = typer.Typer()


def _put(client: Client, params: Args, args: Args) -> Result:
    """A workspace that is named and not there yet gets a directory of memd's own, unless the name is a near miss."""
    if ns := args["ns"]:
        known = [entry["ns"] for entry in client.workspace_list()["workspaces"]]
        if not get_close_matches(ns, known, cutoff=NEAR_MISS):
            place = paths.own_notes(ns)
            service.open_to_service(place)
            client.workspace_add(str(place), ns=ns)
            console.note(f"{ns} is a new workspace; its notes are in {place}")
    return call(client, "put", params)


@method_command(app, "put", words="text", send=_put)
def put(result: Result, args: Args) -> None:
    for other in result["similar"]:
        console.note(f"`{other['key']}` says nearly the same ({other['overlap']:.0%} of the words)")
    if result["written"]:
        where = f" in {result['paths'][0]}" if result["paths"] else ""
        console.line(f"Put {result['key']}{where} (version {result['version']})")
    else:
        console.line("Nothing was written")


@method_command(app, "patch", leave_out=["patch"], prepare=lambda args: args.update(patch=standard_input("patch")))
def patch(result: Result, args: Args) -> None:
    """Applies a unified diff from standard input to a memory.

    Every line of it must be where the diff says: it is applied exactly or not at all. The diff counts the lines of
    the memory, as `memd get` prints it.
    """
    console.line(f"Patched {args['key']} (version {result['version']})")


def _confirm_purge(args: Args) -> None:
    if args["hard"]:
        console.confirm_irreversible(f"Forget {one_line(args['key'])} for good, with its history?", args["yes"])


@method_command(app, "rm", prepare=_confirm_purge)
def rm(result: Result, args: Args) -> None:
    """Removes a memory from its file; its history stays, and `memd undo` brings it back."""
    if args["hard"]:
        _show_purged(args["key"], result)
    else:
        console.line(f"Removed {args['key']}; to bring it back: memd undo")


def _show_purged(key: str, result: Result) -> None:
    console.note(*(f"not removed: {kept['what']} ({kept['why']})" for kept in result["kept"]))
    versions, texts = (reports.count(result["purged"][f"{name}s"], name) for name in ("version", "text"))
    console.line(f"Forgot {key} for good: {versions}, {texts}")


def _list_then_purge(client: Client, params: Args, args: Args) -> Result:
    """Forget only what was named to the person before."""
    where = {name: params[name] for name in ("ns", "cwd") if name in params}
    listed = client.gc(**where)
    if not args["hard"] or args["dry_run"] or not listed["expired"]:
        return listed
    console.note(*(f"{memory['key']} ({memory['path']})" for memory in listed["expired"][:MAX_PURGES]))
    console.confirm_irreversible(f"Forget {reports.count(len(listed['expired']), 'memory')} for good?", args["yes"])
    return client.gc(hard=True, **where)


@method_command(app, "gc", send=_list_then_purge)
def gc(result: Result, args: Args) -> None:
    """Lists the memories that were deleted or whose time to live has run out, and those that rest.

    --hard forgets the first ones for good. Dormant ones are yours to remove: memd rm KEY.
    """
    for purged in result["purged"]:
        _show_purged(purged["key"], purged)
    if result["purged"]:
        return
    for memory in result["expired"]:
        what = "deleted" if memory["deleted"] else "expired"
        console.line(f"{reports.place(memory)}  {what} {reports.moment(memory['expires'])}")
    for memory in result["dormant"]:
        why = f" ({memory['moved_why']})" if memory["moved_why"] else ""
        # One that its note or an import declares dormant never moved.
        since = f" since {reports.moment(memory['moved'])}" if memory["moved"] else ""
        console.line(f"{reports.place(memory)}  dormant{since}{why}")
    if not (result["expired"] or result["dormant"]):
        console.note("No expired and no dormant memories.")
    if more := result["dormant_total"] - len(result["dormant"]):
        console.note(f"and {more:,} more that rest (all of them: memd list --tier dormant)")


# --- what memories declare ----------------------------------------------------------------------------------------


@method_command(app, "files")
def files(result: Result, args: Args) -> None:
    if args["key"]:
        files = (f"{file['rel'] or '?'}  {file['file']}" for file in result["files"])
        console.lines(files, f"{args['key']} names no files")
    else:
        memories = (f"{one['key']}  {one['rel'] or '?'}  {one['file']}" for one in result["memories"])
        console.lines(memories, f"no memory names {args['touching']}")


tags_app = command_group(app, "tags", "Lists the tags, renames one or removes one.")


@method_command(tags_app, "tag.list", of_group=True)
def tags(result: Result, args: Args) -> None:
    console.lines((f"{tag['memories']:>5}  {tag['tag']}" for tag in result["tags"]), "no memory has a tag yet")


@method_command(tags_app, "tag.rename")
def rename(result: Result, args: Args) -> None:
    _show_retagged(result, f"{args['tag']} is {args['to']} now")


@method_command(tags_app, "tag.rm", name="rm")
def remove(result: Result, args: Args) -> None:
    """Removes a tag from all files at once.

    At the end of a line the #tag goes; within a sentence its word stays, without the #.
    """
    _show_retagged(result, f"{args['tag']} is gone")


def _show_retagged(result: Result, done: str) -> None:
    if result["dry_run"]:
        console.diff(result["diff"])
    else:
        console.line(f"{done}, in {reports.count(len(result['paths']), 'file')}; to undo: memd undo")
