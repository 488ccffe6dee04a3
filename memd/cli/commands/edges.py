"""`memd edge`, `link`, `related`, `clusters`, `edge-candidates`, `infer-edges`, `context`, `consolidate`, `expand`."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import typer

from memd.cli import console, reports
from memd.cli.fast_search import code_of
from memd.cli.hits import cut, degraded, still_indexing
from memd.cli.method_command import Args, Result, call, command_group, method_command
from memd.errors import MemdError, UsageError
from memd.models import RELATIONS
from memd.protocol import wire
from memd.protocol.client import Client
from memd.protocol.methods import METHODS
from memd.protocol.methods.base import parse
from memd.protocol.safe_text import one_line

RELATED = "relates_to"
WIDE = 70
MAX_ANSWER = 1 << 20
"""Bytes that a command may answer to the pairs."""
REL = typer.Argument(metavar="REL", help=f"One of {', '.join(RELATIONS)}.")

app = typer.Typer()
edge_app = command_group(app, "edge", "Declares edges between memories, removes them, lists them.")


@method_command(edge_app, "edge.add", name="add", rel=REL)
def add(result: Result, args: Args) -> None:
    """Declares an edge in the file of its first memory; one that is there gets the new weight."""
    edge = result["edge"] or {**args, "weight": args["weight"] or RELATIONS[args["rel"]]}
    console.line(f"{_line(edge)}  in {', '.join(result['paths'])}")


@method_command(edge_app, "edge.rm", name="rm", rel=REL)
def remove(result: Result, args: Args) -> None:
    console.line(f"Removed {args['from']} {args['rel']} {args['to']}; to bring it back: memd undo")


@method_command(edge_app, "edge.list", name="list")
def list_edges(result: Result, args: Args) -> None:
    console.lines((f"{_line(edge)}  ({edge['origin']})" for edge in result["edges"]), "no edges were found")


@method_command(
    app, "edge.add", options="link", leave_out=["rel"], prepare=lambda args: args.update(rel=RELATED),
    send=lambda client, params, args: call(client, "edge.rm" if args["rm"] else "edge.add", params),
)  # fmt: skip
def link(result: Result, args: Args) -> None:
    """Links two memories, as `memd edge add A relates_to B` does."""
    (remove if args["rm"] else add)(result, args)


@method_command(app, "related", exit_code=lambda result: 0 if result["memories"] else 1)
def related(result: Result, args: Args) -> None:
    lines = (f"{memory['weight']:.2f}  {_path(memory['way'], result['key'])}" for memory in result["memories"])
    console.lines(lines, f"no memory is linked with {result['key']}")


@method_command(app, "clusters")
def clusters(result: Result, args: Args) -> None:
    lines = chain.from_iterable(map(_cluster, result["clusters"]))
    console.lines(lines, "no memories are alike enough to form a group")


def _cluster(cluster: Result) -> Iterator[str]:
    state = "has no summary" if cluster["wants_summary"] else f"summed up by {cluster['summary']}"
    yield f"{reports.count(cluster['size'], 'memory')}, {state}"
    yield from (f"  {memory['key']}  {memory['heading']}" for memory in cluster["memories"])


@method_command(app, "edge.candidates", name="edge-candidates")
def candidates(result: Result, args: Args) -> None:
    """Lists linked pairs without a relation type, for someone to name it with `memd edge add`."""
    console.lines(chain.from_iterable(map(_pair, result["candidates"])), "every linked pair has a relation type")


def _pair(pair: Result) -> Iterator[str]:
    yield f"{pair['weight']:.2f}  {pair['from']['key']}  {pair['to']['key']}"
    yield from (f"      {cut(one_line(pair[end]['text']).strip(), WIDE)}" for end in ("from", "to"))


def _line(edge: Result) -> str:
    return f"{edge['weight']:.2f}  {edge['from']} {edge['rel']} {edge['to']}"


def _path(way: Sequence[Result], start: str) -> str:
    """`refines` → `relates_to`: the relations on the way, with an arrow for the direction in which each is said."""
    steps, here = [], start
    for step in way:
        ahead = step["from"] == here
        here = step["to"] if ahead else step["from"]
        arrow = "—" if step["rel"] == RELATED else "→" if ahead else "←"
        steps.append(f"{arrow} {step['rel']} {here}")
    return " ".join(steps)


# --- a command of the user's own ----------------------------------------------------------------------------------


def _infer(client: Client, params: Args, args: Args) -> Result:
    """Ask the command about the pairs, and declare the edges that it answers, all of them or none."""
    result = call(client, "edge.candidates", params)
    pairs = result["candidates"]
    args["inferred"] = edges = _checked(_run_command(args["command"], result), result) if pairs else []
    added = [
        client.edge_add(edge["from"], edge["rel"], edge["to"], weight=edge.get("weight"), ns=edge["ns"])["edge"]
        for edge in edges
        if not args["dry_run"]
    ]
    return {"dry_run": args["dry_run"], "candidates": len(pairs), "edges": edges if args["dry_run"] else added}


@method_command(app, "edge.candidates", name="infer-edges", options="infer-edges", send=_infer)
def infer(result: Result, args: Args) -> None:
    """Lets a command of your own say how pairs belong together, and declares what it says.

    The command reads what `memd edge-candidates --json` prints and writes a list such as
    [{"from": "a", "rel": "refines", "to": "b", "weight": 0.8}]. All of it is checked before anything is added.
    """
    edges = args["inferred"]
    console.lines(f"{edge['from']} {edge['rel']} {edge['to']}" for edge in edges)
    would = "would be added" if result["dry_run"] else "added"
    console.note(f"{reports.count(len(edges), 'edge')} {would}, from {reports.count(result['candidates'], 'pair')}")


def _run_command(command: str, result: Result) -> Any:
    """The command's answer to the pairs. The notes reach it as data, never as part of the command."""
    if not command.strip():
        raise UsageError("`--with` needs a command", "it reads the pairs as JSON and writes a list of edges")
    with tempfile.TemporaryFile() as pairs:
        pairs.write(wire.encode(result))
        pairs.seek(0)
        with subprocess.Popen(["sh", "-c", command], stdin=pairs, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            answer = running.stdout.read(MAX_ANSWER + 1)
            if len(answer) > MAX_ANSWER:
                running.kill()
                raise UsageError(f"the command wrote more than {MAX_ANSWER:,} bytes", "nothing was added")
    if running.returncode:
        raise MemdError(f"the command failed with code {running.returncode}", "nothing was added")
    try:
        return json.loads(answer)
    except ValueError as error:
        raise UsageError(f"the command did not answer with JSON: {error}", "nothing was added") from None


def _checked(answer: Any, result: Result) -> list[dict[str, Any]]:
    """The edges of an answer, all of them good; otherwise every problem at once, and nothing is added."""
    known = {frozenset((pair["from"]["key"], pair["to"]["key"])): pair["ns"] for pair in result["candidates"]}
    if not isinstance(answer, list):
        raise UsageError("the command must answer with a JSON list of edges", "nothing was added")
    problems = [f"edge {nth}: {wrong}" for nth, edge in enumerate(answer, 1) if (wrong := _problem(edge, known))]
    if problems:
        raise UsageError("\n".join(problems), "nothing was added")
    return [{**edge, "ns": known[frozenset((edge["from"], edge["to"]))]} for edge in answer]


def _problem(edge: Any, known: Mapping[frozenset[str], str]) -> str:
    """Why an edge cannot be added; empty when it can."""
    if not isinstance(edge, dict) or not {"from", "rel", "to"} <= edge.keys():
        return "it must be an object with from, rel, to, and perhaps weight and why"
    try:
        parse(METHODS["edge.add"], {name: value for name, value in edge.items() if name != "why"})
    except UsageError as error:
        return error.message
    pair = frozenset((edge["from"], edge["to"]))
    return "" if pair in known else f"{edge['from']} and {edge['to']} are not one of the pairs"


# --- context and summaries ----------------------------------------------------------------------------------------


@method_command(app, "context", words="query", exit_code=lambda result: code_of(result["memories"], result))
def context(result: Result, args: Args) -> None:
    """Gathers what is known for a task, as Markdown to be pasted into a prompt.

    What fits the task best comes first, with what contradicts it beside it, then pinned memories, in a quarter of the
    budget. Every memory says where it stands and of what day it is.
    """
    console.note(*(_stages(result) if args["explain"] else ()))
    if not result["memories"]:
        left = result["explain"]["packing"]["dropped"]
        console.note(f"nothing fits into {result['budget']} tokens" if left else "nothing is known for this task")
        return
    console.quoted(result["text"])
    if result["pending"]:
        console.note(still_indexing(result["pending"]))
    console.note(*degraded(result))


def _stages(result: Result) -> Iterator[str]:
    """The counts of every stage, a line each."""
    stages = {name: counts for name, counts in result["explain"].items() if isinstance(counts, dict)}
    for name, counts in stages.items():
        yield f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}"
    estimated = " (estimated)" if result["tokens_estimated"] else ""
    yield f"tokens: {result['tokens']} of {result['budget']}{estimated}"
    if why := result["explain"]["compaction"]:
        yield f"a summary would help (memd consolidate): {why}"


@method_command(app, "consolidate", words="text")
def consolidate(result: Result, args: Args) -> None:
    """Writes a memory that sums up others: in `memd context` it stands for them.

    The sources stay as they are and can be found as before; `memd undo` takes the summary back.
    """
    where = f" in {result['paths'][0]}" if result["paths"] else ""
    console.line(f"{result['key']}{where} sums up {', '.join(result['sources'])} (version {result['version']})")


@method_command(app, "expand")
def expand(result: Result, args: Args) -> None:
    if args["key"] is None:
        summaries = (f"{reports.place(summary)}  contains {summary['children']}" for summary in result["summaries"])
        console.lines(summaries, "there is no summary yet: memd consolidate writes one")
    elif not result["children"]:
        console.note(f"{one_line(args['key'])} contains no other memory")
    else:
        for nth, child in enumerate(result["children"]):
            console.out(("\n" if nth else "") + one_line(reports.place(child)))
            console.quoted(child["text"])
