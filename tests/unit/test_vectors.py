"""The collections and the process that has Chroma: equal texts, crashes, hangs, damage, and who may have the folder."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memd import child as child_module
from memd.child import Child, start_child
from memd.errors import LedgerDamaged, MemdError
from memd.indexer.store import cache_folder, chroma, chroma_process, vector_table, vectors
from memd.indexer.store.chroma import ChromaFolder, CollectionRow
from memd.indexer.store.vector_table import SentRows, mark_sent
from memd.indexer.store.vectors import Collection, VectorStore
from memd.models import Workspace
from tests.conftest import PATIENCE, forge
from tests.faults.agreement import SOAK, eventually
from tests.forge import Forged
from tests.hash_embedder import HashEmbedder
from tests.lab import Lab, held, row, wanted

STDIN = 0


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chroma's processes come out of one that has loaded it: that is most of what a start costs."""

    def start_loaded(module: str, folder: str, nice: int) -> tuple[Forged, socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs, Path(os.devnull).open("wb") as nothing:
            files = [theirs.fileno(), nothing.fileno(), nothing.fileno()]
            return forge(module).start(dict(os.environ), files, [module, str(nice), str(STDIN), folder]), ours

    if not SOAK:
        monkeypatch.setattr(child_module, "start_child", start_loaded)


@contextmanager
def lab_in(folder: Path) -> Iterator[Lab]:
    made = Lab(folder, HashEmbedder())
    made.stores.use_vectors(VectorStore(made.stores.ledger, ChromaFolder(made.folder / "state" / "chroma")))
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with lab_in(tmp_path) as made:
        yield made


@pytest.fixture
def lab_in_memory(tmp_path: Path) -> Iterator[Lab]:
    """On a file system in memory, where there is one: Chroma waits for the disk several times a collection."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="memd-", dir=place) as folder, lab_in(Path(folder)) as made:
        yield made


def notes(*texts: str) -> dict[str, str]:
    return {"memory/2026-02-10.md": "\n\n".join(f"## Beat\n\n{text}" for text in texts) + "\n"}


def filled(lab: Lab, *texts: str) -> Collection:
    collection = lab.add(notes(*texts)).collection
    assert collection is not None
    assert held(collection) == wanted(collection)
    return collection


def store_of(lab: Lab) -> VectorStore:
    assert lab.stores.vectors is not None
    return lab.stores.vectors


def folder_of(lab: Lab) -> ChromaFolder:
    """The folder, opened."""
    folder = store_of(lab).wait_open()
    assert isinstance(folder, ChromaFolder)
    return folder


def pid_of(folder: ChromaFolder) -> int:
    assert folder.child is not None
    return folder.child.process.pid


def opened(path: Path) -> ChromaFolder:
    folder = ChromaFolder(path)
    folder.open()
    return folder


def in_step(lab: Lab) -> bool:
    return store_of(lab).wait_in_step()


def nudge(store: VectorStore) -> None:
    """Have it look at the time again."""
    with store.changing():
        store._asked = True


# --- rows -----------------------------------------------------------------------------------------------------------


def test_equal_texts_are_one_row(lab: Lab) -> None:
    collection = filled(lab, *["HEARTBEAT_OK"] * 6, "Something happened.")
    assert len(held(collection)) == 2 and len(lab.stores.index("agent").text.ids()) == 7
    (beat,) = [row for row in collection.rows(wanted(collection)) if row.document.endswith("HEARTBEAT_OK")]
    assert beat.metadata["copies"] == 6


def test_a_text_stays_until_its_last_chunk_goes(lab: Lab) -> None:
    collection = filled(lab, "HEARTBEAT_OK", "HEARTBEAT_OK", "Something happened.")
    before = held(collection)
    lab.save(notes("HEARTBEAT_OK", "Something happened."))
    assert held(collection) == before
    lab.save(notes("Something happened."))
    assert len(held(collection)) == 1 == len(wanted(collection))


def test_an_index_that_has_more_room_for_dropped_rows_than_for_others_is_made_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "LEAST_ROWS", 100)
    collection = filled(lab, "The first.")
    most, drop = [0], ChromaFolder.drop

    def noted(folder: ChromaFolder, name: str, digests: Sequence[str]) -> tuple[int, int]:
        places, rows = drop(folder, name, digests)
        most.append(places)
        return places, rows

    monkeypatch.setattr(ChromaFolder, "drop", noted)
    for nth in range(8):
        lab.save(notes(*(f"Beat {nth}, number {number}." for number in range(300))))
        lab.embed()
        assert held(collection) == wanted(collection)
    assert in_step(lab) and 300 < max(most) < 1_900, "2,400 texts were there in all"
    assert len(list((lab.folder / "state" / "chroma").glob("*/length.bin"))) <= 1, "the former index is gone"


def test_what_is_touched_follows_in_bounded_batches(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "BATCH", 3)
    sizes: list[int] = []
    add = ChromaFolder.add

    def noted(folder: ChromaFolder, name: str, rows: Sequence[CollectionRow]) -> None:
        sizes.append(len(rows))
        add(folder, name, rows)

    monkeypatch.setattr(ChromaFolder, "add", noted)
    filled(lab, *(f"Beat number {nth}." for nth in range(10)))
    assert sum(sizes) == 10 and max(sizes) == 3


def test_a_collection_made_anew_has_nothing_of_before(lab: Lab) -> None:
    collection = filled(lab, "One.", "Two.")
    folder_of(lab).add(collection.name, [row("f" * 32, "stray")])
    collection.renew()
    assert collection.wait_renewed(60) == "" and held(collection) == wanted(collection)


def test_a_collection_that_holds_something_is_not_counted_at_every_step(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = lab.stores.open_index(Workspace("agent", lab.folder / "agent"))
    assert index.collection is not None and index.collection.is_new
    collection = filled(lab, "The kettle boils.")
    assert not collection.is_new
    monkeypatch.setattr(vector_table, "text_count", lambda *_: pytest.fail("it went through all chunks again"))
    assert not collection.is_new


def test_collections_that_nobody_wants_are_deleted(lab: Lab) -> None:
    filled(lab, "One.")
    folder_of(lab).add("ws-99-model-1", [row("f" * 32, "stray")])
    lab.stores.stop_watching(lab.stores.index("agent").id)
    assert in_step(lab) and folder_of(lab).look([]) == {}


# --- the process ------------------------------------------------------------------------------------------------


def test_it_is_started_when_there_is_something_to_do(tmp_path: Path) -> None:
    lab = Lab(tmp_path, HashEmbedder())
    folder = ChromaFolder(tmp_path / "chroma")
    lab.stores.use_vectors(VectorStore(lab.stores.ledger, folder))
    lab.add({})
    assert in_step(lab) and not folder.folder.exists()
    lab.close()


def test_a_killed_process_is_started_again_and_compared(lab: Lab) -> None:
    told: list[MemdError | None] = []
    store_of(lab).on_trouble = told.append
    collection = filled(lab, "One.", "Two.")
    first = pid_of(folder_of(lab))
    os.kill(first, signal.SIGKILL)
    lab.save(notes("One.", "Three."))
    lab.embed()
    eventually(lambda: in_step(lab))
    assert held(collection) == wanted(collection) and pid_of(folder_of(lab)) != first
    assert "signal 9" in str(told[0]) and told[-1] is None and not store_of(lab).trouble


def test_a_process_that_hangs_is_killed_and_nobody_waits(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = filled(lab, "One.", "Two.")
    child = pid_of(folder_of(lab))
    monkeypatch.setattr(chroma, "ANSWER_SECONDS", 0.5)
    os.kill(child, signal.SIGSTOP)
    lab.save(notes("Two."))
    eventually(lambda: not Path(f"/proc/{child}").exists())
    monkeypatch.setattr(chroma, "ANSWER_SECONDS", 60.0)
    lab.save(notes("Three."))
    lab.embed()
    eventually(lambda: in_step(lab))
    assert held(collection) == wanted(collection)


def test_a_process_that_may_not_grow_is_started_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # From nothing: one that was copied from another has room left that it need not ask for.
    monkeypatch.setattr(child_module, "start_child", start_child)
    collection = filled(lab, "One.", "Two.")
    child = pid_of(folder_of(lab))
    size, *_, data, _ = (int(pages) * resource.getpagesize() for pages in _statm(child))
    resource.prlimit(child, resource.RLIMIT_AS, (size, size))
    # What a thread has reserved counts for its size already, and only here when it is used.
    resource.prlimit(child, resource.RLIMIT_DATA, (data, data))
    # How much room it has without asking for more is chance: until it has none.
    for rows in range(2_000, 20_000, 2_000):
        lab.save(notes(*(f"Number {nth}." for nth in range(rows))))
        lab.embed()
        eventually(lambda: in_step(lab))
        if pid_of(folder_of(lab)) != child:
            break
    assert pid_of(folder_of(lab)) != child
    assert held(collection) == wanted(collection)


def _statm(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/statm").read_text().split()


def test_what_fails_again_and_again_is_put_aside(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = filled(lab, "One.")
    monkeypatch.setattr(vectors, "PAUSES", (0.01,))
    left = [vectors.GIVEN_UP]
    child = pid_of(folder_of(lab))

    class Killed(Child):
        def __init__(self, *arguments: str, nice: int) -> None:
            super().__init__(*arguments, nice=nice)
            if left[0]:
                left[0] -= 1
                os.kill(self.process.pid, signal.SIGKILL)

    monkeypatch.setattr(chroma, "Child", Killed)
    os.kill(child, signal.SIGKILL)
    collection.compare()
    eventually(lambda: in_step(lab))
    assert held(collection) == wanted(collection) and left == [0]
    assert list((lab.folder / "state" / "quarantine").glob("chroma.*"))


def test_it_rests_when_there_is_nothing_to_do(lab: Lab) -> None:
    collection = filled(lab, "One.", "Two.")
    store, child, folder = store_of(lab), pid_of(folder_of(lab)), lab.folder / "state" / "chroma"
    store.rest_seconds = 0.0
    nudge(store)
    eventually(lambda: not Path(f"/proc/{child}").exists())
    eventually(lambda: cache_folder.counts(folder) == {collection.name: 2})
    store.rest_seconds = 60.0
    assert held(collection) == wanted(collection) and pid_of(folder_of(lab)) != child


def test_it_rests_at_once_after_many_collections(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MOST_LOADED", 2)
    collections = [lab.add(notes(f"Agent {nth} is here."), f"agent{nth}").collection for nth in range(3)]
    assert in_step(lab)
    eventually(lambda: not store_of(lab).is_open)
    for collection in filter(None, collections):
        assert held(collection) == wanted(collection)


@pytest.mark.linux  # only Linux tells the limits of another process
def test_chroma_keeps_a_bounded_number_of_indexes(lab_in_memory: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_in_memory
    # It is asked behind the store's back, and a store with nothing to do lets it end.
    store_of(lab).rest_seconds = 3600.0
    folder, before = folder_of(lab), resource.getrlimit(resource.RLIMIT_NOFILE)
    # Once it has looked through them: collections that no workspace has are removed when it opens them.
    assert in_step(lab)
    for nth in range(260):
        folder.add(f"ws-{nth}", [row(f"text {nth}", f"agent {nth}")])
    child = pid_of(folder)
    held = [os.readlink(file) for file in Path(f"/proc/{child}/fd").iterdir()]
    indexes = {Path(file).parent for file in held if file.endswith("data_level0.bin")}
    assert 0 < len(indexes) < 200
    assert resource.prlimit(child, resource.RLIMIT_NOFILE) == before
    for nth in (0, 7, 130, 259):
        folder.add(f"ws-{nth}", [row("another", "agent")])
        assert set(folder.digests(f"ws-{nth}")) == {"another", f"text {nth}"}


def test_a_folder_that_was_closed_well_is_trusted(lab: Lab) -> None:
    collection = filled(lab, "One.", "Two.")
    store_of(lab).close()
    host = ChromaFolder(lab.folder / "state" / "chroma")
    assert host.look([collection.name, "other"]) == {collection.name: 2, "other": 0}
    (host.folder / "counts.json").write_text("{}")
    assert host.look([]) is None, "somebody else has written to it"


def test_it_is_opened_where_the_counts_differ_and_nowhere_else(lab: Lab) -> None:
    collection = filled(lab, "One.", "Two.")
    with lab.stores.ledger.write() as connection:
        mark_sent(connection, SentRows(store_of(lab)._sent))
    store_of(lab).close()
    lab.stores.use_vectors(VectorStore(lab.stores.ledger, ChromaFolder(lab.folder / "state" / "chroma")))
    assert in_step(lab) and not store_of(lab).is_open
    folder_of(lab).drop(collection.name, sorted(wanted(collection))[:1])
    store_of(lab).close()
    lab.stores.use_vectors(VectorStore(lab.stores.ledger, ChromaFolder(lab.folder / "state" / "chroma")))
    assert in_step(lab) and held(lab.stores.index("agent").collection) == wanted(collection)


def test_a_damaged_folder_is_put_aside(lab: Lab) -> None:
    collection = filled(lab, "One.")
    store_of(lab).close()
    host = ChromaFolder(lab.folder / "state" / "chroma")
    (host.folder / "chroma.sqlite3").write_bytes(b"\0" * 8192)
    assert "chroma.sqlite3" in host.damage()
    host.open()
    assert host.look([]) == {}
    host.add(collection.name, collection.rows(wanted(collection)))
    assert set(host.digests(collection.name)) == wanted(collection)
    host.close(60)
    assert host.damage() == ""
    host.open()
    assert set(host.digests(collection.name)) == wanted(collection)
    host.close(60)


def test_it_may_take_its_time_to_rest(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(lab, "One.")
    store, child, close = store_of(lab), pid_of(folder_of(lab)), ChromaFolder.close

    def slowly(folder: ChromaFolder, seconds: float) -> None:
        if folder.child is not None and pid_of(folder) == child:
            os.kill(child, signal.SIGSTOP)
            threading.Timer(vectors.CLOSE_SECONDS + 1, os.kill, (child, signal.SIGCONT)).start()
        close(folder, seconds)

    monkeypatch.setattr(ChromaFolder, "close", slowly)
    store.rest_seconds = 0.0
    nudge(store)
    eventually(lambda: not Path(f"/proc/{child}").exists())
    assert not caplog.text


def test_a_process_that_is_gone_when_it_is_to_rest_is_started_again(lab: Lab) -> None:
    collection, store = filled(lab, "One."), store_of(lab)
    store.rest_seconds = 2.0
    nudge(store)
    folder = folder_of(lab)
    child = folder.child
    os.kill(pid_of(folder), signal.SIGKILL)
    eventually(lambda: folder.child is not child)
    store.rest_seconds = 60.0
    lab.save(notes("One.", "Two."))
    lab.embed()
    assert eventually(lambda: store.wait_in_step(1.0)) and len(held(collection)) == 2


def test_a_process_that_is_gone_when_it_is_asked_what_it_holds_is_started_again(lab: Lab) -> None:
    collection = filled(lab, "One.", "Two.")
    before = held(collection)
    os.kill(pid_of(folder_of(lab)), signal.SIGKILL)
    assert held(collection) == before, "whoever asks first must not hear of it"


def test_who_waits_is_not_told_before_the_status_is(lab: Lab) -> None:
    filled(lab, "One.")
    store, told = store_of(lab), list[MemdError | None]()

    def tell(error: MemdError | None) -> None:
        time.sleep(0.0 if error else 0.5)
        told.append(error)

    store.on_trouble = tell
    os.kill(pid_of(folder_of(lab)), signal.SIGKILL)
    lab.save(notes("Two."))
    assert store.wait_in_step(60) and "gone" in str(told[0]) and told[-1] is None and not store.trouble


def test_a_damaged_ledger_is_not_taken_for_trouble_of_the_collections(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(lab, "One.")
    monkeypatch.setattr(vectors, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(vectors, "PAUSES", (0.0,))
    store, told = store_of(lab), list[MemdError | None]()
    store.on_trouble = told.append

    def malformed(*_: object) -> Any:
        raise LedgerDamaged("state.db is damaged: database disk image is malformed", "")

    monkeypatch.setattr(Collection, "rows", malformed)
    lab.save(notes("One.", "Two."))
    lab.embed()
    eventually(lambda: told)
    # What fails again and again puts the rows aside, unless it is the ledger that cannot be read.
    assert not store.wait_in_step(0.5)
    assert [type(error) for error in told if error] == [LedgerDamaged]
    assert store.unsent() and not (lab.folder / "state" / "quarantine").exists()


def test_a_successor_waits_for_its_predecessor(tmp_path: Path) -> None:
    first = opened(tmp_path / "chroma")
    second: list[ChromaFolder] = []
    thread = threading.Thread(target=lambda: second.append(opened(tmp_path / "chroma")))
    thread.start()
    first.add("ws-1-model-1", [row("a" * 32, "one")])
    assert not second
    first.close(60)
    thread.join(PATIENCE)
    assert second[0].look([]) == {"ws-1-model-1": 1}
    assert int(cache_folder.lock_of(first.folder).read_text()) == pid_of(second[0])
    second[0].close(60)


def test_a_look_at_many_collections_ends_with_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "chroma"
    left = chroma_process.Collections(folder)
    left.add("ws-1", [row("one", "one")])
    left.client.close()
    chroma_process.Collections(folder).client.close()
    parents = iter([os.getppid(), 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    with pytest.raises(SystemExit):
        chroma_process.Collections(folder)


def test_a_predecessor_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(tmp_path / "chroma")
    os.kill(pid_of(first), signal.SIGSTOP)
    monkeypatch.setattr(chroma_process, "LOCK_SECONDS", 0.0)
    # In this process: the limit of the other one cannot be set from here.
    with chroma_process._own(first.folder):
        assert int(cache_folder.lock_of(first.folder).read_text()) == os.getpid()
    first.close(60)


def test_a_folder_of_another_form_is_made_again(tmp_path: Path) -> None:
    host = opened(tmp_path / "chroma")
    host.add("ws-1-model-1", [row("a" * 32, "one")])
    host.close(60)
    (host.folder / "format.json").write_text(json.dumps({"format": 1}))
    assert host.look([]) is None
    host.open()
    assert host.look([]) == {}
    host.close(60)
