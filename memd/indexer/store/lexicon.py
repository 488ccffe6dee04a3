"""The words of a field of a segment, in order: by their beginning, by a part of them, and spelled nearly alike."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]

LAST = chr(0x10FFFF)
JOINT = "\n"
NOWHERE: Places = np.zeros(0, np.int32)
REMEMBERED = 500
SIMILAR_PERCENT = 40
"""The share of the letters of two names that must be the same, in the same order."""


class Lexicon:
    """Sorted words, and how many documents have each; deleted ones count until their segment is joined."""

    def __init__(self, words: list[str], counts: NDArray[np.int64]) -> None:
        self.words = words
        self.counts = counts
        self._containing: dict[str, list[int]] = {}
        """The places of the words that contain the letters that were last asked for."""

    def starting(self, prefix: str) -> range:
        """The places of the words with this prefix."""
        return range(bisect_left(self.words, prefix), bisect_right(self.words, prefix + LAST))

    def containing(self, part: str) -> list[int]:
        """The places of the words that contain these letters."""
        if not part or JOINT in part:
            return []
        if (known := self._containing.get(part)) is not None:
            return known
        found, at = [], self._joined.find(part)
        while at >= 0:
            found.append(at)
            at = self._joined.find(part, at + len(part))
        # All at once, as numbers of one kind: each look-up of a Python number would copy all starts.
        places: list[int] = np.unique(self._starts.searchsorted(np.array(found, np.int32), "right") - 1).tolist()
        if len(self._containing) >= REMEMBERED:
            self._containing.clear()
        self._containing[part] = places
        return places

    def near(self, word: str, distance: int) -> list[tuple[int, int]]:
        """The places of the words within this edit distance of `word`, with the distance; not the word itself.

        An edit inserts, deletes or replaces a letter, or swaps two neighbours.
        """
        # Imported here: only mistyped words need it, and a start should not wait for it.
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        found: list[tuple[int, int]] = []
        for length in range(len(word) - distance, len(word) + distance + 1):
            places, words = self._by_length.get(length, (NOWHERE, []))
            close = process.extract_iter(word, words, scorer=OSA.distance, score_cutoff=distance)
            found += [(int(places[nth]), int(edits)) for _, edits, nth in close if edits]
        return found

    def warm(self) -> None:
        """Fill the caches."""
        self.near("warming", 1)
        self.containing("warming")

    @cached_property
    def _joined(self) -> str:
        """All words in one string: searching it is faster than searching each."""
        return JOINT.join(self.words)

    # Arrays, since there may be hundreds of thousands of words: a list of numbers takes ten times as much.

    @cached_property
    def _starts(self) -> Places:
        """Where each word begins in all of them."""
        taken = self._lengths() + len(JOINT)
        return (taken.cumsum() - taken).astype(np.int32)

    @cached_property
    def _by_length(self) -> dict[int, tuple[Places, list[str]]]:
        lengths = self._lengths()
        every = {length: np.flatnonzero(lengths == length).astype(np.int32) for length in np.unique(lengths).tolist()}
        return {length: (places, [self.words[nth] for nth in places.tolist()]) for length, places in every.items()}

    def _lengths(self) -> Places:
        return np.fromiter(map(len, self.words), np.int32, len(self.words))


def similar_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Those of some names that are spelled most alike, for a hint."""
    from rapidfuzz import fuzz, process

    found = process.extract(name, list(names), scorer=fuzz.ratio, limit=most, score_cutoff=SIMILAR_PERCENT)
    return [similar for similar, *_ in found]
