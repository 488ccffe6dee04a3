"""An import of any size is done a piece at a time: what waits gets in between, and a kill loses nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from memd.config.schema import Settings, WatchSettings
from memd.daemon.handlers.handler_context import HandlerContext
from memd.daemon.process.health import Health
from memd.daemon.writer.queue import Batch
from memd.daemon.writer.tasks import scan_workspaces
from memd.daemon.writer.worker import Worker
from memd.errors import NotFound
from memd.indexer.indexing import ingest
from memd.indexer.indexing.decide import MOST_SAVED
from memd.indexer.indexing.ingest import PLAIN, SETTLED, IngestReport
from memd.indexer.indexing.read_files import FileBatch, changed_paths
from memd.indexer.indexing.scan import scan
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import FileStat
from memd.notes.documents import read_in_pieces
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.faults.agreement import eventually
from tests.written import MAX_BYTES, apply, opened, sync

HEADINGS = 2_000
LARGE = "memory/2026-03-01.md"


def large(headings: int = HEADINGS, word: str = "smew") -> str:
    return "# Day\n\n" + "".join(f"## Entry {nth}\n\nthe {word} number {nth}\n\n" for nth in range(headings))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "agent" / "memory").mkdir(parents=True)
    return tmp_path / "agent"


@pytest.fixture
def place(tmp_path: Path, root: Path) -> Iterator[tuple[Stores, WorkspaceIndex]]:
    stores, index = opened(tmp_path / "state", root)
    yield stores, index
    stores.close()


def pieces(stores: Stores, index: WorkspaceIndex) -> Iterator[IngestReport]:
    """Index the large file for somebody who always has something else to do."""
    return ingest.apply_in_pieces(stores, index, [LARGE], MAX_BYTES, PLAIN, lambda: True)


def held(stores: Stores, index: WorkspaceIndex) -> tuple[list[str], int]:
    """The memories that the ledger has, and how many chunks the text index does."""
    rows = stores.ledger.reader.execute("SELECT slug FROM memories WHERE file IS NOT NULL ORDER BY start_line")
    return [row["slug"] for row in rows], index.text.count()


EVERYTHING = ([f"entry-{nth}" for nth in range(HEADINGS)], HEADINGS)


def test_a_file_of_many_headings_is_one_bounded_piece_after_the_other(place, root: Path) -> None:
    stores, index = place
    (root / LARGE).write_text(large())
    reports = list(pieces(stores, index))
    assert max(report.chunks_added for report in reports) <= MOST_SAVED
    assert sum(report.chunks_added for report in reports) == HEADINGS
    assert [report.more for report in reports] == [True] * (len(reports) - 1) + [False]
    assert held(stores, index) == EVERYTHING
    assert index.files[LARGE].digest


def test_what_a_kill_leaves_half_way_is_read_again(place, root: Path) -> None:
    stores, index = place
    (root / LARGE).write_text(large())
    for report in pieces(stores, index):
        if report.chunks_added:
            break
    assert 0 < len(held(stores, index)[0]) < HEADINGS
    sync(stores, index)
    assert held(stores, index) == EVERYTHING


def test_what_changed_between_two_pieces_is_not_overwritten_by_what_was_read_before(place, root: Path) -> None:
    stores, index = place
    (root / LARGE).write_text(large())
    work = pieces(stores, index)
    while not next(work).chunks_added:
        pass
    (root / LARGE).write_text("## Other\n\nthe eider\n")
    sync(stores, index)
    left = list(work)
    assert held(stores, index) == (["other"], 1)
    assert left[-1].restless == [LARGE], "whoever goes on must look at it once more"


SMALL = ("memory/2026-02-01.md", "memory/2026-02-02.md", "memory/2026-02-03.md")


def test_what_somebody_else_indexed_since_it_was_read_is_left_alone(place, root: Path) -> None:
    """One file goes, one changes, one stays, between the moment when they are read and the one when they are saved."""
    stores, index = place
    for path in SMALL:
        (root / path).write_text("## Smew\n\nthe old smew\n")
    sync(stores, index)
    gone, changed, read_only_here = SMALL
    (root / gone).unlink()
    (root / changed).write_text("## Half\n\nthe half\n")
    (root / read_only_here).write_text("## Eider\n\nthe new eider\n")
    (root / LARGE).write_text(large(10))
    work = ingest.apply_in_pieces(stores, index, [*SMALL, LARGE], MAX_BYTES, PLAIN, lambda: True)
    for _ in SMALL[:2]:
        assert not next(work).changed, "read, and nothing of it saved"
    (root / changed).write_text("## Whole\n\nthe whole\n")
    apply(stores, index, [gone, changed])
    reports = list(work)
    assert {"whole", "eider", "entry-9"} < set(held(stores, index)[0])
    assert not {"smew", "half"} & set(held(stores, index)[0])
    assert sorted(path for report in reports for path in report.restless) == [gone, changed]


def test_a_new_file_that_went_again_before_it_was_saved_is_not_in_the_index(place, root: Path) -> None:
    """As in a rebase, which passes through another branch; whoever saw it go had nothing to remove."""
    stores, index = place
    new = SMALL[0]
    (root / new).write_text("## Smew\n\nthe smew\n")
    (root / LARGE).write_text(large(10))
    work = ingest.apply_in_pieces(stores, index, [new, LARGE], MAX_BYTES, PLAIN, lambda: True)
    assert not next(work).changed, "read, and nothing of it saved"
    (root / new).unlink()
    apply(stores, index, [new])
    reports = list(work)
    assert new not in index.files and "smew" not in held(stores, index)[0]
    assert [path for report in reports for path in report.restless] == [new]


def test_a_sync_waits_for_what_somebody_else_indexed_meanwhile(
    place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a sync has read a file, somebody saves the half that he read before: the sync answers for the whole."""
    stores, index = place
    (root / SMALL[0]).write_text("## Eider\n\nthe eider\n")
    drop_outdated = FileBatch.drop_outdated

    def after_somebody_else(batch: FileBatch, _: object) -> list[str]:
        monkeypatch.setattr(FileBatch, "drop_outdated", drop_outdated)
        (root / SMALL[0]).write_text("## Half\n\nthe half\n")
        apply(stores, index, [SMALL[0]])
        (root / SMALL[0]).write_text("## Eider\n\nthe eider\n")
        return drop_outdated(batch, index)

    monkeypatch.setattr(FileBatch, "drop_outdated", after_somebody_else)
    loop = asyncio.new_event_loop()
    ctx = HandlerContext(Settings(), stores, loop, lambda: None)
    ctx.worker.start()
    try:
        loop.run_until_complete(ctx.scan(("agent",)))
        assert held(stores, index)[0] == ["eider"]
    finally:
        ctx.worker.stop(10)
        loop.close()


