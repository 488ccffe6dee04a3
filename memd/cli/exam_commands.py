"""`memd eval`: how well your own questions are answered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import options, say, talk
from memd.cli.ask_commands import Mode
from memd.cli.progress import Bar
from memd.errors import NotFound, UsageError
from memd.protocol.safe_text import one_line

MANY = 10
"""Lines of one kind that are told before the rest is counted."""


def evaluate(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE.jsonl", help="Questions and what their answers must be.")
    ] = None,
    own: Annotated[bool, typer.Option("--self", help="Ask probes that are made from your notes instead.")] = False,
    misses: Annotated[bool, typer.Option("--misses", help="Show what was not found, and what came instead.")] = False,
    mode: Annotated[Mode | None, typer.Option("--mode", "-m", help="By words and meaning, or by one of them.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=0, max=200, help="Hits to ask for, at least 10; 0 means 200.")
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Score your own questions, or probes made from your notes.

    A question is a line of JSON: {"question": "Which port has ErsatzTV?", "expect": "memory/2026-02-15.md:6"}
    """
    if (file is None) == (not own):
        raise UsageError("an exam is a file of questions, or --self", "for example: memd eval --self")
    if file is not None and not file.is_file():
        raise NotFound(f"there is no file {file}", "how to write one: memd eval --help")
    with talk.client(not no_start) as caller, Bar() as bar:
        name = talk.chosen(caller, ns, workspace)
        result = caller.eval(file, self_=own or None, ns=name, mode=mode, limit=limit, on_progress=bar.update)
    if json:
        say.json(result)
        return
    say.out(report(result, own, misses))
    for line in _problems(result["problems"]):
        say.note(line)


def report(result: Mapping[str, Any], own: bool, misses: bool) -> str:
    """The screen of `memd eval`."""
    what = "probe" if own else "question"
    if not result["questions"]:
        return "there are no notes yet that a probe could be made from"
    blocks = [_table(result, what), _pace(result), _misses(result, what) if misses else _missed(result, what)]
    return "\n\n".join(block for block in blocks if block)


def _table(result: Mapping[str, Any], what: str) -> str:
    names = list(result["figures"])
    rows = [["", f"{what}s", *names], ["all", str(result["questions"]), *_cells(result["figures"], names)]]
    for category, told in result["categories"].items():
        rows.append([one_line(category), str(told["questions"]), *_cells(told["figures"], names)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(_row(row, widths) for row in rows)


def _row(cells: list[str], widths: list[int]) -> str:
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return "  ".join([cells[0].ljust(widths[0]), *numbers])


def _cells(figures: dict[str, float], names: list[str]) -> list[str]:
    return [f"{figures[name]:.3f}" for name in names]


def _pace(result: Mapping[str, Any]) -> str:
    return (
        f"hits have {result['mean_length']:.0f} characters on average; "
        f"half of the answers took {result['p50_ms']:.1f} ms or less, 95 % took {result['p95_ms']:.1f} ms or less"
    )


def _missed(result: Mapping[str, Any], what: str) -> str:
    count = result["missed"]
    if not count:
        return f"every {what} had its answer among the first five hits"
    return f"{count} of {result['questions']} had no answer among the first five hits; to see them: --misses"


def _misses(result: Mapping[str, Any], what: str) -> str:
    blocks = [_miss(entry) for entry in result["misses"]]
    left = result["missed"] - len(result["misses"])
    return "\n".join([*blocks, *([f"and {left} more"] if left else [])]) if blocks else _missed(result, what)


def _miss(entry: dict[str, Any]) -> str:
    where = f"line {entry['line']}" if entry.get("line") else str(entry.get("kind", ""))
    rank = f"found at place {entry['rank']}" if entry["rank"] else "not found"
    lines = [
        f"{where}: {entry['question']}",
        f"    expected    {', '.join(entry['expected'])} ({rank})",
        f"    came first  {entry['first'] or 'nothing'}",
    ]
    return "\n".join(one_line(line) for line in lines)


def _problems(problems: list[dict[str, Any]]) -> list[str]:
    told = [f"line {problem['line']} is left out: {problem['why']}" for problem in problems[:MANY]]
    return told + ([f"and {len(problems) - MANY} more lines"] if len(problems) > MANY else [])


def register(app: typer.Typer) -> None:
    app.command(name="eval")(evaluate)
