"""What has no vector yet is made in the order in which somebody needs it, and no question waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memd.config.schema import DaemonSettings, EmbeddingSettings, Settings
from memd.daemon.embedding.backlog import VectorBacklog
from memd.daemon.embedding.thread import FIRST_TOKENS, Embedding
from memd.daemon.handlers import handler_context
from memd.daemon.handlers.handler_context import HandlerContext
from memd.daemon.handlers.search import query, why_not
from memd.daemon.handlers.server import _model_status
from memd.daemon.process.health import Health
from memd.daemon.writer.worker import Worker
from memd.indexer.indexing import ingest
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import OnnxEmbedder, load_embedder
from memd.indexer.store import vector_table
from memd.indexer.store.vector_table import embedded_text
from memd.models import Workspace
from memd.protocol.methods.search import QueryRequest, WhyNotRequest
from tests.hash_embedder import HashEmbedder
from tests.lab import Lab, Narrow

LARGE, SMALL = 40, 11


def entries(count: int, year: int) -> dict[str, str]:
    return {f"memory/{year}-01-{1 + nth:02}.md": f"## Note\n\nthe smew {year} {nth}\n" for nth in range(count)}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A large workspace of new notes, and a small one of old notes; no vector is made."""
    lab = Lab(tmp_path, HashEmbedder())
    for ns, notes in (("large", {**entries(31, 2026), **entries(9, 2025)}), ("small", entries(SMALL, 2020))):
        lab.stores.open_index(Workspace(ns, tmp_path / ns))
        lab.save(notes, ns)
    yield lab
    lab.close()


def order(backlog: VectorBacklog, most: int) -> list[tuple[int, set[int], int]]:
    """The model of each step, the workspaces that it begins with, and how many chunks."""
    found = []
    for model, among, *_ in backlog.steps():
        rows = backlog.fetch(model, among, most)
        found.append((model.id, {row["workspace"] for row in rows}, len(rows)))
    return found


def test_a_small_workspace_does_not_wait_behind_a_large_one_and_one_that_is_asked_comes_first(lab: Lab) -> None:
    lab.stores.use_multilingual(Narrow())
    main, other = lab.stores.model, lab.stores.multilingual
    large, small = (lab.stores.index(ns) for ns in ("large", "small"))
    assert main is not None and other is not None
    backlog = VectorBacklog(lab.stores)
    backlog.recount("test", True)
    assert order(backlog, SMALL) == [(main.id, {small.id}, SMALL), (other.id, set(), 0)]
    (_, of_both, count), _ = order(backlog, 30)
    assert (of_both, count) == ({small.id, large.id}, 30), "what is fetched at once is filled up"
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE workspaces SET polyglot = 1 WHERE id = ?", (large.id,))
    large.multilingual = True
    backlog.recount("test", True)
    assert backlog.pending == 2 * LARGE + SMALL
    backlog.asked([large.id])
    first, second, *_ = order(backlog, SMALL)
    assert [first, second] == [(main.id, {large.id}, SMALL), (other.id, {large.id}, SMALL)]
    backlog.asked(range(100))
    assert order(backlog, SMALL)[0] == first, "a question to all prefers none"


def test_what_was_counted_before_it_is_told_counts_once(lab: Lab) -> None:
    backlog, small = VectorBacklog(lab.stores), lab.stores.index("small")
    backlog.recount("test", False)
    rows = lab.stores.ledger.reader.execute("SELECT id FROM chunks WHERE workspace = ?", (small.id,)).fetchall()
    saved, newest = [row["id"] for row in rows], vector_table.newest(lab.stores.ledger.reader)
    # The ledger has chunks before the clock ticks and anybody hears of them.
    backlog.add(small.id, saved)
    assert backlog.pending == LARGE + SMALL
    backlog.add(small.id, [*saved, newest + 1, newest + 2])
    assert backlog.pending == LARGE + SMALL + 2


