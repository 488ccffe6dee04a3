"""The vector collections: what other programs read, and what a server answers questions from.

The ledger writes down which texts a collection may have wrong (`unsent`). A thread looks up what the ledger says of
them now and sends it, in batches, to whatever keeps the rows; what was taken in is crossed out. Rows that fail or hang
are closed and opened again after a pause. Counts are compared when they are opened and when they rest, and of a server
every half minute; texts only where the counts differ. A row is a text, by its digest: equal texts are one row.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from memd.errors import DiskFull, LedgerDamaged, MemdError, StoreBroken
from memd.indexer.store import vector_table
from memd.indexer.store.chroma import ChromaPlace, ChromaRows, CollectionRow
from memd.indexer.store.ledger import Ledger, translated
from memd.models import grouped

log = logging.getLogger("memd.vectors")

BATCH = 250
"""Rows that are sent or compared at a time."""
LISTED = 5_000
"""Rows that are read at a time to find those that are too many."""
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

    def rows(self, digests: Iterable[str]) -> list[CollectionRow]:
        """The rows of some texts; those that the workspace no longer has are left out."""
        with translated():
            reader = self.ledger.reader
            return vector_table.collection_rows(reader, self.model, self.workspace, list(digests), self.dims)

    def page(self, after: int, most: int = BATCH) -> list[tuple[int, str]]:
        """Chunks with the digests of their texts, in order."""
        with translated():
            return vector_table.shown_digests(self.ledger.reader, self.model, self.workspace, after, most)

    def pages(self) -> Iterator[list[str]]:
        """All digests, some at a time."""
        after = 0
        while page := self.page(after):
            after = page[-1][0]
            yield list(dict.fromkeys(digest for _, digest in page))

    def count(self) -> int:
        with translated():
            return vector_table.text_count(self.ledger.reader, self.model, self.workspace)

    @property
    def name(self) -> str:
        return collection_name(self.workspace, self.model)


def collection_name(workspace: int, model: int) -> str:
    return f"ws-{workspace}-model-{model}"


class SentRows(NamedTuple):
    """What the rows took in, for the ledger to know."""

    up_to: int
    """The last number of `unsent` that is done."""
    model: int = 0
    kept: Sequence[str] = ()
    """Texts whose vectors are there now."""
    lost: Sequence[str] = ()
    """Texts that should be there and are not, and whose vectors nobody else has."""


class Collection:
    """The vectors of one workspace made by one model, which the sender's thread brings in step."""

    def __init__(self, store: VectorStore, source: CollectionSource) -> None:
        self._store = store
        self.source = source
        self.name = source.name
        self.remote = False
        """Whether nobody else has its vectors."""
        # What follows is guarded by the store's lock.
        self._compared: int | None = None
        """The chunk up to which it was compared with the ledger; None when it need not be."""
        self._listed: int | None = None
        """How many rows were found to be right, while it is searched for others."""
        self._renewing = False
        """Whether it must be deleted first."""
        self._drops_until_look = 0
        """How many rows more are dropped before somebody looks how much room they take."""

    @property
    def behind(self) -> bool:
        """Whether it has something to do beside what is written down."""
        return self._renewing or self._compared is not None or self._listed is not None

    def compare(self) -> None:
        """Have it compared with the ledger, as soon as that can be done."""
        with self._store.changing():
            self._compared = 0

    def renew(self) -> None:
        """Have it deleted, with every trace, and made again from the ledger."""
        with self._store.changing():
            self._renewing = True

    def wait_renewed(self, seconds: float) -> str:
        """Wait until nothing is left of what it held before `renew`; says why if that takes longer."""
        renewed = self._store.wait_for(lambda: not self._renewing and not self._store.unsent(), seconds)
        return "" if renewed else self._store.trouble or "Chroma is busy"

    def difference(self) -> tuple[int, int]:
        """How many rows it lacks, and how many it has too many, once it took in what is written down."""
        if self._store.following and not self._store.trouble:
            self._store.wait_in_step()
        try:
            return self._difference()
        except StoreBroken:
            if not self._store.following:
                raise
            # Its process went while nobody asked it.
            self.compare()
            self._store.wait_in_step()
            return self._difference()

    def _difference(self) -> tuple[int, int]:
        rows, after, missing = self._store.wait_open(), 0, set[str]()
        while page := self.source.page(after, LISTED):
            digests = list(dict.fromkeys(digest for _, digest in page))
            missing |= set(digests) - rows.held(self.name, digests)
            after = page[-1][0]
        there = rows.counts().get(self.name, 0)
        return len(missing), max(0, there - (self.source.count() - len(missing)))

    # --- on the sender's thread -----------------------------------------------------------------------------------

    def work(self, rows: ChromaRows) -> None:
        """Bring it nearer to the ledger, by one batch."""
        if self._renewing:
            self._make_again(rows)
        elif self._compared is not None:
            self._send_missing(rows, self._compared)
        elif self._listed is not None:
            self._drop_extra(rows, self._listed)

    def send(self, rows: ChromaRows, digests: Iterable[str]) -> SentRows:
        """Send what the ledger says of some texts now."""
        sought = dict.fromkeys(digests)
        found = self.source.rows(sought)
        made = [row for row in found if row.vector is not None]
        known = [row for row in found if row.vector is None]
        gone = sorted(sought.keys() - {row.digest for row in found})
        if made:
            rows.add(self.name, made)
        lost = rows.describe(self.name, known) if known else []
        if gone:
            rows.drop(self.name, gone)
            self._look_for_waste(rows, len(gone))
        return SentRows(0, self.source.model, tuple(row.digest for row in made if self.remote), tuple(lost))

    def _look_for_waste(self, rows: ChromaRows, dropped: int) -> None:
        """Chroma's index never gives the room of a dropped row to another: it would grow with every edit."""
        self._drops_until_look -= dropped
        if self._drops_until_look > 0:
            return
        self._drops_until_look = LOOK_EVERY
        places, texts = rows.places(self.name), self.source.count()
        if places > MOST_PLACES * max(texts, LOOK_EVERY):
            log.info("collection made again name=%s texts=%d places=%d", self.name, texts, places)
            self.renew()

    def _make_again(self, rows: ChromaRows) -> None:
        if self.name in rows.counts():
            rows.delete(self.name)
        rows.compact()
        with self._store.changing():
            self._renewing, self._compared = False, 0
            self._store.outgrown = True

    def _send_missing(self, rows: ChromaRows, after: int) -> None:
        """Look for some texts of the ledger, and send those that are not there."""
        page = self.source.page(after)
        digests = list(dict.fromkeys(digest for _, digest in page))
        if digests and (missing := sorted(set(digests) - rows.held(self.name, digests))):
            self._store.sent(self.send(rows, missing))
        more = not page and rows.counts().get(self.name, 0) > self.source.count()
        with self._store.changing():
            self._compared = page[-1][0] if page else None
            self._listed = 0 if more else None
        if not page:
            log.info("collection compared name=%s", self.name)

    def _drop_extra(self, rows: ChromaRows, at: int) -> None:
        """Look at some rows, and drop those that the ledger does not have."""
        page = rows.page(self.name, at, LISTED)
        extra = sorted(set(page) - {row.digest for row in self.source.rows(page)})
        if extra:
            rows.drop(self.name, extra)
        with self._store.changing():
            self._listed = at + len(page) - len(extra) if page else None


