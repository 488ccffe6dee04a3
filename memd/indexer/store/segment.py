"""One segment of a Whoosh index, read into arrays and written: the only file that knows the formats of Whoosh 2.7.4.

Whoosh's own writer makes an object of every occurrence, sorts those, and looks up every length again. Here the words
are numbers from the start and the sorting is numpy's, which takes an eighth of the time. Whoosh reads the same files.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import threading
import weakref
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import md5
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memd.errors import StoreBroken
from memd.indexer.language.lines import Line
from memd.indexer.store.lines import LinesBuilder, SegmentLines

Docs = NDArray[np.int32]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float32]
Places = NDArray[np.int32]
Numbers = NDArray[np.int64]

MAGIC = b"W3Bl"
MD5 = 0
INT = struct.Struct("!i")
SLOT = struct.Struct("!Iq")
TERM = struct.Struct("!BfIBBfIIqi")
"""A term's entry in the term file: the third value is its number of documents, the last two say where its list is."""

WORD_BYTES = 110
"""A word of a lexicon: the string, and its places in what searches are made on."""

MOST_OFTEN = 65_535
TERM_DOCS = 5
KEY = 8
"""Before each key come two lengths, its own and its value's; the key begins with two bytes for the field."""

TORN = (
    pickle.UnpicklingError, struct.error, zlib.error, OSError, EOFError, ValueError, LookupError, TypeError,
    AttributeError, NameError, AssertionError, ArithmeticError, MemoryError,
)  # fmt: skip
"""The errors that reading a damaged file raises; only reading is guarded so widely."""

LINES = ".lines"
"""How the name of memd's own file of a segment ends; Whoosh removes it with the others."""

LAST = chr(0x10FFFF)
JOINT = "\n"
NOWHERE: Places = np.zeros(0, np.int32)
SIMILAR_PERCENT = 40
"""The share of the letters of two names that must be the same, in the same order."""


@contextmanager
def reading(what: str = "cannot be read", errors: tuple[type[Exception], ...] = TORN) -> Iterator[None]:
    """Any of these errors inside means that the files are damaged."""
    try:
        yield
    except errors as error:
        raise StoreBroken(f"the text index {what}: {error!r}", "memd doctor --fix") from error


class PostingList(NamedTuple):
    """The documents that hold a term, in order, and how often each does."""

    docs: Docs
    weights: Counts


NOTHING = PostingList(np.zeros(0, np.int32), np.zeros(0, np.uint16))


class FieldLists(NamedTuple):
    """Every list of a field, one after the other: the terms in order, and how many documents each has."""

    words: list[str]
    counts: Numbers
    docs: NDArray[np.integer[Any]]
    weights: NDArray[np.integer[Any]]


# --- words --------------------------------------------------------------------------------------------------


class Lexicon:
    """Sorted words, and how many documents have each; deleted ones count until their segment is joined."""

    def __init__(self, words: list[str], counts: NDArray[np.int64]) -> None:
        self.words = words
        self.counts = counts

    def starting(self, prefix: str) -> range:
        """The places of the words with this prefix."""
        return range(bisect_left(self.words, prefix), bisect_right(self.words, prefix + LAST))

    def containing(self, part: str) -> list[int]:
        """The places of the words that contain these letters."""
        if not part or JOINT in part:
            return []
        found, at = [], self._joined.find(part)
        while at >= 0:
            found.append(at)
            at = self._joined.find(part, at + len(part))
        # All at once, as numbers of one kind: each look-up of a Python number would copy all starts.
        places: list[int] = np.unique(self._starts.searchsorted(np.array(found, np.int32), "right") - 1).tolist()
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


# --- reading ------------------------------------------------------------------------------------------------


