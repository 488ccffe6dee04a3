"""The text index of one workspace (Whoosh): a cache of the chunks' words, by chunk number."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from whoosh import columns, fields, index
from whoosh.analysis import Token
from whoosh.codec.whoosh3 import W3Codec
from whoosh.filedb.filestore import FileStorage
from whoosh.filedb.filetables import FileFormatError
from whoosh.reading import SegmentReader
from whoosh.util.numeric import byte_to_length

from memd.errors import DiskFull, StoreBroken
from memd.failpoints import failpoint
from memd.indexer.language.words import terms_of
from memd.indexer.store import checksums
from memd.indexer.store.postings import Postings, Segments
from memd.indexer.store.segment import TORN, Segment
from memd.models import Chunk

FORMAT = 2
"""The number of this index's form; another number on disk means: make it again."""

MEMORY_MB = 64
BLOCK = 4_096
"""Postings that are packed together; Whoosh's 128 let it skip some, but every list is read whole here."""

MERGE_EVERY = 8
MERGE_MOST = 1_000
LARGE = MERGE_MOST // MERGE_EVERY
"""As many segments of this size as are joined at once would be too much to join here."""

BROKEN = (*TORN, index.IndexError, FileFormatError)
"""What Whoosh raises when its files are torn; only opening and reading them is guarded so widely."""

LENGTHS = np.array([byte_to_length(byte) for byte in range(256)], np.float32)
"""Whoosh keeps the length of a field in one byte: these are the lengths that it means."""


class TermList:
    """Whoosh's analyzer for words that are cut already."""

    def __call__(self, value: Sequence[str], **options: Any) -> Iterator[Token]:
        token = Token(positions=False, chars=False, removestops=True, mode=options.get("mode", ""))
        for term in value:
            token.text, token.boost, token.stopped = term, 1.0, False
            yield token

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TermList)

    def __hash__(self) -> int:
        return hash(TermList)


def _schema() -> fields.Schema:
    analyzer = TermList()
    return fields.Schema(
        number=fields.COLUMN(columns.NumericColumn("q")),
        heading=fields.TEXT(analyzer=analyzer, phrase=False),
        body=fields.TEXT(analyzer=analyzer, phrase=False),
        exact=fields.TEXT(analyzer=analyzer, phrase=False),
    )


@contextmanager
def _reading(what: str = "cannot be read") -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        raise StoreBroken(f"the text index {what}: {error!r}", "memd doctor --fix") from error


