"""A process that embeds gives the vectors that the model gives, and its end is noticed."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memd import child
from memd.config.schema import EmbeddingSettings, Settings
from memd.daemon.embedding.backlog import BACKLOG, VectorMaker
from memd.daemon.embedding.thread import STILL_SECONDS, Embedding
from memd.daemon.process.health import Health
from memd.daemon.writer.worker import Worker
from memd.errors import ModelUnavailable
from memd.indexer.model import embedding_process
from memd.indexer.model.embedding_process import EmbeddingProcess
from memd.indexer.store.own_stores import OwnStores
from tests.conftest import PATIENCE, Home
from tests.hash_embedder import HashEmbedder

TEXTS = ["the smew", "", "数据库 and a naïve café", "x" * 100_000, *(f"number {nth}" for nth in range(300))]


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingProcess]:
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    started = EmbeddingProcess(EmbeddingSettings(), tmp_path)
    yield started
    started.close()


def test_it_gives_the_vectors_of_the_model(process: EmbeddingProcess) -> None:
    for texts in (TEXTS, TEXTS[:1]):
        np.testing.assert_array_equal(process.embed(texts), HashEmbedder().embed(texts))


def test_its_death_is_noticed(process: EmbeddingProcess) -> None:
    process.embed(TEXTS[:1])
    os.kill(process.process.pid, signal.SIGKILL)
    with pytest.raises(ModelUnavailable):
        process.embed(TEXTS)


def test_it_ends_with_the_connection(process: EmbeddingProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    # It gives way to everybody: else whoever waits for its end might be sooner, and kill it.
    monkeypatch.setattr(child, "END_SECONDS", PATIENCE)
    process.embed(TEXTS[:1])
    process._link.shutdown(socket.SHUT_RDWR)
    assert process.process.wait(PATIENCE) == 0


def test_the_daemon_embeds_by_itself_when_it_is_gone(process: EmbeddingProcess, tmp_path: Path) -> None:
    maker = VectorMaker(tmp_path, lambda: False)
    maker._process = process
    os.kill(process.process.pid, signal.SIGKILL)
    np.testing.assert_array_equal(maker.make(HashEmbedder(), TEXTS), HashEmbedder().embed(TEXTS))
    assert maker._process is None


def test_a_backlog_is_embedded_whole_and_equal_texts_once(home: Home, workspace: Path) -> None:
    different = "".join(f"## Entry {nth}\n\nthe smew {nth}\n\n" for nth in range(BACKLOG + 50))
    (workspace / "memory/2026-03-01.md").write_text(different)
    (workspace / "memory/beats.md").write_text("## Heartbeat\n\nHEARTBEAT_OK\n\n" * 500)
    home.configure(f'[[workspace]]\npath = "{workspace}"\n')
    with home.start() as client:
        client.sync(vectors=True)
        told = client.status()
    assert told["pending"] == 0
    assert told["embedded"] < BACKLOG + 50 + 30
    home.stop()
    assert not [process for process in Path("/proc").glob("[0-9]*/cmdline") if _embeds(process, home)]


def _embeds(process: Path, home: Home) -> bool:
    try:
        return b"embedding_process" in (line := process.read_bytes()) and str(home.path).encode() in line
    except OSError:
        return False


# --- slow is not dead -------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_process, "PATIENCE", 4.0)


@pytest.mark.linux  # what ps tells of a process here are whole seconds of processor time
@pytest.mark.timeout(300)
def test_a_process_that_hardly_gets_the_processor_is_waited_for(impatient: None, process: EmbeddingProcess) -> None:
    """It stands still for most of the time, and needs far longer than one that hangs is waited for."""
    done = threading.Event()

    def starve() -> None:
        while not done.is_set():
            os.kill(process.process.pid, signal.SIGSTOP)
            done.wait(0.5)
            os.kill(process.process.pid, signal.SIGCONT)
            done.wait(0.05)

    slow = threading.Thread(target=starve)
    slow.start()
    try:
        np.testing.assert_array_equal(process.embed(TEXTS), HashEmbedder().embed(TEXTS))
    finally:
        done.set()
        slow.join()


def test_a_process_that_hangs_is_ended_and_the_daemon_embeds_by_itself(
    impatient: None, process: EmbeddingProcess, tmp_path: Path
) -> None:
    maker = VectorMaker(tmp_path, lambda: False)
    maker._process = process
    maker.make(HashEmbedder(), TEXTS[:1])
    os.kill(process.process.pid, signal.SIGSTOP)
    np.testing.assert_array_equal(maker.make(HashEmbedder(), TEXTS), HashEmbedder().embed(TEXTS))
    assert maker._process is None and process.process.returncode == -signal.SIGKILL


def test_a_process_that_runs_in_a_circle_is_noticed(process: EmbeddingProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    process.embed(TEXTS[:1])
    monkeypatch.setattr(child, "MOST_WORK", 0.5)
    with pytest.raises(ModelUnavailable, match="processor time"):
        process.embed(["x " * 200_000] * 20)


def test_it_is_said_when_nothing_comes(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    stores = OwnStores(tmp_path / "state")
    embedding = Embedding(Worker(stores, Settings(), Health()), EmbeddingSettings())
    rows = [{"digest": str(nth), "text": "x", "workspace": 7} for nth in range(100)]
    embedding.more(7, range(1, len(rows) + 1))
    embedding.look(time.monotonic())
    assert not embedding.health.names
    embedding.look(time.monotonic() + 2 * STILL_SECONDS)
    assert "no vector was made for 120 s, and 100 are to be made" in embedding.health.troubles[0].why
    embedding.backlog.made(rows[:10], 2.0)
    embedding.look(time.monotonic())
    assert (embedding.health.names, embedding.pending, embedding.backlog.eta_s) == ([], 90, 18.0)
    stores.close()
