"""Renders relation trees as text: one relation per line, indented below what it belongs to, with limits."""

from collections.abc import Iterator
from itertools import groupby

from memd.outline.relations import Node

PER_KIND = 25
"""Relations of one kind shown per symbol."""
MAX_LINES = 400
MARKS = {"cycle": "  ↻ a cycle", "above": "  ↑ see above"}
"""A symbol with its own tree in the same text needs no mark."""
MAX_CANDIDATES = 4


def render(nodes: list[Node], more_symbols: int = 0, problem: str = "") -> str:
    """The trees one after the other; `more_symbols` have none, `problem` is why a file was not completely read."""
    lines = [line for node in nodes for line in _tree(node)]
    if problem:
        lines.insert(1, f"  not wholly read: {problem}")
    if len(lines) > MAX_LINES or more_symbols:
        symbols = f" and {more_symbols:,} more symbols" if more_symbols else ""
        more = f"{max(len(lines) - MAX_LINES, 0):,} more lines{symbols}"
        lines = [*lines[:MAX_LINES], f"… {more}; ask for fewer relations, less depth, or JSON, which is whole"]
    return "\n".join(lines)


def _tree(node: Node) -> Iterator[str]:
    yield _symbol(node)
    if node["signature"] and node["kind"] != "module":
        yield f"  {node['signature']}"
    yield from _relations(node, "  ")
    for memory in node.get("mentioned_in", ()):
        yield f"  mentioned_in {memory['key']}  {memory['path']}:{memory['line']}"


def _relations(node: Node, indent: str) -> Iterator[str]:
    for kind, group in groupby(node.get("relations", ()), key=lambda row: str(row["relation"])):
        rows = list(group)
        for row in rows[:PER_KIND]:
            yield f"{indent}{_relation(row)}"
            if "to" in row:
                yield from _relations(row["to"], f"{indent}  ")
        if len(rows) > PER_KIND:
            yield f"{indent}{kind} … {len(rows) - PER_KIND:,} more"


def _relation(row: Node) -> str:
    """`calls function a.b  a.py:3`: the place of the definition, or of the use if the target is not in the project."""
    times = f"  ×{row['times']}" if "times" in row else ""
    if "to" in row:
        guess = "  ~ the only one of its name" if row.get("how") == "name" else ""
        guess = "  ? one of several it could be" if row.get("ambiguous") else guess
        return f"{row['relation']} {_symbol(row['to'])}{times}{guess}{MARKS.get(row['to'].get('cut', ''), '')}"
    use = f"{row['relation']} {row['name']}  {row['path']}:{row['line']}{times}"
    if "candidates" in row:
        shown = [f"{one['name']} {one['path']}:{one['line']}" for one in row["candidates"][:MAX_CANDIDATES]]
        more = len(row["candidates"]) - len(shown)
        return f"{use}  ? ambiguous: {', '.join(shown)}" + (f", … {more:,} more" if more else "")
    where = "native" if row.get("native") else "not in this project" if row.get("external") else "not found"
    return f"{use}  ({where})"


def _symbol(node: Node) -> str:
    return f"{node['kind']} {node['name']}  {node['path']}:{node['line']}"
