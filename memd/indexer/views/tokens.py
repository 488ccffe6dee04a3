"""Counts tokens with the tokenizer of the model in use, or roughly where there is none."""

from __future__ import annotations

from collections.abc import Callable

from memd.indexer.store.stores import Stores
from memd.indexer.views.get import tokens

KEPT = 10_000
LONGEST = 8_000
"""Characters of a text whose count is kept; longer ones are rarely counted twice."""

FOLLOWING = "."
"""Counted behind every text, and not with it: pieces that are joined are as many tokens as the pieces are.

The marks around a whole text belong to no piece, and line ends at its very end are fewer tokens than inside it.
"""

_known: dict[tuple[str, str], int] = {}
"""Counts by model and text: the same notes are packed for task after task."""


def counter(stores: Stores) -> tuple[Callable[[str], int], bool]:
    """What counts the tokens of a text, and whether it only estimates."""
    model = stores.former or stores.model
    if model is None:
        return tokens, True
    embedder = model.embedder
    ends = embedder.count_tokens(FOLLOWING)
    name = embedder.fingerprint

    def count(text: str) -> int:
        known = _known.get((name, text))
        if known is None:
            known = embedder.count_tokens(text + FOLLOWING) - ends
            if len(_known) >= KEPT:
                _known.clear()
            if len(text) <= LONGEST:
                _known[name, text] = known
        return known

    return count, False
