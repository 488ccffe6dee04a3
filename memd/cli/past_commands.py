"""`memd history`, `memd diff`, `memd restore`, `memd log`, `memd undo` and `memd trash`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from memd.cli import given, options, say, show, talk
from memd.errors import UsageError
from memd.protocol.safe_text import one_line

Key = Annotated[str, typer.Argument(metavar="KEY", help="A memory's key; it may be gone from the files.")]
WIDE = 60


def history(
    key: Key,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List the versions of a memory: when it changed, and by whom."""
    with talk.client(not no_start) as caller:
        result = caller.call("history", given.asked(caller, ns, workspace, key=key))
    if json:
        say.json(result)
        return
    for version in result["versions"]:
        say.line("  ".join(_version(version)))
    if not result["versions"]:
        say.note(f"nothing is known of the past of {key} yet")


def _version(version: dict[str, Any]) -> Iterator[str]:
    yield f"@{version['version']:<3}"
    yield _local(version["at"])
    yield f"{version['who']:<8}"
    text = f"{version['characters']:,} characters" if version["characters"] is not None else "its text is not kept"
    yield "went from the files" if version["gone"] else text
    if version["current"] and not version["gone"]:
        yield "(current)"


def diff(
    key: Key,
    old: Annotated[int | None, typer.Argument(metavar="A", min=1, help="The version to begin with.")] = None,
    new: Annotated[int | None, typer.Argument(metavar="B", min=1, help="The version to end with.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show how a memory changed: its last change, or from version A to B."""
    with talk.client(not no_start) as caller:
        result = caller.call("diff", given.asked(caller, ns, workspace, key=key, old=old, new=new))
    if json:
        say.json(result)
    elif not result["diff"]:
        say.note(f"versions {result['old']} and {result['new']} say the same")
    else:
        say.quoted(result["diff"])


def restore(
    what: Annotated[
        str, typer.Argument(metavar="KEY[@N]|PATH", help="A version of a memory, or a file that was removed.")
    ],
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Write a former text of a memory back into its file, or bring back a file.

    Without @N the text before the present one. It can be undone like any other change.
    """
    key, at, number = what.rpartition("@")
    if at and not re.fullmatch(r"[1-9]\d{0,8}", number):
        raise UsageError(f"{number!r} is no number of a version", f"memd history {key}")
    wanted: dict[str, Any] = {"key": key, "version": int(number)} if at else {"key": what}
    if not at and re.fullmatch(r"[^#]+\.mdk?", what):
        wanted = {"path": what}
    with talk.client(not no_start) as caller:
        result = caller.restore(**given.aimed(caller, ns, workspace, **wanted))
    which = f"{result['key']}@{result['version']}" if result["version"] else result["path"]
    given.tell(result, f"Restored {which} in {result['path']} (to take that back: memd undo {result['action']})", json)


def log(
    who: Annotated[str | None, typer.Option(help="Only what this one did: cli, editor, mcp, job, …")] = None,
    what: Annotated[str | None, typer.Option(help="Only actions of this kind: put, note, undo, …")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only what was done on this day or later.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only what was done to this memory.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, max=1_000, help="At most this many.")] = 20,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show what was done, by memd and in editors, the newest first."""
    which = {"who": who, "what": what, "since": since, "key": key, "limit": limit}
    with talk.client(not no_start) as caller:
        result = caller.call("log", given.asked(caller, ns, workspace, **which))
    if json:
        say.json(result)
        return
    for entry in result["entries"]:
        say.line("  ".join(_entry(entry)))
    if not result["entries"]:
        say.note("nothing of the kind was done")


def _entry(entry: dict[str, Any]) -> Iterator[str]:
    yield f"{entry['action'] or '-':>5}"
    yield _local(entry["at"])
    yield f"{entry['who']:<8}"
    yield f"{entry['what']:<12}"
    yield _about(entry)
    if entry["state"] != "done":
        yield f"({entry['state']}: {entry['detail'].get('why', 'not finished')})"
    if entry["undone"]:
        yield f"(undone by {entry['undone']})"


def _about(entry: dict[str, Any]) -> str:
    """What an entry is about: memories that moved, a key, else some files."""
    detail = entry["detail"]
    if moves := detail.get("moves"):
        count, shown = detail.get("moved", len(moves)), [_move(move) for move in moves[:2]]
    elif detail.get("tied"):
        return f"{show.count(detail['tied'], 'link')} by a rule"
    elif entry["key"] and entry["what"] != "undo":
        return str(entry["key"])
    else:
        count, shown = detail.get("files", len(entry["paths"])), entry["paths"][:2]
    target = f"action {entry['key']}{' in ' if shown else ''}" if entry["what"] == "undo" else ""
    text = one_line(f"{target}{', '.join(shown)}")
    if len(text) > WIDE and len(shown) > 1:
        text, shown = one_line(f"{target}{shown[0]}"), shown[:1]
    return f"{text[:WIDE]} and {count - len(shown):,} more" if count > len(shown) else text[:WIDE]


def _move(move: dict[str, Any]) -> str:
    return f"{move['key']} → {move['to']} ({move['why']})"


def undo(
    action: Annotated[
        int | None, typer.Argument(metavar="ACTION", min=1, help="Its number, as `memd log` shows it.")
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Take back a change: the last one made on the command line, or the one that is named.

    Where someone has changed the same lines since, nothing is overwritten.
    """
    with talk.client(not no_start) as caller:
        result = caller.undo(action, **given.aimed(caller, ns, workspace))
    undid = result["undid"]
    about = f" of {result['key']}" if result["key"] and undid["what"] != "undo" else ""
    where = f" in {', '.join(result['paths'])}" if result["paths"] else f": {_changes(result['back'])} taken back"
    said = f"Undid action {undid['action']} ({undid['what']}{about}){where}"
    given.tell(result, f"{said}; to take that back: memd undo {result['action']}", json)


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count:,} changes"


def trash(
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, max=1_000, help="At most this many.")] = 50,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List what went from the files, and how it comes back."""
    with talk.client(not no_start) as caller:
        result = caller.call("trash", given.asked(caller, ns, workspace, limit=limit))
    if json:
        say.json(result)
        return
    for file in result["files"]:
        say.line(f"{_local(file['at'])}  {'editor':<8}  {file['path']} (the whole file)   {file['restore']}")
    for memory in result["memories"]:
        say.line(f"{_local(memory['gone'])}  {memory['who']:<8}  {memory['key']}   {memory['restore']}")
    if result["total"] > len(result["memories"]):
        say.note(f"{result['total'] - len(result['memories']):,} more; --limit shows them")
    if not (result["files"] or result["memories"]):
        say.note("nothing has gone")


def _local(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def register(app: typer.Typer) -> None:
    for command in (history, diff, restore, log, undo, trash):
        app.command()(command)
