"""The map of a project: its most important symbols, by how much else refers to them, within a budget of tokens."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from memd.outline.linking import Linker
from memd.outline.project import Id, Use

CHARACTERS_A_TOKEN = 4
MENTIONED = frozenset({"class", "interface", "function", "method", "type"})
LINE = 160
"""A signature on a map is no longer than this."""


class Ranked(NamedTuple):
    """A symbol with how much refers to it: each other symbol counts one, a guess its share."""

    id: Id
    weight: float
    referrers: int


def ranked(linker: Linker, within: Callable[[str], bool]) -> list[Ranked]:
    """Every symbol that something else refers to, the most important first."""
    weights: dict[Id, float] = defaultdict(float)
    referrers: dict[Id, int] = defaultdict(int)
    for target, source, share in _links(linker):
        # What is used from another file is more of a landmark than what helps out in its own.
        weights[target] += share * (1.0 if source.path != target.path else 0.25)
        referrers[target] += 1
    every = (
        Ranked(one, round(weight, 3), referrers[one])
        for one, weight in weights.items()
        if within(one.path) and linker.project.symbol(one).kind in MENTIONED
    )
    return sorted(every, key=lambda one: (-one.weight, one.id))


def _links(linker: Linker) -> Iterable[tuple[Id, Id, float]]:
    """Who refers to whom, each pair once, with the share of certainty."""
    seen: set[tuple[Id, Id]] = set()
    for path, facts in linker.project.files.items():
        for number, reference in enumerate(facts.references):
            targets = linker.reference(Use(path, number)).targets
            source = Id(path, reference.source)
            for target in targets:
                if target != source and (target, source) not in seen:
                    seen.add((target, source))
                    yield target, source, 1 / len(targets)


def tokens(text: str) -> int:
    """What a text costs in a prompt, roughly and rather too much."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def within_budget(linkers: list[tuple[Linker, list[Ranked]]], budget: int) -> tuple[list[tuple[Linker, Ranked]], int]:
    """The best symbols that fit with the names of their files, and what they cost."""
    chosen: list[tuple[Linker, Ranked]] = []
    files: set[str] = set()
    spent = 0
    streams = [[(-one.weight, one.id, nth, one) for one in every] for nth, (_, every) in enumerate(linkers)]
    for _, _, nth, one in heapq.merge(*streams):
        linker = linkers[nth][0]
        cost = tokens(line(linker, one) + "\n") + (0 if one.id.path in files else tokens(one.id.path + "\n"))
        if spent + cost > budget:
            break
        files.add(one.id.path)
        chosen.append((linker, one))
        spent += cost
    return chosen, spent


def line(linker: Linker, one: Ranked) -> str:
    """A symbol on the map: where it stands and its signature."""
    symbol = linker.project.symbol(one.id)
    owner = linker.project.segments(one.id)[-2] if symbol.kind == "method" else ""
    shown = symbol.signature if len(symbol.signature) <= LINE else f"{symbol.signature[: LINE - 1]}…"
    return f"  {symbol.line}: {owner + ': ' if owner else ''}{shown}"


def drawn(chosen: list[tuple[Linker, Ranked]]) -> str:
    """The map as text: file by file, the most important file first, in each in the order of its lines."""
    files: dict[str, list[tuple[Linker, Ranked]]] = {}
    for linker, one in chosen:
        files.setdefault(one.id.path, []).append((linker, one))
    lines = []
    for path, symbols in files.items():
        lines.append(path)
        lines += [line(linker, one) for linker, one in sorted(symbols, key=lambda pair: pair[1].id.number)]
    return "\n".join(lines)