class TextIndex:
    """One folder; one writer at a time; searches see the last commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._segments = Segments()
        self._postings: Postings | None = None
        self._index = self._open_or_make()
        self._sums = checksums.read(folder)
        self.loose = self._loose()
        """How many small segments have gathered that are worth joining."""
        self.large = self._large()
        """How many segments there are that only a build elsewhere can join."""

    def _open_or_make(self) -> Any:
        if self._format_on_disk() != FORMAT:
            return self._make()
        with _reading("cannot be opened"):
            if damage := checksums.broken(self.folder):
                raise StoreBroken(f"the text index is damaged: {damage}", "memd doctor --fix")
            opened = FileStorage(str(self.folder)).open_index()
            self._sweep(opened)
            return opened

    def _format_on_disk(self) -> int:
        try:
            return int(json.loads((self.folder / "format.json").read_text())["format"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _make(self) -> Any:
        """An empty index; the number is written last, so that a half-made folder is made again."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        try:
            self.folder.mkdir(parents=True)
            made = FileStorage(str(self.folder)).create_index(_schema())
            (self.folder / "format.json").write_text(json.dumps({"format": FORMAT}))
        except OSError as error:
            raise disk_error(error) from error
        return made

    def _sweep(self, opened: Any) -> None:
        """Remove what a killed writer left behind: segment files that no table of contents names."""
        index.clean_files(opened.storage, opened.indexname, opened.latest_generation(), opened._segments())
        for file in self.folder.glob("*tmp*"):
            file.unlink(missing_ok=True)

    # --- writing ------------------------------------------------------------------------------------------

    def apply(self, add: Iterable[tuple[int, Chunk]], drop: Iterable[int]) -> None:
        """Add and drop chunks in one commit; after an error the index is as it was."""
        self._commit(add, drop, keep_all)

    def tidy(self) -> None:
        """Join small segments, for a moment when nobody waits."""
        self._commit((), (), merge_alike)

    def _loose(self) -> int:
        return max((len(alike) for alike in _tiers(self._index._segments()).values() if _gathered(alike)), default=0)

    def _large(self) -> int:
        return sum(segment.doc_count_all() > LARGE for segment in self._index._segments())

    def _commit(self, add: Iterable[tuple[int, Chunk]], drop: Iterable[int], merge: Any) -> None:
        writer = None
        try:
            gone = self._places(drop)
            writer = self._index.writer(compound=False, limitmb=MEMORY_MB, codec=W3Codec(blocklimit=BLOCK))
            for place in gone:
                writer.delete_document(place)
            for chunk_id, chunk in add:
                writer.add_document(**document(chunk_id, chunk))
            failpoint("text-before-commit")
            checksums.remove(self.folder)
            self._swap_at_commit(writer)
            writer.commit(mergetype=merge)
            failpoint("text-after-commit")
            self._sums = checksums.write(self.folder, self._sums)
            self.loose, self.large = self._loose(), self._large()
        except OSError as error:
            self._give_up(writer)
            raise disk_error(error) from error
        finally:
            self._renew()

    def _places(self, drop: Iterable[int]) -> list[int]:
        """Whoosh's numbers for some chunks; they hold until the next commit, and there is one writer."""
        numbers = list(drop)
        if not numbers:
            return []
        postings = self.postings()
        found: list[int] = np.flatnonzero(postings.live & np.isin(postings.chunks, numbers)).tolist()
        return found

    def _swap_at_commit(self, writer: Any) -> None:
        """Let go of removed segments in the moment that the commit removes their files."""
        write_toc = writer._commit_toc

        def commit_toc(segments: list[Any]) -> None:
            with self._lock:
                self._postings = None
                self._segments.keep({segment.segment_id() for segment in segments})
                write_toc(segments)

        writer._commit_toc = commit_toc

    def _give_up(self, writer: Any) -> None:
        """Drop a writer that could not finish; Whoosh keeps its lock until the object lets go of it."""
        if writer is None:
            return
        try:
            writer.cancel()
        except (OSError, ValueError):
            # ValueError: it is past closing some of its files, and Whoosh would write to them once more.
            lock = getattr(writer, "writelock", None)
            if lock is not None:
                lock.release()
        # Its half-written files would go on taking the room that is missing.
        self._sweep(self._index)

    def _renew(self) -> None:
        with self._lock:
            self._postings = None

    # --- reading ------------------------------------------------------------------------------------------

    def postings(self) -> Postings:
        """What the last commit holds, as arrays; usable after the next commit too."""
        with _reading(), self._lock:
            if self._postings is None:
                self._postings = self._segments.at(self._index._segments(), self._open_segment)
            return self._postings

    def _open_segment(self, segment: Any) -> Segment:
        return Segment(SegmentReader(self._index.storage, _schema(), segment), LENGTHS)

    def count(self) -> int:
        return int(self._index.doc_count())

    def ids(self) -> set[int]:
        """Every chunk the index holds."""
        postings = self.postings()
        return set(postings.chunks[postings.live].tolist())

    def verify(self) -> None:
        """Read every term and posting; StoreBroken when a file is torn."""
        with _reading(), self._lock:
            # Not those that are open: they may remember what the files no longer say.
            segments = [self._open_segment(segment) for segment in self._index._segments()]
        for segment in segments:
            segment.verify()

    def close(self) -> None:
        self._renew()
        self._segments.keep(set())
        self._index.close()


def keep_all(writer: Any, segments: list[Any]) -> list[Any]:
    """Join nothing: an edit should be found at once, not after half a second of tidying."""
    return segments


def merge_alike(writer: Any, segments: list[Any]) -> list[Any]:
    """Join segments of one size when enough of them have gathered, as a clerk binds loose sheets.

    Every chunk is joined a few times in its life. What is larger than `MERGE_MOST` chunks is left alone:
    Whoosh would hold the interpreter for seconds; a rebuild in a process of its own joins those.
    """
    joined = [segment for alike in _tiers(segments).values() if _gathered(alike) for segment in alike]
    for segment in joined:
        reader = SegmentReader(writer.storage, writer.schema, segment)
        writer.add_reader(reader)
        reader.close()
    # In the order that they had: what was read of the first ones stays true.
    return [segment for segment in segments if segment not in joined]


def _tiers(segments: Iterable[Any]) -> dict[int, list[Any]]:
    """Segments by size: up to 8 chunks, up to 64, up to 512, …"""
    tiers: dict[int, list[Any]] = {}
    for segment in segments:
        tiers.setdefault((segment.doc_count_all() - 1).bit_length() // 3, []).append(segment)
    return tiers


def _gathered(alike: list[Any]) -> bool:
    return len(alike) >= MERGE_EVERY and sum(segment.doc_count_all() for segment in alike) <= MERGE_MOST


def document(chunk_id: int, chunk: Chunk) -> dict[str, Any]:
    """What the index holds of a chunk."""
    body, exact = terms_of(chunk.text)
    heading, _ = terms_of(" ".join((*chunk.heading, chunk.context)))
    return {"number": chunk_id, "heading": heading, "body": body, "exact": exact}


def disk_error(error: OSError) -> DiskFull | StoreBroken:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
        return DiskFull(f"the text index could not be written: {error.strerror}", "make room; memd goes on by itself")
    return StoreBroken(f"the text index could not be written: {error}", "memd doctor --fix")


def build(folder: Path, chunks: Iterable[tuple[int, Chunk]]) -> None:
    """A fresh index of many chunks in one segment."""
    made = TextIndex(folder)
    made.apply(chunks, ())
    made.close()
