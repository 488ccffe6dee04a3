"""`memd context`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from memd.cli import given, options, say, talk
from memd.errors import UsageError

NOTHING, NOTHING_WHILE_DEGRADED = 1, 4


def context(
    task: Annotated[list[str], typer.Argument(metavar="TASK...", help="What is to be done; quotes are not needed.")],
    budget: Annotated[
        int, typer.Option("--budget", "-b", min=50, max=200_000, help="At most this many tokens.")
    ] = 2000,
    tags: Annotated[list[str] | None, typer.Option(help="Only memories with all of these tags: a,b")] = None,
    kind: Annotated[
        Literal["semantic", "episodic", "procedural"] | None, typer.Option(help="Only memories of this kind.")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out what is worth less than this to the task.")
    ] = None,
    min_spread: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out everything when best and worst differ by less.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each stage found, on standard error.")] = False,
    observe: Annotated[bool, typer.Option("--observe/--no-observe", help="Whether it counts as an access.")] = True,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Gather what is known for a task, as Markdown to be pasted into a prompt.

    Pinned memories come first, then what fits the task best, with what contradicts it beside it. Every memory says
    where it stands and of what day it is.
    """
    words = " ".join(task)
    if not words.strip():
        raise UsageError("there is no task", 'for example: memd context "move ErsatzTV to the new server"')
    with talk.client(not no_start) as caller:
        how = given.aimed(caller, ns, workspace, budget=budget, kind=kind, tags=options.tags_of(tags or None),
                          min_score=min_score, min_spread=min_spread)  # fmt: skip
        result = caller.context(words, observe=observe, **how)
    raise typer.Exit(_show(result, explain, json))


def _show(result: Mapping[str, Any], explain: bool, json: bool) -> int:
    found = bool(result["memories"])
    if explain and not json:
        for line in _stages(result):
            say.note(line)
    if json:
        say.json(result)
    elif found:
        say.quoted(result["text"])
    else:
        left = result["explain"]["packing"]["dropped"]
        say.note(f"nothing fits into {result['budget']} tokens" if left else "nothing is known for this task")
    if found and result["degraded"] and not json:
        say.note(f"degraded: {', '.join(result['degraded'])}; memd status tells more")
    return 0 if found else NOTHING_WHILE_DEGRADED if result["degraded"] else NOTHING


def _stages(result: Mapping[str, Any]) -> list[str]:
    """The counts of every stage, a line each."""
    stages = {name: counts for name, counts in result["explain"].items() if isinstance(counts, dict)}
    lines = [
        f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}" for name, counts in stages.items()
    ]
    estimated = " (estimated)" if result["tokens_estimated"] else ""
    lines.append(f"tokens: {result['tokens']} of {result['budget']}{estimated}")
    why = result["explain"]["compaction"]
    return [*lines, f"a summary would help (memd consolidate): {why}"] if why else lines


def register(app: typer.Typer) -> None:
    app.command()(context)
