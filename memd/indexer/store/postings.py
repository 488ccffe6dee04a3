"""Whoosh's postings as arrays: what the text index holds at one commit, read once and cached while it holds."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, islice, takewhile
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from memd.indexer.store.lines import SKETCH, Languages, Lines, Sketches, lines_at, places_in
from memd.indexer.store.segment import NOTHING, Floats, PostingList, Segment, frozen, reading

LEAST_POSTINGS, POSTINGS_EACH, MOST_POSTINGS = 40_000, 300, 6_000_000
"""Postings of an index that are cached from commit to commit: the first, and so many for each document, up to the last.
Each word that somebody asks for has a list in each of its segments, empty or not."""

POSTING_BYTES = 6

MOST_JOINED = 1_000_000
"""Postings of the last commit that are cached besides, joined and without deleted documents."""

SETTLED = 512
"""Segments of so many documents are seldom joined with others, so the first ones of an index mostly stay the first."""

ENTRY = 128
"""The overhead of a cached list, counted in postings: its key, and two arrays where it is not empty."""

B = 0.4
"""The penalty for length: less than the usual 0.75, since chunks are of about one size."""

EDITS = ((8, 2), (5, 1))
"""Words of so many letters may have so many typing errors: in a shorter word one error makes another word."""


def by_length(lengths: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """The divisor of a word's count in a text of this length."""
    return 1 - B + B * lengths / mean


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Values by key, up to a total size; the least recently used go first, but for the last one."""

    def __init__(self, most: int, size_of: Callable[[Value], int]) -> None:
        self.most, self.size_of = most, size_of
        self.total = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, read: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        # Not under the lock: two threads may read the same value, but nobody waits for another's disk.
        found = read()
        with self._lock:
            self._drop(key)
            self._values[key] = found
            self.total += self.size_of(found)
            while self.total > self.most and len(self._values) > 1:
                self._drop(next(iter(self._values)))
        return found

    def keep(self, wanted: Callable[[Key], bool]) -> None:
        """Drop every value whose key is not wanted."""
        with self._lock:
            for key in [key for key in self._values if not wanted(key)]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        if key in self._values:
            self.total -= self.size_of(self._values.pop(key))


class PostingCache(SizedCache[Key, PostingList]):
    """Posting lists by key, up to a number of postings."""

    def __init__(self, most: int) -> None:
        super().__init__(most, lambda held: len(held.docs) + ENTRY)


class SegmentRun:
    """Consecutive segments that are read as one, so that a term has one list instead of forty."""

    def __init__(self, segments: Sequence[Segment], base: int) -> None:
        self.id = tuple(segment.id for segment in segments)
        self.base = np.int32(base)
        self._segments = segments
        self._bases = bases(segments)

    def held(self, field: str, term: str) -> PostingList:
        """The documents that hold a term, by their number in the run, deleted ones included."""
        parts = [segment.held(field, term) for segment in self._segments]
        return _joined_lists(list(zip(self._bases, parts, strict=True)))


def bases(segments: Iterable[Segment]) -> list[np.int32]:
    """The number of each segment's first document."""
    return [np.int32(base) for base in accumulate((segment.size for segment in segments), initial=0)][:-1]


def runs_of(segments: Sequence[Segment]) -> list[SegmentRun]:
    """One run of the large segments at the beginning, and one for each of the others, which come and go."""
    settled = list(takewhile(lambda segment: segment.size >= SETTLED, segments))
    others = list(zip(segments, bases(segments), strict=True))[len(settled) :]
    first = [SegmentRun(settled, 0)] if settled else []
    return first + [SegmentRun([segment], int(base)) for segment, base in others]


def _joined_lists(parts: list[tuple[np.int32, PostingList]]) -> PostingList:
    """Consecutive lists as one; each counts its documents from its base."""
    parts = [(base, held) for base, held in parts if len(held.docs)]
    if not parts:
        return NOTHING
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    docs = np.concatenate([held.docs + base for base, held in parts])
    return frozen(docs, np.concatenate([held.weights for _, held in parts]))


Lists = PostingCache[tuple[tuple[str, ...], str, str]]


