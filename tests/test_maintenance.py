"""What the daemon does behind its answers: vectors are all there when it says so, indexes are joined and read ahead."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memd.child import encode, receive, start_child
from memd.config.schema import EmbeddingSettings, OutlineSettings, Settings
from memd.daemon.embedding import thread as embedding_thread
from memd.daemon.embedding.thread import Embedding
from memd.daemon.handlers.handler_context import HandlerContext
from memd.daemon.jobs.built_in import MANY_LARGE, MOST_LARGE, SMALL_EACH, IndexMaintenance
from memd.daemon.process.health import Health
from memd.daemon.serving.events import LOOKED
from memd.daemon.writer import worker as worker_module
from memd.daemon.writer.tasks import scan_workspaces, stop_watching, use_built_text, use_joined_text
from memd.daemon.writer.worker import Worker
from memd.errors import MemdError, NoDaemon
from memd.indexer.maintenance import doctor, rebuild
from memd.indexer.maintenance.rebuild import FEW, build_elsewhere
from memd.indexer.model import embedding_server
from memd.indexer.query.meaning import question_vector
from memd.indexer.store import vector_table
from memd.indexer.store.own_stores import BUILDING, OwnIndex, OwnStores
from memd.indexer.store.text import LARGE, LOCKS, TextIndex
from memd.models import Chunk, Workspace
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home, write_notes
from tests.embedding_server import EmbeddingServer, words
from tests.faults.agreement import assert_agreement
from tests.lab import held

SECTIONS = LARGE + 5
SOUND = doctor.DoctorFinding("state.db", "ok", "")


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.02)


def day(nth: int) -> str:
    return "# A day\n\n" + "".join(f"## Bird {n}\n\nwren number {n} of day {nth}\n\n" for n in range(SECTIONS))


def pieces(home: Home) -> int:
    """How many segments the text index on disk has."""
    return len(list(home.state.glob("text/*/*.trm")))


# --- with a daemon ----------------------------------------------------------------------------------------------


def in_pieces(home: Home) -> tuple[Client, Path]:
    """A daemon whose index one import after the other left in more large segments than it should have."""
    root = write_notes(home.path.parent / "agent", {"MEMORY.md": "## Tea\n\nGreen tea, please.\n"})
    home.configure(f'[[workspace]]\npath = "{root}"\nns = "agent"\n')
    client = home.start()
    for nth in range(MOST_LARGE + 1):
        write_notes(root, {f"memory/2026-01-{nth + 1:02}.md": day(nth)})
        client.sync()
    assert pieces(home) > MOST_LARGE
    return client, root


@pytest.mark.usefixtures("chroma_at_once")
def test_a_resting_daemon_joins_what_imports_left_in_pieces(home: Home) -> None:
    client, root = in_pieces(home)
    chunks = client.status()["workspaces"][0]["chunks"]
    before = client.query("wren number 7", limit=200, mode="text")
    wait_for(lambda: pieces(home) == 1)
    after = client.query("wren number 7", limit=200, mode="text")
    assert [(hit["id"], hit["score"]) for hit in after["hits"]] == [(hit["id"], hit["score"]) for hit in before["hits"]]
    assert client.status()["workspaces"][0]["chunks"] == chunks
    (root / "MEMORY.md").write_text("## Tea\n\nBlack tea after the joining.\n")
    client.sync(vectors=True)
    assert client.query("black tea", mode="text")["hits"][0]["path"] == "MEMORY.md"
    # Without files in memory a mirror that is open has its own there.
    assert not [one for one in (home.state / BUILDING).iterdir() if not one.name.startswith("memd-mirror-")]
    assert_agreement(home, root)


def test_a_build_ends_with_its_daemon(home: Home) -> None:
    client, _ = in_pieces(home)
    with ThreadPoolExecutor() as threads:
        rebuilt = threads.submit(client.rebuild)
        wait_for(lambda: builders(home))
        home.kill()
        with pytest.raises(NoDaemon):
            rebuilt.result()
    wait_for(lambda: not builders(home))
    # A parent that goes as soon as it has asked: the build must not come to its end.
    arguments = str(home.state), "1", str(home.path / "fresh")
    build, parent = start_child("memd.indexer.maintenance.rebuild", *arguments, environment=home.env)
    receive(parent)
    parent.sendall(encode((1, ((),))))
    parent.close()
    assert build.wait() == 1
    client = home.start()
    assert not (home.state / BUILDING).exists()
    assert client.query("wren number 7", mode="text")["hits"]


def builders(home: Home) -> list[Path]:
    """Processes that build an index of this home."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"memd.indexer.maintenance.rebuild" in command and str(home.state).encode() in command:
            found.append(process)
    return found


