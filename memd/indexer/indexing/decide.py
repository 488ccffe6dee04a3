"""Decides which memories and chunks exist from now on: the ledger's side of indexing.

The memories and chunks of a file are matched with those that were there before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import attrgetter, itemgetter
from sqlite3 import Connection

from memd.failpoints import failpoint
from memd.indexer.indexing import memory_names
from memd.indexer.indexing.read_files import FileBatch, keep_copy, note_losses
from memd.indexer.record import actions, history
from memd.indexer.record.history import MemoryVersion
from memd.indexer.store import catalog
from memd.indexer.store.catalog import ChunkRow, FileRow, MemoryRow, TextState
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.models import Chunk, Memory, grouped, is_document
from memd.notes.parse import CACHED_FILES

MOST_SAVED = 300
"""Memories and chunks that are saved in one transaction: about a sixth of a second."""

EMPTY_MOMENT = timedelta(minutes=1)
"""A file rewritten in place is empty for a moment: memories that are back this soon live on."""
UNDER_WAY = timedelta(hours=1)
"""Thousands of files that move to another folder take a while: memories that arrive under the same name live on."""


SIMILAR = 0.5
"""A memory under a new heading is the old one when it shares this part of its chunks."""


RULES = (
    (("file", "digest", "slug"), False),
    (("file", "digest"), False),
    (("file", "slug"), False),
    (("file", "body"), False),
    (("file",), True),
    (("digest",), False),
    (("slug",), True),
)
"""The traits that make a memory of now the one of before, rule by rule; and whether they must share chunks, too."""


@dataclass(frozen=True, slots=True)
class ParsedMemory:
    """A memory as a file has it now."""

    file: FileRow
    role: str
    memory: Memory
    digest: str
    body: str
    chunks: tuple[str, ...]
    """The digests of its chunks, in order."""

    @classmethod
    def of(cls, file: FileRow, role: str, memory: Memory) -> ParsedMemory:
        chunks = tuple(map(catalog.digest_of_chunk, memory.chunks))
        return cls(file, role, memory, catalog.digest_of_memory(memory), catalog.digest_of_body(memory), chunks)


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A memory that is new or has a new text, with the chunks that were not there before."""

    memory: int
    new: bool
    chunks: tuple[tuple[int, Chunk], ...]