class Segments:
    """The open segments of one index and their posting lists, from commit to commit.

    Its owner calls `at` and `keep` one at a time, and not while a commit removes files.
    """

    def __init__(self) -> None:
        self.lists: Lists = PostingCache(MOST_POSTINGS)
        self._open: dict[str, Segment] = {}
        self._runs: set[tuple[str, ...]] = set()
        """Those that may have lists."""

    @property
    def memory(self) -> int:
        """About how many bytes the open segments and the cached lists take."""
        return self.lists.total * POSTING_BYTES + sum(segment.memory for segment in list(self._open.values()))

    def at(self, present: Iterable[Any], opened: Callable[[Any], Segment]) -> "Postings":
        """The postings of a commit with these segments of Whoosh's; those that are open stay open."""
        parts = []
        for segment in present:
            number = segment.segment_id()
            if number not in self._open:
                self._open[number] = opened(segment)
            parts.append((self._open[number], np.fromiter(segment.deleted_docs(), np.int64)))
        self.lists.most = min(LEAST_POSTINGS + POSTINGS_EACH * sum(one.size for one, _ in parts), MOST_POSTINGS)
        postings = Postings(parts, self.lists)
        current = {run.id for run in postings.runs}
        self._keep_lists(current.__contains__)
        self._runs |= current
        return postings

    def keep(self, numbers: set[str]) -> None:
        """Close every segment but these."""
        self._open = {number: segment for number, segment in self._open.items() if number in numbers}
        self._keep_lists(numbers.issuperset)

    def _keep_lists(self, wanted: Callable[[tuple[str, ...]], bool]) -> None:
        """Drop the lists of runs that are not wanted; most commits add one and take none away."""
        kept = set(filter(wanted, self._runs))
        if len(kept) < len(self._runs):
            self.lists.keep(lambda key: wanted(key[0]))
            self._runs = kept


