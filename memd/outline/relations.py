"""The relations of symbols: what each contains, uses and inherits, who uses it; the tree of them, and its text."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from memd.outline.facts import MODULE
from memd.outline.project import SymbolId
from memd.outline.resolve import Relation, Resolver

BACKWARD = ("called_by", "imported_by", "inherited_by")
RELATIONS = (
    "contains", "calls", "called_by", "imports", "imported_by", "inherits", "inherited_by", "implements", "uses_type",
    "decorates",
)  # fmt: skip
REVERSED = {
    "called_by": ("calls",), "imported_by": ("imports",), "inherited_by": ("inherits", "implements"),
    "decorates": ("decorates",),
}  # fmt: skip
"""Relations that are read from the other end."""

Node = dict[str, Any]
DEPTH = 2
MANY = 200
"""With more symbols than this, it pays to resolve all references at once."""
CYCLE, ABOVE, ELSEWHERE = "cycle", "above", "elsewhere"
"""Why a symbol is not expanded: it leads back to itself, it was expanded before, or it has its own tree."""


def relations_of(resolver: Resolver, of: SymbolId, kinds: Iterable[str]) -> list[Relation]:
    """The relations of a symbol, kind by kind, each target once with how often it occurs."""
    known: dict[object, Relation] = {}
    for kind in kinds:
        for one in READERS.get(kind, _used)(resolver, of, kind):
            key = (kind, one.targets or one.name)
            before = known.get(key)
            known[key] = before._replace(times=before.times + 1) if before else one
    return list(known.values())


def _contained(resolver: Resolver, of: SymbolId, kind: str) -> Iterator[Relation]:
    project = resolver.project
    outside = sorted(project.owned.get(project.symbol(of).name, ())) if of.number else []
    for child in [*project.all_children(of), *(one for one in outside if of in resolver.owners(one))]:
        symbol = project.symbol(child)
        yield Relation((child,), "scope", symbol.name, "", kind, child.path, symbol.line)


def _used(resolver: Resolver, of: SymbolId, kind: str) -> Iterator[Relation]:
    return map(resolver.meaning, resolver.project.uses_in(of, kind))


def _users(resolver: Resolver, of: SymbolId, kind: str) -> Iterator[Relation]:
    """Every symbol with a reference that means this one, or may mean it; every other module that imports it."""
    for use in resolver.users(of, REVERSED[kind]):
        relation, source = resolver.meaning(use), MODULE if use.of_import else resolver.project.used(use).source
        if not use.of_import or use.path != of.path:
            user = SymbolId(use.path, source)
            yield relation._replace(kind=kind, targets=(user,), unsure=len(relation.targets) > 1)


READERS: dict[str, Callable[[Resolver, SymbolId, str], Iterator[Relation]]] = {
    "contains": _contained,
    **dict.fromkeys(REVERSED, _users),
}


# --- the tree -----------------------------------------------------------------------------------------------


class _Pending(NamedTuple):
    """A symbol to expand: the last of the trail that led to it."""

    node: Node
    trail: tuple[SymbolId, ...]
    kinds: tuple[str, ...]


@dataclass(slots=True)
class _Tree:
    """Relation trees while they grow, breadth first: each symbol is expanded once, where it is reached first."""

    resolver: Resolver
    depth: int
    own_trees: set[SymbolId]
    done: set[SymbolId] = field(default_factory=set)
    waiting: deque[_Pending] = field(default_factory=deque)

    def expand(self, omit_native: bool) -> None:
        while self.waiting:
            pending = self.waiting.popleft()
            self.done.add(pending.trail[-1])
            relations = relations_of(self.resolver, pending.trail[-1], pending.kinds)
            shown = (one for one in relations if not (omit_native and one.origin == "native"))
            pending.node["relations"] = [self._row(pending, one) for one in shown]

    def _row(self, at: _Pending, one: Relation) -> Node:
        row: Node = {"relation": one.kind, "name": one.name, "path": one.path, "line": one.line}
        row |= {"how": one.how} if one.how else {one.origin or "unknown": True}
        row |= {"times": one.times} if one.times > 1 else {}
        row |= {"ambiguous": True} if one.unsure or len(one.targets) > 1 else {}
        if len(one.targets) > 1:
            row["candidates"] = [node_of(self.resolver, target) for target in one.targets]
        elif one.targets:
            row["to"] = self._child(at, one.kind, one.targets[0])
        return row

    def _child(self, at: _Pending, kind: str, target: SymbolId) -> Node:
        node = node_of(self.resolver, target)
        own_tree = target in self.own_trees
        cut = CYCLE if target in at.trail else ELSEWHERE if own_tree else ABOVE if target in self.done else ""
        if cut:
            # The details are where it is expanded.
            del node["end_line"], node["signature"]
            node["cut"] = cut
        elif len(at.trail) < self.depth:
            self.done.add(target)
            # Keep the direction: callers of callers, never callees of callers.
            onward = tuple(one for one in at.kinds if (one in BACKWARD) == (kind in BACKWARD))
            self.waiting.append(_Pending(node, (*at.trail, target), onward))
        return node


def relation_trees(
    resolver: Resolver, roots: list[SymbolId], depth: int, kinds: Iterable[str], omit_native: bool, own: set[SymbolId]
) -> list[Node]:
    """The relation trees of some symbols; those in `own` have trees of their own, not all of which are made here."""
    ordered = tuple(kind for kind in RELATIONS if kind in set(kinds))
    if len(roots) > MANY:
        resolver.index()
    tree = _Tree(resolver, depth, own)
    nodes = [node_of(resolver, root) for root in roots]
    tree.waiting.extend(_Pending(node, (root,), ordered) for node, root in zip(nodes, roots, strict=True))
    tree.expand(omit_native)
    return nodes


def node_of(resolver: Resolver, of: SymbolId) -> Node:
    """A symbol without its relations."""
    symbol = resolver.project.symbol(of)
    place = {name: getattr(symbol, name) for name in ("line", "end_line", "signature")}
    return {"name": resolver.qualified(of), "kind": symbol.kind, "path": of.path, **place}


# --- the text -----------------------------------------------------------------------------------------------

PER_KIND = 25
"""Relations of one kind shown per symbol."""
MAX_LINES = 400
MARKS = {"cycle": "  ↻ a cycle", "above": "  ↑ see above"}
"""A symbol with its own tree in the same text needs no mark."""
MAX_CANDIDATES = 4


def render(nodes: list[Node], more_symbols: int = 0, problem: str = "") -> str:
    """The trees one after the other; `more_symbols` have none, `problem` is why a file was not completely read."""
    lines = [line for node in nodes for line in _shown_tree(node)]
    if problem:
        lines.insert(1, f"  not wholly read: {problem}")
    if len(lines) > MAX_LINES or more_symbols:
        symbols = f" and {more_symbols:,} more symbols" if more_symbols else ""
        more = f"{max(len(lines) - MAX_LINES, 0):,} more lines{symbols}"
        lines = [*lines[:MAX_LINES], f"… {more}; ask for fewer relations, less depth, or JSON, which is whole"]
    return "\n".join(lines)


def _shown_tree(node: Node) -> Iterator[str]:
    yield _shown_symbol(node)
    if node["signature"] and node["kind"] != "module":
        yield f"  {node['signature']}"
    yield from _shown_relations(node, "  ")
    for memory in node.get("mentioned_in", ()):
        yield f"  mentioned_in {memory['key']}  {memory['path']}:{memory['line']}"


def _shown_relations(node: Node, indent: str) -> Iterator[str]:
    for kind, group in groupby(node.get("relations", ()), key=lambda row: str(row["relation"])):
        rows = list(group)
        for row in rows[:PER_KIND]:
            yield f"{indent}{_shown_relation(row)}"
            if "to" in row:
                yield from _shown_relations(row["to"], f"{indent}  ")
        if len(rows) > PER_KIND:
            yield f"{indent}{kind} … {len(rows) - PER_KIND:,} more"


def _shown_relation(row: Node) -> str:
    """`calls function a.b  a.py:3`: the place of the definition, or of the use if the target is not in the project."""
    times = f"  ×{row['times']}" if "times" in row else ""
    if "to" in row:
        guess = "  ~ the only one of its name" if row.get("how") == "name" else ""
        guess = "  ? one of several it could be" if row.get("ambiguous") else guess
        return f"{row['relation']} {_shown_symbol(row['to'])}{times}{guess}{MARKS.get(row['to'].get('cut', ''), '')}"
    use = f"{row['relation']} {row['name']}  {row['path']}:{row['line']}{times}"
    if "candidates" in row:
        shown = [f"{one['name']} {one['path']}:{one['line']}" for one in row["candidates"][:MAX_CANDIDATES]]
        more = len(row["candidates"]) - len(shown)
        return f"{use}  ? ambiguous: {', '.join(shown)}" + (f", … {more:,} more" if more else "")
    where = "native" if row.get("native") else "not in this project" if row.get("external") else "not found"
    return f"{use}  ({where})"


def _shown_symbol(node: Node) -> str:
    return f"{node['kind']} {node['name']}  {node['path']}:{node['line']}"
