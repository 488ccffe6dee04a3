"""`memd grep` by hand: flags, call, answer. What it does not understand it leaves to Typer.

Loads neither Typer nor anything that Typer needs; tests/test_light_imports.py guards that.
"""

from __future__ import annotations

from memd.cli import formats, pages, say
from memd.cli.flags import Flags
from memd.errors import MemdError, UsageError
from memd.protocol.client import Client
from memd.protocol.safe_text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_RESULTS = 10
MAX_CONTEXT = 1_000
FLAGS = Flags(
    values={
        "-C": "context",
        "--context": "context",
        "--max-results": "max_results",
        "--path": "path",
        "-n": "ns",
        "--ns": "ns",
        "-w": "workspace",
        "--workspace": "workspace",
        "--color": "color",
    },
    switches={
        "-E": "regex",
        "--regex": "regex",
        "-i": "ignore_case",
        "--ignore-case": "ignore_case",
        "--case-sensitive": "case",
        "--json": "json",
        "--no-start": "no_start",
    },
    choices={"color": ("auto", "always", "never")},
    numbers={"context": MAX_CONTEXT, "max_results": 10**9},
)
ON_THE_WIRE = ("regex", "case", "context", "path")


def parse(args: list[str]) -> tuple[str, dict[str, Any]] | None:
    """The pattern and the flags, or None for Typer to explain what is wrong with them (or to help)."""
    read = FLAGS.read(args)
    if read is None or len(read[0]) != 1:
        return None
    return read[0][0], read[1]


def run(pattern: str, given: dict[str, Any]) -> int:
    """Look, show, and give the exit code; errors are told here."""
    try:
        return answer(pattern, given)
    except MemdError as error:
        return say.report(error)


def answer(pattern: str, given: dict[str, Any]) -> int:
    if not pattern.strip():
        raise UsageError("there is nothing to look for", "for example: memd grep ErsatzTV")
    if given.get("case") and given.get("ignore_case"):
        raise UsageError("--ignore-case and --case-sensitive exclude each other")
    params = {name: given[name] for name in ON_THE_WIRE if given.get(name) is not None}
    with Client(autostart=not given.get("no_start"), notice=say.note, who="cli") as client:
        params = pages.aimed(client, given, {"pattern": pattern, **params})
        result = pages.all_blocks(client, params, given.get("max_results", MAX_RESULTS))
    if given.get("json"):
        say.json(result)
    else:
        _show(pattern, given, result)
    return 0 if result["blocks"] else 1


def _show(pattern: str, given: dict[str, Any], result: dict[str, Any]) -> None:
    if result["blocks"]:
        say.out(formats.blocks(result, say.wants_colour(given.get("color", "auto"))))
    else:
        asked = ", ".join(one_line(name) for name in result["ns"])
        say.note(f"nothing found for “{one_line(pattern)}” in the files of {asked}")
    if result["next"]:
        say.note(f"there is more after these {len(result['blocks'])}; to see all: --max-results 0")
    if result["skipped"]:
        first = result["skipped"][0]
        more = f" and {len(result['skipped']) - 1} more" if len(result["skipped"]) > 1 else ""
        say.note(f"not read: {one_line(first['path'] or first['ns'])} ({one_line(first['why'])}){more}")
