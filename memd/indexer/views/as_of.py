"""Answers as of a moment in the past, from the versions that were current then.

Temporary tables show the ledger as it was and shadow the real ones for one connection; the words of texts that are no
longer in the files are indexed for the time of the question. So the same search runs on both.
"""

import copy
import json
import tempfile
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from sqlite3 import Connection, Row

import numpy as np

from memd.errors import ModelUnavailable, NotFound, UsageError, in_shell
from memd.indexer.query import candidates, hits, lookup, search
from memd.indexer.record import actions, history
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.postings import MOST_POSTINGS, Lists, PostingCache, Postings, bases
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import ActiveModel, Indexes, Stores, VectorIndex, WorkspaceIndex
from memd.indexer.store.text import TextIndex
from memd.indexer.views import keys
from memd.models import Answer, Ask, Chunk, Filters, JsonObject, Memory
from memd.notes import names
from memd.notes.parse import parse

SHADOWED = ("files", "memories", "chunks")
MOST_EMBEDDED = 200
"""Former texts that are embedded for one question; all others are still found by their words."""


def moment(as_of: str) -> str:
    """A moment of the past as the ledger writes it; a day, month or year stands for its end."""
    try:
        if as_of.count("-") < 2 or len(as_of) == len("2026-02-01"):
            return actions.in_utc(_end(as_of) - timedelta(milliseconds=1))
        return actions.in_utc(datetime.fromisoformat(as_of))
    except (ValueError, OverflowError):
        raise UsageError(f"`as_of` must be a day such as 2026-02-01, or a time, not {as_of!r}") from None


def _end(period: str) -> datetime:
    """When a day, month or year is over."""
    parts = period.count("-")
    begin = datetime.strptime(period, ("%Y", "%Y-%m", "%Y-%m-%d")[parts])
    if parts == 0:
        return begin.replace(year=begin.year + 1)
    return begin + timedelta(1) if parts > 1 else (begin + timedelta(31)).replace(day=1)


# --- what was current ---------------------------------------------------------------------------------------

SQL = queries(__file__)


def current(connection: Connection, workspace: int, when: str) -> list[Row]:
    day = datetime.fromisoformat(when).astimezone().date().isoformat()
    return connection.execute(SQL["current"], {"workspace": workspace, "at": when, "day": day}).fetchall()


def slug_then(row: Row) -> str:
    """The slug that a memory had; before the ledger kept that, the one of its heading."""
    then, now = names.own_heading(row["heading"]), names.own_heading(row["heading_now"])
    return names.slug(then) if row["slug"] and row["before_facts"] and then != now else str(row["slug"])


def get_as_of(stores: Stores, indexes: Indexes, key: str, when: str) -> JsonObject:
    """The memory that had a key then, as it was."""
    then = [(index, row) for index in indexes for row in current(stores.reader, index.id, when)]
    rows = [(index, row) for index, row in then if lookup.is_called(key, row["path"], slug_then(row))]
    if not rows:
        known = any(lookup.memories(stores.reader, index.id, key) for index in indexes)
        hint = (
            f"since when it is there: memd history {in_shell(key)}"
            if known
            else keys.suggest_keys(stores, indexes, key)
        )
        raise NotFound(f"no memory had the key `{key}` then", hint)
    index, row = keys.only_one(rows, f"`{key}` named several memories then")
    text = history.text_of(stores.reader, row["digest"])
    if text is None:
        raise NotFound(f"the text that `{key}` had then is no longer kept", f"memd history {in_shell(key)}")
    return {**keys.shown_version(index, key, row, text, bool(row["now"])), "as_of": when}


# --- searching ----------------------------------------------------------------------------------------------


def search_as_of(stores: Stores, ask: Ask, when: str) -> Answer:
    """`search` in the workspaces as they were; each hit has the number of its version."""
    with closing(_shadow(stores)) as connection, tempfile.TemporaryDirectory(prefix="memd-as-of-") as folder:
        then, numbers = _then(stores, ask, when, connection, Path(folder))
        answer = search.search(then, ask, 0) if ask.mode != "exact" else _exact(then, ask)
        both = answer.hits, answer.near
        hits, near = ([replace(hit, version=numbers.get(hit.id)) for hit in some] for some in both)
        return replace(answer, hits=hits, near=near)


