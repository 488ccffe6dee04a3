"""The ledger: what a reader sees while the writer goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from memd.indexer.store.ledger import Ledger
from tests.lab import Lab


def test_nothing_changes_within_a_snapshot(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    with ledger.snapshot() as connection:
        before = connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()["value"]
        with ledger.write() as writer:
            ledger.tick(writer)
        assert connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()["value"] == before
    assert ledger.setting("seq") != before
    ledger.close()


def test_whoever_reads_the_rows_of_files_keeps_them_while_the_writer_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    index = lab.add({"MEMORY.md": "## Bird\n\nA wren.\n"})
    for text in ("A wren.\n", "A robin.\n"):
        loaded = index.files
        reading = iter(loaded)
        lab.save({"MEMORY.md": f"## Bird\n\n{text}", f"memory/{len(loaded)}.md": "## Other\n\nA bird.\n"})
        assert len(list(reading)) == len(loaded) == len(index.files) - 1
        for rows in (loaded, index.files, index.known_files()):
            with pytest.raises(TypeError):
                rows["other.md"] = rows["MEMORY.md"]  # type: ignore[index]
    lab.close()
