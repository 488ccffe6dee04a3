"""The text index of one workspace (Whoosh): a cache of the chunks' words, by chunk number."""

import errno
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from whoosh import columns, fields, index
from whoosh.analysis import IDTokenizer
from whoosh.codec.whoosh3 import W3Codec
from whoosh.filedb.filestore import FileStorage
from whoosh.filedb.filetables import FileFormatError
from whoosh.filedb.structfile import BufferFile
from whoosh.reading import SegmentReader
from whoosh.util.numeric import byte_to_length

from memd.errors import DiskFull
from memd.failpoints import failpoint
from memd.indexer.language.languages import foreign_language
from memd.indexer.language.lines import Line, read_lines
from memd.indexer.language.words import only_terms, stems_of
from memd.indexer.store import cache_folder
from memd.indexer.store.lines import SegmentLines
from memd.indexer.store.postings import Postings, Segments
from memd.indexer.store.segment import LINES, NUMBERS, TORN, Segment, SegmentBuilder, TextBroken, reading
from memd.models import Chunk
from memd.prose import composed

FORMAT = 10
"""The version of the format; an index of another version is built again. (9: words behind an elision, ł as l.)"""

FIELDS = ("heading", "body", "exact")
SCHEMA = fields.Schema(
    number=fields.COLUMN(columns.NumericColumn("q")),
    # The analyzer is never asked: a chunk's text is cut into terms before.
    **{name: fields.TEXT(analyzer=IDTokenizer(), phrase=False) for name in FIELDS},
)
CODEC = W3Codec()

LARGE = 125
"""Segments with more chunks than this are joined seldom; the small ones all at once, as soon as there are a few."""

HELD = 32_768
"""Files of a segment up to so many bytes, those of a few chunks, are held in memory; others stay open."""

BROKEN = (*TORN, index.IndexError, FileFormatError)
"""The errors that Whoosh raises when its files are damaged; only opening and reading them is guarded so widely."""
_reading = partial(reading, errors=BROKEN)

LOCKS: dict[Path, threading.Lock] = {}
"""One for each folder: who still asks an index that was closed must not meet a commit of the one opened after it."""

LENGTHS = np.array([byte_to_length(byte) for byte in range(256)], np.float32)
"""Whoosh stores the length of a field in one byte: these are the lengths that the bytes stand for."""


