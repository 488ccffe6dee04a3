"""`memd context`, `memd consolidate` and `memd expand`."""

from typing import Annotated

import typer

from memd.cli import console
from memd.cli.fast_search import code_of
from memd.cli.hits import still_indexing
from memd.cli.method_command import REQUIRED, Args, Result, method_command
from memd.protocol.safe_text import one_line

Explain = Annotated[bool, typer.Option("--explain", help="Show what each stage found, on standard error.")]
app = typer.Typer()


@method_command(
    app, "context", words="query", exit_code=lambda result: code_of(result["memories"], result), explain=Explain,
    query=typer.Argument(metavar="TASK...", help="What is to be done; quotes are not needed."),
    budget=typer.Option("--budget", "-b"), observe=typer.Option("--observe/--no-observe"),
)  # fmt: skip
def context(result: Result, args: Args) -> None:
    """Gathers what is known for a task, as Markdown to be pasted into a prompt.

    What fits the task best comes first, with what contradicts it beside it, then pinned memories, in a quarter of the
    budget. Every memory says where it stands and of what day it is.
    """
    for line in _stages(result) if args["explain"] else ():
        console.note(line)
    if not result["memories"]:
        left = result["explain"]["packing"]["dropped"]
        console.note(f"nothing fits into {result['budget']} tokens" if left else "nothing is known for this task")
        return
    console.quoted(result["text"])
    if result["pending"]:
        console.note(still_indexing(result["pending"]))
    if result["degraded"]:
        console.note(f"degraded: {', '.join(result['degraded'])}; memd status tells more")


def _stages(result: Result) -> list[str]:
    """The counts of every stage, a line each."""
    stages = {name: counts for name, counts in result["explain"].items() if isinstance(counts, dict)}
    lines = [
        f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}" for name, counts in stages.items()
    ]
    estimated = " (estimated)" if result["tokens_estimated"] else ""
    lines.append(f"tokens: {result['tokens']} of {result['budget']}{estimated}")
    why = result["explain"]["compaction"]
    return [*lines, f"a summary would help (memd consolidate): {why}"] if why else lines


@method_command(
    app, "consolidate", words="text", defaults={"text": REQUIRED, "sources": REQUIRED},
    text=typer.Argument(metavar="SUMMARY|-", help="What it says; - reads standard input."),
    sources=typer.Option("--sources", "-s", metavar="KEY,KEY"),
)  # fmt: skip
def consolidate(result: Result, args: Args) -> None:
    """Writes a memory that sums up others: in `memd context` it stands for them.

    The sources stay as they are and can be found as before; `memd undo` takes the summary back.
    """
    where = f" in {result['paths'][0]}" if result["paths"] else ""
    console.line(f"{result['key']}{where} sums up {', '.join(result['sources'])} (version {result['version']})")


@method_command(app, "expand")
def expand(result: Result, args: Args) -> None:
    if args["key"] is None:
        _show_summaries(result)
    else:
        _show_children(args["key"], result)


def _show_summaries(result: Result) -> None:
    summaries = (
        f"{summary['key']}  {summary['path']}:{summary['start_line']}  contains {summary['children']}"
        for summary in result["summaries"]
    )
    console.lines(summaries, "there is no summary yet: memd consolidate writes one")


def _show_children(key: str, result: Result) -> None:
    if not result["children"]:
        console.note(f"{one_line(key)} contains no other memory")
    for nth, child in enumerate(result["children"]):
        console.out(
            f"{chr(10) if nth else ''}{one_line(child['key'])}  {one_line(child['path'])}:{child['start_line']}"
        )
        console.quoted(child["text"])