def test_every_chunk_is_fetched_once(lab: Lab) -> None:
    backlog, (model, *_) = VectorBacklog(lab.stores), lab.stores.models
    backlog.asked([lab.stores.index("large").id])
    backlog.recount("test", False)
    made: list[int] = []
    while rows := next(filter(None, (backlog.fetch(one, among, 7) for one, among, *_ in backlog.steps())), None):
        vectors = model.embedder.embed([row["text"] for row in rows])
        with lab.stores.ledger.write() as connection:
            vector_table.save(connection, model.id, [row["digest"] for row in rows], [row[None] for row in vectors])
        backlog.made(rows, 1.0)
        made += [row["id"] for row in rows]
    assert len(made) == len(set(made)) == LARGE + SMALL and not backlog.pending


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lab]:
    """Three notes of several chunks each; no vector is made."""
    lab = Lab(tmp_path, HashEmbedder())
    lab.stores.open_index(Workspace("lakes", tmp_path / "lakes"))
    page = "\n\n".join(f"paragraph{nth} " + "of the smew and its lake " * 20 for nth in range(4))
    lab.save({f"memory/2026-01-0{day}.md": f"## Lake {day}\n\n{page}\n" for day in (1, 2, 3)}, "lakes")
    yield lab
    lab.close()


def first_chunks(lab: Lab) -> list[int]:
    """The first chunk of each memory, those of the newest note first."""
    rows = lab.stores.ledger.reader.execute("SELECT id, memory FROM chunks ORDER BY start_line DESC").fetchall()
    return [{row["memory"]: row["id"] for row in rows}[memory] for memory in (3, 2, 1)]


