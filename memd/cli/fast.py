"""`memd query` by hand: flags, call, answer. What it does not understand it leaves to Typer.

Loads neither Typer nor anything that Typer needs; tests/test_light_imports.py guards that.
"""

from __future__ import annotations

from memd.cli import formats, hits, pages, say
from memd.cli.flags import Flags
from memd.errors import MemdError, UsageError
from memd.protocol.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LIMIT = 200
FLAGS = Flags(
    values={
        "-n": "ns",
        "--ns": "ns",
        "-w": "workspace",
        "--workspace": "workspace",
        "-l": "limit",
        "--limit": "limit",
        "-m": "mode",
        "--mode": "mode",
        "--kind": "kind",
        "--tags": "tags",
        "--role": "role",
        "--path": "path",
        "--tier": "tier",
        "--since": "since",
        "--until": "until",
        "--as-of": "as_of",
        "--sync": "sync",
        "--format": "format",
        "--color": "color",
    },
    switches={"--json": "json", "--explain": "explain", "--all": "all", "--no-start": "no_start"},
    choices={
        "mode": ("hybrid", "text", "vector", "exact"),
        "sync": ("auto", "none", "full"),
        "format": formats.FORMATS,
        "color": ("auto", "always", "never"),
    },
    numbers={"limit": MAX_LIMIT},
)
FILTERS = ("kind", "tags", "role", "path", "tier", "since", "until", "sync")
ON_THE_WIRE = ("limit", "mode", "explain", "as_of", *FILTERS)


class Asked:
    """A query as it was typed."""

    def __init__(self, words: list[str], given: dict[str, Any]) -> None:
        self.query = " ".join(words)
        self.given = given
        self.json = bool(given.get("json"))
        self.format: str = given.get("format") or "text"

    def params(self) -> dict[str, Any]:
        """What goes to the daemon: only what was said."""
        names = FILTERS if self.format == "bus" else ON_THE_WIRE
        params = {name: self.given[name] for name in names if self.given.get(name) is not None}
        params["query"] = self.query
        if not self.json and self.format in ("text", "grep"):
            params["marks"] = True
        return params

    def check(self) -> None:
        """Refuse what contradicts itself."""
        since, until = self.given.get("since") or "", self.given.get("until") or ""
        shorter = min(len(since), len(until))
        # "2026-02" takes in its days, so dates are compared as far as both go.
        if since[:shorter] > until[:shorter]:
            raise UsageError(f"--since {since} is later than --until {until}", "nothing can be both; swap them")
        given = [name for name in ("mode", "explain", "as_of") if self.given.get(name)]
        own = ["--" + name.replace("_", "-") for name in given] if self.format == "bus" else []
        if own:
            raise UsageError(f"--format bus counts words and has no {own[0]}", f"leave {own[0]} out")


def parse(args: list[str]) -> Asked | None:
    """The query, or None for Typer to explain what is wrong with it (or to help)."""
    read = FLAGS.read(args)
    return Asked(*read) if read and any(word.strip() for word in read[0]) else None


def run(asked: Asked) -> int:
    """Ask, show, and give the exit code; errors are told here."""
    try:
        return answer(asked)
    except MemdError as error:
        return say.report(error)


def answer(asked: Asked) -> int:
    asked.check()
    with Client(autostart=not asked.given.get("no_start"), notice=say.note, who="cli") as client:
        params = pages.aimed(client, asked.given, asked.params())
        if asked.format == "bus":
            result = pages.gathered(client, "bus", params, "entries", asked.given.get("limit"), pages.BUS_PAGE)
            code = _found(bool(result["entries"]), result)
        else:
            result = client.call("query", {**params, "who": "cli"})
            code = exit_code(result)
        if asked.json:
            say.json(result)
            return code
        _show_entries(asked, result) if asked.format == "bus" else _show(asked, result)
        if code and "role" in params:
            _name_roles(client, params)
    return code


def exit_code(result: dict[str, Any]) -> int:
    """0 hits, 1 nothing found, 4 nothing found while something is degraded."""
    return _found(bool(result["hits"]) and result.get("verdict") != "none", result)


def _found(any_: bool, result: dict[str, Any]) -> int:
    if any_:
        return 0
    return 4 if result["degraded"] else 1


def _show(asked: Asked, result: dict[str, Any]) -> None:
    # What a script reads is the wire's; only what is written for reading leaves out what is no answer.
    shown = bool(result["hits"]) and bool(asked.given.get("all") or asked.format == "jsonl")
    if shown or exit_code(result) == 0:
        say.out(formats.written(asked.format, result, say.wants_colour(asked.given.get("color", "auto"))))
    for line in hits.remarks(asked.query, result, shown):
        say.note(line)
    if asked.given.get("limit") == 0 and exit_code(result) == 0:
        _say_how_many(result)


def _say_how_many(result: dict[str, Any]) -> None:
    """All were asked for; say so when that is more than an answer has, counting what was folded into a hit."""
    many = len(result["hits"])
    places = many + sum(len(hit["also"]) for hit in result["hits"])
    if result.get("total", 0) > places:
        told = f"{many} ({places} places)" if places > many else f"{many}"
        say.note(f"these are the best {told}, the most that one answer has; narrow it with --since, --path")


def _show_entries(asked: Asked, result: dict[str, Any]) -> None:
    if result["entries"]:
        say.out(formats.entries(result))
    for line in hits.remarks(asked.query, {**result, "hits": result["entries"]}):
        say.note(line)


def _name_roles(client: Client, params: dict[str, Any]) -> None:
    """Nothing was found; where no memory has the role at all, say which ones there are."""
    where = {name: value for name, value in params.items() if name in ("ns", "cwd")}
    known = client.call("list", {**where, "limit": 1})["roles"]
    if params["role"] not in known:
        say.note(f"no memory has the role “{params['role']}”; there are: {', '.join(known) or 'none yet'}")
