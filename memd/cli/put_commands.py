"""`memd put`, `memd patch`, `memd rm` and `memd gc`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from memd.cli import given, options, say, show, talk
from memd.errors import UsageError
from memd.protocol.safe_text import one_line

Key = Annotated[str, typer.Argument(help="The memory's key, such as deploy or 2026-02-15#ersatztv.")]
IfVersion = Annotated[
    int | None,
    typer.Option("--if-version", min=0, metavar="N", help="Only if it is at this version now; 0: only if it is new."),
]
MAX_PURGES = 20
"""Memories that are named before they are forgotten for good."""


def put(
    key: Key,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT|-]", help="What it says; - reads standard input. Without it only facts change."),
    ] = None,
    kind: Annotated[
        Literal["semantic", "episodic", "procedural"] | None, typer.Option(help="What kind of memory it is.")
    ] = None,
    tags: Annotated[list[str] | None, typer.Option(metavar="a,b", help="Its tags, in place of those it has.")] = None,
    priority: Annotated[
        Literal["low", "normal", "high", "critical"] | None, typer.Option(help="How much it matters.")
    ] = None,
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="The same as a number from 0 to 1.")] = None,
    pin: Annotated[bool | None, typer.Option("--pin/--no-pin", help="Never let it age, or let it again.")] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="30d", help="Leave it out of answers after this time: 90m, 12h, 30d, none.")
    ] = None,
    tier: Annotated[
        Literal["sensory", "stm", "ltm", "dormant"] | None,
        typer.Option(help="Where a new memory begins; sensory is for raw captures, which go unless they are used."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH:REL", help="A file it is about, and whether modified, created, deleted or read."),
    ] = None,
    if_version: IfVersion = None,
    on_similar: Annotated[
        Literal["keep", "update", "skip"],
        typer.Option(help="When a memory nearly says it already: write both, write to that one, or nothing."),
    ] = "keep",
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    allow_secret: options.AllowSecret = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Write a memory under a key: a new one, or the next version of one that is there."""
    facts: dict[str, Any] = {"kind": kind, "tags": options.tags_of(tags), "priority": priority, "ttl": ttl,
                             "importance": importance, "files": file or None, "tier": tier}  # fmt: skip
    body = given.text_of(text) if text else None
    with talk.client(not no_start) as caller:
        how = given.aimed(caller, ns, workspace, now=given.now(), allow_secret=allow_secret)
        result = caller.put(key, body, if_version=if_version, on_similar=on_similar, pinned=pin, **facts, **how)
    for other in result["similar"]:
        say.note(f"it says nearly what `{other['key']}` says ({other['overlap']:.0%} of their words)")
    given.tell(result, _told(result), json)


def _told(result: Mapping[str, Any]) -> str:
    if not result["written"]:
        return "Nothing was written"
    where = f" in {result['paths'][0]}" if result["paths"] else ""
    return f"Put {result['key']}{where} (version {result['version']})"


def patch(
    key: Key,
    if_version: IfVersion = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    allow_secret: options.AllowSecret = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Apply a unified diff from standard input to a memory.

    Every line of it must be where the diff says: it is applied exactly or not at all. The diff counts the lines of
    the memory, as `memd get` prints it.
    """
    diff = given.standard_input("patch")
    with talk.client(not no_start) as caller:
        how = given.aimed(caller, ns, workspace, allow_secret=allow_secret)
        result = caller.patch(key, diff, if_version=if_version, **how)
    given.tell(result, f"Patched {key} (version {result['version']})", json)


def rm(
    key: Key,
    hard: Annotated[
        bool, typer.Option("--hard", help="Forget it for good: its history and every copy that memd has.")
    ] = False,
    yes: options.Yes = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Take a memory out of its file; its history stays, and `memd undo` brings it back."""
    if hard:
        _sure(f"Forget {one_line(key)} for good, with its history?", yes)
    with talk.client(not no_start) as caller:
        result = caller.rm(key, hard=hard, **given.aimed(caller, ns, workspace))
    given.tell(result, _purged(key, result) if hard else f"Removed {key}; to bring it back: memd undo", json)


def _purged(key: str, result: Mapping[str, Any]) -> str:
    gone = result["purged"]
    told = f"Forgot {key} for good: {show.count(gone['versions'], 'version')}, {show.count(gone['texts'], 'text')}"
    for kept in result["kept"]:
        say.note(f"out of reach: {kept['what']} ({kept['why']})")
    return told


def gc(
    hard: Annotated[bool, typer.Option("--hard", help="Forget them for good, after asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list them, which is also what happens without --hard.")
    ] = False,
    yes: options.Yes = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List the memories whose time to live has run out, and those that rest.

    --hard forgets the first ones for good. What rests is yours to remove: memd rm KEY.
    """
    hard = hard and not dry_run
    with talk.client(not no_start) as caller:
        where = given.aimed(caller, ns, workspace)
        result = caller.gc(**where)
        if hard and result["expired"]:
            _name(result)
            _sure(f"Forget {show.count(len(result['expired']), 'memory')} for good?", yes)
            result = caller.gc(hard=True, **where)
    if json:
        say.json(result)
    elif hard:
        for one in result["purged"]:
            say.line(_purged(one["key"], one))
    else:
        for one in result["expired"]:
            say.line(f"{one['key']}  {one['path']}:{one['start_line']}  expired {show.moment(one['expires'])}")
        _resting(result)


def _resting(result: Mapping[str, Any]) -> None:
    """What nobody has asked for in a long time: a person may remove it, memd never does."""
    for one in result["dormant"]:
        why = f" ({one['moved_why']})" if one["moved_why"] else ""
        say.line(f"{one['key']}  {one['path']}:{one['start_line']}  dormant since {show.moment(one['moved'])}{why}")
    if more := result["dormant_total"] - len(result["dormant"]):
        say.note(f"and {more:,} more that rest (all of them: memd list --tier dormant)")


def _name(result: Mapping[str, Any]) -> None:
    for one in result["expired"][:MAX_PURGES]:
        say.note(f"{one['key']} ({one['path']})")


def _sure(question: str, yes: bool) -> None:
    """Ask before what cannot be undone; without a terminal to ask on, the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this cannot be undone, and there is nobody to ask", "say --yes if it is meant")
    typer.confirm(question, abort=True, err=True)


def register(app: typer.Typer) -> None:
    for command in (put, patch, rm, gc):
        app.command()(command)