# --- without one ------------------------------------------------------------------------------------------------


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A writer on real stores with one workspace of one note."""
    root = write_notes(tmp_path / "agent", {"MEMORY.md": "## Bird\n\nA wren in the hedge.\n"})
    (tmp_path / "state").mkdir()
    stores = OwnStores(tmp_path / "state")
    made = Worker(stores, Settings(), Health())
    made.start()
    made.submit(made.stores.open_index, Workspace("agent", root)).result()
    made.submit(scan_workspaces, made).result()
    yield made
    made.stop(10)
    stores.close()


def index_of(worker: Worker) -> OwnIndex:
    return worker.stores.index("agent")


def test_what_is_pending_is_counted_in_the_workspaces_that_were_asked(worker: Worker, tmp_path: Path) -> None:
    other = write_notes(tmp_path / "other", {"MEMORY.md": "# Nothing\n"})
    worker.submit(worker.stores.open_index, Workspace("other", other)).result()
    loop = asyncio.new_event_loop()
    ctx = HandlerContext(Settings(), worker.stores, loop, lambda: None)
    later = 1_000
    ctx.embedding.more(index_of(worker).id, [later])
    ctx.embedding.more(worker.stores.index("other").id, range(later, later + 6))
    ctx.worker.mark_changed([("other", "MEMORY.md")])
    counted: list[str] = []
    worker.stores.ledger.reader.set_trace_callback(counted.append)
    try:
        assert ctx.freshness()["pending"] == ctx.freshness(["agent", "other"])["pending"] == 8
        assert ctx.freshness(["agent"])["pending"] == 1, "one chunk without a vector"
        assert ctx.freshness(["other"])["pending"] == 7, "six of those, and one file that changed"
        assert not [query for query in counted if "chunks" in query], "every answer tells it, so it is not counted anew"
    finally:
        loop.close()


def test_the_doctor_counts_what_has_no_vector_yet(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    (found,) = (
        one
        for one in doctor.examine(worker.stores, Settings(), SOUND, False, True)
        if one.name == "agent: missing vectors"
    )
    assert (found.state, found.detail.partition(":")[0]) == ("warn", "1 of 1 chunks have no vector yet")


def test_vectors_are_not_called_made_before_they_can_be_found(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    in_ledger, go_on = threading.Event(), threading.Event()
    follow = OwnIndex.follow_vectors

    def held_up(*given: object) -> None:
        in_ledger.set()
        assert go_on.wait(PATIENCE)
        follow(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(OwnIndex, "follow_vectors", held_up)
    embedding = Embedding(worker, EmbeddingSettings())
    embedding.start()
    embedding.hurry()
    try:
        assert in_ledger.wait(PATIENCE)
        wait_for(lambda: embedding.phase == "ready")
        assert not embedding.caught_up()
        go_on.set()
        wait_for(embedding.caught_up)
        collection = index_of(worker).collection
        assert collection is not None and len(held(collection)) == worker.stores.embedded == 1
    finally:
        go_on.set()
        embedding.stop(10)


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_a_server_that_gets_other_weights_under_the_same_name_is_another_model(
    worker: Worker, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_server, "CANARY_SECONDS", 0.0)
    monkeypatch.setattr(embedding_thread, "RETRY_SECONDS", 0.05)
    server = EmbeddingServer(words)
    settings = EmbeddingSettings(provider=provider, model="granite", url=server.url, question_ms=30_000)  # type: ignore[arg-type]
    embedding = Embedding(worker, settings)
    embedding.start()
    embedding.hurry()
    stores, question = worker.stores, "a wren in the hedge"
    try:
        wait_for(lambda: embedding.phase == "ready" and embedding.caught_up())
        first = stores.model
        assert first is not None and stores.embedded == 1 and embedding.switch is None
        server.embed = lambda texts: -words(texts)[:, ::-1]
        wait_for(lambda: stores.model is not None and stores.model.id != first.id and embedding.caught_up())
        # No vector of the weights before is left, and a question finds what the new ones made.
        vector, unheard = question_vector(stores, question)
        assert vector is not None and not unheard
        assert vector.near(index_of(worker), [index_of(worker).text.ids().pop()])[0] > 0.5
        wait_for(lambda: embedding.switch is not None and embedding.switch.state == "done")
        assert worker.health.names == []
        # Loaded again, it is the same.
        fresh = embedding_server.ServerEmbedder(settings)
        worker.submit(stores.ledger.transact, lambda connection: vector_table.recognise(connection, fresh)).result()
        assert stores.model is not None and fresh.fingerprint == stores.model.embedder.fingerprint != fresh.place
    finally:
        embedding.stop(10)
        server.stop()


def joined_elsewhere(worker: Worker, index: OwnIndex) -> tuple[Path, list[Any]]:
    """All segments of an index as one, and what they were."""
    pieces = index.text.pieces(0)
    return build_elsewhere(worker.stores.folder, index.id, segments=pieces), pieces


@pytest.mark.parametrize("few", [0, FEW])
def test_what_changes_while_segments_are_joined_stays_changed(
    worker: Worker, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they are joined in this process or, where they are many, in another."""
    monkeypatch.setattr(rebuild, "FEW", few)
    index, gone = index_of(worker), {1_000, 1_150}
    for first in (1_000, 1_100, 1_200):
        worker.submit(save_chunks, index, range(first, first + 60)).result()
    worker.submit(index.text.apply, (), [1_001]).result()
    fresh, pieces = joined_elsewhere(worker, index)
    worker.submit(index.text.apply, [(2_000, Chunk("robin 2000", 1, 1, ()))], gone).result()
    known = index.text.ids()
    assert worker.submit(use_joined_text, worker, index, fresh, pieces).result()
    assert index.text.ids() == known and not known & gone and 2_000 in known
    index.text.verify()
    assert [segment.size for segment in index.text.postings().segments] == [180, 1]
    again = TextIndex(index.text.folder)
    assert again.ids() == known
    again.close()


