"""`memd conflict` and `memd merge-note`: notes of which git or a file synchroniser has two versions."""

from pathlib import Path
from typing import Annotated

import typer

from memd.cli import console
from memd.cli import merge_note as driver
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.protocol.safe_text import one_line

app = typer.Typer()
conflict_app = command_group(
    app, "conflict", "Shows notes of which there are two versions, and makes one of them.", no_args_is_help=True
)


@method_command(app, "conflict.list", name="conflicts", hidden=True)
@method_command(conflict_app, "conflict.list", name="list")
def list_conflicts(result: Result, args: Args) -> None:
    if not result["notes"]:
        console.note("no note has two versions")
    for row in result["notes"]:
        console.line(one_line(f"{row['path']}: {row['copy'] or 'git left markers in it'}"))
        for clash in row["both"]:
            console.line(one_line(f"  both changed: {clash['heading']}"))
            for mark, side in (("<", "ours"), (">", "theirs")):
                console.lines(one_line(f"    {mark} {line}") for line in clash[side].splitlines())
        if row["taken"]:
            console.line(one_line(f"  a merge takes from the other version: {', '.join(row['taken'])}"))
        choice = " --take both, ours or theirs" if row["clashes"] else ""
        console.line(one_line(f"  to settle it: memd conflict settle {row['path']}{choice}"))


@method_command(conflict_app, "conflict.settle", name="settle")
def settle(result: Result, args: Args) -> None:
    removed = f", {result['copy']} removed" if result["copy"] else ""
    taken = f"; from the other version: {', '.join(result['taken'])}" if result["taken"] else ""
    console.line(one_line(f"Settled {result['path']}{removed}{taken}; to take that back: memd undo {result['action']}"))


@app.command("merge-note")
def merge_note(
    base: Annotated[Path, typer.Argument(help="What both sides began with (%O).")],
    ours: Annotated[Path, typer.Argument(help="Our version (%A), which the merged note replaces.")],
    theirs: Annotated[Path, typer.Argument(help="The other version (%B).")],
    path: Annotated[Path | None, typer.Argument(help="Where the note is in the repository (%P).")] = None,
) -> None:
    """Merges three versions of a note, for git, section by section; it needs no daemon.

    Exit code 1: both sides changed the same lines, which stand between markers now.
    """
    driver.run([str(file) for file in (base, ours, theirs, path) if file is not None])
