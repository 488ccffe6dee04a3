"""`memd query` and `memd grep` by hand: flags, call, answer. What they do not understand they leave to Typer.

Loads neither Typer nor anything that Typer needs; tests/test_light_imports.py guards that.
"""

from __future__ import annotations

import time

from memd.cli import console, daemon_calls, hits
from memd.cli.flags import BUS_PARAMS, GREP, QUERY
from memd.errors import UsageError
from memd.protocol.safe_text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GREP_RESULTS = 10
NOTHING, NOTHING_WHILE_DEGRADED = 1, 4


def _typed(args: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: args[name] for name in names if args.get(name) is not None and args[name] is not False}


# --- query --------------------------------------------------------------------------------------------------------


class TypedQuery:
    """A query as it was typed."""

    def __init__(self, words: list[str], args: dict[str, Any]) -> None:
        self.query = " ".join(words)
        self.args = args
        format_ = args.get("format") or "text"
        self.format: str = hits.FORMAT_ALIASES.get(format_, format_)

    def params(self) -> dict[str, Any]:
        """The parameters for the daemon: only those that were typed."""
        names = BUS_PARAMS if self.format == "entries" else QUERY.params
        params = {**_typed(self.args, names), "query": self.query}
        if not self.args.get("json") and self.format in ("text", "grep"):
            params["marks"] = True
        return params

    def check(self) -> None:
        """Refuse what contradicts itself."""
        refused = [name for name in _typed(self.args, QUERY.params) if name not in BUS_PARAMS]
        if refused and self.format == "entries":
            flag = "--" + refused[0].replace("_", "-")
            raise UsageError(f"--format entries counts words and has no {flag}", f"leave {flag} out")


def run_query(args: list[str]) -> int | None:
    """Ask, show, and give the exit code; None for Typer to explain what is wrong (or to help)."""
    query = parse_query(args)
    return None if query is None else answer_query(query)


def parse_query(args: list[str]) -> TypedQuery | None:
    """The query; None where nothing is asked for, and for `-`, which reads it from standard input."""
    read = QUERY.read(args)
    return TypedQuery(*read) if read and " ".join(read[0]).strip() not in ("", "-") else None


def answer_query(query: TypedQuery) -> int:
    query.check()
    with daemon_calls.connect(not query.args.get("no_start")) as client:
        scope = daemon_calls.scope(client, query.args)
        # Whoever asks decides which day is today.
        params = {**query.params(), "now": time.strftime("%Y-%m-%dT%H:%M"), **scope}
        if query.format == "entries":
            result = daemon_calls.all_rows(client, "bus", params, query.args.get("limit"))
        else:
            result = client.call("query", params)
        found = {"hits": result.get("entries"), **result}
        code = code_of(found["hits"], found)
        if query.args.get("json"):
            console.json(result)
        elif code != NOTHING or not query.args.get("quiet"):
            _show_hits(query, found)
            if code and "role" in params:
                # Where no memory has the role at all, say which ones there are.
                note_unknown_role(params["role"], client.call("list", {**scope, "limit": 1})["roles"])
    return code


def code_of(found: object, result: Mapping[str, Any]) -> int:
    """0 found, 1 nothing found, 4 nothing found while something is degraded."""
    return 0 if found else NOTHING_WHILE_DEGRADED if result["degraded"] else NOTHING


def _show_hits(query: TypedQuery, result: dict[str, Any]) -> None:
    near = result.get("near", []) if query.args.get("all") else []
    if result["hits"] or near:
        all_hits = {**result, "hits": [*result["hits"], *near]}
        colour, full = console.wants_colour(query.args.get("color")), bool(query.args.get("full"))
        console.page(hits.written(query.format, all_hits, colour, full))
    console.note(*hits.remarks(query.query, result, bool(near)))
    if query.args.get("limit") == 0 and result["hits"]:
        _note_cut(result)


def _note_cut(result: dict[str, Any]) -> None:
    """All were asked for; say so when that is more than an answer has, counting what was folded into a hit."""
    many = len(result["hits"])
    places = many + sum(len(hit.get("also", ())) for hit in result["hits"])
    # With fewer hits the others are no answers.
    if many >= daemon_calls.PAGES["bus"][1] and result.get("total", 0) > places:
        shown = f"{many} ({places} places)" if places > many else f"{many}"
        console.note(f"these are the best {shown}, the most that one answer has; narrow it with --since, --path")


def note_unknown_role(role: str | None, known: dict[str, int]) -> None:
    if role and role not in known:
        console.note(f"no memory has the role “{one_line(role)}”; there are: {', '.join(known) or 'none yet'}")


# --- grep ---------------------------------------------------------------------------------------------------------


def run_grep(args: list[str]) -> int | None:
    """Look, show, and give the exit code; None for Typer to explain what is wrong (or to help)."""
    read = GREP.read(args)
    return answer_grep(read[0][0], read[1]) if read and len(read[0]) == 1 else None


def answer_grep(pattern: str, args: dict[str, Any]) -> int:
    if not pattern.strip():
        raise UsageError("there is nothing to look for", "for example: memd grep ErsatzTV")
    if args.get("case") and args.get("ignore_case"):
        raise UsageError("--ignore-case and --case-sensitive exclude each other")
    params = _typed(args, GREP.params)
    limit = params.pop("max_results", GREP_RESULTS)
    with daemon_calls.connect(not args.get("no_start")) as client:
        params = {"pattern": pattern, **params, **daemon_calls.scope(client, args)}
        result = daemon_calls.all_blocks(client, params, limit)
    if args.get("json"):
        console.json(result)
    else:
        _show_blocks(pattern, args, result)
    return 0 if result["blocks"] else NOTHING


def _show_blocks(pattern: str, args: dict[str, Any], result: dict[str, Any]) -> None:
    if result["blocks"]:
        console.page(hits.blocks(result, console.wants_colour(args.get("color"))))
    else:
        asked = ", ".join(one_line(name) for name in result["ns"])
        console.note(f"nothing found for “{one_line(pattern)}” in the files of {asked}")
    if result["next"]:
        console.note(f"there is more after these {len(result['blocks'])}; to see all: --max-results 0")
    if result["skipped"]:
        first = result["skipped"][0]
        more = f" and {len(result['skipped']) - 1} more" if len(result["skipped"]) > 1 else ""
        console.note(f"not read: {one_line(first['path'] or first['ns'])} ({one_line(first['why'])}){more}")
