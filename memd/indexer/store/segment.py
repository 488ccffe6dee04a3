"""One segment of a Whoosh index, read into arrays and written: the only file that knows the formats of Whoosh 2.7.4.

Whoosh's own writer makes an object of every occurrence, sorts those, and looks up every length again. Here the words
are numbers from the start, and numpy sorts and writes them. Whoosh reads the same files: its pickles, but with numbers
that always take four bytes, so that numpy knows where each one is.
"""

import os
import pickle
import struct
import threading
import weakref
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memd.errors import StoreBroken
from memd.indexer.language.lines import Line
from memd.indexer.store.lexicon import Lexicon
from memd.indexer.store.lines import LinesBuilder, SegmentLines, ranges, read_at

Docs = NDArray[np.int32]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

MAGIC = b"W3Bl"
CRC = 1
INT = struct.Struct("!i")
SLOT = struct.Struct("!Iq")

INFO = np.dtype(
    [
        ("flags", "u1"), ("total", ">f4"), ("docs", ">u4"), ("shortest", "u1"), ("longest", "u1"), ("most", ">f4"),
        ("first", ">u4"), ("last", ">u4"), ("offset", ">i8"), ("length", ">i4"),
    ]
)  # fmt: skip
"""A term's entry in the term file: how many documents have it, where its list is, and more."""

TERM = struct.Struct("!BfIBBfIIqi")
"""The same for one of them, which numpy takes longer to read."""
assert INFO.itemsize == TERM.size

NUMBER = np.dtype([("code", "u1"), ("value", "<i4")])
"""A number in a pickle."""

FRONT = np.dtype(
    [
        ("magic", "S4"), ("length", ">i4"), ("open", "S3"), ("count", NUMBER), ("last", NUMBER),
        ("float", "S1"), ("most", ">f8"), ("level", "S1"), ("packed", "u1"), ("short", "S1"), ("shortest", "u1"),
        ("long", "S1"), ("longest", "u1"), ("close", "S2"),
    ]
)  # fmt: skip
"""The beginning of a posting list: a length and the pickle of six numbers. Then comes the pickle of the documents as
differences, of the weights, and of the frequencies in four bytes each; that of a long list is packed."""
BEFORE_BLOCK = 8
"""Bytes of a list that its length does not count."""
OPEN, WEIGHTED, ALL_ONE, CLOSE = b"\x80\x03(", b"t(", b"tN", b"\x87."
TUPLE, INTEGER = b"t", ord("J")
VALUES = np.dtype([("code", "S1"), ("size", "<u4")])

SHORT = 24
"""Postings of a list up to which packing it is not worth the time."""
LEVEL = 1

WORD_BYTES = 110
"""A word of a lexicon: the string, and its places in what searches are made on."""

MOST_OFTEN = 65_535
FIELD = struct.Struct("!H")
KEY = 8
PLACE = np.dtype([("key", ">u4"), ("value", ">u4"), ("field", ">u2")])
"""Before each key come two lengths, its own and its value's; the key begins with two bytes for the field."""

TORN = (
    pickle.UnpicklingError, struct.error, zlib.error, OSError, EOFError, ValueError, LookupError, TypeError,
    AttributeError, NameError, AssertionError, ArithmeticError, MemoryError,
)  # fmt: skip
"""The errors that reading a damaged file raises; only reading is guarded so widely."""

NUMBERS, LINES = ".number.col", ".lines"
"""How the names of the chunks' numbers and of memd's own file of a segment end; Whoosh removes it with the others."""


class TextBroken(StoreBroken):
    """A text index cannot be read or written, and can be made again from the ledger."""


@contextmanager
def reading(what: str = "cannot be read", errors: tuple[type[Exception], ...] = TORN) -> Iterator[None]:
    """Any of these errors inside means that the files are damaged."""
    try:
        yield
    except errors as error:
        raise TextBroken(f"the text index {what}: {error!r}", "memd doctor --fix") from error


class PostingList(NamedTuple):
    """The documents that hold a term, in order, and how often each does."""

    docs: Docs
    weights: Counts


NOTHING = PostingList(np.zeros(0, np.int32), np.zeros(0, np.uint16))


class FieldLists(NamedTuple):
    """Every list of a field, one after the other: the terms in order, and how many documents each has."""

    words: list[bytes]
    counts: Numbers
    docs: Docs
    weights: Counts


