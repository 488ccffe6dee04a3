"""The vector collections: what other programs read, and what a server answers questions from.

The ledger writes down which texts a collection may have wrong (`unsent`). A thread looks up what the ledger says of
them now and sends it, in batches, to the place where the rows are; what was taken in is crossed out. A place that fails
or hangs is closed and opened again after a pause. Counts are compared when it is opened and when it rests, and of a
server every half minute; texts only where the counts differ. A row is a text, by its digest: equal texts are one row.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from memd.errors import DiskFull, LedgerDamaged, MemdError, StoreBroken
from memd.indexer.store import vector_table
from memd.indexer.store.chroma import REST_CLOSE_SECONDS, ChromaPlace, CollectionRow
from memd.indexer.store.ledger import Ledger, translated
from memd.indexer.store.vector_table import SentRows
from memd.models import grouped

log = logging.getLogger("memd.vectors")

BATCH = 250
"""Rows that are sent at a time."""
GATHER_SECONDS = 1.0
"""Before the place is opened, so that a start and its first questions have the machine for themselves."""
REST_SECONDS = 180.0
"""After so long without work the place is closed: open, Chroma takes a hundred megabytes."""
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
"""Before another try, after so many in a row that failed."""
GIVEN_UP = 3
"""After so many failures in a row without one that went well, what is there is put aside and made again."""
MOST_LOADED = 32
"""After more collections than this the place is closed as soon as all are in step: Chroma keeps their indexes."""
CLOSE_SECONDS = 2.0
"""How long a stop waits until the place is closed."""
Digests = NDArray[np.bytes_]
_NONE: Digests = np.zeros(0, "S32")
LEAST_ROWS, MOST_PLACES = 1_000, 3
"""An index that takes room for so many times its rows, or for so many times these, is made again."""


def collection_name(workspace: int, model: int) -> str:
    return f"ws-{workspace}-model-{model}"


class Collection:
    """The vectors of one workspace made by one model: what the ledger has of them, and what has yet to be sent."""

    def __init__(self, store: "VectorStore", workspace: int, model: int, dims: int) -> None:
        self._store, self._ledger = store, store.ledger
        self.workspace, self.model, self.dims = workspace, model, dims
        self.name = collection_name(workspace, model)
        self.remote = False
        """Whether nobody else has its vectors."""
        self._filled = False
        # What follows is guarded by the store's lock.
        self.renewing = False
        """Whether it must be deleted first."""
        self._comparing = False
        """Whether its texts must be compared with the ledger's."""
        self._differing = _NONE
        """The texts that were found to differ and are not sent yet."""

    def rows(self, digests: Iterable[str]) -> list[CollectionRow]:
        """What it is to hold of some texts, as the ledger has them; those that the workspace no longer has are left
        out."""
        with translated():
            reader = self._ledger.reader
            return vector_table.collection_rows(reader, self.model, self.workspace, list(digests), self.dims)

    def pages(self) -> Iterator[list[str]]:
        """All texts that it is to hold, some at a time."""
        digests = self._digests()
        return (_texts(digests[at : at + BATCH]) for at in range(0, len(digests), BATCH))

    def _digests(self) -> Digests:
        with translated():
            return _packed(vector_table.shown_digests(self._ledger.reader, self.model, self.workspace))

    def count(self) -> int:
        with translated():
            return vector_table.text_count(self._ledger.reader, self.model, self.workspace)

    @property
    def is_new(self) -> bool:
        """Whether it has nothing to hold yet; one that once had is not counted again, which takes long for many."""
        self._filled = self._filled or bool(self.count())
        return not self._filled

    @property
    def behind(self) -> bool:
        """Whether it has something to do beside what is written down."""
        return self.renewing or self._comparing or len(self._differing) > 0

    def compare(self) -> None:
        """Have it compared with the ledger, as soon as that can be done."""
        with self._store.changing():
            self._comparing = True

    def renew(self) -> None:
        """Have it deleted, with every trace, and made again from the ledger."""
        with self._store.changing():
            self.renewing = True

    def wait_renewed(self, seconds: float) -> str:
        """Wait until nothing is left of what it held before `renew`; says why if that takes longer."""
        renewed = self._store.wait_for(lambda: not self.renewing and not self._store.unsent(), seconds)
        return "" if renewed else self._store.trouble or "Chroma is busy"

    def difference(self) -> tuple[int, int]:
        """How many rows it lacks, and how many it has too many, once it took in what is written down."""
        if self._store.following and not self._store.trouble:
            self._store.wait_in_step()
        try:
            missing, extra = self._compared(self._store.wait_open())
        except StoreBroken:
            if not self._store.following:
                raise
            # Its process went while nobody asked it.
            self.compare()
            self._store.wait_in_step()
            missing, extra = self._compared(self._store.wait_open())
        return len(missing), len(extra)

    def _compared(self, place: ChromaPlace) -> tuple[Digests, Digests]:
        """The texts that it lacks, and those that it has too many."""
        held, wanted = _packed(place.digests(self.name)), self._digests()
        return np.setdiff1d(wanted, held), np.setdiff1d(held, wanted)

    # --- on the sender's thread -----------------------------------------------------------------------------------

    def work(self, place: ChromaPlace) -> None:
        """Bring it nearer to the ledger, by one step."""
        if self.renewing:
            place.delete([self.name])
            with self._store.changing():
                self.renewing, self._comparing = False, True
        elif self._comparing:
            missing, extra = self._compared(place)
            with self._store.changing():
                self._comparing, self._differing = False, np.concatenate((missing, extra))
            log.info("collection compared name=%s missing=%d extra=%d", self.name, len(missing), len(extra))
        else:
            self._store.sent(self.send(place, _texts(self._differing[:BATCH])))
            with self._store.changing():
                self._differing = self._differing[BATCH:]

    def send(self, place: ChromaPlace, digests: Iterable[str]) -> SentRows:
        """Send what the ledger says of some texts now."""
        sought = dict.fromkeys(digests)
        found = self.rows(sought)
        made = [row for row in found if row.vector is not None]
        known = [row for row in found if row.vector is None]
        gone = sorted(sought.keys() - {row.digest for row in found})
        if made:
            place.add(self.name, made)
        lost = place.describe(self.name, known) if known else []
        if gone:
            places, texts = place.drop(self.name, gone)
            # Chroma's index never gives the room of a dropped row to another: it would grow with every edit.
            if places > MOST_PLACES * max(texts, LEAST_ROWS):
                log.info("collection made again name=%s texts=%d places=%d", self.name, texts, places)
                self.renew()
        return SentRows(0, self.model, tuple(row.digest for row in made if self.remote), tuple(lost))