class Segment:
    """A segment never changes except for its deletions, which belong to the commits.

    Its files stay open until nobody uses it, so that it can be read after a commit has removed them.
    """

    def __init__(self, reader: Any, decoded: Floats, lines: SegmentLines) -> None:
        self.lines = lines
        self.id: str = reader.segment().segment_id()
        self.size: int = reader.doc_count_all()
        self._terms = reader._terms
        self._lock = threading.Lock()
        self._lexicons: dict[str, Lexicon] = {}
        if self._terms._tindex.hashtype != MD5:
            raise ValueError("the terms are not found by the hash that they should be")
        scored = [name for name, field in reader.schema.items() if field.scorable]
        # Whoosh opens the files of columns on demand: after a commit they may be gone.
        self.chunks = self._column(reader, "number", ">i8").astype(np.int64)
        if not self.chunks.all():
            raise ValueError("a chunk's number is missing")
        self.lengths = {name: decoded[self._column(reader, f"_{name}_len", "u1")] for name in scored}
        weakref.finalize(self, reader.close)

    @property
    def memory(self) -> int:
        """About how many bytes its columns and the words that were read take, with what is made of them."""
        columns: int = self.chunks.nbytes + sum(lengths.nbytes for lengths in self.lengths.values())
        words = sum(len(lexicon.words) for lexicon in self._lexicons.values())
        return self.lines.memory + 2 * columns + WORD_BYTES * words

    def _column(self, reader: Any, name: str, form: str) -> NDArray[Any]:
        """A number for each document; Whoosh omits trailing zeros, and columns of zeros only."""
        values = np.zeros(self.size, form)
        if reader._perdoc.has_column(name):
            file, start, length = reader._perdoc._get_column_file(name)
            with file:
                stored = np.frombuffer(file.get(start, length), form)
            values[: len(stored)] = stored
        return values

    def held(self, field: str, term: str) -> PostingList:
        """The documents that hold a term, deleted ones included."""
        with reading():
            info = self._find(self._terms._keycoder(field, term.encode()))
            if info is None:
                return NOTHING
            _, _, count, *_, offset, length = TERM.unpack(info)
            return _decode(os.pread(self._terms._postfile.fileno(), length, offset), count)

    def _find(self, key: bytes) -> bytes | None:
        """The entry of a key in the term file, found as Whoosh does, in a quarter of its time.

        Whoosh seeks and then reads: two threads would read each other's bytes.
        """
        file = self._terms._dbfile.fileno()
        hashed = int.from_bytes(md5(key, usedforsecurity=False).digest()[-4:], "big")
        start, slots = self._terms._tindex.tables[hashed & 255]
        for nth in range(hashed >> 8, (hashed >> 8) + slots):
            found, place = SLOT.unpack(os.pread(file, SLOT.size, start + nth % slots * SLOT.size))
            if not place:
                break
            if found == hashed:
                entry = os.pread(file, KEY + len(key) + TERM.size, place)
                if entry[KEY : KEY + len(key)] == key and INT.unpack_from(entry) == (len(key),):
                    return entry[KEY + len(key) :]
        return None

    def verify(self) -> None:
        """Read everything; StoreBroken when a file is damaged."""
        with reading():
            self.lines.verify(self.size)
        for field in self.lengths:
            lexicon = self.lexicon(field)
            for term, count in zip(lexicon.words, lexicon.counts.tolist(), strict=True):
                if len(self.held(field, term).docs) != count:
                    raise StoreBroken(f"the text index is torn: {term!r} is not found", "memd doctor --fix")

    def lists(self, field: str) -> FieldLists:
        """Every list of a field; not kept, and not for more than some thousand documents."""
        terms, lists = self._terms._dbfile.fileno(), self._terms._postfile.fileno()
        with reading():
            with self._lock:
                places, words, counts = _terms(self._terms, field)
            held = []
            for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                *_, offset, length = TERM.unpack(os.pread(terms, TERM.size, place))
                held.append(_decode(os.pread(lists, length, offset), count))
        return FieldLists(words, counts, *map(np.concatenate, zip(NOTHING, *held, strict=True)))

    def lexicon(self, field: str) -> Lexicon:
        """Every term of a field, read once."""
        if field not in self._lexicons:
            with reading(), self._lock:
                if field not in self._lexicons:
                    self._lexicons[field] = Lexicon(*_terms(self._terms, field)[1:])
        return self._lexicons[field]


def _decode(raw: bytes, count: int) -> PostingList:
    """Decode the blocks of a posting list: documents as differences, frequencies in four bytes each."""
    if raw[:4] != MAGIC:
        raise ValueError("a posting list does not begin where it should")
    steps: list[int] = []
    often = b""
    at, before, more = len(MAGIC), 0, True
    while more:
        (length,) = INT.unpack_from(raw, at)
        more, at = length > 0, at + INT.size
        stream = io.BytesIO(raw[at : at + abs(length)])
        _, last, _, packed, *_ = pickle.load(stream)
        data = stream.read()
        ids, _, values = pickle.loads(zlib.decompress(data) if packed else data)
        # Each block starts from zero.
        steps.append(ids[0] - before)
        steps += ids[1:]
        often += values
        at, before = at + abs(length), last
    docs = np.cumsum(np.array(steps, np.int32), dtype=np.int32)
    weights = np.minimum(np.frombuffer(often, ">u4"), MOST_OFTEN).astype(np.uint16)
    if len(docs) != count or len(weights) != count:
        raise ValueError("a posting list is not as long as it should be")
    return frozen(docs, weights)


