"""Makes the files of one segment of a Whoosh index out of words: what segment.py reads, written.

Whoosh's own writer makes an object of every occurrence, sorts those, and looks up every length again. Here the words
are numbers from the start and the sorting is numpy's, which takes an eighth of the time. Whoosh reads the same files.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memd.indexer.store.segment import INT, MAGIC, MD5, SLOT, TERM, Floats, Segment

Numbers = NDArray[np.int64]

BLOCK = 4_096
"""Postings per block; Whoosh's 128 let it skip blocks, but memd reads every list whole."""

GATHERED = 200_000
"""Words that wait to be counted; what is counted takes a fifth of the room."""

PROTOCOL = 3
"""The oldest pickle that knows bytes."""

LONG = 256
"""Bytes of a list from which packing it is worth the time."""
LEVEL = 3

PLACE = struct.Struct("!II")
TABLE = struct.Struct("!qi")
FIELD = struct.Struct("!H")
TABLES = 256

INFO = np.dtype(
    [
        ("flags", "u1"), ("total", ">f4"), ("docs", ">u4"), ("shortest", "u1"), ("longest", "u1"), ("most", ">f4"),
        ("first", ">u4"), ("last", ">u4"), ("offset", ">i8"), ("length", ">i4"),
    ]
)  # fmt: skip
"""A term's entry, as in segment.TERM."""
assert INFO.itemsize == TERM.size


