"""Sees to it that `state.db` stays where it was opened and is sound: a file that is gone is put back, another one is
left alone, and of a damaged one nothing is believed until the doctor has mended it."""

import logging
import threading
import time
from contextlib import suppress
from datetime import datetime

from memd.daemon.process.health import Health
from memd.daemon.serving.events import PUT_BACK, Events
from memd.errors import LedgerDamaged, MemdError, Refused, in_shell
from memd.indexer.maintenance import backups
from memd.indexer.store.ledger import FIX, UNTRANSLATED, LedgerPlace, translate
from memd.indexer.store.stores import Stores

log = logging.getLogger("memd.ledger")

TROUBLE = "ledger"

EXAMINE_SECONDS = 60.0
"""How long a ledger that was found sound is not looked at again."""


class LedgerGuard:
    """Looks for the ledger's file now and then, on the writer's thread; each transaction looks for itself."""

    def __init__(self, stores: Stores, health: Health, events: Events) -> None:
        self._events = events
        self._stores = stores
        self._health = health
        self._examine_from, self._examining = 0.0, threading.Lock()

    def explain(self, error: Exception) -> Exception:
        """The meaning of an error: damage of the ledger where it shows one, else the error itself; from any thread.

        What SQLite has no name for may come from a row that is not what was written: then the ledger is looked at.
        """
        if isinstance(error, UNTRANSLATED):
            error = translate(error)
        elif isinstance(error, PermissionError):
            error = Refused(f"{error.filename}: {error.strerror}", "the user that memd runs as needs the right to it")
        elif not isinstance(error, MemdError | OSError):
            error = self._examined() or error
        if isinstance(error, LedgerDamaged):
            self._note(error)
        return error

    def _examined(self) -> LedgerDamaged | None:
        """The damage of the ledger, looked for now and then; who comes while another looks waits for what is found."""
        with self._examining:
            if self._stores.ledger.damage is None and time.monotonic() >= self._examine_from:
                self._examine_from = time.monotonic() + EXAMINE_SECONDS
                # One that cannot be opened now may be sound.
                with suppress(MemdError):
                    if problem := self._stores.ledger.problem():
                        self._note(LedgerDamaged(f"state.db is damaged: {problem}", FIX))
            return self._stores.ledger.damage

    def _note(self, damage: LedgerDamaged) -> None:
        if self._stores.ledger.damage is None:
            self._stores.ledger.damage = damage
            self._health.set(TROUBLE, damage.message, damage.hint)
            log.error("%s; nothing is written, and questions are answered from the files: %s", damage, damage.hint)

    def look(self) -> bool:
        """Compare the file under the name with the one that is open; False when it is to be tried again later."""
        ledger = self._stores.ledger
        if ledger.damage is not None:
            return True
        if (place := ledger.place) is LedgerPlace.HERE:
            ledger.copy = None
            # Opened while that can be done: a copy is made through it.
            _ = ledger.reader
            if self._health.clear(TROUBLE):
                log.warning("state.db is where it was opened again")
            return True
        try:
            if place is LedgerPlace.GONE:
                self._put_back()
            elif place is LedgerPlace.TAKEN and ledger.copy is None:
                self._keep_copy()
        except (MemdError, OSError) as error:
            if self._health.set(TROUBLE, f"{place.value}, and no copy of it can be made: {error}", "make room for one"):
                log.error("%s, and no copy of it can be made: %s", place.value, error)
            return False
        return True

    def _put_back(self) -> None:
        self._stores.ledger.put_back()
        log.warning("%s", LedgerPlace.PUT_BACK.value)
        self._health.set(TROUBLE, LedgerPlace.PUT_BACK.value, "nothing to do")
        self._events.tell(PUT_BACK)

    def _keep_copy(self) -> None:
        ledger, folder = self._stores.ledger, self._stores.folder / backups.FOLDER
        kept = ledger.copy = backups.make(ledger, folder, datetime.now())
        why = f"{LedgerPlace.TAKEN.value}; nothing is written, and what memd had is in {kept}"
        back = f"memd restore-backup {in_shell(kept)}"
        self._health.set(TROUBLE, why, f"memd restart takes that file, {back} the copy")
        log.error("%s", why)
