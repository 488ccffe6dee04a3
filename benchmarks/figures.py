"""Figures with their targets, the plain table of them, and how quiet the machine is."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; `most` is the target where there is one."""

    what: str
    value: float
    unit: str = "ms"
    most: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.most is None else self.value <= self.most

    def row(self) -> tuple[str, str, str, str, str]:
        target = "" if self.most is None else f"≤ {_number(self.most)} {self.unit}".rstrip()
        verdict = {None: "", True: "met", False: "NOT MET"}[self.met]
        return self.what, f"{_number(self.value)} {self.unit}".rstrip(), target, verdict, self.note


def _number(value: float) -> str:
    if value == int(value) or value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def spread(what: str, values: Sequence[float], *, p95: float | None = None, note: str = "") -> list[Figure]:
    """The middle, the 95th percentile (with its target) and the worst of some times in ms."""
    counted = f"{len(values)} times" + (f"; {note}" if note else "")
    return [
        Figure(f"{what}, p50", median(values), note=counted),
        Figure(f"{what}, p95", percentile(values, 0.95), most=p95),
        Figure(f"{what}, max", max(values)),
    ]


def table(title: str, figures: Iterable[Figure]) -> str:
    """The figures in columns, under a title."""
    rows = [("", "measured", "target", "", ""), *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [title, "-" * len(title)]
    for what, value, target, verdict, note in rows:
        cells = [what.ljust(widths[0]), value.rjust(widths[1]), target.rjust(widths[2]), verdict.ljust(widths[3]), note]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def noise() -> str:
    """How quiet the machine is: the load, and how evenly it runs one short loop again and again."""
    times = []
    for _ in range(60):
        started = time.perf_counter()
        sum(range(200_000))
        times.append((time.perf_counter() - started) * 1000)
    steady = f"p50 {median(times) / min(times):.1f}, p95 {percentile(times, 0.95) / min(times):.1f} times the best"
    return f"load {os.getloadavg()[0]:.1f}, a short loop {steady}"