def scan_again(worker: Worker) -> tuple[int, int]:
    """How many files wait after a scan, and after five more of them."""
    scan_workspaces(worker)
    once = worker.pending_files()
    for options in (PLAIN, SETTLED, PLAIN, PLAIN, SETTLED):
        scan_workspaces(worker, options=options)
    return once, worker.pending_files()


def test_files_that_wait_are_not_queued_again_and_every_scan_waits_for_them(
    place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, _ = place
    # However slow the scans are, the import begins after them.
    monkeypatch.setattr("memd.daemon.writer.worker.IMPORT_SECONDS", 3_600)
    for nth in range(600):
        (root / "memory" / f"note-{nth}.md").write_text(f"## Note\n\nsanderling number{nth}\n")
    worker = Worker(stores, Settings(), Health())
    first, again = worker.submit(scan_again, worker), worker.submit(scan_workspaces, worker)
    worker.start()
    try:
        assert first.result() == (600, 600)
        assert again.result().files == 600
        assert worker.pending_files() == 0
    finally:
        worker.stop(30)


def test_a_document_that_is_found_again_while_it_is_read_counts_once(
    place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a scan finds it between two pieces of its reading, and an event that comes late."""
    stores, index = place
    index.workspace = replace(index.workspace, globs=("**/*.html", "**/*.md"))
    (root / "clipping.html").write_text("<p>the rye starter</p>")
    worker, counted = Worker(stores, Settings(), Health()), list[tuple[int, int]]()

    def while_it_is_read(file: Path, max_bytes: int) -> Iterator[None]:
        if not counted:
            scan_workspaces(worker)
            worker.mark_changed([("agent", "clipping.html")])
            counted.append((worker.pending_files(), worker.pending_files(["agent"])))
        return read_in_pieces(file, max_bytes)

    monkeypatch.setattr("memd.indexer.indexing.read_files.read_in_pieces", while_it_is_read)
    read = worker.submit(scan_workspaces, worker)
    worker.start()
    try:
        assert read.result().files == 1 and counted == [(1, 1)]
        worker.applied().result()
        eventually(lambda: worker.pending_files() == 0)
    finally:
        worker.stop(30)


def test_an_empty_answer_does_not_wait_for_an_import_and_says_that_it_was_not_checked(
    home: Home, workspace: Path
) -> None:
    (workspace / LARGE).write_text(large(40_000))
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\npath = "{workspace}"\n')
    with home.start() as client:
        for _ in range(2):
            answer = client.query("zyzzyva", mode="text")
            assert (answer["hits"], answer["checked"]) == ([], False)
            assert answer["unchecked"] == "files are still being indexed"
            assert 0 < answer["pending"] < 20, "nothing is queued twice"
        assert client.note("a weevil", cwd=str(workspace))["path"], "and writing goes on"


def import_then_ask(worker: Worker) -> Future[bool]:
    """Begin an import, and have somebody wait from its first moment on; says whether it was under way at their turn."""
    worker.submit(scan_workspaces, worker)
    for _ in range(3):
        answer = worker.submit(lambda: worker.importing is not None)
    return answer


@pytest.mark.parametrize("files", [1, 20])
def test_who_waits_gets_in_between_the_pieces_of_an_import(
    place, root: Path, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a piece takes longer than an import waits for others."""
    stores, _ = place
    monkeypatch.setattr("memd.daemon.writer.worker.IMPORT_SECONDS", 0.05)
    for nth in range(files):
        (root / "memory" / f"2026-03-{nth + 1:02}.md").write_text(large(HEADINGS * 2 // files))
    worker = Worker(stores, Settings(), Health())
    worker.start()
    try:
        assert worker.submit(import_then_ask, worker).result().result()
    finally:
        worker.drop_imports()
        worker.stop(30)


def test_what_was_read_is_freed_as_soon_as_it_is_indexed(place, root: Path) -> None:
    """Nothing of it refers to itself: the collector of a daemon comes by once in millions of objects."""
    stores, _ = place
    (root / "memory" / "turnstone.md").write_text("a turnstone\n")
    worker = Worker(stores, Settings(), Health())
    worker.start()
    gc.disable()
    try:
        assert worker.submit(scan_workspaces, worker).result().files == 1
        worker.stop(30)
        assert not [one for one in gc.get_objects() if isinstance(one, Batch) and "memory/turnstone.md" in one.paths]
        assert not [one for one in gc.get_objects() if isinstance(one, defaultdict) and "turnstone" in one]
    finally:
        gc.enable()
        worker.stop(30)


# --- files that were read while somebody wrote them -------------------------------------------------------------


def test_a_second_change_within_a_timestamp_is_found_by_the_next_scan(place, root: Path) -> None:
    """The clock of a file system ticks a few hundred times a second; a write in the same tick changes no stamp."""
    stores, index = place
    note = root / "memory" / "a.md"
    note.write_text("the whimbrel calls\n")
    # Ahead of the clock: however slow this machine is, the file was read within two seconds of its last change.
    ahead = time.time_ns() + 3_600_000_000_000
    os.utime(note, ns=(ahead, ahead))
    sync(stores, index)
    with note.open("r+") as file:
        file.write("the redshank calls\n")
    os.utime(note, ns=(ahead, ahead))
    # Nobody can set the time of the last change of a file's stamps; as if it were the same.
    known = replace(index.files["memory/a.md"], ctime_ns=note.stat().st_ctime_ns)
    index.files = {"memory/a.md": known}
    found = scan(index.workspace)
    assert FileStat(known.size, known.mtime_ns, known.ctime_ns, known.inode) == found.files["memory/a.md"]
    assert changed_paths(index, found) == {"memory/a.md"}
    index.files = {"memory/a.md": replace(known, racy=False)}
    assert changed_paths(index, found) == set(), "one that had rested is not read without need"


def test_a_file_that_was_written_a_moment_ago_may_be_half_of_one(place, root: Path) -> None:
    """A scan leaves it until it rests; what memd wrote itself, and what somebody waits for, it takes at once."""
    stores, index = place
    resting, fresh, own = (root / "memory" / name for name in ("resting.md", "fresh.md", "own.md"))
    for file in (resting, fresh, own):
        file.write_text(f"the {file.stem} one\n")
    os.utime(resting, (0, 0))
    worker = Worker(stores, replace(Settings(), watch=WatchSettings(settle_ms=3_600_000)), Health())
    worker.start()
    try:
        report = worker.submit(scan_workspaces, worker, ("agent",), SETTLED).result(PATIENCE)
        assert index.files.keys() == {"memory/resting.md"}
        assert sorted(report.restless) == ["memory/fresh.md", "memory/own.md"]
        worker.submit(worker.mark_written, "agent", ["memory/own.md"]).result(PATIENCE)
        worker.applied()
        eventually(lambda: index.files.keys() == {"memory/resting.md", "memory/own.md"})
        worker.submit(scan_workspaces, worker, ("agent",), PLAIN).result(PATIENCE)
        assert "memory/fresh.md" in index.files
    finally:
        worker.stop(10)


def test_what_memd_keeps_itself_is_never_taken_in(memory: Client, home: Home) -> None:
    for place in (home.state, home.state / "state.db", home.path):
        with pytest.raises(NotFound, match="nothing there can be taken in"):
            memory.ingest(str(place))