@dataclass(slots=True)
class LedgerChanges:
    """The changes of the ledger that the caches have to follow."""

    added: list[tuple[int, Chunk]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    saved: list[SavedMemory] = field(default_factory=list)


class ChangedMeanwhile(Exception):
    """Somebody else indexed one of the files between two transactions."""


def decide(stores: OwnStores, index: OwnIndex, batch: FileBatch, now: str) -> Iterator[LedgerChanges]:
    """Bring the ledger in step with a batch of files, and mark the caches as behind.

    One transaction for most batches. A file with a great many memories takes several; until the last one its row says
    that it is to be read again.
    """
    decision = _Decision(index, batch, now)
    while not decision.done:
        failpoint("before-ledger")
        with stores.ledger.write() as connection:
            changes = decision.step(connection)
            catalog.mark_text(connection, index.id, TextState.OUTDATED if changes.dropped else TextState.BEHIND)
        failpoint("after-ledger")
        decision.publish()
        yield changes


class _Decision:
    """One batch on its way into the ledger."""

    connection: Connection

    def __init__(self, index: OwnIndex, batch: FileBatch, now: str) -> None:
        self.index = index
        self.batch = batch
        self.now = now
        self.done = False
        self.files: dict[str, FileRow] = {}
        """The files of the batch, as they were saved."""
        self.unchanged = {path: self._unchanged(path) for path in batch.notes}
        """By path, the slugs of memories that stand as the ledger has them, to the line: they are left alone."""
        self.arrived = batch.notes.keys() - index.files.keys()
        self.gone: list[int] = []
        """The files that were removed."""
        self.old: list[tuple[str, MemoryRow]] = []
        """The memories that were there before and may have changed, each with its file's path."""
        self.left: deque[tuple[ParsedMemory, int | None]] = deque()
        """The memories that are still to be saved, each with the one that it continues."""
        self.digests: dict[int, str] = {}
        self.kept: set[int] = set()
        self.departed: dict[str, list[tuple[MemoryRow, set[str]]]] = {}
        """By a text, the memories that are gone and had it; others may have taken one before the next transaction."""
        self.pool: dict[str, list[ChunkRow]] = {}
        """By their texts, the chunks that were there before; those that no memory takes are dropped."""

    def step(self, connection: Connection) -> LedgerChanges:
        """One transaction."""
        self.connection, self.departed, changes = connection, {}, LedgerChanges()
        if not self.files:
            self._begin()
        elif any(self.index.files.get(path) is not row for path, row in self.files.items()):
            raise ChangedMeanwhile
        saved = 0
        while self.left and saved < MOST_SAVED:
            parsed, match = self.left.popleft()
            self._take(parsed, match, changes)
            saved += _rows(parsed.memory)
        if not self.left:
            self._finish(changes)
        if changes.added or changes.dropped:
            connection.execute("UPDATE workspaces SET changed = ? WHERE id = ?", (self.now, self.index.id))
        return changes

    def publish(self) -> None:
        """The transaction is committed: the index knows the rows as the ledger has them."""
        index, batch = self.index, self.batch
        gone = batch.removed if self.done else ()
        index.files = {path: row for path, row in index.files.items() if path not in gone} | self.files
        if self.done:
            others = {path: known for path, known in index.applied.items() if path not in batch.notes}
            applied = others | {path: (row.digest, note) for path, (row, note) in batch.notes.items()}
            index.applied = dict(list(applied.items())[-CACHED_FILES:])

    def _unchanged(self, path: str) -> set[str]:
        digest, applied = self.index.applied.get(path, ("", None))
        if applied is None or path not in self.index.files or self.index.files[path].digest != digest:
            return set()
        before = {memory.slug: memory for memory in applied.memories}
        # The parser returns the same object for what it did not have to parse again.
        _, note = self.batch.notes[path]
        return {memory.slug for memory in note.memories if before.get(memory.slug) is memory}

    def _begin(self) -> None:
        """Save the files, and see which memory of theirs continues which of before."""
        connection, index, batch = self.connection, self.index, self.batch
        note_losses(connection, index, batch, self.now)
        self.gone = [index.files[path].id for path in batch.removed]
        self.old, old_chunks = self._before()
        new = self._save_files()
        emptied = self._just_gone()
        known = self._placed(self.old + emptied + self._returned(new, {row.id for _, row in emptied}), new)
        matches = match_memories(known, old_chunks, new)
        matches |= self._rewritten(new, matches)
        now_in = {memory: new[place].file.path for place, memory in matches.items()}
        # An editor that empties a file before it writes it removed nothing, nor does who moves one.
        moment = {row.id for _, row in self._gone_within(EMPTY_MOMENT)} if emptied else set[int]()
        back = [(path, row.id) for path, row in emptied if row.id in now_in]
        history.forget_removals(connection, [one for path, one in back if one in moment or now_in[one] != path])
        self.digests = {row.id: row.digest for row in known}
        self.kept, self.pool = set(matches.values()), grouped((row.digest, row) for row in old_chunks)
        self.left.extend((parsed, matches.get(place)) for place, parsed in enumerate(new))

    def _rewritten(self, new: Sequence[ParsedMemory], matches: Mapping[int, int]) -> dict[int, int]:
        """Memories whose heading and text memd wrote anew: the only one that a file lost, and that it gained."""
        lost = grouped((path, row.id) for path, row in self.old if row.id not in matches.values())
        gained = grouped((one.file.path, place) for place, one in enumerate(new) if place not in matches)
        pairs = ((lost.get(path, []), places, new[places[0]].file) for path, places in gained.items())
        return {
            places[0]: rows[0] for rows, places, file in pairs
            if len(rows) == len(places) == 1
            and actions.rewrote(self.connection, self.index.id, file.path, file.digest)
        }  # fmt: skip

    def _take(self, parsed: ParsedMemory, match: int | None, changes: LedgerChanges) -> None:
        """Save one memory and its chunks."""
        if match is None and (back := self._back(parsed)) is not None:
            match, self.digests[back.id] = back.id, back.digest
        number = self._save_memory(parsed, match)
        self.kept.add(number)
        added = self._save_chunks(parsed, number)
        changes.added += added
        if added and self.digests.get(number) != parsed.digest:
            changes.saved.append(SavedMemory(number, number not in self.digests, tuple(added)))

    def _back(self, parsed: ParsedMemory) -> MemoryRow | None:
        """A memory that had this text when it left the files, or before, preferably in this one.

        It may have come back under another name.
        """
        digest, path = parsed.digest, parsed.file.path
        free = [(row.digest == digest, path in paths, row) for row, paths in self._departed(digest)
                if row.id not in self.kept]  # fmt: skip
        return max(free, key=itemgetter(0, 1))[-1] if free else None

    def _returned(self, new: Sequence[ParsedMemory], known: Container[int]) -> list[tuple[str, MemoryRow]]:
        """Memories that are back in their file as they were: another file may lose an equal one at the same time."""
        there = {(path, row.digest) for path, row in self.old}
        absent = [parsed for parsed in new if (parsed.file.path, parsed.digest) not in there]
        found = [(one.file.path, one.memory.slug, *each) for one in absent for each in self._departed(one.digest)]
        same = [(path, row) for path, slug, row, paths in found if row.slug == slug and path in paths]
        return list({row.id: (path, row) for path, row in same if row.id not in known}.values())

    def _departed(self, digest: str) -> list[tuple[MemoryRow, set[str]]]:
        if digest not in self.departed:
            self.departed[digest] = catalog.gone_memories(self.connection, self.index.id, digest)
        return self.departed[digest]

    def _finish(self, changes: LedgerChanges) -> None:
        """Drop what no memory took, and say that the files are read."""
        self._let_go([(path, row.id) for path, row in self.old if row.id not in self.kept])
        changes.dropped = [row.id for rows in self.pool.values() for row in rows]
        catalog.drop(self.connection, "chunks", changes.dropped)
        catalog.drop(self.connection, "files", self.gone)
        for path, (row, _) in self.batch.notes.items():
            if self.files[path].digest != row.digest:
                self.files[path] = catalog.save_file(self.connection, self.index.id, row)
        self.done = True

    def _before(self) -> tuple[list[tuple[str, MemoryRow]], list[ChunkRow]]:
        """The memories and chunks that the files of the batch had, without the unchanged ones."""
        files, paths = self.index.files, (*self.batch.notes, *self.batch.removed, *self.batch.emptied)
        known = [(path, files[path].id, self.unchanged.get(path, ())) for path in paths if path in files]
        rows = [(path, row) for path, file, left in known for row in catalog.memories_of(self.connection, file, left)]
        return rows, catalog.chunks_of(self.connection, (row.id for _, row in rows))

    def _just_gone(self) -> list[tuple[str, MemoryRow]]:
        """Memories that left a moment ago: they may be back in their file, or in one that has arrived."""
        return self._gone_within(UNDER_WAY if self.arrived else EMPTY_MOMENT)

    def _gone_within(self, span: timedelta) -> list[tuple[str, MemoryRow]]:
        since = actions.in_utc(datetime.fromisoformat(self.now) - span)
        return catalog.just_gone(self.connection, self.index.id, since)

    def _placed(self, before: Sequence[tuple[str, MemoryRow]], new: Sequence[ParsedMemory]) -> list[MemoryRow]:
        """The memories of before, each in the file in which it is now to be sought; without those that have none."""
        gone = [(path, row) for path, row in before if path not in self.batch.notes]
        now_at = _renamed(gone, [each for each in new if each.file.path in self.arrived])
        now_at |= {path: path for path in self.batch.notes}
        files = {path: self.files[place].id for path, place in now_at.items()}
        rows = (replace(row, file=files.get(path, row.file)) for path, row in before)
        return [row for row in rows if row.file is not None]

    def _save_files(self) -> list[ParsedMemory]:
        """Save the rows and copies of the files; returns the memories that may have changed."""
        for row in self.batch.rows:
            self.files[row.path] = catalog.save_file(self.connection, self.index.id, row)
        memories = {
            path: [memory for memory in note.memories if memory.slug not in self.unchanged[path]]
            for path, (_, note) in self.batch.notes.items()
        }
        # What takes several transactions is read again by a process that comes after one that died in between.
        whole = sum(_rows(memory) for each in memories.values() for memory in each) <= MOST_SAVED
        changed: list[ParsedMemory] = []
        for path, (row, note) in self.batch.notes.items():
            begun = row if whole else replace(row, digest="", racy=True)
            saved = self.files[path] = catalog.save_file(self.connection, self.index.id, begun)
            if not is_document(path):
                keep_copy(self.connection, saved.id, self.batch.data[path])
            file = replace(saved, digest=row.digest)
            changed += [ParsedMemory.of(file, note.role, memory) for memory in memories[path]]
        return changed

    def _save_memory(self, parsed: ParsedMemory, match: int | None) -> int:
        """Save a memory, its names and its version; returns its number."""
        memory, file = parsed.memory, parsed.file
        number = catalog.save_memory(self.connection, self.index.id, file, memory, parsed.role, match, self.now)
        if memory_names.keep(self.connection, number, file.path, memory):
            self.index.unlinked.add(number)
        last = history.latest(self.connection, number)
        if last is None or last.digest != parsed.digest:
            since = last.at if last else ""
            by = actions.author(self.connection, self.index.id, file.path, file.digest, memory.text, since=since)
            nth = last.number + 1 if last else 1
            version = MemoryVersion(number, nth, self.now, *by, parsed.digest, file.path, memory.heading)
            history.add(self.connection, version, memory.text)
        return number

    def _save_chunks(self, parsed: ParsedMemory, memory: int) -> list[tuple[int, Chunk]]:
        """Save a memory's chunks; returns those that were not there before."""
        added: list[tuple[int, Chunk]] = []
        for chunk, digest in zip(parsed.memory.chunks, parsed.chunks, strict=True):
            if rows := self.pool.get(digest):
                # One with exactly this text, preferably of the same memory.
                known = next((row for row in rows if row.memory == memory), rows[0])
                rows.remove(known)
                catalog.move_chunk(self.connection, known.id, parsed.file.id, memory, chunk)
            else:
                number = catalog.add_chunk(self.connection, self.index.id, parsed.file.id, memory, chunk)
                added.append((number, chunk))
        return added

    def _let_go(self, memories: list[tuple[str, int]]) -> None:
        """Record that memories left the files, and who removed them."""
        for path, memory in memories:
            last = history.latest(self.connection, memory)
            if last is not None and last.digest is not None:
                digest = self.batch.notes[path][0].digest if path in self.batch.notes else None
                text = history.text_of(self.connection, last.digest) or ""
                by = actions.author(self.connection, self.index.id, path, digest, text, since=last.at, column="removed")
                # Not the path of its last version: the file may have been renamed since.
                gone = MemoryVersion(memory, last.number + 1, self.now, *by, None, path, last.heading)
                history.add(self.connection, gone)
        catalog.let_go(self.connection, [memory for _, memory in memories], self.now)


def _renamed(gone: Sequence[tuple[str, MemoryRow]], arrived: Sequence[ParsedMemory]) -> dict[str, str]:
    """Where the files that are gone are now: under the same name, or where half of their memories or more are."""
    names = _where_unique((_name(new.file.path), new.file.path) for new in arrived)
    texts = _where_unique((new.digest, new.file.path) for new in arrived)
    found = grouped((path, texts.get(row.digest, "")) for path, row in gone)
    by_text = {path: place for path, places in found.items()
               for place, count in Counter(filter(None, places)).most_common(1)
               if count >= SIMILAR * len(places)}  # fmt: skip
    by_name = {path: names[name] for name, path in _where_unique((_name(path), path) for path in found).items()
               if name in names}  # fmt: skip
    return by_text | by_name


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _where_unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The path of each name or text that only one file has."""
    return {key: paths[0] for key, paths in grouped(pairs).items() if len(set(paths)) == 1}


def _rows(memory: Memory) -> int:
    """The rows that a memory takes in the ledger."""
    return 1 + len(memory.chunks)


# --- matching -----------------------------------------------------------------------------------------------


def match_memories(
    old: Sequence[MemoryRow], old_chunks: Iterable[ChunkRow], new: Sequence[ParsedMemory]
) -> dict[int, int]:
    """Which old memory each new one (by its place in `new`) continues.

    Content counts before headings, the same file before another: so a life follows an edit, a move within the
    file, a new heading and into another file, in that order.
    """
    by_memory = grouped((chunk.memory, chunk.digest) for chunk in old_chunks)
    chunks = {memory: set(digests) for memory, digests in by_memory.items()}

    def similar(before: MemoryRow, now: ParsedMemory) -> bool:
        known = chunks.get(before.id, set())
        both = len(known & set(now.chunks))
        return both > 0 and both >= SIMILAR * min(len(known), len(now.chunks))

    current = [MemoryRow(0, now.file.id, now.memory.slug, now.digest, now.body) for now in new]
    matches: dict[int, int] = {}
    left = list(old)
    for names, by_chunks in RULES:
        key = attrgetter(*names)
        waiting = grouped((key(row), row) for row in left)
        for place, now in enumerate(current):
            rows = waiting.get(key(now), [])
            fitting = (row for row in rows if not by_chunks or similar(row, new[place]))
            match = None if place in matches else next(fitting, None)
            if match is not None:
                matches[place] = match.id
                rows.remove(match)
        left = [row for rows in waiting.values() for row in rows]
    return matches