def _exact(then: Stores, ask: Ask) -> Answer:
    """Every chunk that had the query word for word."""
    needle, found = ask.query.casefold(), list[candidates.Candidate]()
    for index in (then.index(ns) for ns in ask.ns):
        texts = lookup.texts(index.reader, candidates.filtered(index, ask.filters).tolist())
        having = [chunk for chunk, text in texts.items() if needle in text.casefold()]
        found += sorted(candidates.of_chunks(index, having, Filters()), key=lambda one: one.place)
    return hits.answer(then, ask, search.numbered(found), 1.0)


def _shadow(stores: Stores) -> Connection:
    """A new connection in which temporary tables shadow the real ones of the same name."""
    connection = stores.ledger.unshared_connection()
    for table in SHADOWED:
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM main.{table} WHERE 0")
        connection.execute(f"CREATE UNIQUE INDEX temp.{table}_id ON {table} (id)")
    connection.execute("CREATE INDEX temp.chunks_of_memory ON chunks (memory)")
    connection.execute("CREATE INDEX temp.chunks_of_file ON chunks (file)")
    return connection


def _then(stores: Stores, ask: Ask, when: str, connection: Connection, folder: Path) -> tuple[Stores, dict[int, int]]:
    """The stores as they were, and the version number of each chunk."""
    numbers: dict[int, int] = {}
    ledger = copy.copy(stores.ledger)
    ledger._local = threading.local()
    ledger._local.connection = connection
    then = Stores(stores.folder, ledger)
    then.model, indexes = stores.model, dict[str, WorkspaceIndex]()
    # One transaction: what is copied belongs together.
    connection.execute("BEGIN")
    for ns in ask.ns:
        past = indexes[ns] = _PastIndex(then, stores.index(ns), when, -len(numbers), folder, stores.serving)
        numbers |= past.numbers
    connection.execute("COMMIT")
    then.indexes = indexes
    return then, numbers


class _PastText(TextIndex):
    """The words of the chunks of that time."""

    def __init__(self, postings: Postings) -> None:
        self._then = postings

    def postings(self) -> Postings:
        return self._then