def frozen(docs: Docs, weights: Counts) -> PostingList:
    """Make the arrays read-only: cached lists are shared."""
    docs.flags.writeable = weights.flags.writeable = False
    return PostingList(docs, weights)


def _terms(terms: Any, field: str) -> tuple[NDArray[np.int64], list[str], NDArray[np.int64]]:
    """The terms of a field, where the entry of each is, and how many documents it has.

    A field's keys are together and in order; the places of all keys are at the end of the file.
    """
    number = terms._fieldmap.get(field)
    table = terms._tindex
    if number is None:
        return np.zeros(0, np.int64), [], np.zeros(0, np.int64)
    form = np.dtype(table.extras["indextype"]).newbyteorder(">")
    places = np.frombuffer(table.dbfile.get(table.indexbase, table.indexlen * form.itemsize), form).astype(np.int64)
    raw = table.dbfile.get(0, table.endofdata)
    numbers = np.frombuffer(raw, np.uint8)
    ends = places + KEY + _unsigned(numbers, places)
    if not np.array_equal(ends + _unsigned(numbers, places + 4), np.append(places[1:], len(raw))):
        raise ValueError("a term does not end where the next one begins")
    of_field = (numbers[places + KEY] == number >> 8) & (numbers[places + KEY + 1] == number & 255)
    places, ends = places[of_field], ends[of_field]
    words = [raw[start:end].decode() for start, end in zip((places + KEY + 2).tolist(), ends.tolist(), strict=True)]
    return ends, words, _unsigned(numbers, ends + TERM_DOCS)


