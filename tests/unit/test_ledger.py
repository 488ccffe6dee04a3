"""The ledger: what a reader sees while the writer goes on."""

from __future__ import annotations

from pathlib import Path

from memd.indexer.store.ledger import Ledger


def test_nothing_changes_within_a_snapshot(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    with ledger.snapshot() as connection:
        before = connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()["value"]
        with ledger.write() as writer:
            ledger.tick(writer)
        assert connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()["value"] == before
    assert ledger.setting("seq") != before
    ledger.close()
