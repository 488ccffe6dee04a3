"""`memd peek`, `memd stats`, `memd tree` and `memd timeline`; `memd outline` for the source code around the notes."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer

from memd.cli import console, daemon_calls, reports
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.protocol.safe_text import neutralise

USUAL = 0.5
"""The importance of a memory that declares none and has not faded."""
app = typer.Typer()


@method_command(app, "peek")
def peek(result: Result, args: Args) -> None:
    """Prints an index of what the memory holds, in at most 200 tokens.

    Markdown made for the head of a prompt: counts, what is pinned, topics and the last days.
    """
    console.quoted(result["text"])


@method_command(app, "stats")
def stats(result: Result, args: Args) -> None:
    console.lines(f"{name:<11} {value}" for name, value in _facts(result))


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    memories, edges, accesses = result["memories"], result["edges"], result["accesses"]
    yield "files", f"{result['files']:,}"
    yield "memories", f"{memories['total']:,}, {memories['pinned']:,} pinned; {memories['gone']:,} gone from the files"
    for name in ("tier", "kind", "role"):
        yield f"  by {name}", _counts(memories[name])
    yield "chunks", f"{result['chunks']:,}, {result['vectors']:,} with a vector"
    yield "versions", f"{result['versions']:,}"
    yield "actions", f"{result['actions']:,}"
    yield "edges", f"{edges['total']:,}"
    for name in ("rel", "origin"):
        yield f"  by {name}", _counts(edges[name])
    waiting = f"; {accesses['waiting']:,} wait for the next reflect" if accesses["waiting"] else ""
    yield "accesses", f"{accesses['counted']:,} of {accesses['memories']:,} memories{waiting}"
    yield "useful", f"said {accesses['useful']:,} times"
    for name in ("most_used", "least_used"):
        for memory in result[name]:
            yield name.replace("_", " "), f"{memory['accesses']:,}  {memory['key']}  {memory['tier']}"
    for name, size in result["disk"].items():
        yield f"{name} MB", f"{size / 1e6:,.1f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


@method_command(
    app, "tree", leave_out=["limit"], send=lambda client, params, args: daemon_calls.all_rows(client, "tree", params)
)
def tree(result: Result, args: Args) -> None:
    """Lists every memory by file: its key, tier and date.

    * is a pinned one; an importance stands where it is not 0.5.
    """
    several = len(result["ns"]) > 1
    for (name, file), memories in groupby(result["memories"], key=lambda memory: (memory["ns"], memory["path"])):
        console.line(f"{name}:{file}" if several else file)
        console.lines(f"  {_leaf(memory)}" for memory in memories)
    if not result["memories"]:
        console.note("there are no memories" + (f" (under {args['path']})" if args["path"] else ""))


def _leaf(memory: dict[str, Any]) -> str:
    importance = "" if abs(memory["importance"] - USUAL) < 0.005 else f"  {memory['importance']:.2f}"
    mark = "*" if memory["pinned"] else " "
    return f"{mark} {memory['key']}  {memory['tier']}  {memory['date'] or '-'}{importance}"


@method_command(app, "timeline")
def timeline(result: Result, args: Args) -> None:
    for day in result["days"]:
        console.lines(_day(day, len(result["ns"]) > 1))
    if not result["days"]:
        console.note("nothing was noted or done in that time")
    elif result["total"] > len(result["days"]):
        earlier = reports.count(result["total"] - len(result["days"]), "earlier day")
        console.note(f"{earlier} (to see more: --limit)")


def _day(day: Result, several: bool) -> Iterator[str]:
    yield day["date"]
    for heading in day["headings"]:
        where = f"{heading['ns']}:{heading['key']}" if several else heading["key"]
        yield f"  {heading['heading']}  {where}"
    if more := day["notes"] - len(day["headings"]):
        yield f"  and {more:,} more"
    done = [f"{count:,} {what}" for what, count in day["written"].items()]
    done += [f"{count:,} moved to {tier}" for tier, count in day["moves"].items()]
    done += [_action(action) for action in day["actions"]]
    if done:
        yield f"  · {'; '.join(done)}"


def _action(action: dict[str, Any]) -> str:
    keys = f" ({', '.join(action['keys'])})" if action["keys"] else ""
    times = f" ×{action['count']:,}" if action["count"] > 1 else ""
    return f"{action['what']}{times}{keys}"


# --- outline: the source code around the notes --------------------------------------------------------------------

ABOUT = "Shows the symbols of the source code around the notes, and how they relate."
outline_app = command_group(app, "outline", ABOUT)
TREE: dict[str, Any] = {
    "prepare": lambda args: args.update(format="json" if args["json"] else None),
    "leave_out": ["format"],
}
"""Options that the commands which show a tree share."""


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


@method_command(outline_app, "outline.map", name="map")
def show_map(result: Result, args: Args) -> None:
    """Shows the most important symbols, by how much else refers to them, ready for a prompt."""
    _show(result, result["skipped"])


def _show(result: Result, skipped: list[dict[str, Any]]) -> None:
    console.out(neutralise(result["text"]), "no symbols were found")
    if skipped:
        told = [f"{source['path']}: {source['why']}" for source in skipped]
        console.note("not wholly read: " + "; ".join(console.first(told, 5, "… {} more, which --json lists")))
