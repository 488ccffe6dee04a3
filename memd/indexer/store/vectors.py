"""The vector collections: a cache of the ledger's vectors, which follows by itself and which nobody waits for.

The writer says which texts it touched. A thread looks up what the ledger says of them now and sends it, in batches, to
whatever keeps the rows; the ledger's mark says that a collection may be behind until all of it was taken in. Rows that
fail or hang are closed and opened again after a pause, and compared with the ledger. Meanwhile the mirror answers.
A row is a text, by its digest: equal texts are one row.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from memd.errors import DiskFull, LedgerDamaged, MemdError, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import vector_table
from memd.indexer.store.ledger import Ledger, translated

if TYPE_CHECKING:
    from memd.indexer.store.chroma import ChromaPlace, ChromaProcess

log = logging.getLogger("memd.vectors")

BATCH = 250
"""Rows that are sent at a time: half a second of Chroma's time, in which no question is sent."""
GATHER_SECONDS = 1.0
"""Before the rows are opened, so that a start and its first questions have the machine for themselves."""
REST_SECONDS = 180.0
"""After so long without work the rows are closed: open, Chroma takes a hundred megabytes."""
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
"""Before another try, after so many in a row that failed."""
GIVEN_UP = 3
"""After so many failures in a row without one that went well, what is there is put aside and made again."""
MOST_LOADED = 32
"""After more collections than this the rows are closed as soon as all are in step: Chroma keeps their indexes."""
CLOSE_SECONDS = 2.0
"""How long a stop waits until the rows are closed."""
REST_CLOSE_SECONDS = 60.0
"""The same when nobody waits for it: Chroma takes seconds to let a hundred collections go."""
LOOK_EVERY = 1_000
"""Rows that are dropped before somebody looks whether the index has become too large."""
MOST_PLACES = 3
"""An index takes room for so many times its rows, then it is made again; as many rows as this were dropped since."""


@dataclass(frozen=True, slots=True)
class CollectionSource:
    """The rows that a collection should hold, as the ledger has them now."""

    ledger: Ledger
    workspace: int
    model: int
    dims: int

    def vectors(self, digests: Iterable[str]) -> tuple[list[str], Vectors]:
        """The vectors of some texts; those that the workspace no longer has are left out."""
        with translated():
            return vector_table.of_digests(self.ledger.reader, self.model, self.workspace, list(digests), self.dims)

    def digests(self) -> set[str]:
        with translated():
            return vector_table.embedded_digests(self.ledger.reader, self.model, self.workspace)

    @property
    def name(self) -> str:
        return collection_name(self.workspace, self.model)


def collection_name(workspace: int, model: int) -> str:
    return f"ws-{workspace}-model-{model}"