def _unsigned(numbers: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The big-endian four-byte numbers at some places."""
    total = np.zeros(len(places), np.int64)
    for nth in range(4):
        total = total * 256 + numbers[places + nth]
    return total


# --- writing ------------------------------------------------------------------------------------------------

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
"""A term's entry, as in TERM."""
assert INFO.itemsize == TERM.size


class SegmentBuilder:
    """Chunks on their way into a segment: add them, or join segments, then take the files."""

    def __init__(self, fields: Iterable[str], lengths: Floats) -> None:
        self._lengths = lengths
        self._numbers = array("q")
        self._lines = LinesBuilder()
        # Whoosh has the fields in the order of their names.
        self._fields = {name: _Field() for name in sorted(fields)}

    @property
    def size(self) -> int:
        return len(self._numbers)

    def add(self, number: int, words: Mapping[str, Sequence[str]], lines: Sequence[Line]) -> None:
        """Add a chunk: its words, by field, and its lines."""
        self._numbers.append(number)
        self._lines.add(lines)
        for name, field in self._fields.items():
            field.add(words[name])

    def join(self, segment: Segment, deleted: Iterable[int]) -> None:
        """Add every chunk of another segment but the deleted ones."""
        live = np.ones(segment.size, bool)
        live[np.fromiter(deleted, np.int64)] = False
        # Where each document goes; those that are deleted go nowhere.
        places = np.cumsum(live) - 1 + self.size
        self._numbers.extend(segment.chunks[live].tolist())
        self._lines.join(segment.lines, np.flatnonzero(live))
        for name, field in self._fields.items():
            field.join(segment.lists(name), live, places, segment.lengths[name][live].astype(np.int64))

    def totals(self) -> dict[str, int]:
        """The words of each field that has any, as the table of contents has them."""
        return {name: total for name, field in self._fields.items() if (total := sum(field.sizes))}

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The files, by how their names end."""
        bytes_of = {name: self._bytes(field.sizes) for name, field in self._fields.items()}
        lists = bytearray()
        used = {name: field for name, field in self._fields.items() if field.terms}
        terms = {name: _write_lists(field.lists(), bytes_of[name], lists) for name, field in used.items()}
        yield ".pst", bytes(lists)
        yield ".trm", _term_file(terms)
        yield ".number.col", np.array(self._numbers, ">i8").tobytes()
        yield LINES, self._lines.file()
        # Nothing is stored in the index, and Whoosh wants to hear that of each document.
        yield "._stored.col", bytes(self.size) + b"B"
        for name, column in bytes_of.items():
            if column.any():
                yield f"._{name}_len.col", column.tobytes().rstrip(b"\0")

    def _bytes(self, sizes: array[int]) -> NDArray[np.uint8]:
        """Numbers of words as Whoosh stores them, in a byte each."""
        return np.minimum(np.searchsorted(self._lengths, np.array(sizes, np.int64)), 255).astype(np.uint8)


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
        self._parts: list[list[NDArray[np.int32]]] = []
        """Terms, documents, and how often the one is in the other; the documents never get smaller."""

    def add(self, words: Sequence[str]) -> None:
        self.sizes.append(len(words))
        self._gathered.extend(map(self.terms.__getitem__, words))
        if len(self._gathered) > GATHERED:
            self._count()

    def join(self, lists: FieldLists, live: NDArray[np.bool_], places: Numbers, sizes: Numbers) -> None:
        """Add the lists of another segment."""
        self._count()
        words, counts, docs, often = lists
        terms = np.repeat(np.fromiter(map(self.terms.__getitem__, words), np.int32, len(words)), counts)
        kept = live[docs]
        order = np.argsort(docs[kept], kind="stable")
        self._parts.append([part[kept][order].astype(np.int32) for part in (terms, places[docs], often)])
        self.sizes.extend(sizes.tolist())
        self._counted = len(self.sizes)

    def _count(self) -> None:
        """Count what is gathered."""
        sizes = np.array(self.sizes[self._counted :], np.int64)
        docs = np.repeat(np.arange(self._counted, len(self.sizes)), sizes)
        width = max(1, len(self.terms))
        pairs, often = np.unique(docs * width + np.array(self._gathered, np.int64), return_counts=True)
        self._parts.append([part.astype(np.int32) for part in (pairs % width, pairs // width, often)])
        self._gathered = array("i")
        self._counted = len(self.sizes)

    def lists(self) -> FieldLists:
        self._count()
        terms, docs, often = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        used = np.zeros(len(self.terms), bool)
        used[terms] = True
        words = sorted(word for word, number in self.terms.items() if used[number])
        ranks = np.zeros(len(self.terms), np.int32)
        ranks[np.fromiter(map(self.terms.__getitem__, words), np.int64, len(words))] = np.arange(len(words))
        terms = ranks[terms]
        order, counts = np.argsort(terms, kind="stable"), np.bincount(terms, minlength=len(words))
        return FieldLists(words, counts, docs[order].astype(np.int64), often[order].astype(np.int64))


def _write_lists(lists: FieldLists, lengths: NDArray[np.uint8], file: bytearray) -> tuple[list[bytes], bytes]:
    """Append the lists of a field to the file of lists; returns its words, and their entries for the term file."""
    words, counts, docs, often = lists
    ends = np.cumsum(counts)
    starts, blocks = ends - counts, -(-counts // BLOCK)
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
    infos["total"], infos["docs"] = np.add.reduceat(often, starts), counts
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


def _term_file(fields: Mapping[str, tuple[list[bytes], bytes]]) -> bytes:
    """Whoosh's hash file of the terms of each field, with the places of all keys at its end."""
    data, size = bytearray(b"HSH3" + bytes([MD5]) + bytes(8)), INFO.itemsize
    tables: list[list[tuple[int, int]]] = [[] for _ in range(TABLES)]
    places: list[int] = []
    for number, (words, infos) in enumerate(fields.values()):
        prefix = FIELD.pack(number)
        for nth, word in enumerate(words):
            key, place = prefix + word, len(data)
            data += PLACE.pack(len(key), size) + key + infos[nth * size : (nth + 1) * size]
            hashed = int.from_bytes(md5(key, usedforsecurity=False).digest()[-4:], "big")
            tables[hashed & 255].append((hashed, place))
            places.append(place)
    directory = bytearray()
    for entries in tables:
        directory += TABLE.pack(len(data), 2 * len(entries))
        data += _hash_table(entries)
    data += directory
    start = len(data)
    form = "I" if not places or places[-1] < 1 << 32 else "q"
    numbers = {name: number for number, name in enumerate(fields)}
    extras = {"fieldmap": numbers, "indextype": form, "indexlen": len(places)}
    data += pickle.dumps(extras, PROTOCOL) + np.array(places, np.dtype(form).newbyteorder(">")).tobytes()
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