# --- reading ------------------------------------------------------------------------------------------------


class Segment:
    """A segment never changes except for its deletions, which belong to the commits.

    Its large files stay open until nobody uses it, so that it can be read after a commit has removed them.
    """

    def __init__(self, reader: Any, decoded: Floats, lines: SegmentLines) -> None:
        self.lines = lines
        self.id: str = reader.segment().segment_id()
        self.size: int = reader.doc_count_all()
        self._terms = reader._terms
        self._list_bytes: int = self._terms._postfile.seek(0, os.SEEK_END)
        self._lock = threading.Lock()
        self._lexicons: dict[str, Lexicon] = {}
        if self._terms._tindex.hashtype != CRC:
            raise ValueError("the terms are not found by the hash that they should be")
        # As Whoosh has them, as tuples, they are half of what a small segment takes.
        self._tables = array("q", chain.from_iterable(self._terms._tindex.tables))
        self._terms._tindex.tables = ()
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
        words = sum(len(lexicon.words) for lexicon in list(self._lexicons.values()))
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
            entry = self._find(self._terms._keycoder(field, term.encode()))
            if entry is None:
                return NOTHING
            _, _, count, *_, offset, length = TERM.unpack(entry)
            return _decode(read_at(self._terms._postfile, length, offset), count)

    def _find(self, key: bytes) -> bytes | None:
        """The entry of a key in the term file, found as Whoosh does, in a quarter of its time."""
        file, hashed = self._terms._dbfile, zlib.crc32(key)
        at = 2 * (hashed & 255)
        start, slots = self._tables[at], self._tables[at + 1]
        for nth in range(hashed >> 8, (hashed >> 8) + slots):
            found, place = SLOT.unpack(read_at(file, SLOT.size, start + nth % slots * SLOT.size))
            if not place:
                break
            if found == hashed:
                entry = read_at(file, KEY + len(key) + INFO.itemsize, place)
                if entry[KEY : KEY + len(key)] == key and INT.unpack_from(entry) == (len(key),):
                    return entry[KEY + len(key) :]
        return None

    def verify(self) -> None:
        """Read everything; TextBroken when a file is damaged."""
        with reading():
            self.lines.verify(self.size)
        for field in self.lengths:
            lexicon = self.lexicon(field)
            for term, count in zip(lexicon.words, lexicon.counts.tolist(), strict=True):
                if len(self.held(field, term).docs) != count:
                    raise TextBroken(f"the text index is torn: {term!r} is not found", "memd doctor --fix")

    def lists(self, field: str) -> FieldLists:
        """Every list of a field; not kept."""
        with reading():
            with self._lock:
                words, infos = _terms(self._terms, field)
            raw = read_at(self._terms._postfile, self._list_bytes, 0)
            return FieldLists(words, infos["docs"].astype(np.int64), *_decode_all(raw, infos))

    def lexicon(self, field: str) -> Lexicon:
        """Every term of a field, read once."""
        if field not in self._lexicons:
            with reading(), self._lock:
                if field not in self._lexicons:
                    words, infos = _terms(self._terms, field)
                    self._lexicons[field] = Lexicon([word.decode() for word in words], infos["docs"].astype(np.int64))
        return self._lexicons[field]


def _decode(raw: bytes, count: int) -> PostingList:
    """One posting list."""
    if raw[:4] != MAGIC or INT.unpack_from(raw, 4)[0] + len(raw) != BEFORE_BLOCK:
        raise ValueError("a posting list does not begin where it should")
    data = raw[FRONT.itemsize :]
    if count > SHORT:
        data = zlib.decompress(data)
    steps = _values(np.frombuffer(data, NUMBER, count, len(OPEN)))
    often = np.frombuffer(data, ">u4", count, len(data) - len(CLOSE) - 4 * count)
    return frozen(steps.cumsum(dtype=np.int32), _bounded(often))