class Collection:
    """The vectors of one workspace made by one model. The writer touches it, the sender's thread brings it in step."""

    def __init__(self, store: VectorStore, source: CollectionSource) -> None:
        self._store = store
        self.source = source
        self.name = source.name
        # What follows is guarded by the store's lock.
        self._touched: dict[str, None] = {}
        self._sending: list[str] = []
        """Texts whose state was sent and not yet taken in."""
        self._unsure = False
        """Whether it must be compared with the ledger."""
        self._comparing = False
        self._renewing = False
        """Whether it must be deleted first."""
        self._drops_until_look = 0
        """How many rows more are dropped before somebody looks how much room they take."""

    @property
    def behind(self) -> bool:
        """Whether it may differ from the ledger."""
        return bool(self._touched or self._sending or self._unsure or self._comparing or self._renewing)

    def touch(self, digests: Iterable[str]) -> None:
        """Some texts have a vector now, or may be gone."""
        with self._store.changing():
            self._touched.update(dict.fromkeys(digests))

    def compare(self) -> None:
        """Have it compared with the ledger, as soon as that can be done."""
        with self._store.changing():
            self._unsure = True

    def renew(self) -> None:
        """Have it deleted, with every trace, and made again from the ledger."""
        with self._store.changing():
            self._renewing = True

    def wait_renewed(self, seconds: float) -> str:
        """Wait until nothing is left of what it held before `renew`; says why if that takes longer."""
        renewed = self._store.wait_for(lambda: not self._renewing, seconds)
        return "" if renewed else self._store.trouble or "Chroma is busy"

    def search(self, vector: Vectors, limit: int) -> list[tuple[str, float]] | None:
        """Digests with their cosine, nearest first; None while it is behind, busy or in trouble."""
        rows = self._store.rows_for_questions()
        if rows is None or self.behind:
            return None
        try:
            return rows.search(self.name, vector, limit)
        except (StoreBroken, DiskFull):
            self._store.doubt()
            return None

    def digests(self) -> set[str]:
        """The texts that it holds, once it is in step with what was touched so far; StoreBroken if nobody can say."""
        if self._store.following and not self._store.trouble:
            self._store.wait_in_step()
        try:
            return self._store.wait_open().digests(self.name)
        except StoreBroken:
            if not self._store.following:
                raise
            # Its process went while nobody asked it.
            self._store.doubt()
            self._store.wait_in_step()
            return self._store.wait_open().digests(self.name)

    # --- on the sender's thread -----------------------------------------------------------------------------------

    def send_some(self, rows: ChromaProcess) -> None:
        """Bring it nearer to the ledger, by one batch."""
        if self._renewing:
            self._make_again(rows)
        if self._unsure:
            self._find_differences(rows)
        with self._store.changed:
            self._sending = list(islice(self._touched, BATCH))
            for digest in self._sending:
                del self._touched[digest]
        if self._sending:
            # Looked up after it was taken out: whatever changes from now on touches it again.
            digests, vectors = self.source.vectors(self._sending)
            gone = sorted(set(self._sending) - set(digests))
            if digests:
                rows.add(self.name, digests, vectors)
            if gone:
                rows.drop(self.name, gone)
                self._look_for_waste(rows, len(gone))
        with self._store.changed:
            self._sending = []

    def lost(self) -> None:
        """The rows failed: nothing that was sent last is sure."""
        with self._store.changed:
            self._touched.update(dict.fromkeys(self._sending))
            self._sending, self._unsure, self._comparing = [], True, False

    def _look_for_waste(self, rows: ChromaProcess, dropped: int) -> None:
        """Chroma's index never gives the room of a dropped row to another: it would grow with every edit."""
        self._drops_until_look -= dropped
        if self._drops_until_look > 0:
            return
        self._drops_until_look = LOOK_EVERY
        places, texts = rows.places(self.name), len(self.source.digests())
        if places > MOST_PLACES * max(texts, LOOK_EVERY):
            log.info("collection made again name=%s texts=%d places=%d", self.name, texts, places)
            self.renew()

    def _make_again(self, rows: ChromaProcess) -> None:
        if self.name in rows.counts():
            rows.delete(self.name)
        rows.compact()
        with self._store.changing():
            self._renewing, self._unsure = False, True
            self._store.outgrown = True

    def _find_differences(self, rows: ChromaProcess) -> None:
        with self._store.changed:
            self._unsure, self._comparing = False, True
        differ = rows.digests(self.name) ^ self.source.digests()
        log.info("collection compared name=%s differ=%d", self.name, len(differ))
        with self._store.changed:
            self._touched.update(dict.fromkeys(sorted(differ)))
            self._comparing = False