class _PastIndex(WorkspaceIndex):
    """A workspace with the words and vectors of that time, and the files of today; its rows are copied on creation."""

    def __init__(
        self, then: Stores, now: WorkspaceIndex, when: str, last: int, folder: Path, model: ActiveModel | None
    ) -> None:
        """Chunks of former texts get numbers below `last`."""
        super().__init__(then, now.id, now.workspace)
        self.connection, self._now, self._last = then.ledger.reader, now, last
        self.numbers: dict[int, int] = {}
        """The version of each chunk."""
        self._old: list[tuple[int, Chunk]] = []
        self._copy_rows(when)
        self._text = _PastText(self._postings(folder / str(self.id)))
        self._mirror = self._vectors(model) if model is not None else None

    @property
    def text(self) -> TextIndex:
        return self._text

    @property
    def files(self) -> Mapping[str, catalog.FileRow]:
        return self._now.files

    def names(self) -> list[tuple[str, int]]:
        return self._now.names()

    def mirror_of(self, model: ActiveModel) -> VectorIndex | None:
        # A server has what is there today; former texts are found by their words.
        return self._now.mirror_of(model) if self._now.remote else super().mirror_of(model)

    def local_mirror(self, model: ActiveModel) -> Mirror | None:
        return self._mirror if self._mirror is not None and self._mirror.model == model.id else None

    def _copy_rows(self, when: str) -> None:
        run = self.connection.execute
        run("INSERT INTO temp.files SELECT * FROM main.files WHERE workspace = ?", (self.id,))
        rows = current(self.connection, self.id, when)
        versions = {row["memory"]: row["number"] for row in rows if row["now"]}
        then = [row["memory"] for row in rows]
        for table, column, copied in (("memories", "id", then), ("chunks", "memory", versions)):
            query = f"INSERT INTO temp.{table} SELECT * FROM main.{table} WHERE {column} AMONG ?"
            catalog.among(self.connection, query, copied)
        run(SQL["tell_facts"], (when,))
        chunks = run("SELECT id, memory FROM temp.chunks WHERE workspace = ?", (self.id,)).fetchall()
        self.numbers |= {row["id"]: versions[row["memory"]] for row in chunks}
        moved = [row for row in rows if row["now"] and row["path"] != row["path_now"]]
        files = [(self._file(row["path"]), row["memory"]) for row in moved]
        for table, column in (("memories", "id"), ("chunks", "memory")):
            self.connection.executemany(f"UPDATE temp.{table} SET file = ? WHERE {column} = ?", files)
        for row in rows:
            if not row["now"]:
                self._add(row)
        run("UPDATE temp.memories SET expires = NULL, deleted = NULL")

    def _add(self, row: Row) -> None:
        """Add a memory with a former text; its lines are counted from its own first one."""
        text = history.text_of(self.connection, row["digest"])
        note = parse(row["path"], text, row["date"]) if text is not None else None
        if note is None or not note.memories:
            return
        file = self._file(row["path"])
        self._memory(row, note.memories[0], file)
        for chunk in note.memories[0].chunks:
            self._last -= 1
            heading = json.dumps(chunk.heading, ensure_ascii=False)
            said = (heading, chunk.context, chunk.text, catalog.digest_of_chunk(chunk))
            place = (file, row["memory"], chunk.start_line, chunk.end_line)
            self.connection.execute(SQL["add_chunk"], (self._last, self.id, *place, *said))
            self._old.append((self._last, chunk))
            self.numbers[self._last] = row["number"]

    def _memory(self, row: Row, then: Memory, file: int) -> None:
        run = self.connection.execute
        run(SQL["place_memory"], (file, slug_then(row), row["heading"], row["memory"]))
        if row["slug"] and row["before_facts"]:
            # Its text has its tags; those of a file are in its front matter, which is not part of its text.
            said = (then.kind, json.dumps(then.declared.tags), json.dumps(asdict(then.declared)))
            run("UPDATE temp.memories SET kind = ?, tags = ?, declared = ? WHERE id = ?", (*said, row["memory"]))

    def _file(self, path: str) -> int:
        """The number of a file, which may no longer exist."""
        run, key = self.connection.execute, (self.id, path)
        known = run("SELECT id FROM temp.files WHERE workspace = ? AND path = ?", key).fetchone()
        if known:
            return int(known["id"])
        number = min(0, run("SELECT MIN(id) FROM temp.files").fetchone()[0] or 0) - 1
        run(SQL["add_file"], (number, *key, PurePosixPath(path).stem))
        return number

    def _postings(self, folder: Path) -> Postings:
        """The index as it is now, without chunks that came later, and with the words of former texts."""
        ids = np.array([number for number in self.numbers if number > 0], np.int64)
        now = self._now.text.postings()
        parts = []
        for base, segment in zip(bases(now.segments), now.segments, strict=True):
            span = slice(int(base), int(base) + segment.size)
            parts.append((segment, np.flatnonzero(~(now.live[span] & np.isin(now.chunks[span], ids)))))
        if self._old:
            index = TextIndex(folder)
            index.apply(self._old, ())
            parts += [(segment, np.zeros(0, np.int64)) for segment in index.postings().segments]
        lists: Lists = PostingCache(MOST_POSTINGS)
        return Postings(parts, lists)

    def _vectors(self, model: ActiveModel) -> Mirror:
        """The vectors; those of former texts are computed, up to a limit."""
        embedder = model.embedder
        mirror = Mirror(embedder.dims, model.id)
        known: set[int] = set()
        for ids, vectors in vector_table.of_workspace(self.connection, model.id, self.id, embedder.dims):
            mirror.add(ids, vectors)
            known.update(ids)
        missing = [(number, chunk) for number, chunk in self._old if number not in known][:MOST_EMBEDDED]
        if missing:
            texts = [vector_table.embedded_text(chunk.heading, chunk.context, chunk.text) for _, chunk in missing]
            with suppress(ModelUnavailable):
                # A server that is away: the question finds these by their words, and says so itself.
                mirror.add([number for number, _ in missing], embedder.embed(texts, urgent=True))
        return mirror