def _packed(digests: Iterable[str]) -> Digests:
    """Digests in as little memory as they take: a million are compared at once."""
    return np.fromiter((digest.encode() for digest in digests), _NONE.dtype)


def _texts(digests: Digests) -> list[str]:
    return [digest.decode() for digest in digests]


class VectorStore:
    """The collections, and the thread that brings them in step."""

    def __init__(self, ledger: Ledger, place: ChromaPlace, following: bool = True) -> None:
        self.ledger, self.place = ledger, place
        self.following = following
        """Whether the collections are brought in step; the doctor looks at them first."""
        self.on_sent: Callable[[SentRows], object] = lambda sent: None
        """Called, from the sender's thread, when a collection has taken something in."""
        self.on_trouble: Callable[[MemdError | None], None] = lambda error: None
        """Called, from the sender's thread, when the place fails, and with nothing when it is back."""
        self.wanted: Callable[[], set[str]]
        """The names of the collections that there should be; others are deleted."""
        self.trouble = ""
        self.changed = threading.Condition()
        """Guards everything here; notified when there is something to do, or done."""
        self.rest_seconds = REST_SECONDS
        self.is_open = False
        self._loaded: set[str] = set()
        """The collections that were brought in step since the place was opened."""
        self._collections: dict[str, Collection] = {}
        self._sent = 0
        """The last number of `unsent` that was taken in."""
        self._sent_few = False
        """Whether that was less than a batch: more may follow, and few rows at a time take Chroma twice as long."""
        self._waiting_for_it = 0
        """How many wait until something is sent."""
        self._counts: dict[str, int] = {}
        """The rows of each collection when they were last compared with the ledger."""
        self._checked = False
        """Whether the counts were compared with the ledger since something may have changed them."""
        self._unwanted: set[str] = set()
        """Collections that are to be deleted."""
        self._busy = False
        """Whether something is under way."""
        self._asked = self._hurried = self._stopping = False
        self._used = time.monotonic()
        self._failures = 0
        """Those in a row that a pause does not mend."""
        self._failed_tries = 0
        self._sender = threading.Thread(target=self._run, name="memd-vectors", daemon=True)

    def start(self, wanted: Callable[[], set[str]]) -> None:
        """Begin, once the collections are known: before that, what waits would go nowhere."""
        self.wanted = wanted
        self.ledger.committed = self._wake
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

    def collection(self, workspace: int, model: int, dims: int) -> Collection:
        """The collection of a workspace; counts tell whether it must be compared."""
        with self.changing():
            name = collection_name(workspace, model)
            if name not in self._collections:
                self._checked, self._collections[name] = False, Collection(self, workspace, model, dims)
            return self._collections[name]

    def sweep(self) -> None:
        """Have the collections deleted that nobody wants."""
        wanted = self.wanted()
        with self.changing():
            self._collections = {name: one for name, one in self._collections.items() if name in wanted}
            self._checked = False

    def unsent(self) -> bool:
        """Whether texts wait to be sent."""
        with translated():
            return bool(vector_table.unsent(self.ledger.reader, self._sent, 1))

    @property
    def in_step(self) -> bool:
        with self.changed:
            return not self._busy and not self._waiting()

    def _waiting(self) -> bool:
        """Whether there is something to do."""
        return not self._checked or bool(self._unwanted) or self._due() is not None or self.unsent()

    def _due(self) -> Collection | None:
        return next((one for one in self._collections.values() if one.behind), None)

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
            self._waiting_for_it += 1
            try:
                for _ in range(1 if self.trouble else 2):
                    self._wait_for_a_try(done, until)
                    if done() or self._stopping:
                        break
            finally:
                self._waiting_for_it -= 1
            return done()

    def _wait_for_a_try(self, done: Callable[[], bool], until: float | None) -> None:
        before, self._hurried = self._failed_tries, True
        self._asked = self._asked or bool(self.trouble)
        self.changed.notify_all()
        seconds = None if until is None else max(0.0, until - time.monotonic())
        self.changed.wait_for(lambda: done() or self._stopping or self._failed_tries > before, seconds)

    def wait_open(self) -> ChromaPlace:
        """The place, opened for this if need be."""
        with self.changed:
            if not self.is_open:
                self._asked = self._hurried = True
                self.changed.notify_all()
            self.changed.wait_for(lambda: self.is_open or self.trouble or self._stopping)
            if not self.is_open:
                raise StoreBroken(self.trouble or "the vector store is closed", "memd starts it again by itself")
            return self.place

    def close(self) -> None:
        """Let go of the place; what was not sent is compared when it is opened again."""
        with self.changing():
            self._stopping = True
        if self._sender.is_alive():
            self._sender.join(CLOSE_SECONDS)
        if self._sender.is_alive() and self.is_open:
            # It waits for an answer that does not come.
            self.place.close(CLOSE_SECONDS)
            self._sender.join(CLOSE_SECONDS)

    # --- the sender's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait_for_work():
            try:
                self._work()
            except LedgerDamaged as error:
                # Nothing is wrong with the place, and nothing to send: memd starts again when the ledger is mended.
                self.following = False
                self._failed(error, lasting=False)
            except MemdError as error:
                self._failed(error, lasting=not isinstance(error, DiskFull))
            except Exception as error:
                log.exception("the collections go on after an unexpected error")
                self._failed(MemdError(repr(error)), lasting=True)
        self.place.close(CLOSE_SECONDS)

    def _wait_for_work(self) -> bool:
        """Wait until there is something to do; False when it is time to stop. A place without work is closed."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._stopping or self._has_work(), self._patience())
                if self._stopping:
                    return False
                if self._has_work():
                    self._busy = True
                    return (self.is_open and (not self._sent_few or self._waiting_for_it > 0)) or self._gather()
                if self._patience() != 0.0:
                    continue
            self._rest()

    def _patience(self) -> float | None:
        """Seconds until it closes the place, and looks at it; None for ever."""
        if self.is_open and len(self._loaded) > MOST_LOADED:
            return 0.0
        seconds = self.place.look_every or (self.rest_seconds if self.is_open else None)
        return None if seconds is None else max(0.0, seconds - (time.monotonic() - self._used))

    def _has_work(self) -> bool:
        return self._asked or (self.following and self._waiting())

    def _gather(self) -> bool:
        """Wait a moment before the place is opened, longer after failures, and after few rows were sent."""
        seconds = GATHER_SECONDS if not self._failures else PAUSES[min(self._failures, len(PAUSES)) - 1]
        self.changed.wait_for(lambda: self._stopping or self._hurried, seconds)
        self._hurried = self._sent_few = False
        return not self._stopping

    def _work(self) -> None:
        """One step, of whatever is most urgent: what is gone is to be gone at once."""
        if self._asked:
            self._opened()
            self._asked = False
        elif self.unsent():
            self._send(self._opened())
        elif (due := self._due()) is not None:
            self._loaded.add(due.name)
            due.work(self._opened())
        elif self._unwanted:
            self._opened().delete(self._unwanted - self.wanted())
            with self.changed:
                self._unwanted, self._counts, self._checked = set(), {}, False
        else:
            self._check()
        self._went_well()

    def _send(self, place: ChromaPlace) -> None:
        """Send some of the texts that wait, to every collection of their workspace."""
        with translated():
            window = vector_table.unsent(self.ledger.reader, self._sent, BATCH)
        touched = grouped((workspace, digest) for _, workspace, digest in window)
        for one in list(self._collections.values()):
            if digests := touched.get(one.workspace):
                self._loaded.add(one.name)
                self.sent(one.send(place, digests))
        self._sent = window[-1][0]
        self.on_sent(SentRows(self._sent))
        self._sent_few = len(window) < BATCH

    def sent(self, sent: SentRows) -> None:
        """Tell the ledger where vectors are that only a collection should have."""
        if sent.kept or sent.lost:
            self.on_sent(sent)

    def _check(self) -> None:
        """Compare the counts with the ledger, and have those compared that differ."""
        if (counts := self.place.look(self._collections)) is None:
            self._opened()
            return
        unlike = [one for one in self._collections.values() if counts.get(one.name) != self._counts.get(one.name)]
        differing = [one for one in unlike if one.name in counts and counts[one.name] != one.count()]
        with self.changed:
            self._counts |= counts
            self._checked, self._unwanted = True, counts.keys() - self.wanted()
        for one in differing:
            self._counts.pop(one.name)
            one.compare()

    def _opened(self) -> ChromaPlace:
        if not self.is_open:
            if self._failures and self._failures % GIVEN_UP == 0:
                self.place.put_aside(self.trouble)
            self.place.open()
            with self.changing():
                self.is_open, self._checked = True, False
        return self.place

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
            stopping = self._stopping
            self.is_open, self._counts, self._checked, self._busy = False, {}, False, False
            self._failures += 1 if lasting else 0
            self._failed_tries += 1
            self._hurried, self.trouble = False, error.message
        if stopping:
            return
        log.error("the vector store failed: %s", error.message)
        self.on_trouble(error)
        self.place.close(CLOSE_SECONDS)

    def _rest(self) -> None:
        """Close the place until it is needed; then it looks as it should, or it is opened again."""
        if self.is_open:
            self.is_open = False
            self.place.close(REST_CLOSE_SECONDS)
            log.info("the vector store is closed until it is needed")
        with self.changed:
            self._checked, self._loaded, self._used = False, set(), time.monotonic()