def test_what_stands_for_a_memory_comes_before_the_rest_of_it(lakes: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memd.daemon.embedding.backlog.BACKLOG", 2)
    (model, *_), backlog = lakes.stores.models, VectorBacklog(lakes.stores)
    backlog.recount("test", False)
    fetched = [row["id"] for row in backlog.fetch(model, "1", 100)]
    assert fetched[:3] == first_chunks(lakes) and len(fetched) == len(set(fetched)) == backlog.pending > 6


def test_a_memory_stands_for_its_chunks_until_they_have_vectors(lakes: Lab) -> None:
    model = lakes.stores.model
    assert model is not None
    rows = vector_table.unembedded(lakes.stores.ledger.reader, model.id, first_chunks(lakes), "1")
    by_words = lakes.ask("paragraph3 of the pelican", mode="text")
    ingest.save_vectors(lakes.stores, model, rows, model.embedder.embed([row["text"] for row in rows]))
    by_memory = lakes.ask("paragraph3 of the pelican", explain=True)
    told = by_memory.hits[0].explain
    assert told is not None and told["by_memory"] == {"value": 1.0, "adds": 0.0} and "section_meaning" in told
    assert [hit.id for hit in by_memory.hits][:1] == [hit.id for hit in by_words.hits][:1]
    assert by_memory.confidence >= by_words.confidence > 0, "never less sure than by words alone"
    lakes.embed()
    assert all("by_memory" not in (hit.explain or {}) for hit in lakes.ask("paragraph3 lake", explain=True).hits)


def test_a_beginning_stands_in_for_a_memory_until_its_vector_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memd.daemon.embedding.backlog.BACKLOG", 2)
    model = load_embedder(EmbeddingSettings(), tmp_path / "model")
    assert isinstance(model, OnnxEmbedder)
    lab = Lab(tmp_path, model)
    lab.stores.open_index(Workspace("lakes", tmp_path / "lakes"))
    page = "\n\n".join(f"paragraph{nth} " + "of the smew and its lake " * 20 for nth in range(4))
    lab.save({"memory/lake.md": f"## Lake\n\n{page}\n", "memory/pond.md": "## Pond\n\na short text\n"}, "lakes")
    index, reader = lab.stores.index("lakes"), lab.stores.ledger.reader
    worker = Worker(lab.stores, Settings(), Health())
    worker.start()
    embedding = Embedding(worker, EmbeddingSettings())
    try:
        embedding.recount()
        every = embedding.pending
        assert embedding._embed_some()
        assert lab.stores.vector_count(index) == 2, "one a memory"
        assert vector_table.text_count(reader, 1, index.id) == 1, "collections have whole ones only"
        assert index.mirror is not None and embedding.pending == every - 1
        row = reader.execute("SELECT id, heading, context, text FROM chunks WHERE text LIKE '%paragraph0%'").fetchone()
        text = embedded_text(json.loads(row["heading"]), row["context"], row["text"])
        begun, whole = model.embed([model.beginning(text, FIRST_TOKENS), text])
        assert index.mirror.cosines(begun, [row["id"]])[0] > 0.999 > begun @ whole
        while embedding._embed_some():
            pass
        assert embedding.pending == 0 and vector_table.text_count(reader, 1, index.id) == every
        assert index.mirror.cosines(whole, [row["id"]])[0] > 0.999
    finally:
        worker.stop(10)
        lab.close()


def test_the_order_is_read_once_and_again_when_something_is_new(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    read, plain = [], vector_table.pending
    monkeypatch.setattr(vector_table, "pending", lambda *args: read.append(1) or plain(*args))
    for seconds in ("ORDER_SECONDS", "ORDER_SHARE"):
        monkeypatch.setattr(f"memd.daemon.embedding.backlog.{seconds}", 0)
    backlog, (model, *_) = VectorBacklog(lab.stores), lab.stores.models
    backlog.recount("test", False)

    def step() -> set[int]:
        rows = backlog.fetch(model, "1", 5)
        ingest.save_vectors(lab.stores, model, rows, model.embedder.embed([row["text"] for row in rows]))
        backlog.made(rows, 1.0)
        return {row["workspace"] for row in rows}

    for _ in range(4):
        step()
    assert len(read) == 1, "some thousand at once"
    small = lab.stores.index("small").id
    lab.save({"memory/2020-03-01.md": "## New\n\nthe newest smew\n"}, "small")
    backlog.add(small, [vector_table.newest(lab.stores.ledger.reader)])
    assert small in step() and len(read) == 2, "what is new does not wait behind the rest"


def test_what_a_model_made_that_is_not_loaded_yet_is_not_pending(lab: Lab) -> None:
    lab.stores.use_multilingual(Narrow())
    model, small = lab.stores.multilingual, lab.stores.index("small")
    assert model is not None
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE workspaces SET polyglot = 1 WHERE id = ?", (small.id,))
    rows = lab.unembedded(model, vector_table.OF_OTHER_LANGUAGES)
    with lab.stores.ledger.write() as connection:
        vectors = model.embedder.embed([row["text"] for row in rows[1:]])
        vector_table.save(connection, model.id, [row["digest"] for row in rows[1:]], [row[None] for row in vectors])
    lab.stores.drop_multilingual()
    backlog = VectorBacklog(lab.stores)
    backlog.recount("test", True)
    assert backlog.pending == LARGE + SMALL + 1
    lab.stores.use_no_model()
    backlog.recount("test", False)
    assert backlog.pending == LARGE + SMALL


def test_words_answer_in_another_language_while_its_vectors_are_not_made(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody makes any here: a question that waited for them would wait for an hour."""
    loop = asyncio.new_event_loop()
    ctx = HandlerContext(Settings(daemon=DaemonSettings(readers=0)), lab.stores, loop, lambda: None)
    ctx.embedding.multilingual, ctx.embedding.phase = True, "ready"
    ctx.worker.start()

    why: list[str] = []

    async def ask(text: str, seconds: float) -> tuple[dict[str, Any], list[str]]:
        monkeypatch.setattr(handler_context, "LANGUAGE_SECONDS", seconds)
        request = QueryRequest(query=text, ns=("small",), sync="none")
        own = ctx.for_call(None)
        answer = await query(own, request, None)  # type: ignore[arg-type]
        fresh = own.freshness()
        assert bool(fresh["degraded"]) is ("unheard" in fresh)
        why.append(fresh.get("unheard", ""))
        return answer, fresh["degraded"]

    try:
        answer, degraded = loop.run_until_complete(ask("Was ist mit dem smew und 2020?", 3_600))
        assert answer["hits"] and degraded == ["vectors"], "it says that meaning is not ready"
        assert loop.run_until_complete(ask("Wofür haben wir uns entschieden?", 0.1))[1] == ["vectors"]
        answer, degraded = loop.run_until_complete(ask("Wofür haben sie sich entschieden?", 3_600))
        assert degraded == ["vectors"], "only the first one in a workspace waits"
        assert {*why} == {"the model for other languages is still loading or at work"}
        assert _model_status(ctx, foreign=True)["multilingual"] == "loading"
        lab.stores.use_multilingual(Narrow())
        loop.run_until_complete(ask("Wofür haben sie sich entschieden?", 3_600))
        assert why[-1], "now it makes vectors"
        assert loop.run_until_complete(ask("the smew", 3_600))[1] == []
        assert (ctx.embedding.backlog.steps()[0][2], ctx.embedding.pending) == (2 * SMALL, 2 * SMALL + LARGE)
    finally:
        ctx.worker.stop(10)
        loop.close()


def test_what_meaning_lacks_is_said_by_why_not_and_to_a_question_in_english(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    german = "Wir haben uns für die Apfelbäume entschieden, weil sie nicht so groß werden."
    lab.save({"MEMORY.md": f"## Garten\n\n{german}\n"}, "small")
    loop = asyncio.new_event_loop()
    ctx = HandlerContext(Settings(daemon=DaemonSettings(readers=0)), lab.stores, loop, lambda: None)
    ctx.embedding.multilingual, ctx.embedding.phase = True, "ready"
    ctx.worker.start()
    passages = {"small": "memory/2020-01-02.md", "large": "memory/2026-01-02.md"}

    def why(ns: str, mode: str = "hybrid") -> list[str]:
        """Why a question went without its meaning, as `query` and as `why_not` say it."""
        said = []
        for method, request in (
            (query, QueryRequest(query="the smew", ns=(ns,), mode=mode, sync="none")),
            (why_not, WhyNotRequest(query="the smew", ns=(ns,), mode=mode, file=passages[ns], line=3)),
        ):
            own = ctx.for_call(None)
            loop.run_until_complete(method(own, request, None))  # type: ignore[operator]
            fresh = own.freshness()
            assert fresh["degraded"] == (["vectors"] if "unheard" in fresh else [])
            said.append(fresh.get("unheard", ""))
        return said

    def load(folder: Path) -> Narrow:
        assert why("small") == ["the model for other languages is still loading or at work"] * 2
        assert why("large") == ["", ""], "all of it is in English"
        assert not lab.stores.index("small").multilingual, "nobody asked in another language"
        return Narrow()

    try:
        monkeypatch.setattr(multilingual, "load", load)
        ctx.embedding._load_multilingual()
        assert lab.stores.multilingual is not None and why("small") == ["", ""]
        lab.stores.drop_multilingual()
        lab.stores.index("small").compares_languages = False
        ctx.embedding.loads_multilingual = Embedding(ctx.worker, EmbeddingSettings()).loads_multilingual
        assert why("small") == ["the model for other languages is still loading or at work"] * 2, "after a restart"
        assert why("large") == ["", ""]
        waits = ctx.for_call(None)
        assert not loop.run_until_complete(waits.meaning_ready("the smew", ("small",)))
        ctx.embedding._load_multilingual()
        assert loop.run_until_complete(waits.meaning_ready("the smew", ("small",)))
        assert "unheard" not in waits.freshness(), "a question that waited for the model has it"
        lab.stores.use_no_model()
        assert why("small") == ["the model is still loading"] * 2
        assert why("small", mode="text") == ["", ""], "meaning was not wanted"
    finally:
        ctx.worker.stop(10)
        loop.close()
