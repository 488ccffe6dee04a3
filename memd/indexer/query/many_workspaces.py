"""Which of many workspaces are searched: those that have the question's rare words, then those nearest to it.

Reading candidates line by line takes most of a question's time, and what was found holds a workspace's index in memory.
A thousand workspaces are therefore asked for their best chunks alone, one after the other, and few are searched. How
rare a word is, is counted over all of them: in its own workspace every word may be rare.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np

from memd.indexer.language.question import ParsedQuestion
from memd.indexer.query import meaning, signals, wording
from memd.indexer.query.candidates import CandidatePool
from memd.indexer.query.wording import Floats, match_words
from memd.indexer.store.chroma_server import ServerAway
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.models import Ask

MOST_SEARCHED = 30
"""Workspaces that are searched, or one for each hit if those are more."""

WORDS = signals.WEIGHTS["words"] + signals.WEIGHTS["section"]
MEANING = signals.WEIGHTS["meaning"] + signals.WEIGHTS["section_meaning"]
BESIDES = signals.WEIGHTS["date"]
"""The worth of a file, or a note of the day, that the question names."""

Forms = frozenset[str]
"""The forms that count as one word of the question."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The result of one look at a workspace."""

    chunks: int
    besides: float
    """The score of its best chunk by its meaning, its day and its file's name."""
    often: dict[Forms, Floats] = field(default_factory=dict)
    """For each word that it has, what that earns in its best chunks."""
    holders: Mapping[Forms, int] = field(default_factory=dict)
    """How many chunks have each of these words."""
    whole: frozenset[Forms] = frozenset()
    """Those of the words that are not only a part of another one, or a near spelling."""
    absent: frozenset[str] = frozenset()
    """The words that it does not have."""


def worth_searching(
    stores: Stores, indexes: Indexes, ask: Ask, question: ParsedQuestion
) -> tuple[Indexes, frozenset[str] | None]:
    """The workspaces that the best hits are in, in the order given; and the words that none has, if not all are."""
    most = max(ask.limit, MOST_SEARCHED)
    if len(indexes) <= most:
        return indexes, None
    glances = {index.id: _glance(stores, index, ask, question) for index in indexes}
    best = _best(glances, most)
    absent = frozenset.intersection(*(glance.absent for glance in glances.values()))
    return [index for index in indexes if index.id in best], absent


def _best(glances: Mapping[int, Glance], most: int) -> set[int]:
    """The most promising workspaces; half of the places are for those that have a whole word, the rarest words first.

    Each word has its share of these, so that a word which few workspaces have is searched in all of them.
    """
    promises = _promises(glances)
    having: dict[Forms, set[int]] = {}
    for number, glance in glances.items():
        for forms in glance.whole:
            having.setdefault(forms, set()).add(number)
    best: set[int] = set()
    for nth, holders in enumerate(sorted(having.values(), key=len)):
        places = (most // 2 - len(best)) // (len(having) - nth)
        best.update(nlargest(places, holders - best, key=promises.__getitem__))
    return best.union(nlargest(most - len(best), promises.keys() - best, key=promises.__getitem__))


def _promises(glances: Mapping[int, Glance]) -> dict[int, float]:
    """About what the best chunk of each workspace would score before its lines are read."""
    holders, count = Counter[Forms](), sum(glance.chunks for glance in glances.values())
    for glance in glances.values():
        holders.update(glance.holders)
    idf = {forms: wording.idf(count, chunks) for forms, chunks in holders.items()}
    most = (wording.K1 + 1) * sum(idf[forms] for forms in frozenset().union(*(one.whole for one in glances.values())))

    def words(glance: Glance) -> float:
        earned = sum((idf[forms] * often for forms, often in glance.often.items()), np.zeros(1))
        return WORDS * float(np.max(earned, initial=0.0)) / (most or 1.0)

    return {number: glance.besides + words(glance) for number, glance in glances.items()}


def _glance(stores: Stores, index: WorkspaceIndex, ask: Ask, question: ParsedQuestion) -> Glance:
    postings = index.text.postings()
    words = match_words(postings, question.words, question.prefixes) if ask.mode != "vector" else None
    pool = CandidatePool(index, question, postings, words, ask.limit)
    besides = BESIDES if pool.besides else 0.0
    heard, _ = meaning.question_vector(stores, question.text) if ask.mode != "text" else (None, "")
    if heard is not None:
        with suppress(ServerAway):
            pool.add_nearest(heard)
        besides += MEANING * (heard.nearness(max(pool.cosines.values(), default=None)) or 0.0)
    if words is None:
        return Glance(postings.count, besides)
    often = {match.forms: words.damped(match, pool.by_voice["text"]) for match in words.matches}
    holders = {match.forms: len(match.docs) for match in words.matches}
    whole = frozenset(match.forms for match in words.matches if match.share == 1.0)
    return Glance(postings.count, besides, often, holders, whole, frozenset(words.absent))
