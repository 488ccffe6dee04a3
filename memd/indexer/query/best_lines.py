"""Finds the line of each chunk that answers best: the words around it, its label, the time it tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language import times
from memd.indexer.language.line_units import LineUnit
from memd.indexer.language.words import terms_of
from memd.indexer.query import ranking
from memd.indexer.query.ranking import Floats
from memd.indexer.query.wording import QuestionWords

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkLines:
    """The lines of one chunk, with the line before and the line after it in its memory."""

    units: tuple[LineUnit, ...]
    before: LineUnit | None
    after: LineUnit | None
    day: date | None


class LineFinder:
    """A question, ready to be looked for in lines."""

    def __init__(self, wording: QuestionWords, asked: times.AskedTimes) -> None:
        self.asked = asked
        self.most = wording.most
        self.weight = wording.weight or 1.0
        self.mean = wording.postings.mean_length("body")
        self.worth = np.array([word.idf * word.share for word in wording.sought])
        self.forms: list[tuple[str, ...]] = [()] * len(wording.sought)
        self.all_forms: set[str] = set()
        # "building" in a line is "build" already, and not also a longer word that has "build" in it: whole words first.
        for nth in sorted(range(len(self.forms)), key=lambda nth: -wording.sought[nth].share):
            self.forms[nth] = tuple(term for term in _terms(wording.sought[nth].forms) if term not in self.all_forms)
            self.all_forms.update(self.forms[nth])

    def best(self, passages: Sequence[ChunkLines]) -> dict[str, Floats]:
        """The parts of each passage at its best line."""
        # All lines below one another, with a gap after each passage, so that one pass of arithmetic does for all.
        run: list[LineUnit | None] = []
        owner: list[int] = []
        for nth, passage in enumerate(passages):
            run += [passage.before, *passage.units, passage.after, None]
            owner += [-1, *[nth] * len(passage.units), -1, -1]
        mine = np.array([at for at, nth in enumerate(owner) if nth >= 0], int)
        of = np.array(owner, int)[mine]
        days = [passage.day for passage in passages]
        parts = self._parts(run, mine, [days[nth] for nth in of])
        worth = parts @ np.array([ranking.WEIGHTS[name] for name in ranking.OF_A_LINE])
        order = np.lexsort((-worth, of))
        firsts = order[np.searchsorted(of[order], np.arange(len(passages)))]
        return {name: parts[firsts, nth] for nth, name in enumerate(ranking.OF_A_LINE)}

    def _parts(self, run: list[LineUnit | None], mine: Places, days: Sequence[date | None]) -> Floats:
        """A row for each line, a column for each part."""
        counts = np.array([self._counts(unit) for unit in run], float).reshape(len(run), len(self.worth))
        lengths = np.array([unit.length if unit else 0 for unit in run], float)
        around = [np.roll(rows, 1, 0) + rows + np.roll(rows, -1, 0) for rows in (counts, lengths)]
        often = around[0][mine] / ranking.by_length(around[1][mine], self.mean)[:, None]
        units = [unit for unit in (run[at] for at in mine) if unit is not None]
        return np.column_stack(
            (
                # A line may have a word and parts of it in others besides: that is not more than all.
                np.minimum(1.0, ranking.dampened(often) @ self.worth / self.most),
                np.minimum(1.0, (counts[mine] > 0) @ self.worth / self.weight),
                [not self.all_forms.isdisjoint(unit.label) for unit in units],
                [self._names_a_time(unit, day) for unit, day in zip(units, days, strict=True)],
                [times.tells(unit.text, day, self.asked) for unit, day in zip(units, days, strict=True)],
                [unit.asks for unit in units],
            )
        ).astype(float)

    def _names_a_time(self, unit: LineUnit, day: date | None) -> bool:
        return self.asked.temporal and day is not None and bool(times.told_in(unit.text, day))

    def _counts(self, unit: LineUnit | None) -> list[int]:
        if unit is None or self.all_forms.isdisjoint(unit.counts):
            return [0] * len(self.forms)
        count = unit.counts.get
        return [sum(count(form, 0) for form in forms) for forms in self.forms]


def _terms(forms: Iterable[str]) -> tuple[str, ...]:
    """The terms that stand for some forms in a line; of "self-care" the whole, since "self" alone is another word."""
    return tuple(dict.fromkeys(term for form in forms for term in (form, *terms_of(form)[0][:1])))