def _decode_all(raw: bytes, infos: NDArray[Any]) -> PostingList:
    """Posting lists, one after the other."""
    counts, begins, lengths = (infos[name].astype(np.int64) for name in ("docs", "offset", "length"))
    numbers, stops, starts = np.frombuffer(raw, np.uint8), begins + lengths, np.cumsum(counts) - counts
    fronts = _at(numbers, begins, FRONT)
    if (fronts["magic"] != MAGIC).any() or (fronts["length"] + lengths != BEFORE_BLOCK).any():
        raise ValueError("a posting list does not begin where it should")
    docs, weights, short = np.zeros(counts.sum(), np.int32), np.zeros(counts.sum(), np.uint16), counts <= SHORT
    begins += FRONT.itemsize
    for chosen, content in ((short, _short_content), (~short, _long_content)):
        held = counts[chosen]
        steps, often = content(raw, begins[chosen], stops[chosen], held)
        # Each list begins with a document, and goes on with differences; what a sum has too much goes with it.
        sums, firsts = np.cumsum(steps, dtype=np.int32), np.cumsum(held) - held
        sums -= np.repeat(sums[firsts] - steps[firsts], held)
        places = ranges(starts[chosen], held)
        docs[places], weights[places] = sums, _bounded(often)
    return PostingList(docs, weights)


Content = tuple[NDArray[Any], NDArray[Any]]


def _short_content(raw: bytes, begins: Numbers, stops: Numbers, counts: Numbers) -> Content:
    """The differences and the frequencies of lists that are not packed."""
    numbers = np.frombuffer(raw, np.uint8)
    steps = numbers[ranges(begins + len(OPEN), counts * NUMBER.itemsize)].view(NUMBER)
    return _values(steps), numbers[ranges(stops - len(CLOSE) - 4 * counts, 4 * counts)].view(">u4")


def _long_content(raw: bytes, begins: Numbers, stops: Numbers, counts: Numbers) -> Content:
    """The same for packed lists."""
    held, spans = counts.tolist(), zip(begins.tolist(), stops.tolist(), strict=True)
    lists = [zlib.decompress(raw[begin:stop]) for begin, stop in spans]
    steps = [data[len(OPEN) : len(OPEN) + NUMBER.itemsize * count] for data, count in zip(lists, held, strict=True)]
    often = [data[-len(CLOSE) - 4 * count : -len(CLOSE)] for data, count in zip(lists, held, strict=True)]
    return _values(np.frombuffer(b"".join(steps), NUMBER)), np.frombuffer(b"".join(often), ">u4")


def _values(numbers: NDArray[Any]) -> NDArray[Any]:
    # As bytes: numpy takes longer to look at a few.
    if numbers["code"].tobytes().strip(bytes((INTEGER,))):
        raise ValueError("a posting list has something else than numbers")
    values: NDArray[Any] = numbers["value"]
    return values


def _bounded(often: NDArray[Any]) -> Counts:
    bounded: Counts = np.minimum(often, MOST_OFTEN).astype(np.uint16)
    return bounded


def frozen(docs: Docs, weights: Counts) -> PostingList:
    """Make the arrays read-only: cached lists are shared."""
    docs.flags.writeable = weights.flags.writeable = False
    return PostingList(docs, weights)


def _terms(terms: Any, field: str) -> tuple[list[bytes], NDArray[Any]]:
    """The terms of a field, and their entries.

    A field's keys are together and in order; the places of all keys are at the end of the file.
    """
    number = terms._fieldmap.get(field)
    table = terms._tindex
    if number is None:
        return [], np.zeros(0, INFO)
    form = np.dtype(table.extras["indextype"]).newbyteorder(">")
    places = np.frombuffer(table.dbfile.get(table.indexbase, table.indexlen * form.itemsize), form).astype(np.int64)
    raw = table.dbfile.get(0, table.endofdata)
    numbers = np.frombuffer(raw, np.uint8)
    heads = _at(numbers, places, PLACE)
    ends = places + KEY + heads["key"]
    if not np.array_equal(ends + heads["value"], np.append(places[1:], len(raw))):
        raise ValueError("a term does not end where the next one begins")
    of_field = heads["field"] == number
    places, ends = places[of_field] + PLACE.itemsize, ends[of_field]
    words = [raw[start:end] for start, end in zip(places.tolist(), ends.tolist(), strict=True)]
    return words, _at(numbers, ends, INFO)


def _at(numbers: NDArray[np.uint8], places: Numbers, form: np.dtype[Any]) -> NDArray[Any]:
    """What stands at some places of a file, all of one form."""
    found: NDArray[Any] = numbers[places[:, None] + np.arange(form.itemsize)].view(form)[:, 0]
    return found