class TextIndex:
    """One folder; one writer at a time; searches see the last commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = LOCKS.setdefault(folder, threading.Lock())
        self._segments = Segments()
        self._postings: Postings | None = None
        self._index = self._open_or_make()
        self._sums = cache_folder.sums_of(folder)
        self._count_segments()

    def _count_segments(self) -> None:
        sizes = [_live(segment) for segment in self._index._segments()]
        self.large = sum(size > LARGE for size in sizes)
        self.small = len(sizes) - self.large

    def _open_or_make(self) -> Any:
        if cache_folder.format_of(self.folder) != FORMAT:
            return self._make()
        with _reading("cannot be opened"):
            if damage := cache_folder.broken(self.folder):
                raise TextBroken(f"the text index is damaged: {damage}", "memd doctor --fix")
            opened = FileStorage(str(self.folder)).open_index(schema=SCHEMA)
            self._sweep(opened)
            return opened

    def _make(self) -> Any:
        """An empty index; the version is written last, so that a half-made folder is made again."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        try:
            self.folder.mkdir(parents=True)
            created = FileStorage(str(self.folder)).create_index(SCHEMA)
            cache_folder.write_format(self.folder, FORMAT)
        except OSError as error:
            raise disk_error(error) from error
        return created

    def _sweep(self, opened: Any) -> None:
        """Remove the segment files of a killed writer, which no table of contents names."""
        index.clean_files(opened.storage, opened.indexname, opened.latest_generation(), opened._segments())
        for unfinished in ("*.tmp", "*.toc.*"):
            for file in self.folder.glob(unfinished):
                file.unlink(missing_ok=True)

    # --- writing ------------------------------------------------------------------------------------------

    def apply(
        self, add: Iterable[tuple[int, Chunk]], drop: Iterable[int], join: Iterable[tuple[Segment, set[int]]] = ()
    ) -> None:
        """Add and drop chunks in one commit; after an error the index is as it was.

        `join`: segments of another index, each with what is deleted in it. An edit joins nothing: it should be found
        at once, not after half a second of merging.
        """
        with self._writing():
            segments = self._index._segments()
            self._delete(segments, drop)
            builder = SegmentBuilder(FIELDS, LENGTHS)
            for segment, deleted in join:
                builder.join(segment, deleted)
            for chunk_id, chunk in add:
                builder.add(chunk_id, *document(chunk))
            self._commit([*segments, self._write_segment(builder)] if builder.size else segments)

    def adopt(self, fresh: Path, joined: Sequence[Any]) -> bool:
        """Use another index, made of some segments of this one, in their place; says whether they are still here."""
        segments, names = self._index._segments(), {segment.segment_id() for segment in joined}
        # One that is gone has nothing left.
        former = [segment for segment in segments if segment.segment_id() in names]
        if not former:
            return False
        with self._writing():
            (made,) = FileStorage(str(fresh)).open_index(schema=SCHEMA)._segments()
            whole, sizes = self.postings(), [segment.doc_count_all() for segment in segments]
            living = whole.chunks[whole.live & np.repeat([segment in former for segment in segments], sizes)]
            chunks = np.fromfile(fresh / made.make_filename(NUMBERS), ">i8")
            for doc in np.flatnonzero(~np.isin(chunks, living)).tolist():
                # It was deleted while the others were joined.
                made.delete_document(doc)
            self._sums |= cache_folder.sums_of(fresh)
            for file in fresh.glob(made.make_filename("*")):
                file.rename(self.folder / file.name)
            # The largest first, as they are read as one.
            segments[segments.index(former[0])] = made
            self._commit([segment for segment in segments if segment not in former])
        return True

    def pieces(self, most: int) -> list[Any]:
        """The segments to join so that no more large ones are left: the smallest of those, and all small ones.

        Those, too, that are no larger than all before them: so every chunk is joined a few times in its life. By what
        is left of them: edits would leave more and more of what is deleted, which takes memory and time.
        """
        with _reading(), self._lock:
            segments = sorted(self._index._segments(), key=_live)
        large, live = sum(_live(segment) > LARGE for segment in segments), 0
        for nth, segment in enumerate(segments):
            if large + (live > LARGE) <= most and _live(segment) > max(live, LARGE):
                return segments[:nth]
            large, live = large - (_live(segment) > LARGE), live + _live(segment)
        return segments

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with _reading("cannot be written"):
            try:
                yield
            except OSError as error:
                # The half-written files take up the space that is missing.
                self._sweep(self._index)
                raise disk_error(error) from error

    def _commit(self, segments: Iterable[Any]) -> None:
        """From now on the index has these segments, but for those of which nothing is left."""
        failpoint("text-before-commit")
        cache_folder.remove(self.folder)
        self._publish([segment for segment in segments if _live(segment)])
        failpoint("text-after-commit")
        self._sums = cache_folder.write(self.folder, self._sums)
        self._count_segments()

    def _delete(self, segments: list[Any], drop: Iterable[int]) -> None:
        """Mark chunks as deleted, in the segments that hold them."""
        numbers = list(drop)
        if not numbers:
            return
        postings = self.postings()
        places = np.flatnonzero(postings.live & np.isin(postings.chunks, numbers))
        ends = np.cumsum([segment.doc_count_all() for segment in segments])
        nths = np.searchsorted(ends, places, "right")
        for place, nth in zip(places.tolist(), nths.tolist(), strict=True):
            segments[nth].delete_document(place - int(ends[nth]) + segments[nth].doc_count_all())

    def _write_segment(self, builder: SegmentBuilder) -> Any:
        """Write a new segment, which nobody knows of until it is published."""
        segment = CODEC.new_segment(self._index.storage, self._index.indexname)
        for extension, content in builder.files():
            (self.folder / segment.make_filename(extension)).write_bytes(content)
        segment.set_doc_count(builder.size)
        segment._fieldlengths = builder.totals()
        return segment

    def _publish(self, segments: list[Any]) -> None:
        """The commit: a new table of contents; lets go of removed segments in the moment that their files go."""
        storage, name, generation = self._index.storage, self._index.indexname, self._index.latest_generation() + 1
        with self._lock:
            self._postings = None
            self._segments.keep({segment.segment_id() for segment in segments})
            index.TOC(SCHEMA, segments, generation).write(storage, name)
            index.clean_files(storage, name, generation, segments)

    # --- reading ------------------------------------------------------------------------------------------

    def postings(self) -> Postings:
        """The content of the last commit, as arrays; usable after the next commit too."""
        with _reading(), self._lock:
            if self._postings is None:
                self._postings = self._segments.at(self._index._segments(), partial(open_segment, self.folder))
            return self._postings

    def count(self) -> int:
        # Whoosh looks for the newest table of contents and then opens it: a commit may remove it in between.
        with _reading(), self._lock:
            return sum(map(_live, self._index._segments()))

    @property
    def memory(self) -> int:
        """About how many bytes what was read of it takes."""
        return self._segments.memory

    def ids(self) -> set[int]:
        """Every chunk the index holds."""
        postings = self.postings()
        return set(postings.chunks[postings.live].tolist())

    def verify(self) -> None:
        """Read every term and posting; TextBroken when a file is damaged."""
        with _reading(), self._lock:
            # Opened anew: the open ones may have cached what the files no longer say.
            segments = [open_segment(self.folder, segment) for segment in self._index._segments()]
        for segment in segments:
            segment.verify()

    def close(self) -> None:
        with self._lock:
            self._postings = None
        self._segments.keep(set())
        self._index.close()