@pytest.mark.parametrize("few", [0, FEW])
@pytest.mark.parametrize("suffix", [".lines", ".trm", ".number.col"])
def test_a_damaged_segment_is_put_off_and_leaves_nothing_behind(
    worker: Worker, suffix: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "FEW", few)
    index, locks = index_of(worker), set(LOCKS)
    worker.submit(save_chunks, index, range(1_000, 1_060)).result()
    pieces = index.text.pieces(0)
    file = index.text.folder / pieces[0].make_filename(suffix)
    file.write_bytes(file.read_bytes()[:5])
    with pytest.raises(MemdError, match="could not be built"):
        build_elsewhere(worker.stores.folder, index.id, segments=pieces)
    assert list((worker.stores.folder / BUILDING).iterdir()) == [] and set(LOCKS) == locks


def test_what_was_joined_is_left_when_its_segments_are_gone(worker: Worker) -> None:
    index = index_of(worker)
    fresh, pieces = joined_elsewhere(worker, index)
    known = index.text.ids()
    built = build_elsewhere(worker.stores.folder, index.id)
    worker.submit(use_built_text, worker, index, built).result()
    assert not worker.submit(use_joined_text, worker, index, fresh, pieces).result()
    assert index.text.ids() == known
    text = index.text
    worker.submit(stop_watching, worker, index.id, "agent", False).result()
    worker.submit(use_built_text, worker, index, fresh).result()
    assert not worker.submit(use_joined_text, worker, index, fresh, pieces).result()
    assert index.open_text is None and not text.folder.exists()