class VectorStore:
    """The collections, the thread that brings them in step, and what it needs to know about their rows."""

    def __init__(self, place: ChromaPlace, following: bool = True) -> None:
        self.place = place
        self.following = following
        """Whether the collections are brought in step; the doctor looks at them first."""
        self.on_synced: Callable[[int], None] = lambda workspace: None
        """Called, from the sender's thread, when a workspace's collection has taken in everything."""
        self.on_trouble: Callable[[MemdError | None], None] = lambda error: None
        """Called, from the sender's thread, when the rows fail, and with nothing when they are back."""
        self.wanted: Callable[[], set[str]] = lambda: set(self._collections)
        """The names of the collections that there should be; others are deleted."""
        self.trouble = ""
        self.changed = threading.Condition()
        """Guards everything here; notified when there is something to do, or done."""
        self.rest_seconds = REST_SECONDS
        self.outgrown = False
        """Whether a collection was deleted: Chroma keeps its index in memory, so the process is replaced."""
        self._loaded: set[str] = set()
        """The collections that were brought in step since the rows were opened."""
        self._collections: dict[str, Collection] = {}
        self._rows: ChromaProcess | None = None
        self._known = place.counts()
        """The rows of each collection when they were last closed or opened; None when nobody knows."""
        self._sweeping = self._known is None
        self._busy = False
        """Whether the sender waits for an answer."""
        self._doubted = self._asked = self._hurried = self._stopping = False
        self._used = time.monotonic()
        self._failures = 0
        """Those in a row that a pause does not mend."""
        self._failed_tries = 0
        self._sender = threading.Thread(target=self._run, name="memd-vectors", daemon=True)
        self._sender.start()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change something here, and let those look again who wait."""
        with self.changed:
            yield
            self.changed.notify_all()

    # --- what other threads call ----------------------------------------------------------------------------------

    def collection(self, source: CollectionSource, texts: int | None) -> Collection:
        """The collection of a workspace, which has so many `texts`; compared with the ledger if it has another number.

        None if the ledger's mark says that it may differ in any case.
        """
        with self.changed:
            known = self._collections.get(source.name)
            made = self._collections.setdefault(source.name, Collection(self, source))
            counts = self._known
        if texts is None or (known is None and (counts is None or counts.get(source.name, 0) != texts)):
            made.compare()
        return made

    def sweep(self) -> None:
        """Have the collections deleted that nobody wants."""
        wanted = self.wanted()
        with self.changing():
            self._collections = {name: one for name, one in self._collections.items() if name in wanted}
            self._sweeping = self._known is None or not self._known.keys() <= wanted

    @property
    def in_step(self) -> bool:
        with self.changed:
            return not self._sweeping and not any(one.behind for one in self._collections.values())

    def follow(self) -> None:
        """Begin to bring the collections in step."""
        with self.changing():
            self.following = True

    def wait_in_step(self, seconds: float | None = None) -> bool:
        """Wait until every collection is in step and nothing is in trouble, or trying fails; says whether they are."""
        return self.wait_for(lambda: self.in_step and not self._doubted and not self.trouble, seconds)

    def wait_for(self, done: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait for the sender. A workspace in trouble is tried now, one that fails meanwhile once more."""
        until = None if seconds is None else time.monotonic() + seconds
        with self.changed:
            for _ in range(1 if self.trouble else 2):
                self._wait_for_a_try(done, until)
                if done() or self._stopping:
                    break
            return done()

    def _wait_for_a_try(self, done: Callable[[], bool], until: float | None) -> None:
        before, self._hurried = self._failed_tries, True
        self._asked = self._asked or bool(self.trouble)
        self.changed.notify_all()
        seconds = None if until is None else max(0.0, until - time.monotonic())
        self.changed.wait_for(lambda: done() or self._stopping or self._failed_tries > before, seconds)

    def wait_open(self) -> ChromaProcess:
        """The rows, opened for this if need be."""
        with self.changed:
            if self._rows is None:
                self._asked = self._hurried = True
                self.changed.notify_all()
            self.changed.wait_for(lambda: self._rows is not None or self.trouble or self._stopping)
            if self._rows is None:
                raise StoreBroken(self.trouble or "the vector store is closed", "memd starts it again by itself")
            return self._rows

    def rows_for_questions(self) -> ChromaProcess | None:
        """The rows if they are open and free; they are opened if they are not."""
        self._used = time.monotonic()
        if self._rows is None:
            with self.changing():
                self._asked = True
        return None if self._busy or self._doubted else self._rows

    def doubt(self) -> None:
        """A question was not answered: find out whether the rows hang."""
        with self.changing():
            self._doubted = True

    def close(self) -> None:
        """Let go of the rows; what was not sent is compared when they are opened again."""
        with self.changing():
            self._stopping = True
        self._sender.join(CLOSE_SECONDS)
        if self._sender.is_alive() and (rows := self._rows) is not None:
            # It waits for an answer that does not come.
            rows.close(CLOSE_SECONDS)
            self._sender.join(CLOSE_SECONDS)

    # --- the sender's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait_for_work():
            self._busy = True
            try:
                self._work()
            except LedgerDamaged as error:
                # Nothing is wrong with the rows, and nothing to send: memd starts again when the ledger is mended.
                self.following = False
                self._failed(error, lasting=False)
            except MemdError as error:
                self._failed(error, lasting=not isinstance(error, DiskFull))
            except Exception as error:
                log.exception("the collections go on after an unexpected error")
                self._failed(MemdError(repr(error)), lasting=True)
        if self._rows is not None:
            self._rows.close(CLOSE_SECONDS)

    def _wait_for_work(self) -> bool:
        """Wait until there is something to do; False when it is time to stop. Rows without work are closed."""
        while True:
            with self.changed:
                idle = self.rest_seconds - (time.monotonic() - self._used) if self._rows is not None else None
                self.changed.wait_for(lambda: self._stopping or self._has_work(), idle and max(idle, 0.0))
                if self._stopping:
                    return False
                if self._has_work():
                    return self._gather() if self._rows is None else True
                if time.monotonic() - self._used < self.rest_seconds:
                    continue
                rows, self._rows = self._rows, None
            if rows is not None:
                self._rest(rows)

    def _has_work(self) -> bool:
        return self._doubted or self._asked or (self._sweeping and self.following) or self._due() is not None

    def _due(self) -> Collection | None:
        return next((one for one in self._collections.values() if one.behind), None) if self.following else None

    def _gather(self) -> bool:
        """Wait a moment before the rows are opened, longer after failures."""
        seconds = GATHER_SECONDS if not self._failures else PAUSES[min(self._failures, len(PAUSES)) - 1]
        self.changed.wait_for(lambda: self._stopping or self._hurried, seconds)
        self._hurried = False
        return not self._stopping

    def _work(self) -> None:
        rows = self._rows or self._open()
        self._asked = False
        if self._doubted:
            rows.ping()
            self._doubted = False
        if self._sweeping and self.following:
            self._delete_unwanted(rows)
        due = self._due()
        if due is not None:
            due.send_some(rows)
        self._went_well(due)
        if due is not None:
            self._loaded.add(due.name)
        if self.outgrown or (len(self._loaded) > MOST_LOADED and not self._has_work()):
            with self.changed:
                self.outgrown, self._rows = False, None
            self._rest(rows)

    def _open(self) -> ChromaProcess:
        if self._failures and self._failures % GIVEN_UP == 0:
            self.place.put_aside(self.trouble)
        rows = self.place.open()
        try:
            known = rows.counts()
        except MemdError:
            rows.close(CLOSE_SECONDS)
            raise
        with self.changing():
            if self._known is not None and known != self._known:
                # What is there is not what was closed.
                for one in self._collections.values():
                    one.compare()
            self._known, self._rows, self._loaded = known, rows, set()
        return rows

    def _delete_unwanted(self, rows: ChromaProcess) -> None:
        wanted = self.wanted()
        for name in rows.counts().keys() - wanted:
            rows.delete(name)
        with self.changed:
            self._known = {name: count for name, count in rows.counts().items() if name in wanted}
            self._sweeping = False

    def _went_well(self, due: Collection | None) -> None:
        self._failures, self._used = 0, time.monotonic()
        if self.trouble:
            # Told first: whoever waits until nothing is in trouble finds that the status says so too.
            self.on_trouble(None)
        with self.changing():
            self.trouble = ""
            synced = due is not None and not due.behind
            if due is not None and self._known is not None:
                self._known.setdefault(due.name, 0)
            self._busy = False
        if due is not None and synced:
            self.on_synced(due.source.workspace)

    def _failed(self, error: MemdError, lasting: bool) -> None:
        """Close what failed; everything is compared once it is open again."""
        with self.changing():
            stopping, rows = self._stopping, self._rows
            self._rows, self._known, self._doubted, self._busy = None, None, False, False
            self._failures += 1 if lasting else 0
            self._failed_tries += 1
            for one in self._collections.values():
                one.lost()
            self._hurried, self.trouble = False, error.message
        if stopping:
            return
        log.error("the vector store failed: %s", error.message)
        self.on_trouble(error)
        if rows is not None:
            rows.close(CLOSE_SECONDS)

    def _rest(self, rows: ChromaProcess) -> None:
        try:
            self._known = rows.counts()
            log.info("the vector store is closed until it is needed")
        except MemdError as error:
            # The process went while nobody asked it.
            self._failed(error, lasting=True)
        rows.close(REST_CLOSE_SECONDS)
