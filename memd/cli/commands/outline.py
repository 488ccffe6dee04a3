"""`memd outline`: the source code around the notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from memd.cli import console
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.protocol.safe_text import neutralise

if TYPE_CHECKING:
    from memd.protocol.methods.outline import SkippedSource

LANGUAGE = typer.Option("--language", "-l")
ABOUT = "Shows the symbols of the source code around the notes, and how they relate."
app = typer.Typer()
outline_app = command_group(app, "outline", ABOUT, no_args_is_help=True)


TREE: dict[str, Any] = {
    "prepare": lambda args: args.update(format="json" if args["json"] else None), "leave_out": ["format"],
    "language": LANGUAGE,
    "depth": typer.Option("--depth", "-d"), "relations": typer.Option("--relation", "-r"),
}  # fmt: skip
"""What the commands that show a tree have in common."""


@method_command(outline_app, "outline.symbol", **TREE)
def symbol(result: Result, args: Args) -> None:
    """Shows what a symbol calls, holds and inherits, and who uses it."""
    _show(result, [])


@method_command(outline_app, "outline.file", **TREE)
def file(result: Result, args: Args) -> None:
    # The file that was asked for comes first where it was skipped, as its module does in the text.
    module = result["text"].partition("\n")[0]
    _show(result, [source for source in result["skipped"][:1] if module.endswith(f"  {source['path']}:1")])


@method_command(outline_app, "outline.project", **TREE)
def project(result: Result, args: Args) -> None:
    """Shows the same for every symbol of a language; --json has all of them."""
    _show(result, result["skipped"])


@method_command(outline_app, "outline.map", name="map", language=LANGUAGE)
def show_map(result: Result, args: Args) -> None:
    """Shows the most important symbols, by how much else refers to them, ready for a prompt."""
    _show(result, result["skipped"])


def _show(result: Result, skipped: list[SkippedSource]) -> None:
    if result["text"]:
        console.out(neutralise(result["text"]))
    else:
        console.note("no symbols were found")
    if skipped:
        first = [f"{source['path']}: {source['why']}" for source in skipped[:5]]
        more = len(skipped) - len(first)
        console.note("not wholly read: " + "; ".join(first) + (f"; … {more} more, which --json lists" if more else ""))
