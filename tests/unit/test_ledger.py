"""The ledger: what a reader sees while the writer goes on."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memd.indexer.maintenance.doctor import examine_ledger
from memd.indexer.store import cache_folder
from memd.indexer.store.ledger import Ledger
from tests.lab import Lab

PAGE = 4096
SUM = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000000) SELECT SUM(x) FROM n"


def test_nothing_changes_within_a_snapshot(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    with ledger.snapshot() as connection:
        before = connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()["value"]
        with ledger.write() as writer:
            ledger.tick(writer)
        assert connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()["value"] == before
    assert ledger.setting("seq") != before
    ledger.close()


def test_who_is_reading_when_it_is_closed_reads_on_and_the_file_is_whole_without_its_log(tmp_path: Path) -> None:
    ledger, reading = Ledger(tmp_path / "state.db"), threading.Event()
    ledger.transact(ledger.save_setting, "bird", "wren")

    def sum_up() -> int:
        ledger.reader.set_progress_handler(reading.set, 1_000)
        return sum(int(ledger.reader.execute(SUM).fetchone()[0]) for _ in range(2))

    with ThreadPoolExecutor(1) as pool:
        summed = pool.submit(sum_up)
        reading.wait()
        ledger.close()
        alone = shutil.copy(ledger.path, tmp_path / "alone.db")
        assert Ledger(alone).setting("bird") == "wren"
        assert summed.result() == 2 * 2_000_001_000_000


def test_no_log_is_left_beside_the_file_by_a_thread_that_has_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    ledger.transact(ledger.save_setting, "bird", "wren")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ledger.setting, "bird").result() == "wren"
        ledger.close()
        assert ledger.path.with_name("state.db-wal").stat().st_size == 0


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


def test_damage_is_seen_by_a_thread_that_knows_the_pages_and_by_one_that_never_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    with ThreadPoolExecutor(1) as knows, ThreadPoolExecutor(1) as never_read:
        assert knows.submit(examine_ledger, ledger).result().state == "ok"
        knows.submit(lambda: list(ledger.reader.execute("SELECT * FROM sqlite_master, meta"))).result()
        ledger.reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with ledger.path.open("r+b") as file:
            # The first page has the tables' names, and says that others have the rest.
            file.seek(PAGE)
            file.write(bytes(ledger.path.stat().st_size - PAGE))
        for thread in (knows, never_read):
            found = thread.submit(examine_ledger, ledger).result()
            assert found.state == "broken" and found.detail
    ledger.close()


def test_every_ledger_that_was_put_aside_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for when in ("20260217T080000", "20260217T090000"):
        monkeypatch.setattr(cache_folder.time, "strftime", lambda _, when=when: when)
        (tmp_path / "state.db").write_text(when)
        (tmp_path / "chroma").mkdir()
        for store in ("state.db", "chroma"):
            assert cache_folder.quarantine(tmp_path, tmp_path / store)
    kept = sorted(file.name for file in (tmp_path / "quarantine").iterdir())
    assert kept == ["chroma.20260217T090000", "state.db.20260217T080000", "state.db.20260217T090000"]
