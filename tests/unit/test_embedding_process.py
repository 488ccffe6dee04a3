"""A process that embeds gives the vectors that the model gives, and its end is noticed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memd.config.schema import EmbeddingSettings
from memd.daemon.vector_maker import BACKLOG, VectorMaker
from memd.errors import ModelUnavailable
from memd.indexer.model.embedder import HashEmbedder
from memd.indexer.model.embedding_process import EmbeddingProcess
from tests.conftest import PATIENCE, Home

TEXTS = ["the smew", "", "数据库 and a naïve café", "x" * 100_000, *(f"number {nth}" for nth in range(300))]


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingProcess]:
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "hash")
    started = EmbeddingProcess(EmbeddingSettings(), tmp_path)
    yield started
    started.close()


def test_it_gives_the_vectors_of_the_model(process: EmbeddingProcess) -> None:
    for texts in (TEXTS, TEXTS[:1]):
        np.testing.assert_array_equal(process.embed(texts), HashEmbedder().embed(texts))


def test_its_death_is_noticed(process: EmbeddingProcess) -> None:
    process.embed(TEXTS[:1])
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(ModelUnavailable):
        process.embed(TEXTS)


def test_it_ends_with_the_connection(process: EmbeddingProcess) -> None:
    process.embed(TEXTS[:1])
    process._socket.close()
    assert process._child.wait(PATIENCE) == 0


def test_the_daemon_embeds_by_itself_when_it_is_gone(process: EmbeddingProcess, tmp_path: Path) -> None:
    maker = VectorMaker(tmp_path, lambda: False)
    maker._process = process
    os.kill(process.pid, signal.SIGKILL)
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
