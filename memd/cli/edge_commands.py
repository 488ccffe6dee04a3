"""`memd edge`, `memd link`, `memd related`, `memd clusters`, `memd edge-candidates` and `memd infer-edges`."""

from __future__ import annotations

import json as json_format
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from memd.cli import given, options, say, show, talk
from memd.errors import MemdError, UsageError
from memd.models import RELATIONS
from memd.protocol import wire
from memd.protocol.safe_text import one_line

RELATED = "relates_to"
LONGEST = 70
MOST_SAID = 1 << 20
"""Bytes that a command may say of the pairs."""

From = Annotated[str, typer.Argument(metavar="FROM", help="The key of the memory that says it.")]
To = Annotated[str, typer.Argument(metavar="TO", help="The key of the other memory.")]
Rel = Annotated[str, typer.Argument(metavar="REL", help=f"One of {', '.join(RELATIONS)}.")]
Weight = Annotated[float | None, typer.Option(help="How strong it is, from 0 to 1; each relation has its own default.")]
MinWeight = Annotated[float | None, typer.Option("--min-weight", min=0, max=1, help="Only edges at least this strong.")]

edge_app = typer.Typer(
    help="Declare edges between memories, take them away, list them.", no_args_is_help=True, rich_markup_mode=None
)


@edge_app.command(name="add")
def add(
    one: From,
    rel: Rel,
    other: To,
    weight: Weight = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Declare an edge in the file of its first memory; one that is there gets the new weight."""
    with talk.client(not no_start) as caller:
        result = caller.edge_add(one, rel, other, weight=weight, **given.aimed(caller, ns, workspace))  # type: ignore[arg-type]
    edge = result["edge"] or {"from": one, "rel": rel, "to": other, "weight": weight or RELATIONS[rel]}
    given.tell(result, f"{_line(edge)}  in {', '.join(result['paths'])}", json)


@edge_app.command(name="rm")
def remove(
    one: From,
    rel: Rel,
    other: To,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Take an edge away: out of the file that declares it, or so that it is not made again."""
    with talk.client(not no_start) as caller:
        result = caller.edge_rm(one, rel, other, **given.aimed(caller, ns, workspace))  # type: ignore[arg-type]
    given.tell(result, f"Removed {one} {rel} {other}; to bring it back: memd undo", json)


@edge_app.command(name="list")
def listed(
    key: Annotated[str | None, typer.Argument(help="Only edges of this memory.")] = None,
    rel: Annotated[str | None, typer.Option(help=f"Only this relation: {', '.join(RELATIONS)}.")] = None,
    min_weight: MinWeight = None,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, max=1000, help="At most this many.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List the edges of a memory, or of all, the strongest first."""
    with talk.client(not no_start) as caller:
        which = given.asked(caller, ns, workspace, min_weight=min_weight, limit=limit)
        result = caller.edge_list(key, rel=rel, **which)  # type: ignore[arg-type]
    if json:
        say.json(result)
        return
    for edge in result["edges"]:
        say.line(f"{_line(edge)}  ({edge['origin']})")
    if not result["edges"]:
        say.note("no edge is like that")


def link(
    one: Annotated[str, typer.Argument(metavar="A", help="The key of a memory.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The key of the other one.")],
    rm: Annotated[bool, typer.Option("--rm", help="Take the link away.")] = False,
    weight: Weight = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Link two memories: `memd edge add A relates_to B`."""
    if rm and weight is not None:
        raise UsageError("a link that is taken away has no weight")
    if rm:
        remove(one, RELATED, other, ns, workspace, no_start, json)
    else:
        add(one, RELATED, other, weight, ns, workspace, no_start, json)


def related(
    key: Annotated[str, typer.Argument(help="The memory's key.")],
    depth: Annotated[int | None, typer.Option(min=1, max=3, help="How many edges far: 1 to 3.")] = None,
    min_weight: MinWeight = None,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, max=1000, help="At most this many.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> int:
    """Show the memories that edges lead to, and the way there."""
    with talk.client(not no_start) as caller:
        which = given.asked(caller, ns, workspace, min_weight=min_weight, limit=limit)
        result = caller.related(key, depth=depth, **which)
    if json:
        say.json(result)
    for found in result["memories"] if not json else ():
        say.line(f"{found['weight']:.2f}  {_way(found['way'], result['key'])}")
    return 0 if result["memories"] else 1


def clusters(
    least: Annotated[int | None, typer.Option("--min", min=2, max=1000, help="Memories that make a group.")] = None,
    min_weight: MinWeight = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List groups of memories that are alike, and whether one of them sums them up."""
    with talk.client(not no_start) as caller:
        which = given.asked(caller, ns, workspace, min_weight=min_weight, min=least)
        result = caller.clusters(**which)
    if json:
        say.json(result)
        return
    for group in result["clusters"]:
        state = "wants a summary" if group["wants_summary"] else f"summed up by {group['summary']}"
        say.line(f"{show.count(group['size'], 'memory')}, {state}")
        for memory in group["memories"]:
            say.line(f"  {memory['key']}  {memory['heading']}")
    if not result["clusters"]:
        say.note("no memories are so much alike that they make a group")


def candidates(
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=1, max=1000, help="At most this many pairs.")
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List pairs that belong together without its being said how, for someone to say it with `memd edge add`."""
    with talk.client(not no_start) as caller:
        result = caller.edge_candidates(**given.asked(caller, ns, workspace, limit=limit))
    if json:
        say.json(result)
        return
    for pair in result["candidates"]:
        say.line(f"{pair['weight']:.2f}  {pair['from']['key']}  {pair['to']['key']}")
        for end in ("from", "to"):
            say.line(f"      {_short(pair[end]['text'])}")
    if not result["candidates"]:
        say.note("no pair waits for someone to say how it belongs together")


def infer(
    command: Annotated[
        str, typer.Option("--with", metavar="CMD", help="Gets the pairs as JSON, answers with a JSON list of edges.")
    ],
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=1, max=1000, help="At most this many pairs.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the edges, and add none.")] = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Let a command of your own say how pairs belong together, and declare what it says.

    The command reads what `memd edge-candidates --json` prints and writes a list such as
    [{"from": "a", "rel": "refines", "to": "b", "weight": 0.8}]. All of it is checked before anything is added.
    """
    with talk.client(not no_start) as caller:
        where = given.asked(caller, ns, workspace)
        asked = caller.edge_candidates(limit=limit, **where)
        wanted = _checked(_answer(command, asked), asked) if asked["candidates"] else []
        aim = {name: value for name, value in where.items() if name == "cwd"}
        done = [] if dry_run else [
            caller.edge_add(edge["from"], edge["rel"], edge["to"], weight=edge.get("weight"), who="cli",
                            **{**aim, "ns": edge["ns"]})["edge"]
            for edge in wanted
        ]  # fmt: skip
    if json:
        say.json({"dry_run": dry_run, "candidates": len(asked["candidates"]), "edges": wanted if dry_run else done})
        return
    for edge in wanted:
        say.line(f"{edge['from']} {edge['rel']} {edge['to']}")
    would = "would be added" if dry_run else "added"
    say.note(f"{show.count(len(wanted), 'edge')} {would}, from {show.count(len(asked['candidates']), 'pair')}")


# --- a command of the user's own ------------------------------------------------------------------------------


def _answer(command: str, asked: Mapping[str, Any]) -> Any:
    """What a command says to the pairs. The notes reach it as data, never as part of the command."""
    if not command.strip():
        raise UsageError("`--with` needs a command", "it reads the pairs as JSON and writes a list of edges")
    with tempfile.TemporaryFile() as pairs:
        pairs.write(wire.encode(asked))
        pairs.seek(0)
        with subprocess.Popen(["sh", "-c", command], stdin=pairs, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            said = running.stdout.read(MOST_SAID + 1)
            if len(said) > MOST_SAID:
                running.kill()
                raise UsageError(f"the command said more than {MOST_SAID:,} bytes", "nothing was added")
    if running.returncode:
        raise MemdError(f"the command failed with code {running.returncode}", "nothing was added")
    try:
        return json_format.loads(said)
    except ValueError as error:
        raise UsageError(f"the command did not answer with JSON: {error}", "nothing was added") from None


def _checked(answer: Any, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The edges of an answer, all of them good; otherwise every problem at once, and nothing is added."""
    known = {frozenset((pair["from"]["key"], pair["to"]["key"])): pair["ns"] for pair in asked["candidates"]}
    if not isinstance(answer, list):
        raise UsageError("the command must answer with a JSON list of edges", "nothing was added")
    problems = [f"edge {nth}: {wrong}" for nth, edge in enumerate(answer, 1) if (wrong := _problem(edge, known))]
    if problems:
        raise UsageError("\n".join(problems), "nothing was added")
    return [{**edge, "ns": known[frozenset((edge["from"], edge["to"]))]} for edge in answer]


def _problem(edge: Any, known: Mapping[frozenset[str], str]) -> str:
    if not isinstance(edge, dict) or not {"from", "rel", "to"} <= edge.keys() <= {"from", "rel", "to", "weight", "why"}:
        return "it must be an object with from, rel, to, and perhaps weight and why"
    if not all(isinstance(edge[name], str) for name in ("from", "rel", "to")):
        return "from, rel and to must be texts"
    if frozenset((edge["from"], edge["to"])) not in known:
        return f"{edge['from']} and {edge['to']} were none of the pairs"
    if edge["rel"] not in RELATIONS:
        return f"{edge['rel']} is none of {', '.join(RELATIONS)}"
    weight = edge.get("weight", 0)
    fits = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight <= 1
    return "" if fits else f"the weight must be a number from 0 to 1, not {weight!r}"


# --- showing ------------------------------------------------------------------------------------------------


def _line(edge: Mapping[str, Any]) -> str:
    return f"{edge['weight']:.2f}  {edge['from']} {edge['rel']} {edge['to']}"


def _way(way: Sequence[Mapping[str, Any]], start: str) -> str:
    """`refines` → `relates_to`: the relations on the way, with an arrow for the direction in which each is said."""
    said, here = [], start
    for step in way:
        ahead = step["from"] == here
        here = step["to"] if ahead else step["from"]
        arrow = "—" if step["rel"] == RELATED else "→" if ahead else "←"
        said.append(f"{arrow} {step['rel']} {here}")
    return " ".join(said)


def _short(text: str) -> str:
    line = one_line(text).strip()
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def register(app: typer.Typer) -> None:
    app.add_typer(edge_app, name="edge")
    app.command()(link)
    app.command()(related)
    app.command()(clusters)
    app.command(name="edge-candidates")(candidates)
    app.command(name="infer-edges")(infer)