# --- writing ------------------------------------------------------------------------------------------------

GATHERED = 200_000
"""Words that wait to be counted; what is counted takes a fifth of the room."""

PROTOCOL = 3
"""The oldest pickle that knows bytes."""

TABLES = 256
TABLE = np.dtype([("place", ">i8"), ("slots", ">i4")])
SLOTS = np.dtype([("hash", ">u4"), ("place", ">i8")])


class SegmentBuilder:
    """Chunks on their way into a segment: add them, or join segments, then take the files."""

    def __init__(self, fields: Iterable[str], lengths: Floats) -> None:
        self._lengths = lengths
        self._numbers = array("q")
        self._lines = LinesBuilder()
        self._joined: list[tuple[Segment, NDArray[np.bool_], Docs]] = []
        """Segments, which documents of each live, and where these go."""
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
        self._numbers.frombytes(segment.chunks[live].tobytes())
        self._lines.join(segment.lines, np.flatnonzero(live))
        self._joined.append((segment, live, places.astype(np.int32)))
        for name, field in self._fields.items():
            field.skip(segment.lengths[name][live].astype(np.int64))

    def totals(self) -> dict[str, int]:
        """The words of each field that has any, as the table of contents has them."""
        return {name: total for name, field in self._fields.items() if (total := sum(field.sizes))}

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The files, by how their names end."""
        # Numbers of words as Whoosh stores them, in a byte each.
        found = {name: np.searchsorted(self._lengths, field.sizes) for name, field in self._fields.items()}
        bytes_of = {name: np.minimum(one, 255).astype(np.uint8) for name, one in found.items()}
        file = bytearray()
        terms = {}
        for name, field in self._fields.items():
            # Each field for itself: the words of all segments at once take much memory.
            joined = (_living(segment.lists(name), live, places) for segment, live, places in self._joined)
            lists = _merged([*joined, field.lists()])
            if lists.words:
                terms[name] = lists.words, _write_lists(lists, bytes_of[name], file)
        yield ".pst", bytes(file)
        yield ".trm", _term_file(terms)
        yield NUMBERS, np.array(self._numbers, ">i8").tobytes()
        yield LINES, self._lines.file()
        # Nothing is stored in the index, and Whoosh wants to hear that of each document.
        yield "._stored.col", bytes(self.size) + b"B"
        for name, column in bytes_of.items():
            if column.any():
                yield f"._{name}_len.col", column.tobytes().rstrip(b"\0")


class _Field:
    """The words of one field, as numbers in the order that they were first seen."""

    def __init__(self) -> None:
        # Not its own length: what refers to itself stays until the collector comes by.
        self.terms: defaultdict[str, int] = defaultdict(iter(range(1 << 31)).__next__)
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

    def skip(self, sizes: Numbers) -> None:
        """Go on behind documents that have so many words, and that somebody else counts."""
        self._count()
        self.sizes.frombytes(sizes.tobytes())
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
        """The lists of what was added."""
        self._count()
        terms, docs, often = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        order, counts = np.argsort(terms, kind="stable"), np.bincount(terms, minlength=len(self.terms))
        return FieldLists([word.encode() for word in self.terms], counts, docs[order], _bounded(often[order]))


def _living(lists: FieldLists, live: NDArray[np.bool_], places: Docs) -> FieldLists:
    """Lists without what is deleted, each document with its new number."""
    words, counts, docs, often = lists
    if not live.all():
        kept = live[docs]
        counts = np.bincount(np.repeat(np.arange(len(words)), counts)[kept], minlength=len(words))
        docs, often = docs[kept], often[kept]
        words, counts = list(compress(words, counts)), counts[counts > 0]
    return FieldLists(words, counts, places[docs], often)


def _merged(parts: Sequence[FieldLists]) -> FieldLists:
    """The lists of some segments as one: those of a term one after the other, in the order of the segments."""
    words = sorted(set().union(*(part.words for part in parts)))
    numbers = dict(zip(words, range(len(words)), strict=True))
    terms = [np.fromiter(map(numbers.__getitem__, part.words), np.int64, len(part.words)) for part in parts]
    counts = np.zeros(len(words), np.int64)
    for part, own in zip(parts, terms, strict=True):
        counts[own] += part.counts
    docs, weights = np.zeros(counts.sum(), np.int32), np.zeros(counts.sum(), np.uint16)
    free = np.cumsum(counts) - counts
    for part, own in zip(parts, terms, strict=True):
        places = ranges(free[own], part.counts)
        docs[places], weights[places] = part.docs, part.weights
        free[own] += part.counts
    return FieldLists(words, counts, docs, weights)


def _woven(*columns: tuple[NDArray[Any], Numbers]) -> tuple[NDArray[np.uint8], Numbers]:
    """Rows of bytes, one after the other, and where each ends: of every column the next so many bytes."""
    sizes = np.stack([size for _, size in columns], axis=1)
    ends = np.cumsum(sizes).reshape(sizes.shape)
    woven = np.zeros(sizes.sum(), np.uint8)
    for nth, (content, size) in enumerate(columns):
        woven[ranges(ends[:, nth] - size, size)] = np.ascontiguousarray(content).view(np.uint8)
    return woven, ends[:, -1]


def _whole(content: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    """A column of which each row has one element."""
    return content, np.full(len(content), content.itemsize)


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    numbers = np.zeros(len(values), NUMBER)
    numbers["code"], numbers["value"] = INTEGER, values
    return numbers


def _write_lists(lists: FieldLists, lengths: NDArray[np.uint8], file: bytearray) -> NDArray[Any]:
    """Append the lists of a field to the file of lists; returns their entries for the term file."""
    _, counts, docs, often = lists
    ends = np.cumsum(counts)
    starts, held = ends - counts, lengths[docs]
    infos = np.zeros(len(counts), INFO)
    infos["total"], infos["docs"] = np.add.reduceat(often, starts, dtype=np.int64), counts
    infos["shortest"], infos["longest"] = np.minimum.reduceat(held, starts), np.maximum.reduceat(held, starts)
    infos["most"], infos["first"], infos["last"] = np.maximum.reduceat(often, starts), docs[starts], docs[ends - 1]
    steps = np.diff(docs, prepend=np.int32(0))
    steps[starts] = docs[starts]
    columns = _numbers(steps), _numbers(often), often.astype(">u4")
    short = counts <= SHORT
    for chosen, write in ((short, _short_lists), (~short, _long_lists)):
        if chosen.any():
            content, sizes = write(infos[chosen], starts[chosen], columns)
            infos["length"][chosen], infos["offset"][chosen] = sizes, len(file) + np.cumsum(sizes) - sizes
            file += content
    return infos


def _fronts(infos: NDArray[Any], sizes: Numbers, packed: int) -> NDArray[Any]:
    """The beginnings of lists, of which the rest has these sizes."""
    number = (INTEGER, 0)
    blank = (MAGIC, 0, OPEN, number, number, b"G", 0, b"K", packed, b"K", 0, b"K", 0, b"t.")
    fronts = np.full(len(infos), np.array(blank, FRONT))
    # Negative, since no other block of the list follows.
    fronts["length"] = BEFORE_BLOCK - FRONT.itemsize - sizes
    fronts["count"]["value"], fronts["last"]["value"] = infos["docs"], infos["last"]
    for name in ("most", "shortest", "longest"):
        fronts[name] = infos[name]
    return fronts


Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def _short_lists(infos: NDArray[Any], starts: Numbers, columns: Columns) -> tuple[bytes, Numbers]:
    """Lists as they are in the file, and their sizes; documents, weights and frequencies begin at the same places."""
    steps, weights, values = columns
    counts, weighted, rows = infos["docs"].astype(np.int64), infos["most"] > 1, len(infos)
    some, places = counts * weighted, ranges(starts, counts)
    middle, head = np.where(weighted, WEIGHTED, ALL_ONE), np.full(rows, np.array((b"B", 0), VALUES))
    head["size"] = values.itemsize * counts
    data, ends = _woven(
        _whole(np.full(rows, OPEN)),
        (steps[places], NUMBER.itemsize * counts),
        _whole(middle),
        (weights[ranges(starts, some)], NUMBER.itemsize * some),
        (np.full(weighted.sum(), TUPLE), weighted.astype(np.int64)),
        _whole(head),
        (values[places], head["size"].astype(np.int64)),
        _whole(np.full(rows, CLOSE)),
    )
    sizes = np.diff(ends, prepend=0)
    woven, ends = _woven(_whole(_fronts(infos, sizes, 0)), (data, sizes))
    return woven.tobytes(), np.diff(ends, prepend=0)


def _long_lists(infos: NDArray[Any], starts: Numbers, columns: Columns) -> tuple[bytes, Numbers]:
    """The same for lists that are packed, one after the other."""
    steps, weights, values = (column.view(np.uint8).reshape(len(column), -1).data for column in columns)
    data = []
    for start, count, most in zip(starts.tolist(), infos["docs"].tolist(), infos["most"].tolist(), strict=True):
        here = slice(start, start + count)
        middle = (WEIGHTED, weights[here], TUPLE) if most > 1 else (ALL_ONE,)
        head = np.array((b"B", 4 * count), VALUES).tobytes()
        data.append(zlib.compress(b"".join((OPEN, steps[here], *middle, head, values[here], CLOSE)), LEVEL))
    sizes = np.fromiter(map(len, data), np.int64, len(data))
    fronts = _fronts(infos, sizes, LEVEL).view(f"V{FRONT.itemsize}").tolist()
    return b"".join(chain.from_iterable(zip(fronts, data, strict=True))), sizes + FRONT.itemsize


def _term_file(fields: Mapping[str, tuple[list[bytes], NDArray[Any]]]) -> bytes:
    """Whoosh's hash file of the terms of each field, with the places of all keys at its end."""
    data = bytearray(b"HSH3" + bytes([CRC]) + bytes(8))
    hashes, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, (words, infos) in enumerate(fields.values()):
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        heads = np.full(len(words), np.array((0, INFO.itemsize, number), PLACE))
        heads["key"] = lengths + FIELD.size
        letters = np.frombuffer(b"".join(words), np.uint8)
        entries, ends = _woven(_whole(heads), (letters, lengths), _whole(infos))
        before = zlib.crc32(FIELD.pack(number))
        hashes.append(np.fromiter((zlib.crc32(word, before) for word in words), np.int64, len(words)))
        places.append(len(data) + np.append(0, ends[:-1]))
        data += entries.tobytes()
    every = np.concatenate(places)
    tables, directory = _hash_tables(np.concatenate(hashes), every)
    directory["place"] += len(data)
    data += tables.tobytes() + directory.tobytes()
    start = len(data)
    form = "I" if not len(every) or every[-1] < 1 << 32 else "q"
    numbers = {name: number for number, name in enumerate(fields)}
    extras = {"fieldmap": numbers, "indextype": form, "indexlen": len(every)}
    data += pickle.dumps(extras, PROTOCOL) + every.astype(np.dtype(form).newbyteorder(">")).tobytes()
    data += INT.pack(len(data) - start)
    return bytes(data)


