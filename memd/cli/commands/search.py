"""`memd query`, `search`, `grep`, `get`, `why-not`, `list`; `eval` scores their answers, `model` tries another."""

import re
from pathlib import Path
from typing import Any

import typer

from memd.cli import console, daemon_calls, fast_search, hits, reports
from memd.cli.method_command import Args, Result, command_group, declared_command, method_command
from memd.errors import UsageError, in_shell
from memd.protocol.safe_text import one_line

app = typer.Typer()


@declared_command(app, "query", alias="search", words="query")
def query(args: Args) -> int:
    """Finds what was written down.

    Inside a workspace it asks that workspace, elsewhere all of them. Words that look like flags go after `--`.
    """
    return fast_search.answer_query(fast_search.TypedQuery([args["query"]], args))


@declared_command(app, "grep")
def grep(args: Args) -> int:
    """Finds lines letter by letter, in the files themselves.

    Newest files first, each match with the lines around it. A pattern that looks like a flag goes after `--`.
    """
    return fast_search.answer_grep(args["pattern"], args)


def _key_or_path(args: Args) -> None:
    path, line = path_and_line(args["key"])
    if path:
        args |= {"key": None, "path": path, "from": args["from"] or line}


def path_and_line(place: str) -> tuple[str | None, int | None]:
    """`memory/2026-02-15.md:12` as path and line; a key is neither."""
    found = re.fullmatch(r"(?s)(.+\.mdk?)(?::([1-9]\d{0,8}))?", place)
    path, line = found.groups() if found else (None, None)
    return path, int(line) if line else None


@method_command(app, "get", alias="show", prepare=_key_or_path, leave_out=["path"])
def get(result: Result, args: Args) -> None:
    if console.wants_colour():
        console.page(hits.memory(result))
    else:
        console.quoted(result["text"])
        console.note_author(result)
        console.note(*hits.expiry(result))
    if follow := result.get("sections_follow"):
        follows = "1 section follows" if follow == 1 else f"{follow:,} sections follow"
        console.note(f"{follows}: memd get {in_shell(result['path'])}")


def _passage(args: Args) -> None:
    path, line = path_and_line(place := args["file"])
    if path is None:
        raise UsageError(f"{place} is no place in a file of notes", "for example: memory/2026-02-15.md:12")
    args |= {"file": path, "line": line or 1, "passage": place}


@method_command(app, "why_not", name="why-not", words="query", leave_out=["line", "explain"], prepare=_passage)
def why_not(result: Result, args: Args) -> None:
    """Says why a passage did not come up for a question; takes what `memd query` takes."""
    shown, passage = result["shown"], one_line(args["passage"])
    head = f"{passage} is hit number {result['rank']}" if shown else f"{passage} is not shown"
    lines = [head, *(f"  {one_line(reason)}" for reason in result["reasons"])]
    if result.get("best") and not (shown and result["rank"] == 1):
        lines += ["", _beside_best(result)]
    console.text("\n".join(lines) + "\n")
    console.note(*hits.degraded(result))


def _beside_best(result: Result) -> str:
    """Each part of the score, of this passage and of the best hit."""
    best = result["best"]
    names = dict.fromkeys((*best["parts"], *result["parts"]))
    rows = [(name, result["parts"].get(name, 0.0), best["parts"].get(name, 0.0)) for name in names]
    rows.append(("score", result["score"], best["score"]))
    table = [("", "this", "best"), *((name, f"{mine:.3f}", f"{other:.3f}") for name, mine, other in rows)]
    head, *lines = reports.table(table, numbers=True).split("\n")
    return "\n  ".join([f"  {head}  ({one_line(best['path'])}:{best['start_line']})", *lines])


@method_command(
    app, "list", name="list", alias="ls", leave_out=["preview"],
    prepare=lambda args: args.update(path=args["path"] or args["place"]),
    send=lambda client, params, args: daemon_calls.all_rows(client, "list", params, args["limit"]),
)  # fmt: skip
def list_memories(result: Result, args: Args) -> None:
    """Lists the memories: role, title, time, key."""
    if result["memories"]:
        console.page(hits.listing(result["memories"]))
    else:
        none = "there are no memories yet; write one: memd note TEXT"
        console.note("no memory matches these filters" if result["roles"] else none)
    fast_search.note_unknown_role(args["role"], result["roles"])


