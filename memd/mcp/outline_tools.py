"""The tools that `--experimental` adds: the source code around the notes, under the names that their users know."""

import json
from collections.abc import Iterable
from typing import Any

from memd.mcp.tool_text import MAX_ANSWER, MAX_TEXT, sanitize, with_source
from memd.mcp.tools import Reply, Result, pick, takes, tool

Symbol = dict[str, Any]
NARROW = "ask for fewer relations, less depth, or one file or symbol"

# --- what they answer ---------------------------------------------------------------------------------------


def _outline_reply(result: Result) -> Reply:
    data = pick(result, "language", "format", "skipped")
    if result["format"] == "text":
        text = with_source(f"code outline, {result['language']}", result["text"])
        return Reply(text, {**data, "text": result["text"][:MAX_ANSWER]})
    symbols = result["symbols"]
    # Sanitized before they are written as JSON, whose escapes would hide the characters.
    shown = _first_that_fit(map(sanitize, symbols), MAX_TEXT)
    complete = len(shown) == len(symbols)
    if symbols and not shown:
        shown = [_shallow(sanitize(symbols[0]))]
    cut = f"the outline was cut: {len(shown):,} of {len(symbols):,} symbols are here; {NARROW}"
    return Reply(_json({"symbols": shown}), {**data, "symbols": shown}, [] if complete else [cut])


def _first_that_fit(values: Iterable[Any], room: int) -> list[Any]:
    """The first values, each whole, that take no more than so many characters as JSON."""
    kept = []
    for value in values:
        room -= len(_json(value)) + 1
        if room < 0:
            break
        kept.append(value)
    return kept


def _shallow(symbol: Symbol) -> Symbol:
    """A symbol whose tree is too long: only what is next to it, as far as there is room."""
    lists = {
        "relations": [_without_tree(relation) for relation in symbol.get("relations", ())],
        "mentioned_in": symbol.get("mentioned_in", []),
    }
    shallow = {name: value for name, value in symbol.items() if name not in lists}
    for name, entries in lists.items():
        if kept := _first_that_fit(entries, MAX_TEXT - len(_json(shallow))):
            shallow[name] = kept
    return shallow


def _without_tree(relation: Symbol) -> Symbol:
    if "to" not in relation:
        return relation
    return {**relation, "to": {name: value for name, value in relation["to"].items() if name != "relations"}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- the tools ----------------------------------------------------------------------------------------------

LANGUAGE = takes("Target language: python, go, javascript, typescript, rust, java, c or cpp.", required=True)
OPTIONS: dict[str, Any] = {
    "depth": takes("Levels of relations to follow."),
    "relations": takes(
        "Only these relations: contains, calls, called_by, imports, imported_by, inherits, inherited_by, implements,"
        " uses_type, decorates, mentioned_in (memories that name it). All, if left out."
    ),
    "omit_native": takes("Leave out what comes with the language: its library and built-ins."),
    "format": takes("How to answer."),
}


@tool(
    "outline.symbol", "Outline a symbol",
    symbol=takes("The symbol: its whole name, or any end of it that only one has (`Store.save`)."),
    language=LANGUAGE,
    file=takes("Only in this file, relative to the project's root."),
    **OPTIONS,
)  # fmt: skip
def outline_symbol(result: Result) -> Reply:
    """Show how a symbol of the source code relates to the others: what it calls and who calls it, what it holds,
    imports and inherits, and which memories name it. Call it before you change a function or a class. Returns a tree
    with the path and line of each.
    """
    return _outline_reply(result)


@tool(
    "outline.file", "Outline a source file",
    file=takes("The source file, relative to the project's root."),
    language=LANGUAGE, **OPTIONS,
)  # fmt: skip
def outline_file(result: Result) -> Reply:
    """Show every symbol that a source file declares, and how each relates to the rest of the project. Call it to know a
    file without reading all of it. Returns a tree for each symbol.
    """
    return _outline_reply(result)


@tool("outline.project", "Outline the project", language=LANGUAGE, **OPTIONS)
def outline_project(result: Result) -> Reply:
    """Show every symbol of one language in the whole project, and how they relate. It is long: name the relations that
    you need, or ask for a file or a symbol. Returns a tree for each symbol, as far as there is room.
    """
    return _outline_reply(result)