class SegmentBuilder:
    """Chunks on their way into a segment: add them, or join segments, then take the files."""

    def __init__(self, fields: Iterable[str], lengths: Floats) -> None:
        self._lengths = lengths
        self._numbers = array("q")
        # Whoosh has the fields in the order of their names.
        self._fields = {name: _Field() for name in sorted(fields)}

    @property
    def size(self) -> int:
        return len(self._numbers)

    def add(self, number: int, words: Mapping[str, Sequence[str]]) -> None:
        """Add a chunk: its words, by field."""
        self._numbers.append(number)
        for name, field in self._fields.items():
            field.add(self.size - 1, words[name])

    def join(self, segment: Segment, deleted: Iterable[int]) -> None:
        """Add every chunk of another segment but the deleted ones."""
        live = np.ones(segment.size, bool)
        live[np.fromiter(deleted, np.int64)] = False
        # Where each document goes; those that are deleted go nowhere.
        places = np.cumsum(live) - 1 + self.size
        self._numbers.extend(segment.chunks[live].tolist())
        for name, field in self._fields.items():
            field.join(segment.lists(name), live, places, segment.lengths[name][live].astype(np.int64))

    def totals(self) -> dict[str, int]:
        """The words of each field that has any, as the table of contents has them."""
        return {name: total for name, field in self._fields.items() if (total := sum(field.sizes))}

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The files, by how their names end."""
        bytes_of = {name: self._bytes(field.sizes) for name, field in self._fields.items()}
        used = [(name, field) for name, field in self._fields.items() if field.terms]
        lists, terms = bytearray(), _TermFile({name: nth for nth, (name, _) in enumerate(used)})
        for nth, (name, field) in enumerate(used):
            words, infos = _write_lists(field.postings(), bytes_of[name], lists)
            terms.add(FIELD.pack(nth), words, infos)
        yield ".pst", bytes(lists)
        yield ".trm", terms.file()
        yield ".number.col", np.array(self._numbers, ">i8").tobytes()
        # Nothing is stored in the index, and Whoosh wants to hear that of each document.
        yield "._stored.col", bytes(self.size) + b"B"
        for name, column in bytes_of.items():
            if column.any():
                yield f"._{name}_len.col", column.tobytes().rstrip(b"\0")

    def _bytes(self, sizes: array[int]) -> NDArray[np.uint8]:
        """Numbers of words as Whoosh stores them, in a byte each."""
        return np.minimum(np.searchsorted(self._lengths, np.array(sizes, np.int64)), 255).astype(np.uint8)


class _Postings(NamedTuple):
    """Every list of a field, one after the other: the terms in order, where the list of each begins, and the lists."""

    words: list[str]
    starts: Numbers
    docs: Numbers
    often: Numbers


class _Field:
    """The words of one field, as numbers in the order that they were first seen."""

    def __init__(self) -> None:
        self.terms: defaultdict[str, int] = defaultdict()
        self.terms.default_factory = self.terms.__len__
        self.sizes = array("q")
        """How many words each document has."""
        self._gathered = array("i")
        self._counted = 0
        """How many documents are counted; the words of the others are gathered."""
        self._parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]] = []
        """Terms, documents, and how often the one is in the other; the documents never get smaller."""

    def add(self, doc: int, words: Sequence[str]) -> None:
        self.sizes.append(len(words))
        self._gathered.extend(map(self.terms.__getitem__, words))
        if len(self._gathered) > GATHERED:
            self._count()

    def join(self, lists: Any, live: NDArray[np.bool_], places: Numbers, sizes: Numbers) -> None:
        """Add the lists of another segment."""
        self._count()
        words, counts, docs, often = lists
        terms = np.repeat(np.fromiter(map(self.terms.__getitem__, words), np.int32, len(words)), counts)
        kept = live[docs]
        order = np.argsort(docs[kept], kind="stable")
        self._parts.append(tuple(part[kept][order].astype(np.int32) for part in (terms, places[docs], often)))
        self.sizes.extend(sizes.tolist())
        self._counted = len(self.sizes)

    def _count(self) -> None:
        """Count what is gathered."""
        sizes = np.array(self.sizes[self._counted :], np.int64)
        docs = np.repeat(np.arange(self._counted, len(self.sizes)), sizes)
        width = max(1, len(self.terms))
        pairs, often = np.unique(docs * width + np.array(self._gathered, np.int64), return_counts=True)
        self._parts.append(
            ((pairs % width).astype(np.int32), (pairs // width).astype(np.int32), often.astype(np.int32))
        )
        self._gathered = array("i")
        self._counted = len(self.sizes)

    def postings(self) -> _Postings:
        self._count()
        terms, docs, often = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        used = np.zeros(len(self.terms), bool)
        used[terms] = True
        words = sorted(word for word, number in self.terms.items() if used[number])
        ranks = np.zeros(len(self.terms), np.int32)
        ranks[np.fromiter(map(self.terms.__getitem__, words), np.int64, len(words))] = np.arange(len(words))
        terms = ranks[terms]
        order = np.argsort(terms, kind="stable")
        starts = np.searchsorted(terms[order], np.arange(len(words)))
        return _Postings(words, starts, docs[order].astype(np.int64), often[order].astype(np.int64))


def _write_lists(postings: _Postings, lengths: NDArray[np.uint8], file: bytearray) -> tuple[list[bytes], bytes]:
    """Append the lists of a field to the file of lists; returns its words, and their entries for the term file."""
    words, starts, docs, often = postings
    ends = np.append(starts[1:], len(docs))
    blocks = -(-(ends - starts) // BLOCK)
    first = np.cumsum(blocks) - blocks
    begins = np.repeat(starts, blocks) + BLOCK * (np.arange(blocks.sum()) - np.repeat(first, blocks))
    stops = np.append(begins[1:], len(docs))
    held = lengths[docs]
    shortest, longest = np.minimum.reduceat(held, begins), np.maximum.reduceat(held, begins)
    least, most = np.minimum.reduceat(often, begins), np.maximum.reduceat(often, begins)
    steps = np.diff(docs, prepend=0)
    steps[begins] = docs[begins]
    opens, closes = np.zeros(len(begins), bool), np.zeros(len(begins), bool)
    opens[first], closes[first + blocks - 1] = True, True
    columns = (begins, stops, docs[stops - 1], least, most, shortest, longest, opens, closes)
    places = [len(file)]
    step_list, often_list, raw = steps.tolist(), often.tolist(), often.astype(">u4").tobytes()
    for begin, stop, *facts in zip(*(column.tolist() for column in columns), strict=True):
        _write_block(file, step_list[begin:stop], often_list[begin:stop], raw[4 * begin : 4 * stop], *facts)
        if facts[-1]:
            places.append(len(file))
    infos = np.zeros(len(words), INFO)
    infos["total"], infos["docs"] = np.add.reduceat(often, starts), ends - starts
    infos["shortest"], infos["longest"] = np.minimum.reduceat(shortest, first), np.maximum.reduceat(longest, first)
    infos["most"], infos["first"], infos["last"] = np.maximum.reduceat(most, first), docs[starts], docs[ends - 1]
    infos["offset"], infos["length"] = places[:-1], np.diff(places)
    return [word.encode() for word in words], infos.tobytes()


def _write_block(
    file: bytearray, steps: list[int], often: list[int], raw: bytes, last: int, least: int, most: int, shortest: int,
    longest: int, opens: bool, closes: bool,
) -> None:  # fmt: skip
    """One block of a list: what it holds in short, then documents as differences, weights and frequencies."""
    weights = None if most == 1 else float(most) if least == most else tuple(map(float, often))
    data = pickle.dumps((tuple(steps), weights, raw), PROTOCOL)
    level = LEVEL if len(data) > LONG else 0
    if level:
        data = zlib.compress(data, level)
    info = pickle.dumps((len(steps), last, float(most), level, shortest, longest), PROTOCOL)
    length = len(info) + len(data)
    file += (MAGIC if opens else b"") + INT.pack(-length if closes else length) + info + data


class _TermFile:
    """Whoosh's hash file of terms, with the places of all keys at its end."""

    def __init__(self, fields: dict[str, int]) -> None:
        self._fields = fields
        self._data = bytearray(b"HSH3" + bytes([MD5]) + bytes(8))
        self._tables: list[list[tuple[int, int]]] = [[] for _ in range(TABLES)]
        self._places: list[int] = []

    def add(self, prefix: bytes, words: list[bytes], infos: bytes) -> None:
        data, places, tables, size = self._data, self._places, self._tables, INFO.itemsize
        for nth, word in enumerate(words):
            key = prefix + word
            place = len(data)
            data += PLACE.pack(len(key), size) + key + infos[nth * size : (nth + 1) * size]
            hashed = int.from_bytes(md5(key, usedforsecurity=False).digest()[-4:], "big")
            tables[hashed & 255].append((hashed, place))
            places.append(place)

    def file(self) -> bytes:
        data = self._data
        directory = bytearray()
        for entries in self._tables:
            directory += TABLE.pack(len(data), 2 * len(entries))
            data += _hash_table(entries)
        data += directory
        start = len(data)
        form = "I" if not self._places or self._places[-1] < 1 << 32 else "q"
        extras = {"fieldmap": self._fields, "indextype": form, "indexlen": len(self._places)}
        data += pickle.dumps(extras, PROTOCOL) + np.array(self._places, np.dtype(form).newbyteorder(">")).tobytes()
        data += INT.pack(len(data) - start)
        return bytes(data)


def _hash_table(entries: list[tuple[int, int]]) -> bytes:
    """Twice as many slots as entries; where a slot is taken, the next free one."""
    slots = 2 * len(entries)
    table = [(0, 0)] * slots
    for entry in entries:
        slot = (entry[0] >> 8) % slots
        while table[slot][1]:
            slot = (slot + 1) % slots
        table[slot] = entry
    return b"".join([SLOT.pack(*entry) for entry in table])
