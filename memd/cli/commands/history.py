"""`memd history`, `memd diff`, `memd restore`, `memd log`, `memd undo` and `memd trash`."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from memd.cli import console, reports
from memd.cli.method_command import Args, Result, method_command
from memd.errors import UsageError, in_shell
from memd.protocol.safe_text import one_line
from memd.timespans import local_time

WIDE = 60
app = typer.Typer()


@method_command(app, "history")
def history(result: Result, args: Args) -> None:
    versions = ("  ".join(_version(version)) for version in result["versions"])
    console.lines(versions, f"nothing is known of the past of {args['key']} yet")


def _version(version: dict[str, Any]) -> Iterator[str]:
    yield f"@{version['version']:<3}"
    yield local_time(version["at"])
    yield f"{version['who']:<8}"
    text = f"{version['characters']:,} characters" if version["characters"] is not None else "its text is not kept"
    yield "went from the files" if version["gone"] else text
    if version["current"] and not version["gone"]:
        yield "(current)"


@method_command(app, "diff")
def diff(result: Result, args: Args) -> None:
    """Shows how a memory changed: its last change, or from version A to B."""
    console.diff(result["diff"], f"versions {result['old']} and {result['new']} say the same")


def _version_or_path(args: Args) -> None:
    """`KEY@N`, `KEY`, or the path of a file."""
    key, at, number = args["key"].rpartition("@")
    if at and not re.fullmatch(r"[1-9]\d{0,8}", number):
        raise UsageError(f"{number!r} is not the number of a version", f"memd history {in_shell(key)}")
    if at:
        args |= {"key": key, "version": int(number)}
    elif re.fullmatch(r"(?s).+\.mdk?", args["key"]):
        args |= {"key": None, "path": args["key"]}


@method_command(app, "restore", prepare=_version_or_path, leave_out=["version", "path"])
def restore(result: Result, args: Args) -> None:
    """Writes a former text of a memory back into its file, or brings back a file.

    Without @N the text before the present one. It can be undone like any other change.
    """
    which = f"{result['key']}@{result['version']}" if result["version"] else result["path"]
    console.line(f"Restored {which} in {result['path']} (to take that back: memd undo {result['action']})")


@method_command(app, "log")
def log(result: Result, args: Args) -> None:
    several = len({entry["ns"] for entry in result["entries"]}) > 1
    console.lines(("  ".join(_entry(entry, several)) for entry in result["entries"]), "no actions were found")


def _entry(entry: dict[str, Any], several: bool) -> Iterator[str]:
    yield f"{entry['action'] or '-':>5}"
    if several:
        yield one_line(entry["ns"])
    yield local_time(entry["at"])
    yield f"{entry['who']:<8}"
    yield f"{entry['what']:<12}"
    yield _about(entry)
    if entry["state"] != "done":
        yield f"({entry['state']}: {entry['detail'].get('why', 'not finished')})"
    if entry["undone"]:
        yield f"(undone by {entry['undone']})"


def _about(entry: dict[str, Any]) -> str:
    """The subject of an entry: memories that moved, a key, else some files."""
    detail = entry["detail"]
    if moves := detail.get("moves"):
        count = detail.get("moved", len(moves))
        shown = [f"{move['key']} → {move['to']} ({move['why']})" for move in moves[:2]]
    elif detail.get("tied"):
        return f"{reports.count(detail['tied'], 'link')} by a rule"
    elif detail.get("token"):
        return f"{detail['token']} ({detail['may']})"
    elif entry["key"] and entry["what"] != "undo":
        return str(entry["key"])
    else:
        count, shown = detail.get("files", len(entry["paths"])), entry["paths"][:2]
    target = f"action {entry['key']}{' in ' if shown else ''}" if entry["what"] == "undo" else ""
    text = one_line(f"{target}{', '.join(shown)}")
    if len(text) > WIDE and len(shown) > 1:
        text, shown = one_line(f"{target}{shown[0]}"), shown[:1]
    return f"{text[:WIDE]} and {count - len(shown):,} more" if count > len(shown) else text[:WIDE]


@method_command(app, "undo")
def undo(result: Result, args: Args) -> None:
    """Takes back a change: the last one made on the command line, or the one that is named.

    `memd log` shows the numbers. Where someone has changed the same lines since, nothing is overwritten.
    """
    undid = result["undid"]
    about = f" of {result['key']}" if result["key"] and undid["what"] != "undo" else ""
    changes = reports.count(result["back"], "change")
    where = f" in {', '.join(result['paths'])}" if result["paths"] else f": {changes} taken back"
    said = f"Undid action {undid['action']} ({undid['what']}{about}){where}"
    console.line(f"{said}; to take that back: memd undo {result['action']}")


@method_command(app, "trash")
def trash(result: Result, args: Args) -> None:
    gone = [(file["at"], "editor", f"{file['path']} (the whole file)", file["restore"]) for file in result["files"]]
    gone += [(memory["gone"], memory["who"], memory["key"], memory["restore"]) for memory in result["memories"]]
    lines = (f"{local_time(at)}  {who:<8}  {what}   {restore}" for at, who, what, restore in gone)
    console.lines(lines, "nothing was removed")
    if (more := result["total"] - len(result["memories"])) > 0:
        console.note(f"{more:,} more; --limit shows them")
