"""One segment of a Whoosh index, read into arrays: the only file that knows the file formats of Whoosh 2.7.4."""

from __future__ import annotations

import io
import os
import pickle
import struct
import threading
import weakref
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import md5
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memd.errors import StoreBroken

Docs = NDArray[np.int32]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float32]
Places = NDArray[np.int32]

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
"""What reading a damaged file raises; only reading is guarded so widely."""

LAST = chr(0x10FFFF)
JOINT = "\n"
NOWHERE: Places = np.zeros(0, np.int32)
SIMILAR_PERCENT = 40
"""Of the letters of two names that must be the same, in the same order."""


@contextmanager
def reading() -> Iterator[None]:
    """Any of these errors inside means that the files are damaged."""
    try:
        yield
    except TORN as error:
        raise StoreBroken(f"the text index cannot be read: {error!r}", "memd doctor --fix") from error


class PostingList(NamedTuple):
    """The documents that hold a term, in order, and how often each does."""

    docs: Docs
    weights: Counts


NOTHING = PostingList(np.zeros(0, np.int32), np.zeros(0, np.uint16))


class FieldLists(NamedTuple):
    """Every list of a field, one after the other: the terms in order, and how many documents each has."""

    words: list[str]
    counts: NDArray[np.int64]
    docs: Docs
    weights: Counts


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


class Segment:
    """A segment never changes except for its deletions, which belong to the commits.

    Its files stay open until nobody uses it, so that it can be read after a commit has removed them.
    """

    def __init__(self, reader: Any, decoded: Floats) -> None:
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
        return 2 * columns + WORD_BYTES * sum(len(lexicon.words) for lexicon in self._lexicons.values())

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
        docs = np.concatenate([each.docs for each in held] or [NOTHING.docs])
        return FieldLists(words, counts, docs, np.concatenate([each.weights for each in held] or [NOTHING.weights]))

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