def _hash_tables(hashes: Numbers, places: Numbers) -> tuple[NDArray[Any], NDArray[Any]]:
    """Tables with twice as many slots as entries, and where each begins; a taken slot leads to the next free one."""
    counts = np.bincount(hashes & 255, minlength=TABLES)
    directory = np.zeros(TABLES, TABLE)
    slots, bases = 2 * counts, 2 * (np.cumsum(counts) - counts)
    directory["slots"], directory["place"] = slots, SLOTS.itemsize * bases
    wanted = (hashes >> 8) % slots[hashes & 255]
    order = np.lexsort((wanted, hashes & 255))
    hashes, places, wanted, table = hashes[order], places[order], wanted[order], hashes[order] & 255
    # In order, each has the slot that it wants or the one after that before it; so far apart, no table meets the next.
    apart, nth = table * (3 * int(np.max(counts)) + 1), np.arange(len(order))
    at = np.maximum.accumulate(apart + wanted - nth) + nth - apart
    tables, fits = np.zeros(slots.sum(), SLOTS), at < slots[table]
    entries = np.zeros(len(order), SLOTS)
    entries["hash"], entries["place"] = hashes, places
    tables[(bases[table] + at)[fits]] = entries[fits]
    for late in np.flatnonzero(~fits).tolist():
        own = tables[bases[table[late]] :][: slots[table[late]]]
        own[np.argmin(own["place"])] = entries[late]
    return tables, directory
