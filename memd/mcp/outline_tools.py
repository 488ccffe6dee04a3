"""The tools that `--experimental` adds: the source code around the notes, under the names that their users know."""

from __future__ import annotations

import json
from typing import Any

from memd.mcp import shapes
from memd.mcp.shapes import Schema
from memd.mcp.telling import MOST, ROOM, clean, remarks, sourced
from memd.mcp.tools import Arguments, Ask, Reply, Tool

Symbol = dict[str, Any]

CUT = "ask for fewer relations, less depth, or one file or symbol"


async def _symbol(ask: Ask, given: Arguments) -> Reply:
    return _told(await ask("outline.symbol", given))


async def _file(ask: Ask, given: Arguments) -> Reply:
    return _told(await ask("outline.file", given))


async def _project(ask: Ask, given: Arguments) -> Reply:
    return _told(await ask("outline.project", given))


def _told(found: dict[str, Any]) -> Reply:
    data = {name: found[name] for name in ("language", "format", "skipped")}
    if found["format"] == "text":
        text = sourced(f"code outline, {found['language']}", found["text"])
        return Reply(text, {**data, "text": found["text"][:MOST]}, remarks(found))
    every = found["symbols"]
    shown, whole = _within(every)
    cut = [] if whole else [f"the outline was cut: {len(shown):,} of {len(every):,} symbols are here; {CUT}"]
    return Reply(_json({"symbols": shown}), {**data, "symbols": shown}, [*remarks(found), *cut])


def _within(every: list[Symbol]) -> tuple[list[Symbol], bool]:
    """As many symbols as an answer has room for, and whether these are all, each with all that belongs to it."""
    shown: list[Symbol] = []
    room = ROOM
    for symbol in every:
        # Before it is written as JSON: hidden characters that are escaped there could no longer be found.
        safe = clean(symbol)
        room -= len(_json(safe)) + 1
        if room < 0:
            return shown or [_near(safe)], False
        shown.append(safe)
    return shown, True


def _near(symbol: Symbol) -> Symbol:
    """A symbol whose tree is too much: only what is next to it, as far as there is room."""
    lists = {"relations": [_flat(one) for one in symbol.get("relations", ())],
             "mentioned_in": symbol.get("mentioned_in", [])}  # fmt: skip
    near = {name: value for name, value in symbol.items() if name not in lists}
    room = ROOM - len(_json(near))
    for name, entries in lists.items():
        kept = []
        for entry in entries:
            room -= len(_json(entry)) + 1
            if room < 0:
                break
            kept.append(entry)
        if kept:
            near[name] = kept
    return near


def _flat(relation: Symbol) -> Symbol:
    if "to" not in relation:
        return relation
    return {**relation, "to": {name: value for name, value in relation["to"].items() if name != "relations"}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- the table ----------------------------------------------------------------------------------------------

HOW: dict[str, Schema] = {
    "depth": shapes.whole("Levels of relations to follow.", 1, 8, default=2),
    "relations": shapes.texts(
        "Only these relations: contains, calls, called_by, imports, imported_by, inherits, inherited_by, implements,"
        " uses_type, decorates, mentioned_in (memories that name it). All, if left out."
    ),
    "omit_native": shapes.flag("Leave out what comes with the language: its library and built-ins.", default=False),
    "format": shapes.choice("How to answer.", ("text", "json"), default="text"),
}
LANGUAGE = shapes.text("Target language: python, go, javascript, typescript, rust, java, c or cpp.")

GIVES: dict[str, Schema] = {
    "language": shapes.TEXT,
    "format": shapes.TEXT,
    "text": shapes.text("The tree, one relation a line; with format text."),
    "symbols": shapes.rows(
        "The same as data; with format json.",
        {
            "name": shapes.TEXT,
            "kind": shapes.TEXT,
            "path": shapes.TEXT,
            "line": shapes.LINE,
            "end_line": shapes.LINE,
            "signature": shapes.TEXT,
            "relations": shapes.rows(
                "What it relates to: `to` a symbol with relations of its own, to `candidates`, or to neither.",
                {
                    "relation": shapes.TEXT,
                    "name": shapes.TEXT,
                    "path": shapes.TEXT,
                    "line": shapes.LINE,
                    "how": shapes.TEXT,
                    "times": shapes.COUNT,
                    "to": {"type": "object"},
                    "candidates": {"type": "array", "items": {"type": "object"}},
                },
                ("how", "times", "to", "candidates"),
            ),
            "mentioned_in": shapes.rows(
                "The memories that name it.",
                {"key": shapes.TEXT, "path": shapes.TEXT, "line": shapes.LINE, "heading": shapes.TEXT},
            ),
        },
        ("relations", "mentioned_in"),
    ),
    "skipped": shapes.rows("Sources not read, or not wholly.", {"path": shapes.TEXT, "why": shapes.TEXT}),
}

TOOLS = (
    Tool(
        name="outline_symbol",
        title="Outline a symbol",
        about="Show how a symbol of the source code relates to the others: what it calls and who calls it, what it"
        " holds, imports and inherits, and which memories name it. Call it before you change a function or a class."
        " Returns a tree with the path and line of each.",
        takes={
            "symbol": shapes.text("The symbol: its whole name, or any end of it that only one has (`Store.save`)."),
            "language": LANGUAGE,
            "file": shapes.text("Only in this file, relative to the project's root."),
            **HOW,
        },
        needs=("symbol", "language"),
        gives=GIVES,
        may_lack=("text", "symbols"),
        run=_symbol,
        reads=True,
        again=True,
    ),
    Tool(
        name="outline_file",
        title="Outline a source file",
        about="Show every symbol that a source file declares, and how each relates to the rest of the project. Call it"
        " to know a file without reading all of it. Returns a tree for each symbol.",
        takes={"file": shapes.text("The source file, relative to the project's root."), "language": LANGUAGE, **HOW},
        needs=("file", "language"),
        gives=GIVES,
        may_lack=("text", "symbols"),
        run=_file,
        reads=True,
        again=True,
    ),
    Tool(
        name="outline_project",
        title="Outline the project",
        about="Show every symbol of one language in the whole project, and how they relate. It is long: name the"
        " relations that you need, or ask for a file or a symbol. Returns a tree for each symbol, as far as there is"
        " room.",
        takes={"language": LANGUAGE, **HOW},
        needs=("language",),
        gives=GIVES,
        may_lack=("text", "symbols"),
        run=_project,
        reads=True,
        again=True,
    ),
)
