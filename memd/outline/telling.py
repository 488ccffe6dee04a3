"""Relation trees as text: one relation a line, what follows from it below and further in, and never a flood."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

Node = dict[str, Any]

PER_KIND = 25
"""Relations of one kind that are shown of one symbol."""
MOST_LINES = 400
MARKS = {"cycle": "  ↻ a cycle", "above": "  ↑ see above"}
"""What has an entry of its own in the same text needs no mark."""
MOST_CANDIDATES = 4


def told(nodes: list[Node], more_symbols: int = 0, problem: str = "") -> str:
    """The trees, one after the other; `more_symbols` of them were not even grown.

    `problem` is why the file that they are of was not read, or not wholly.
    """
    lines = [line for node in nodes for line in _entry(node)]
    if problem:
        lines.insert(1, f"  not wholly read: {problem}")
    if len(lines) > MOST_LINES or more_symbols:
        more = f"{max(len(lines) - MOST_LINES, 0):,} more lines" + (
            f" and {more_symbols:,} more symbols" if more_symbols else ""
        )
        lines = [*lines[:MOST_LINES], f"… {more}; ask for fewer relations, less depth, or JSON, which is whole"]
    return "\n".join(lines)


def _entry(node: Node) -> Iterator[str]:
    yield _symbol(node)
    if node["signature"] and node["kind"] != "module":
        yield f"  {node['signature']}"
    yield from _relations(node, "  ")
    for one in node.get("mentioned_in", ()):
        yield f"  mentioned_in {one['key']}  {one['path']}:{one['line']}"


def _relations(node: Node, indent: str) -> Iterator[str]:
    for kind, group in groupby(node.get("relations", ()), key=lambda one: str(one["relation"])):
        every = list(group)
        for one in every[:PER_KIND]:
            yield f"{indent}{_relation(one)}"
            if "to" in one:
                yield from _relations(one["to"], f"{indent}  ")
        if len(every) > PER_KIND:
            yield f"{indent}{kind} … {len(every) - PER_KIND:,} more"


def _relation(one: Node) -> str:
    """`calls function a.b  a.py:3`; the place is the definition's, for what is not here that of the use."""
    times = f"  ×{one['times']}" if "times" in one else ""
    if "to" in one:
        guess = (
            "  ? one of several it could be"
            if one.get("ambiguous")
            else "  ~ the only one of its name"
            if one.get("how") == "name"
            else ""
        )
        return f"{one['relation']} {_symbol(one['to'])}{times}{guess}{MARKS.get(one['to'].get('cut', ''), '')}"
    if "candidates" in one:
        shown = [f"{each['name']} {each['path']}:{each['line']}" for each in one["candidates"][:MOST_CANDIDATES]]
        more = len(one["candidates"]) - len(shown)
        which = ", ".join(shown) + (f", … {more:,} more" if more else "")
        return f"{one['relation']} {one['name']}  {one['path']}:{one['line']}{times}  ? ambiguous: {which}"
    where = "native" if one.get("native") else "not in this project" if one.get("external") else "not found"
    return f"{one['relation']} {one['name']}  {one['path']}:{one['line']}{times}  ({where})"


def _symbol(node: Node) -> str:
    return f"{node['kind']} {node['name']}  {node['path']}:{node['line']}"
