"""`memd outline`: the source code around the notes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memd.cli import given, options, pages, say, talk
from memd.cli.progress import Bar
from memd.protocol.safe_text import neutralise

if TYPE_CHECKING:
    from memd.protocol.methods.outline import OutlineResult, SkippedSource

app = typer.Typer(
    help="Show the symbols of the source code around the notes, and how they relate.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Language = Annotated[
    str | None,
    typer.Option("--language", "-l", help="python, go, …; may be left out where the sources are in only one."),
]
Depth = Annotated[int, typer.Option("--depth", "-d", help="How many relations to follow one after the other.")]
Relations = Annotated[list[str] | None, typer.Option("--relation", "-r", help="Only these relations: calls,called_by")]
OmitNative = Annotated[bool, typer.Option("--omit-native", help="Leave out what comes with the language.")]


@app.command()
def symbol(
    name: Annotated[str, typer.Argument(metavar="SYMBOL", help="pkg.Class.method, or any end of it that is clear.")],
    language: Language = None,
    file: Annotated[str | None, typer.Option(help="Only in this file.")] = None,
    depth: Depth = 2,
    relation: Relations = None,
    omit_native: OmitNative = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show what a symbol calls, holds and inherits, and who uses it."""
    asked = {**_tree(language, depth, relation, omit_native, json), "symbol": name, "file": file}
    _show("symbol", asked, (ns, workspace), no_start, json)


@app.command()
def file(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A source file.")],
    language: Language = None,
    depth: Depth = 2,
    relation: Relations = None,
    omit_native: OmitNative = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show the same for every symbol of a file."""
    asked = {**_tree(language, depth, relation, omit_native, json), "file": path}
    _show("file", asked, (ns, workspace), no_start, json)


@app.command()
def project(
    language: Language = None,
    depth: Depth = 2,
    relation: Relations = None,
    omit_native: OmitNative = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show the same for every symbol of a language; --json has all of them."""
    asked = _tree(language, depth, relation, omit_native, json)
    _show("project", asked, (ns, workspace), no_start, json)


@app.command(name="map")
def chart(
    budget: Annotated[int, typer.Option(help="At most this many tokens, roughly.")] = 1_000,
    language: Language = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show the most important symbols, by how much else refers to them, ready for a prompt."""
    _show("map", {"budget": budget, "language": language}, (ns, workspace), no_start, json)


def _tree(language: str | None, depth: int, relation: list[str] | None, native: bool, json: bool) -> dict[str, Any]:
    relations = options.tags_of(relation)
    return {"language": language, "depth": depth, "relations": relations, "omit_native": native or None,
            "format": "json" if json else None}  # fmt: skip


def _show(what: str, asked: dict[str, Any], where: tuple[str | None, Path | None], no_start: bool, json: bool) -> None:
    with talk.client(not no_start) as caller, Bar() as bar:
        params = given.asked(caller, *where, **asked)
        # A path is meant as the shell has it, also where the workspace is named.
        here = {"cwd": here} if asked.get("file") and (here := pages.working_directory()) else {}
        result = getattr(caller, f"outline_{what}")(on_progress=bar.update, **{**here, **params})
    if json:
        say.json(result)
        return
    if result["text"]:
        say.out(neutralise(result["text"]))
    skipped = result["skipped"] if what in ("project", "map") else _asked_for(result) if what == "file" else []
    if skipped:
        _tell_skipped(skipped)


def _asked_for(result: OutlineResult) -> list[SkippedSource]:
    """The file that was asked for, if it was skipped: it comes first then, as its module does in the text."""
    module = result["text"].partition("\n")[0]
    return [one for one in result["skipped"][:1] if module.endswith(f"  {one['path']}:1")]


def _tell_skipped(skipped: list[SkippedSource]) -> None:
    """What could not be read wholly, on the side; a few of them by name."""
    shown = [f"{one['path']}: {one['why']}" for one in skipped[:5]]
    more = len(skipped) - len(shown)
    say.note("not wholly read: " + "; ".join(shown) + (f"; … {more} more, which --json lists" if more else ""))