def test_an_import_is_joined_while_it_goes_on(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance = IndexMaintenance(worker, Embedding(worker, EmbeddingSettings(provider="none")))
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    worker.events.listen(LOOKED, maintenance.look_at_pieces)
    index, most = index_of(worker), 0
    for nth in range(4 * MANY_LARGE):
        write_notes(index.workspace.root, {f"memory/2026-01-{nth:03}.md": day(nth)})
        most = max(most, worker.submit(lambda: index.text.large).result())
        worker.submit(scan_workspaces, worker).result()
        while maintenance._thread is not None and index.text.large > 2 * MANY_LARGE:
            maintenance._thread.join()
    assert MANY_LARGE < most <= 2 * MANY_LARGE + 1
    assert index.text.count() == 1 + 4 * MANY_LARGE * SECTIONS


def save_chunks(index: OwnIndex, numbers: range) -> int:
    """Adds some chunks, and with them a small segment; returns how many segments there are."""
    index.text.apply([(number, Chunk(f"robin {number}", 1, 1, ())) for number in numbers], ())
    return len(index.text.postings().segments)


@pytest.mark.parametrize("chunks", [1, 70])
def test_a_writer_that_never_rests_joins_too(worker: Worker, chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for that, so the test does, where a machine is slow."""
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    maintenance = IndexMaintenance(worker, Embedding(worker, EmbeddingSettings(provider="none")))
    worker.events.listen(LOOKED, maintenance.look_at_pieces)
    index, ranges = index_of(worker), [range(first, first + chunks) for first in range(1_000, 20_000, 100)]
    most = 0
    for numbers in ranges:
        most = max(most, segments := worker.submit(save_chunks, index, numbers).result())
        while maintenance._thread is not None and segments > 90:
            maintenance._thread.join()
            segments = len(index.text.postings().segments)
    assert SMALL_EACH * MANY_LARGE < most < 100
    assert index.text.count() == 1 + chunks * len(ranges)


def test_a_segment_that_goes_while_it_is_to_be_joined_puts_nothing_off(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding, index = Embedding(worker, EmbeddingSettings(provider="none")), index_of(worker)
    maintenance = IndexMaintenance(worker, embedding)
    worker.submit(save_chunks, index, range(1_000, 1_002)).result()
    stale = index.text.pieces(0)
    monkeypatch.setattr(TextIndex, "pieces", lambda *_: stale)
    worker.submit(index.text.apply, (), [1_000, 1_001]).result()
    maintenance._run(partial(maintenance._join, 0), index)
    assert not maintenance._join_from
    for file in index.text.folder.glob("*.pst"):
        file.write_bytes(b"")
    stale = index.text._index._segments()
    maintenance._run(partial(maintenance._join, 0), index)
    assert maintenance._join_from, "damage is no matter of a moment"


def test_very_many_pieces_are_joined_while_vectors_are_still_being_made(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding = Embedding(worker, EmbeddingSettings(provider="none"))
    embedding.backlog.add(index_of(worker).id, [1_000])
    maintenance, index = IndexMaintenance(worker, embedding), index_of(worker)

    def pieces_after(imports: int) -> int:
        for nth in range(imports):
            write_notes(index.workspace.root, {f"memory/2026-0{imports}-{nth + 1:02}.md": day(nth)})
            worker.submit(scan_workspaces, worker).result()
        maintenance.look()
        if maintenance._thread is not None:
            maintenance._thread.join()
        return index.text.large

    assert pieces_after(MANY_LARGE) == MANY_LARGE and maintenance._thread is None
    assert pieces_after(1) == 1
    assert pieces_after(MANY_LARGE - 1) == MANY_LARGE
    write_notes(index.workspace.root, {"memory/2026-08-01.md": day(1)})
    worker.submit(scan_workspaces, worker).result()
    # As after a start: it is closed, and readers answer.
    worker.submit(index.close).result()
    maintenance._warm.clear()
    for _ in range(2):
        maintenance.look_at_pieces()
        maintenance._thread.join()
    assert index.open_text is not None and index.text.large == 2, "it was opened to be joined"


def test_questions_go_on_while_an_index_is_swapped(worker: Worker) -> None:
    index, wrong, done = index_of(worker), [], threading.Event()

    def ask() -> None:
        while not done.is_set():
            found = index.text.postings().of("exact", "wren").docs
            if len(found) != 1:
                wrong.append(found)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        fresh = build_elsewhere(worker.stores.folder, index.id)
        worker.submit(use_built_text, worker, index, fresh).result()
        assert worker.submit(use_joined_text, worker, index, *joined_elsewhere(worker, index)).result()
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_resting_writer_reads_ahead_once_and_again_after_an_import(worker: Worker) -> None:
    embedding = Embedding(worker, EmbeddingSettings(provider="none"))
    maintenance, index = IndexMaintenance(worker, embedding), index_of(worker)

    def read_ahead() -> list[bool]:
        known = [segment._lexicons.get("exact") for segment in index.text.postings().segments]
        return ["_by_length" in vars(lexicon) if lexicon else False for lexicon in known]

    def rest() -> threading.Thread | None:
        maintenance.look()
        if maintenance._thread is not None:
            maintenance._thread.join()
        return maintenance._thread

    assert read_ahead() == [False]
    first = rest()
    assert read_ahead() == [True]
    assert rest() is first
    write_notes(index.workspace.root, {"memory/2026-01-01.md": day(1)})
    worker.submit(scan_workspaces, worker).result()
    assert read_ahead() == [True, False]
    assert rest() is not first
    assert read_ahead() == [True, True]


@pytest.mark.parametrize(("enabled", "installed", "told"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_the_doctor_names_an_outline_without_parsers(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, enabled: bool, installed: bool, told: int
) -> None:
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    if not installed:
        monkeypatch.setattr(doctor, "PARSER", "no_package_of_this_name")
    settings = Settings(outline=OutlineSettings(enabled=enabled))
    found = [one for one in doctor.examine(worker.stores, settings, SOUND, False, True) if one.name == "outline"]
    assert len(found) == told and all(one.state == "warn" and "outline" in one.fix for one in found)
