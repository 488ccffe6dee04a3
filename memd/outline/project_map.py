"""The map of a project: its most important symbols, by how much refers to them, within a budget of tokens."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from memd.outline.project import SymbolId, Use
from memd.outline.relations import Node
from memd.outline.resolve import Resolver
from memd.prose import estimate_tokens

KINDS = frozenset({"class", "interface", "function", "method", "type"})
MAX_SIGNATURE = 160
"""Characters of a signature on the map."""


class RankedSymbol(NamedTuple):
    """A symbol with the weight of the references to it."""

    id: SymbolId
    weight: float
    referrers: int


class MapEntry(NamedTuple):
    """A symbol on the map, with the resolver of its family."""

    resolver: Resolver
    symbol: RankedSymbol

    def line(self) -> str:
        """Where the symbol is, and its signature."""
        project, of = self.resolver.project, self.symbol.id
        symbol = project.symbol(of)
        owner = f"{project.segments(of)[-2]}: " if symbol.kind == "method" else ""
        long = len(symbol.signature) > MAX_SIGNATURE
        shown = f"{symbol.signature[: MAX_SIGNATURE - 1]}…" if long else symbol.signature
        return f"  {symbol.line}: {owner}{shown}"

    def row(self) -> Node:
        project, of = self.resolver.project, self.symbol.id
        symbol = project.symbol(of)
        return {"name": project.qualified(of), "kind": symbol.kind, "path": of.path, "line": symbol.line,
                "signature": symbol.signature, "referrers": self.symbol.referrers}  # fmt: skip


def rank_symbols(resolver: Resolver, within: Callable[[str], bool]) -> list[RankedSymbol]:
    """Every symbol that another one refers to, the most important first."""
    weights: dict[SymbolId, float] = defaultdict(float)
    referrers: dict[SymbolId, int] = defaultdict(int)
    for target, source, share in _links(resolver):
        # A symbol used from another file is more of a landmark than a helper within its own.
        weights[target] += share * (1.0 if source.path != target.path else 0.25)
        referrers[target] += 1
    ranked = (
        RankedSymbol(one, round(weight, 3), referrers[one])
        for one, weight in weights.items()
        if within(one.path) and resolver.project.symbol(one).kind in KINDS
    )
    return sorted(ranked, key=lambda one: (-one.weight, one.id))


def _links(resolver: Resolver) -> Iterable[tuple[SymbolId, SymbolId, float]]:
    """Each pair of target and source once; candidates of an ambiguous reference share its weight."""
    seen: set[tuple[SymbolId, SymbolId]] = set()
    for path, facts in resolver.project.files.items():
        for number, reference in enumerate(facts.references):
            targets = resolver.reference(Use(path, number)).targets
            source = SymbolId(path, reference.source)
            for target in targets:
                if target != source and (target, source) not in seen:
                    seen.add((target, source))
                    yield target, source, 1 / len(targets)


def within_budget(ranked: list[tuple[Resolver, list[RankedSymbol]]], budget: int) -> tuple[list[MapEntry], int]:
    """The most important symbols that fit, with the paths of their files, and the tokens that they take."""
    entries: list[MapEntry] = []
    files: set[str] = set()
    spent = 0
    streams = [[(-one.weight, one.id, nth, one) for one in symbols] for nth, (_, symbols) in enumerate(ranked)]
    for _, _, nth, symbol in heapq.merge(*streams):
        entry, path = MapEntry(ranked[nth][0], symbol), symbol.id.path
        cost = estimate_tokens(entry.line() + "\n") + (0 if path in files else estimate_tokens(path + "\n"))
        if spent + cost > budget:
            break
        files.add(path)
        entries.append(entry)
        spent += cost
    return entries, spent


def render_map(entries: list[MapEntry]) -> str:
    """The map as text: the most important file first, its symbols in the order of their lines."""
    files: dict[str, list[MapEntry]] = {}
    for entry in entries:
        files.setdefault(entry.symbol.id.path, []).append(entry)
    lines = []
    for path, symbols in files.items():
        lines += [path, *(entry.line() for entry in sorted(symbols, key=lambda entry: entry.symbol.id.number))]
    return "\n".join(lines)