class FollowedTextIndex(TextIndex):
    """The index of another process, for reading: it never writes to the folder."""

    _commit_seen = (0, 0)

    def _open_or_make(self) -> Any:
        with _reading("cannot be opened"):
            return FileStorage(str(self.folder)).open_index(schema=SCHEMA)

    def follow(self) -> bool:
        """Read the last commit from now on; says whether it is another."""
        with _reading(), self._lock:
            # The folder itself is another one after a rebuild, and counts its commits anew.
            seen = (self.folder.stat().st_ino, int(self._index.latest_generation()))
            if is_another := seen != self._commit_seen:
                self._segments.keep({segment.segment_id() for segment in self._index._segments()})
                self._postings, self._commit_seen = None, seen
            return is_another


class SegmentFiles(FileStorage):  # type: ignore[misc]
    """The folder of an index, for reading."""

    def open_file(self, name: str, **more: Any) -> Any:
        file = super().open_file(name, **more)
        # Not mapped: a process that maps a file is killed when somebody cuts that off.
        if os.fstat(file.fileno()).st_size > HELD:
            return file
        with file:
            return BufferFile(file.read(), name=name)


def open_segment(folder: Path, segment: Any) -> Segment:
    files = SegmentFiles(str(folder))
    lines = SegmentLines(files.open_file(segment.make_filename(LINES)))
    return Segment(SegmentReader(files, SCHEMA, segment), LENGTHS, lines)


def _live(segment: Any) -> int:
    return int(segment.doc_count_all() - segment.deleted_count())


def document(chunk: Chunk) -> tuple[dict[str, list[str]], list[Line]]:
    """The words of a chunk, by field, and its lines: its headings first."""
    above, text = composed(" ".join((*chunk.heading, chunk.context))), composed(chunk.text)
    language = foreign_language(text)
    heading = only_terms(above) + stems_of(above, language)
    lines, exact = read_lines(text, language)
    body = [term for line in lines for term in line.terms]
    # A text without words (an emoji, a rule of dashes) is known by itself.
    lines[0] = Line(lines[0].terms if body else [text], *(language.encode() or bytes(2)))
    return {"heading": heading, "body": body, "exact": exact}, lines


def disk_error(error: OSError) -> DiskFull | TextBroken:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
        return DiskFull(f"the text index could not be written: {error.strerror}", "make room; memd goes on by itself")
    return TextBroken(f"the text index could not be written: {error}", "memd doctor --fix")


def build(fresh: Path, chunks: Iterable[tuple[int, Chunk]], folder: Path, segments: Sequence[Any] = ()) -> None:
    """A new index of one segment: of many chunks, or of some segments of the index in another folder."""
    try:
        # Also what is written: an error of the disk is told as one before it comes here.
        with _reading():
            # Opened first: a commit may remove one of which nothing is left, and then it can still be read.
            opened = [(open_segment(folder, segment), segment.deleted_docs()) for segment in segments]
            built = TextIndex(fresh)
            built.apply(chunks, (), opened)
            built.close()
    finally:
        # Each build has a folder of its own.
        LOCKS.pop(fresh, None)
