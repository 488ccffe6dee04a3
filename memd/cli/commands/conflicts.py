"""`memd conflict`: notes of which git or a file synchroniser left two versions."""

import typer

from memd.cli import console
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.protocol.safe_text import one_line

app = typer.Typer()
conflict_app = command_group(
    app, "conflict", "Shows notes of which there are two versions, and makes one of them.", no_args_is_help=True
)


@method_command(conflict_app, "conflict.list", name="list")
def list_conflicts(result: Result, args: Args) -> None:
    if not result["conflicts"]:
        console.note("no note has two versions")
    for row in result["conflicts"]:
        other = row["copy"] or "its own lines, between the markers"
        both = f"; both changed: {', '.join(row['clashes'])}" if row["clashes"] else "; a merge settles it"
        console.line(one_line(f"{row['path']}  and  {other}{both}"))


@method_command(conflict_app, "conflict.settle", name="settle")
def settle(result: Result, args: Args) -> None:
    removed = f", {result['copy']} removed" if result["copy"] else ""
    console.line(one_line(f"Settled {result['path']}{removed}; to take that back: memd undo {result['action']}"))
