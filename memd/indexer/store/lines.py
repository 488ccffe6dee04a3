"""The lines of a segment's chunks as arrays: what ranking reads of the best candidates, made when they are indexed.

A term is a number of 32 bits, the checksum of its letters: the numbers of all segments and workspaces mean the same,
and joining segments renumbers nothing. Two words in four thousand million have the same one: then a line may count for
a word that it does not have, and stands a little too high.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language.lines import Line

Numbers = NDArray[np.uint32]
Places = NDArray[np.int64]
Sketches = NDArray[np.uint64]
Languages = NDArray[np.bytes_]
"""Each by its two letters; empty for English."""


SKETCH, BLOCK = 256, 10_000
"""The bits of a sketch, of which each term sets one and several may share it; so many are made at a time."""


def number_of(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))


def ranges(starts: Places, sizes: Places) -> Places:
    """Numbers in a row, one run after the other: so many from each start on."""
    ends: Places = sizes.cumsum()
    return (starts - (ends - sizes)).repeat(sizes) + np.arange(ends[-1] if len(ends) else 0)


def places_in(known: NDArray[Any], wanted: NDArray[Any]) -> Places:
    """The place of each of some numbers among those that are known, which are in order; -1 for one that is not."""
    if not len(known):
        return np.full(len(wanted), -1)
    at = known.searchsorted(wanted)
    return np.where(known.take(at, mode="clip") == wanted, at, -1)


def read_at(file: Any, size: int, start: int) -> bytes:
    """Some bytes of one of Whoosh's files. It seeks and then reads: two threads would read each other's."""
    return os.pread(file.fileno(), size, start) if file.is_real else bytes(file.get(start, size))


class Lines(NamedTuple):
    """Some lines, one after the other."""

    sizes: Places
    """How many terms each has."""
    labels: NDArray[np.uint8]
    """So many of its first terms are its label."""
    flags: NDArray[np.uint8]
    terms: Numbers
    """The terms of all, repetitions kept."""


class SegmentLines:
    """The lines of every document of a segment; the first of each document are the terms of its headings.

    That one has no label and no flags, but the two letters of the document's language in their place. The terms of a
    large segment stay in the file: they are ten times the rest, and a question needs those of a hundred documents.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        docs, lines, self._terms = (int(count) for count in np.frombuffer(self._read(24, 0), np.int64))
        ends = np.cumsum([24, SKETCH // 8 * docs, 4 * (docs + 1), 4 * (lines + 1), lines, lines, -2 * lines % 4])
        self.memory, self.count = int(ends[-1]), lines
        if file.seek(0, os.SEEK_END) != self.memory + 4 * self._terms or lines < docs:
            raise ValueError("the lines of a segment end where they should not")
        raw = np.frombuffer(self._read(self.memory, 0), np.uint8)
        sketches, firsts, starts, self.labels, self.flags, _ = (raw[at:end] for at, end in pairwise(ends))
        self.sketches: Sketches = sketches.view(np.uint64).reshape(docs, -1)
        """Which terms each document and its headings have, about."""
        self.firsts: Numbers = firsts.view(np.uint32)
        """The first line of each document."""
        self.starts: Numbers = starts.view(np.uint32)
        """The first term of each line."""
        self.term_counts: Numbers = np.diff(self.starts[self.firsts])
        """How many each document has, with repetitions."""
        headings = self.firsts[:-1]
        self.languages: Languages = np.column_stack((self.labels[headings], self.flags[headings])).view("S2")[:, 0]
        """The language of each document."""

    def _read(self, size: int, start: int) -> bytes:
        raw = read_at(self._file, size, start)
        if len(raw) != size:
            raise ValueError("the lines of a segment were cut short")
        return raw

    def terms(self, starts: Places, sizes: Places) -> Numbers:
        """The terms of some lines, one after the other; lines in a row are read at once."""
        begins = np.flatnonzero(np.append(True, starts[1:] != (starts + sizes)[:-1]))
        places, lengths = self.memory + 4 * starts[begins], 4 * np.add.reduceat(sizes, begins)
        return np.frombuffer(b"".join(map(self._read, lengths.tolist(), places.tolist())), np.uint32)

    def verify(self, docs: int) -> None:
        """ValueError unless every document has its lines, and every line its terms."""
        terms = len(self.terms(np.zeros(1, np.int64), np.array([self._terms])))
        for runs, count, total in ((self.firsts, docs, self.count), (self.starts, self.count, terms)):
            if len(runs) != count + 1 or runs[0] or runs[-1] != total or (runs[1:] < runs[:-1]).any():
                raise ValueError("the lines of a segment do not begin where they should")


def lines_at(segments: Sequence[SegmentLines], bases: Places, numbers: Places, ends: Places | None = None) -> Lines:
    """Lines by their numbers, which count through all segments from their bases on; a negative one has no words.

    With `ends`, runs of lines, each up to the line of that number and as one line.
    """
    whose, ends = bases.searchsorted(numbers, "right") - 1, numbers + 1 if ends is None else ends
    sizes, labels, flags = np.zeros(len(numbers), np.int64), *np.zeros((2, len(numbers)), np.uint8)
    starts = np.zeros(len(numbers), np.int64)
    present = [nth for nth in np.unique(whose).tolist() if nth >= 0]
    for nth in present:
        here, segment = whose == nth, segments[nth]
        lines = numbers[here] - bases[nth]
        starts[here] = segment.starts[lines]
        sizes[here] = segment.starts[ends[here] - bases[nth]] - segment.starts[lines]
        labels[here], flags[here] = segment.labels[lines], segment.flags[lines]
    terms, of = np.zeros(int(sizes.sum()), np.uint32), whose.repeat(sizes)
    for nth in present:
        terms[of == nth] = segments[nth].terms(starts[whose == nth], sizes[whose == nth])
    return Lines(sizes, labels, flags, terms)


class LinesBuilder:
    """The lines of documents on their way into a segment."""

    def __init__(self) -> None:
        self._counts = array("q")
        self._sizes, self._labels, self._flags, self._terms = array("I"), array("B"), array("B"), array("I")

    def add(self, lines: Sequence[Line]) -> None:
        """Add a document: the terms of its headings, then its lines."""
        self._counts.append(len(lines))
        for line in lines:
            self._sizes.append(len(line.terms))
            self._labels.append(line.label)
            self._flags.append(line.flags)
            self._terms.extend(map(crc32, map(str.encode, line.terms)))

    def join(self, segment: SegmentLines, docs: Places) -> None:
        """Add documents of another segment."""
        firsts = segment.firsts.astype(np.int64)
        counts = firsts[docs + 1] - firsts[docs]
        lines = lines_at([segment], np.zeros(1, np.int64), ranges(firsts[docs], counts))
        self._counts.frombytes(counts.tobytes())
        self._sizes.frombytes(lines.sizes.astype(np.uint32).tobytes())
        self._labels.frombytes(lines.labels.tobytes())
        self._flags.frombytes(lines.flags.tobytes())
        self._terms.frombytes(lines.terms.tobytes())

    def file(self) -> bytes:
        firsts, starts = _starts(self._counts), _starts(self._sizes)
        counts = np.array([len(self._counts), len(self._sizes), len(self._terms)], np.int64)
        odd = bytes(-2 * len(self._sizes) % 4)
        sketches = sketches_of(np.frombuffer(self._terms, np.uint32), starts[firsts])
        parts: list[Any] = [counts, sketches, firsts, starts, self._labels, self._flags, odd, self._terms]
        return b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)


def sketches_of(terms: Numbers, starts: Numbers) -> Sketches:
    """The sketches of documents; each has the terms from its start up to the next one."""
    made = []
    for first in range(0, len(starts) - 1, BLOCK):
        block = starts[first : first + BLOCK + 1].astype(np.int64)
        bits = np.zeros((len(block) - 1, SKETCH), bool)
        docs = np.arange(len(block) - 1).repeat(np.diff(block))
        bits[docs, terms[block[0] : block[-1]] % SKETCH] = True
        made.append(np.packbits(bits, axis=1).view(np.uint64))
    return np.concatenate([np.zeros((0, SKETCH // 64), np.uint64), *made])


def _starts(sizes: array[int]) -> Numbers:
    """Where each of some runs begins, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.uint32)