class Postings:
    """One commit: documents are numbered through all segments, in Whoosh's order; answers leave out deleted ones.

    It can be used after the next commit, and then still answers as before it.
    """

    def __init__(self, parts: Sequence[tuple[Segment, NDArray[np.int64]]], lists: Lists) -> None:
        self.segments = [segment for segment, _ in parts]
        self.runs = runs_of(self.segments)
        self.size = sum(segment.size for segment in self.segments)
        """The number of documents, deleted ones included: the length of every array by document."""
        self.live = np.ones(self.size, bool)
        for base, (_, deleted) in zip(bases(self.segments), parts, strict=True):
            self.live[base + deleted] = False
        self.count = int(self.live.sum())
        """The number of documents that are not deleted."""
        self.chunks: NDArray[np.int64] = _joined([segment.chunks for segment in self.segments], np.int64)
        """The chunk number of each document."""
        self._lines = np.cumsum([0, *(segment.lines.count for segment in self.segments)])
        """The number of each segment's first line, and that of all lines."""
        self._lists = lists
        self._whole: PostingCache[tuple[str, str]] = PostingCache(min(lists.most, MOST_JOINED))

    def places(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document of each chunk; -1 for a chunk that this commit does not have."""
        known, docs = self._by_chunk
        return docs[places_in(known, chunks)]

    def place(self, chunk: int) -> int:
        """The same of one chunk: -1 when this commit does not have it."""
        known, docs = self._by_chunk
        at = int(known.searchsorted(chunk))
        return int(docs[at]) if at < len(known) and known[at] == chunk else -1

    @cached_property
    def _by_chunk(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The chunk numbers in order, and the document of each; the last one, -1, is for a chunk that is not here."""
        alive = np.flatnonzero(self.live)
        docs = alive[np.argsort(self.chunks[alive])]
        return self.chunks[docs], np.append(docs, -1)

    def lines(self, numbers: NDArray[np.int64], ends: NDArray[np.int64] | None = None) -> Lines:
        """Lines by their numbers, or runs of them, which `line_spans` tells; a negative one is a line without words."""
        with reading():
            return lines_at([segment.lines for segment in self.segments], self._lines[:-1], numbers, ends)

    def line_spans(self, docs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of the first line of each document and of the one after its last; equal for document -1.

        The first are the terms of its headings, its lines follow.
        """
        firsts, ends = self._line_spans
        return firsts[docs], ends[docs]

    @cached_property
    def _line_spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same of every document; the last one is for document -1."""
        parts = zip(self.segments, self._lines[:-1], strict=True)
        begins = (segment.lines.firsts[:-1] + base for segment, base in parts)
        firsts = np.concatenate([*begins, self._lines[-1:], [-1]])
        return np.delete(firsts, -2), firsts[1:]

    @cached_property
    def sketches(self) -> Sketches:
        """Which terms each document has, about; the last one, which has none, is for document -1."""
        return np.concatenate(
            [*(segment.lines.sketches for segment in self.segments), np.zeros((1, SKETCH // 64), np.uint64)]
        )

    @cached_property
    def term_counts(self) -> NDArray[np.int64]:
        """How many these are, with repetitions."""
        counts = [*(segment.lines.term_counts for segment in self.segments), np.zeros(1, np.uint32)]
        return np.concatenate(counts).astype(np.int64)

    @cached_property
    def languages(self) -> Languages:
        """The language of each document; the last one, empty, is for document -1."""
        return _joined([*(segment.lines.languages for segment in self.segments), np.zeros(1, "S2")], np.bytes_)

    @cached_property
    def foreign(self) -> NDArray[np.int64]:
        """The chunks that are in another language than English."""
        foreign: NDArray[np.int64] = self.chunks[(self.languages[:-1] != b"") & self.live]
        return foreign

    @cached_property
    def lengths(self) -> Floats:
        """How many terms the body of each document has, rounded as Whoosh stores it: in one byte."""
        return _joined([segment.lengths["body"] for segment in self.segments], np.float32)

    @cached_property
    def mean_length(self) -> float:
        """The mean length of the documents that are not deleted."""
        return float(self.lengths.sum(where=self.live, dtype=np.float64)) / (self.count or 1) or 1.0

    @cached_property
    def divisors(self) -> NDArray[np.float64]:
        """The divisor of a word's count in the body of each document."""
        return by_length(self.lengths.astype(np.float64), self.mean_length)

    # --- terms --------------------------------------------------------------------------------------------

    def of(self, field: str, term: str) -> PostingList:
        """The documents that hold a term, and how often each does."""
        return self._whole.get((field, term), lambda: self._join(field, term))

    def frequency(self, field: str, term: str) -> int:
        """How many documents hold a term."""
        return len(self.of(field, term).docs)

    def _join(self, field: str, term: str) -> PostingList:
        held = _joined_lists([(run.base, self._in(run, field, term)) for run in self.runs])
        if self.count == self.size:
            return held
        alive = self.live[held.docs]
        return held if alive.all() else frozen(held.docs[alive], held.weights[alive])

    def _in(self, run: SegmentRun, field: str, term: str) -> PostingList:
        return self._lists.get((run.id, field, term), lambda: run.held(field, term))

    # --- the lexicon --------------------------------------------------------------------------------------

    def lexicon(self, field: str) -> list[str]:
        """Every term of a field, in order; some may be in deleted documents only."""
        words = [segment.lexicon(field).words for segment in self.segments]
        return words[0] if len(words) == 1 else sorted(set().union(*words))

    def starting(self, field: str, prefix: str, most: int) -> list[str]:
        """Terms with this prefix, the most frequent first."""
        return self._frequent(field, lambda segment: segment.lexicon(field).starting(prefix), most)

    def containing(self, field: str, part: str, most: int) -> list[str]:
        """Terms that contain these letters, the most frequent first."""
        return self._frequent(field, lambda segment: segment.lexicon(field).containing(part), most)

    def near(self, field: str, word: str, most: int) -> list[str]:
        """Near spellings of `word`, ordered by errors, the same first letter, and frequency."""
        distance = next((most for letters, most in EDITS if len(word) >= letters), 0)
        # A number with another digit is another number.
        if not distance or word.isdecimal():
            return []
        edits: dict[str, int] = {}
        for segment in self.segments:
            lexicon = segment.lexicon(field)
            edits |= {lexicon.words[nth]: count for nth, count in lexicon.near(word, distance)}
        if len(word) < EDITS[0][0]:
            # Few mistype the first letter, and in a short word another one makes another word: bike, like.
            edits = {term: count for term, count in edits.items() if term[0] == word[0]}
        counted = {term: count for term in edits if (count := self.frequency(field, term))}
        return sorted(counted, key=lambda term: (edits[term], term[0] != word[0], -counted[term], term))[:most]

    def warm(self) -> None:
        """Read ahead what the first question would wait for, above all if it has a mistyped word."""
        for segment in self.segments:
            segment.lexicon("exact").warm()

    def _frequent(self, field: str, places: Callable[[Segment], Iterable[int]], most: int) -> list[str]:
        counted: dict[str, int] = {}
        for segment in self.segments:
            lexicon = segment.lexicon(field)
            for nth in places(segment):
                term = lexicon.words[nth]
                counted[term] = counted.get(term, 0) + int(lexicon.counts[nth])
        frequent = sorted(counted, key=lambda term: (-counted[term], term))
        return list(islice((term for term in frequent if self.count == self.size or self.frequency(field, term)), most))


def _joined(parts: list[NDArray[Any]], form: type[Any]) -> NDArray[Any]:
    joined = np.concatenate(parts) if parts else np.zeros(0, form)
    joined.flags.writeable = False
    return joined