class VectorStore:
    """The collections, the thread that brings them in step, and what it needs to know about their rows."""

    def __init__(self, ledger: Ledger, place: ChromaPlace, following: bool = True) -> None:
        self.place = place
        self._ledger = ledger
        self.following = following
        """Whether the collections are brought in step; the doctor looks at them first."""
        self.on_sent: Callable[[SentRows], None] = lambda sent: None
        """Called, from the sender's thread, when the rows have taken something in."""
        self.on_in_step: Callable[[], None] = lambda: None
        """Called, from the sender's thread, when the counts were compared and nothing is to be done."""
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
        self._rows: ChromaRows | None = None
        self._sent = 0
        """The last number of `unsent` that the rows took in."""
        self._counts: dict[str, int] = {}
        """The rows of each collection when they were last compared with the ledger."""
        self._checked = False
        """Whether the counts were compared with the ledger since something may have changed them."""
        self._sweeping = self._busy = False
        """Whether collections are to be deleted; whether something is under way."""
        self._ready = False
        """Whether the collections are known: before that, what waits would go nowhere."""
        self._asked = self._hurried = self._stopping = False
        self._used = time.monotonic()
        self._failures = 0
        """Those in a row that a pause does not mend."""
        self._failed_tries = 0
        self._sender = threading.Thread(target=self._run, name="memd-vectors", daemon=True)
        ledger.committed = self._wake
        self._sender.start()

    def _wake(self) -> None:
        with self.changing():
            pass

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change something here, and let those look again who wait."""
        with self.changed:
            yield
            self.changed.notify_all()

    # --- what other threads call ----------------------------------------------------------------------------------

    def collection(self, source: CollectionSource) -> Collection:
        """The collection of a workspace; counts tell whether it must be compared."""
        with self.changing():
            if source.name not in self._collections:
                self._checked = False
            return self._collections.setdefault(source.name, Collection(self, source))

    def sweep(self) -> None:
        """Have the collections deleted that nobody wants."""
        wanted = self.wanted()
        with self.changing():
            self._collections = {name: one for name, one in self._collections.items() if name in wanted}
            self._checked, self._ready = False, True

    def unsent(self) -> bool:
        """Whether texts wait to be sent."""
        with translated():
            return bool(vector_table.unsent(self._ledger.reader, self._sent, 1))

    @property
    def in_step(self) -> bool:
        with self.changed:
            idle = self._checked and not self._sweeping and not self._busy
            return idle and not any(one.behind for one in self._collections.values()) and not self.unsent()

    def follow(self) -> None:
        """Begin to bring the collections in step."""
        with self.changing():
            self.following = True

    def wait_in_step(self, seconds: float | None = None) -> bool:
        """Wait until every collection is in step and nothing is in trouble, or trying fails; says whether they are."""
        return self.wait_for(lambda: self.in_step and not self.trouble, seconds)

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

    def wait_open(self) -> ChromaRows:
        """The rows, opened for this if need be."""
        with self.changed:
            if self._rows is None:
                self._asked = self._hurried = True
                self.changed.notify_all()
            self.changed.wait_for(lambda: self._rows is not None or self.trouble or self._stopping)
            if self._rows is None:
                raise StoreBroken(self.trouble or "the vector store is closed", "memd starts it again by itself")
            return self._rows

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
                self.changed.wait_for(lambda: self._stopping or self._has_work(), self._patience())
                if self._stopping:
                    return False
                if self._has_work():
                    self._busy = True
                    return self._gather() if self._rows is None else True
                if self._patience() != 0.0:
                    continue
                if self.place.look_every is not None:
                    # Others may have changed it: a server can be wiped.
                    self._checked, self._used = False, time.monotonic()
                    continue
                rows, self._rows = self._rows, None
            if rows is not None:
                self._rest(rows)

    def _patience(self) -> float | None:
        """Seconds until it looks at the rows, or closes them; None for ever."""
        seconds = self.place.look_every or (self.rest_seconds if self._rows is not None else None)
        return None if seconds is None else max(0.0, seconds - (time.monotonic() - self._used))

    def _has_work(self) -> bool:
        waiting = not self._checked or self._sweeping or self._due() is not None or self.unsent()
        return self._asked or (self.following and self._ready and waiting)

    def _due(self) -> Collection | None:
        return next((one for one in self._collections.values() if one.behind), None)

    def _gather(self) -> bool:
        """Wait a moment before the rows are opened, longer after failures."""
        seconds = GATHER_SECONDS if not self._failures else PAUSES[min(self._failures, len(PAUSES)) - 1]
        self.changed.wait_for(lambda: self._stopping or self._hurried, seconds)
        self._hurried = False
        return not self._stopping

    def _work(self) -> None:
        """One step, of whatever is most urgent: what is gone is to be gone at once."""
        in_step = False
        if self._asked:
            _ = self._rows or self._open()
            self._asked = False
        elif self.unsent():
            self._send(self._rows or self._open())
        elif (due := self._due()) is not None:
            self._loaded.add(due.name)
            due.work(self._rows or self._open())
        elif self._sweeping:
            self._delete_unwanted(self._rows or self._open())
        else:
            in_step = self._check()
        self._went_well()
        if in_step:
            self.on_in_step()
        rows = self._rows
        if rows is not None and (self.outgrown or (len(self._loaded) > MOST_LOADED and not self._has_work())):
            with self.changed:
                self.outgrown, self._rows = False, None
            self._rest(rows)

    def _send(self, rows: ChromaRows) -> None:
        """Send some of the texts that wait, to every collection of their workspace."""
        with translated():
            window = vector_table.unsent(self._ledger.reader, self._sent, BATCH)
        touched = grouped((workspace, digest) for _, workspace, digest in window)
        for one in list(self._collections.values()):
            if digests := touched.get(one.source.workspace):
                self._loaded.add(one.name)
                self.sent(one.send(rows, digests))
        self._sent = window[-1][0]
        self.on_sent(SentRows(self._sent))

    def sent(self, sent: SentRows) -> None:
        """Tell the ledger where vectors are that only the rows should have."""
        if sent.kept or sent.lost:
            self.on_sent(sent)

    def _check(self) -> bool:
        """Compare the counts with the ledger; says whether they agree."""
        known = self._rows is None or self.place.look_every is not None
        counts = self.place.look(self._collections) if known else None
        if counts is None:
            counts = dict.fromkeys(self._collections, 0) | (self._rows or self._open()).counts()
        unlike = [one for one in self._collections.values() if counts.get(one.name) != self._counts.get(one.name)]
        differing = [one for one in unlike if one.name in counts and counts[one.name] != one.source.count()]
        with self.changed:
            self._counts |= counts
            self._checked, self._sweeping = True, not counts.keys() <= self.wanted()
        for one in differing:
            self._counts.pop(one.name)
            one.compare()
        return not differing and not self._sweeping

    def _open(self) -> ChromaRows:
        if self._failures and self._failures % GIVEN_UP == 0:
            self.place.put_aside(self.trouble)
        rows = self.place.open()
        with self.changing():
            self._rows, self._loaded, self._checked = rows, set(), False
        return rows

    def _delete_unwanted(self, rows: ChromaRows) -> None:
        for name in rows.counts().keys() - self.wanted():
            rows.delete(name)
        with self.changed:
            self._sweeping = self._checked = False
            self._counts = {}

    def _went_well(self) -> None:
        self._failures, self._used = 0, time.monotonic()
        if self.trouble:
            # Told first: whoever waits until nothing is in trouble finds that the status says so too.
            self.on_trouble(None)
        with self.changing():
            self.trouble, self._busy = "", False

    def _failed(self, error: MemdError, lasting: bool) -> None:
        """Close what failed; counts are compared once it is open again."""
        with self.changing():
            stopping, rows = self._stopping, self._rows
            self._rows, self._counts, self._checked, self._busy = None, {}, False, False
            self._failures += 1 if lasting else 0
            self._failed_tries += 1
            self._hurried, self.trouble = False, error.message
        if stopping:
            return
        log.error("the vector store failed: %s", error.message)
        self.on_trouble(error)
        if rows is not None:
            rows.close(CLOSE_SECONDS)

    def _rest(self, rows: ChromaRows) -> None:
        """Close the rows, which look as they should."""
        try:
            rows.ping()
            log.info("the vector store is closed until it is needed")
        except MemdError as error:
            # The process went while nobody asked it.
            self._failed(error, lasting=True)
        rows.close(REST_CLOSE_SECONDS)
        with self.changed:
            self._checked = False
