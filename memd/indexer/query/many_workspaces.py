"""Which of many workspaces are searched: those whose best chunk has most of the question's words and meaning.

Reading candidates line by line takes most of a question's time, and what was found holds a workspace's index in memory.
A thousand workspaces are therefore asked for their best chunk alone, one after the other, and few are searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from memd.indexer.language.question import ParsedQuestion
from memd.indexer.query import candidates, meaning, ranking
from memd.indexer.query.wording import match_words
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Ask

MOST_SEARCHED = 30
"""Workspaces that are searched, or one for each hit if those are more."""

WORDS = ranking.WEIGHTS["words"] + ranking.WEIGHTS["section"]
MEANING = ranking.WEIGHTS["meaning"] + ranking.WEIGHTS["section_meaning"]
BESIDES = ranking.WEIGHTS["date"]
"""What a file of the name, or a note of the day, that the question names is worth."""


def worth_searching(
    stores: Stores, indexes: Sequence[WorkspaceIndex], ask: Ask, question: ParsedQuestion
) -> Sequence[WorkspaceIndex]:
    """The workspaces that the best hits are in, in the order given."""
    most = max(ask.limit, MOST_SEARCHED)
    if len(indexes) <= most:
        return indexes
    promises = {index.id: _promise(stores, index, ask, question) for index in indexes}
    best = set(nlargest(most, promises, key=promises.__getitem__))
    return [index for index in indexes if index.id in best]


def _promise(stores: Stores, index: WorkspaceIndex, ask: Ask, question: ParsedQuestion) -> float:
    """About what the best chunk of a workspace would score before its lines are read."""
    connection, postings = stores.ledger.reader, index.text.postings()
    words = match_words(postings, question.words, question.prefixes) if ask.mode != "vector" else None
    pool = candidates.gather(connection, index, question, postings, words, ask.limit)
    promise = BESIDES if pool.besides else 0.0
    if words is not None:
        promise += WORDS * max(map(words.earned_by, pool.by_voice["text"][:1]), default=0.0)
    heard = meaning.question_vector(stores, question.text) if ask.mode != "text" else None
    if heard is not None:
        nearest = max(pool.with_nearest(stores, index, heard).cosines.values(), default=None)
        promise += MEANING * (heard.nearness(nearest) or 0.0)
    return promise
