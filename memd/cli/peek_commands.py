"""`memd peek`, `memd stats`, `memd tree` and `memd timeline`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Annotated, Any

import typer

from memd.cli import given, options, pages, say, show, talk

TREE_PAGE = 5_000
USUAL = 0.5
"""The importance of a memory that declares none and has not faded."""


def peek(
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Print an index of what the memory holds, in at most 200 tokens.

    Markdown made for the head of a prompt: counts, what is pinned, topics and the last days.
    """
    with talk.client(not no_start) as caller:
        result = caller.peek(**given.asked(caller, ns, workspace))
    if json:
        say.json(result)
    else:
        say.quoted(result["text"])


def stats(
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Count what is kept: memories, chunks, versions, edges, accesses, bytes."""
    with talk.client(not no_start) as caller:
        result = caller.stats(**given.asked(caller, ns, workspace))
    if json:
        say.json(result)
        return
    for name, value in _facts(result):
        say.line(f"{name:<11} {value}")


def _facts(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    memories, edges, accesses = result["memories"], result["edges"], result["accesses"]
    yield "files", f"{result['files']:,}"
    yield "memories", f"{memories['total']:,}, {memories['pinned']:,} pinned; {memories['gone']:,} gone from the files"
    for name in ("tier", "kind", "role"):
        yield f"  by {name}", _counted(memories[name])
    yield "chunks", f"{result['chunks']:,}, {result['vectors']:,} with a vector"
    yield "versions", f"{result['versions']:,}"
    yield "actions", f"{result['actions']:,}"
    yield "edges", f"{edges['total']:,}"
    for name in ("rel", "origin"):
        yield f"  by {name}", _counted(edges[name])
    waiting = f"; {accesses['waiting']:,} wait for the next reflect" if accesses["waiting"] else ""
    yield "accesses", f"{accesses['counted']:,} of {accesses['memories']:,} memories{waiting}"
    yield "useful", f"said {accesses['useful']:,} times"
    for name in ("most_used", "least_used"):
        for one in result[name]:
            yield name.replace("_", " "), f"{one['accesses']:,}  {one['key']}  {one['tier']}"
    for name, size in result["disk"].items():
        yield f"{name} MB", f"{size / 1e6:,.1f}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def tree(
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="Only files under this path, or that match this pattern.")
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List every memory by file: its key, tier and date.

    * is a pinned one; an importance stands where it is not 0.5.
    """
    with talk.client(not no_start) as caller:
        where = given.asked(caller, ns, workspace, path=path)
        result = pages.gathered(caller, "tree", where, "memories", 0, TREE_PAGE)
    if json:
        say.json(result)
        return
    several = len(result["ns"]) > 1
    for (name, file), found in groupby(result["memories"], key=lambda one: (one["ns"], one["path"])):
        say.line(f"{name}:{file}" if several else file)
        for one in found:
            say.line(f"  {_leaf(one)}")
    if not result["memories"]:
        say.note("no memory is there" + (f" (under {path})" if path else ""))


def _leaf(one: dict[str, Any]) -> str:
    importance = "" if abs(one["importance"] - USUAL) < 0.005 else f"  {one['importance']:.2f}"
    return f"{'*' if one['pinned'] else ' '} {one['key']}  {one['tier']}  {one['date'] or '-'}{importance}"


def timeline(
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only this day and later ones.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Only this day and earlier ones.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, max=1_000, help="At most this many days.")] = 14,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show day by day what notes are about and what was done, the newest first."""
    with talk.client(not no_start) as caller:
        where = given.asked(caller, ns, workspace, since=since, until=until, limit=limit)
        result = caller.timeline(**where)
    if json:
        say.json(result)
        return
    for day in result["days"]:
        for line in _day(day, len(result["ns"]) > 1):
            say.line(line)
    if not result["days"]:
        say.note("nothing was noted or done in that time")
    elif result["total"] > len(result["days"]):
        say.note(f"{show.count(result['total'] - len(result['days']), 'earlier day')} (to see more: --limit)")


def _day(day: Mapping[str, Any], several: bool) -> Iterator[str]:
    yield day["date"]
    for one in day["headings"]:
        where = f"{one['ns']}:{one['key']}" if several else one["key"]
        yield f"  {one['heading']}  {where}"
    if more := day["notes"] - len(day["headings"]):
        yield f"  and {more:,} more"
    done = [f"{count:,} {what}" for what, count in day["written"].items()]
    done += [f"{count:,} moved to {tier}" for tier, count in day["moves"].items()]
    done += [_deed(deed) for deed in day["deeds"]]
    if done:
        yield f"  · {'; '.join(done)}"


def _deed(deed: dict[str, Any]) -> str:
    named = f" ({', '.join(deed['keys'])})" if deed["keys"] else ""
    times = f" ×{deed['count']:,}" if deed["count"] > 1 else ""
    return f"{deed['what']}{times}{named}"


def register(app: typer.Typer) -> None:
    for command in (peek, stats, tree, timeline):
        app.command()(command)