# --- eval: how well your own questions are answered ---------------------------------------------------------------

MANY = 10
"""Lines of one kind that are shown before the rest is counted."""


@method_command(app, "eval", name="eval", leave_out=["questions"])
def evaluate(result: Result, args: Args) -> None:
    """Scores your own questions, or probes made from your notes.

    A question is a line of JSON: {"question": "Which port has ErsatzTV?", "expect": "memory/2026-02-15.md:6"}
    """
    what = "probe" if args["self"] else "question"
    pace = (
        f"hits have {result['mean_length']:.0f} characters on average; "
        f"half of the answers took {result['p50_ms']:.1f} ms or less, 95 % took {result['p95_ms']:.1f} ms or less"
    )
    blocks = [_table(result, what), pace, _missed(result, what, args["misses"])] if result["questions"] else []
    console.out("\n\n".join(blocks) or "there are no notes yet that a probe could be made from")
    problems = [f"line {problem['line']} is left out: {problem['why']}" for problem in result["problems"]]
    console.note(*console.first(problems, MANY, "and {} more lines"))


def _table(result: Result, what: str) -> str:
    rows = [["", f"{what}s", *result["figures"]]]
    for category, part in {"all": result, **result["categories"]}.items():
        figures = (f"{part['figures'][name]:.3f}" for name in result["figures"])
        rows.append([one_line(category), str(part["questions"]), *figures])
    return reports.table(rows, numbers=True)


def _missed(result: Result, what: str, misses: bool) -> str:
    if misses and result["misses"]:
        blocks = list(map(_miss, result["misses"]))
        return "\n".join(console.first(blocks, len(blocks), "and {} more", result["missed"]))
    if not result["missed"]:
        return f"every {what} had its answer among the first five hits"
    found = f"{result['missed']} of {result['questions']} had no answer among the first five hits"
    return f"{found}; to see them: --misses"


def _miss(entry: dict[str, Any]) -> str:
    where = f"line {entry['line']}" if entry.get("line") else str(entry.get("kind", ""))
    rank = f"found at place {entry['rank']}" if entry["rank"] else "not found"
    lines = [
        f"{where}: {entry['question']}",
        f"    expected    {', '.join(entry['expected'])} ({rank})",
        f"    came first  {entry['first'] or 'nothing'}",
    ]
    return "\n".join(one_line(line) for line in lines)


# --- model: the embedding model, and what another one would find ---------------------------------------------------

model_app = command_group(app, "model", "Shows the embedding model, or tries another one.")


@method_command(model_app, "status", of_group=True)
def model(result: Result, args: Args) -> None:
    """Shows the embedding model, how its cosines are read and how well it found what the last exam asked."""
    console.out(reports.model(result))


def _whole_path(args: Args) -> None:
    if "://" not in args["place"]:
        args["place"] = str(Path(args["place"]).expanduser().absolute())


@method_command(model_app, "model.try", name="try", prepare=_whole_path)
def try_model(result: Result, args: Args) -> None:
    """Asks your own notes with another model and with the one in use, by meaning alone, and changes nothing.

    The probes are sentences of your notes without some of their words. A server gets up to 500 passages of your notes.
    """
    head = ("model", "first", "in 5", "in 10", "ms a note", "ms a question", "tells apart")
    console.out(reports.table([head, *map(_figures, result["models"])], numbers=True))
    console.line(f"of {reports.count(result['probes'], 'probe')} among {reports.count(result['passages'], 'passage')}")
    used, other = (one["first_5"] for one in result["models"])
    better = "finds more" if other > used else "finds less" if other < used else "finds as much"
    how = "docs/models.md tells how to change to it" if other > used else "nothing was changed"
    console.line(one_line(f"{result['models'][1]['name']} {better}; {how}"))


def _figures(one: dict[str, Any]) -> tuple[str, ...]:
    figures = (f"{one[name]:,}" for name in ("first", "first_5", "first_10"))
    times = (f"{one[name]:.1f}" for name in ("ms_note", "ms_question"))
    return (one_line(one["name"]), *figures, *times, f"{one['scale']['told_apart']:.0%}")
