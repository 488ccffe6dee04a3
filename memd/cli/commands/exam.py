"""`memd eval`: how well your own questions are answered."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import console, reports
from memd.cli.method_command import Args, Result, method_command
from memd.errors import NotFound, UsageError
from memd.protocol.safe_text import one_line

MANY = 10
"""Lines of one kind that are shown before the rest is counted."""
Misses = Annotated[bool, typer.Option("--misses", help="Show what was not found, and what came instead.")]
app = typer.Typer()


def _one_exam(args: Args) -> None:
    if bool(args["path"]) == args["self"]:
        raise UsageError("an exam is a file of questions, or --self", "for example: memd eval --self")
    if args["path"] and not Path(args["path"]).is_file():
        raise NotFound(f"there is no file {args['path']}", "how to write one: memd eval --help")


@method_command(
    app, "eval", name="eval", prepare=_one_exam, leave_out=["questions"], misses=Misses,
    path=typer.Argument(metavar="FILE.jsonl", help="Questions and what their answers must be."),
)  # fmt: skip
def evaluate(result: Result, args: Args) -> None:
    """Scores your own questions, or probes made from your notes.

    A question is a line of JSON: {"question": "Which port has ErsatzTV?", "expect": "memory/2026-02-15.md:6"}
    """
    console.out(report(result, args["self"], args["misses"]))
    problems = result["problems"]
    for problem in problems[:MANY]:
        console.note(f"line {problem['line']} is left out: {problem['why']}")
    if len(problems) > MANY:
        console.note(f"and {len(problems) - MANY} more lines")


def report(result: Result, probes: bool, misses: bool) -> str:
    """The screen of `memd eval`."""
    what = "probe" if probes else "question"
    if not result["questions"]:
        return "there are no notes yet that a probe could be made from"
    blocks = [_table(result, what), _pace(result), _misses(result, what) if misses else _missed(result, what)]
    return "\n\n".join(block for block in blocks if block)


def _table(result: Result, what: str) -> str:
    parts = {"all": result, **result["categories"]}
    rows = [["", f"{what}s", *result["figures"]]]
    for category, part in parts.items():
        figures = (f"{part['figures'][name]:.3f}" for name in result["figures"])
        rows.append([one_line(category), str(part["questions"]), *figures])
    return reports.table(rows, numbers=True)


def _pace(result: Result) -> str:
    return (
        f"hits have {result['mean_length']:.0f} characters on average; "
        f"half of the answers took {result['p50_ms']:.1f} ms or less, 95 % took {result['p95_ms']:.1f} ms or less"
    )


def _missed(result: Result, what: str) -> str:
    count = result["missed"]
    if not count:
        return f"every {what} had its answer among the first five hits"
    return f"{count} of {result['questions']} had no answer among the first five hits; to see them: --misses"


def _misses(result: Result, what: str) -> str:
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
