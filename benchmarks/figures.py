"""What a benchmark hands back: figures with their targets, and the plain table of them."""

from __future__ import annotations

import math
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
