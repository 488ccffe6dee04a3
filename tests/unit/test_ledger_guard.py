"""What an error means, as the guard of the ledger explains it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from memd.daemon.process.health import Health
from memd.daemon.serving.events import Events
from memd.daemon.writer.ledger_guard import LedgerGuard
from memd.errors import LedgerDamaged
from memd.indexer.store.own_stores import OwnStores


def test_whoever_fails_on_a_damaged_ledger_hears_of_the_damage(tmp_path: Path) -> None:
    with closing(OwnStores(tmp_path)) as stores:
        with closing(sqlite3.connect(tmp_path / "state.db")) as ledger:
            ledger.executescript("PRAGMA foreign_keys = OFF; DROP TABLE chunks;")
        health = Health()
        guard = LedgerGuard(stores, health, Events())
        explained = [guard.explain(ValueError("a row makes no sense")) for _ in range(2)]
        assert all(isinstance(error, LedgerDamaged) for error in explained), "the second one soon after, too"
        assert health.names == ["ledger"]


def test_a_mistake_with_a_sound_ledger_is_a_mistake(tmp_path: Path) -> None:
    with closing(OwnStores(tmp_path)) as stores:
        mistake, health = ValueError("a row makes no sense"), Health()
        assert LedgerGuard(stores, health, Events()).explain(mistake) is mistake and health.names == []
