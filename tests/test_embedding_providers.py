"""One contract for every provider of vectors; and what a server's faults cost, which is never an answer."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model import embedder as embedders, embedding_server
from memd.indexer.model.embedder import Embedder
from memd.indexer.model.embedding_server import IN_FLIGHT, ServerEmbedder
from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import measure
from tests.agents import agent, played, text_of
from tests.conftest import PATIENCE, Home
from tests.embedding_server import FAULTS, EmbeddingServer, words
from tests.hash_embedder import HashEmbedder
from tests.test_models import until
from tests.web_page import page_of

PROVIDERS = ("local", "ollama", "openai")
SERVERS = ("ollama", "openai")
KEY = "sk-a-key-that-nobody-may-see"
NOTES = [
    "ErsatzTV plays the Saturday morning cartoons on channel 3 from 07:00.",
    "The backup of the NAS runs at two in the night and keeps thirty days.",
    "Anna prefers oat milk in her coffee and is allergic to hazelnuts.",
    "short",
    "周六早上的动画片安排在第三频道。",
    "A much longer note. " * 30,
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    return embedders.load_granite(tmp_path_factory.mktemp("cache"), threads=2)


@pytest.fixture(scope="module")
def granite_server(local: Embedder) -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(local.embed)
    yield server
    server.stop()


@pytest.fixture(scope="module", params=PROVIDERS)
def model(request: pytest.FixtureRequest, local: Embedder, granite_server: EmbeddingServer) -> Embedder:
    if request.param == "local":
        return local
    return ServerEmbedder(
        EmbeddingSettings(provider=request.param, model="granite", url=granite_server.url, batch=4, question_ms=60_000)
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_server, "PAUSES", (0.001, 0.001, 0.001))
    monkeypatch.setattr(embedding_server, "RESTS", (0.05,))


# The contract


def test_rows_are_unit_vectors_in_the_order_of_the_texts(model: Embedder, local: Embedder):
    rows = model.embed(NOTES)
    assert rows.shape == (len(NOTES), model.dims) and rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert (rows * local.embed(NOTES)).sum(axis=1).min() > 0.999


def test_no_texts_give_no_rows(model: Embedder):
    assert model.embed([]).shape == (0, model.dims)


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800 lone surrogate", "👩‍👩‍👧", "word " * 20_000])
def test_odd_texts_have_a_vector(model: Embedder, text: str):
    rows = model.embed([text])
    assert np.isfinite(rows).all() and np.allclose(np.linalg.norm(rows), 1, atol=1e-5)


def test_a_question_gets_what_a_note_gets(model: Embedder):
    assert (model.embed(NOTES[:1], urgent=True) @ model.embed(NOTES[:1]).T).item() > 0.999


def test_threads_get_what_one_thread_gets(model: Embedder):
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda nth: model.embed([NOTES[nth % 3]], urgent=nth % 2 == 0), range(12)))
    expected = model.embed(NOTES[:3])
    assert all((answer[0] @ expected[nth % 3]).item() > 0.999 for nth, answer in enumerate(answers))


def test_tokens_are_counted(model: Embedder):
    one, ten = model.count_tokens("harbour"), model.count_tokens("harbour " * 10)
    assert 0 < one < ten and 10 <= ten <= 40


def test_what_cosines_mean_is_measured_and_is_the_same(model: Embedder, local: Embedder):
    mine, known = measure(model.embed), local.scale
    for one, other in ((mine.questions, known.questions), (mine.notes, known.notes)):
        assert abs(one.related - other.related) < 0.01 and abs(one.unrelated - other.unrelated) < 0.01


def test_it_says_who_it_is(model: Embedder):
    assert model.name and len(model.fingerprint) == 64 and model.dims == 384


# A server's faults


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    made = EmbeddingServer(words)
    yield made
    made.stop()


@pytest.fixture(params=SERVERS)
def settings(
    request: pytest.FixtureRequest, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> EmbeddingSettings:
    monkeypatch.setenv("A_KEY", KEY)
    url = server.url + ("/v1" if request.param == "openai" else "")
    return EmbeddingSettings(
        provider=request.param, model="granite", url=url, key_env="A_KEY", timeout_s=30.0, question_ms=30_000
    )


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("slow", "dimensions")])
def test_a_fault_that_passes_costs_another_try(server: EmbeddingServer, settings: EmbeddingSettings, fault: str):
    model = ServerEmbedder(settings)
    server.faults.extend([fault, fault])
    assert np.allclose(model.embed(NOTES), HashEmbedder().embed(NOTES), atol=1e-6)
    assert not server.faults and not model.trouble


def test_an_answer_is_freed_once_it_is_read(settings: EmbeddingSettings):
    """It does not refer to itself: the collector of a daemon comes by once in millions of objects."""
    model = ServerEmbedder(settings)
    gc.collect()
    gc.disable()
    try:
        model.embed(NOTES)
        assert not [one for one in gc.get_objects() if isinstance(one, httpx.Response)]
    finally:
        gc.enable()


@pytest.mark.parametrize("fault", [*FAULTS, "gone"])
@pytest.mark.parametrize("urgent", [False, True])
def test_a_fault_that_stays_is_told_and_passes_when_the_server_is_back(
    server: EmbeddingServer, settings: EmbeddingSettings, fault: str, urgent: bool
):
    seconds = {"timeout_s": 0.3, "question_ms": 300} if fault == "slow" else {}
    model = ServerEmbedder(replace(settings, **seconds))
    if fault == "gone":
        server.stop()
    server.fault = fault
    with pytest.raises(ModelUnavailable) as error:
        model.embed(NOTES, urgent=urgent)
    assert model.trouble == error.value.message and server.url in model.trouble and error.value.hint
    assert KEY not in model.trouble
    if fault == "gone":
        server.start()
    server.fault = ""
    server.ending.set()
    until = time.monotonic() + PATIENCE
    while model.trouble and time.monotonic() < until:
        try:
            model.look()
            assert model.embed(NOTES, urgent=urgent).shape == (len(NOTES), 64)
        except ModelUnavailable:
            threading.Event().wait(model.rest)
    assert not model.trouble


def test_a_server_that_is_away_is_not_asked_by_everybody(
    server: EmbeddingServer, settings: EmbeddingSettings, monkeypatch: pytest.MonkeyPatch
):
    model = ServerEmbedder(settings)
    monkeypatch.setattr(embedding_server, "RESTS", (3_600.0,))
    server.fault = "500"
    before = len(server.asked)
    for _ in range(20):
        with pytest.raises(ModelUnavailable):
            model.embed(["a question"], urgent=True)
    assert len(server.asked) - before == embedding_server.FAILURES, "a question is not tried twice either"
    with pytest.raises(ModelUnavailable):
        model.embed(["a note"])
    assert len(server.asked) - before == embedding_server.FAILURES + 1 + len(embedding_server.PAUSES)


def test_one_call_has_a_look_while_the_others_are_told_no():
    breaker = embedding_server.Breaker()
    for _ in range(embedding_server.FAILURES):
        breaker.enter()
        breaker.leave("it is away")
    while breaker.rest:
        threading.Event().wait(breaker.rest)
    breaker.enter()
    with pytest.raises(ModelUnavailable, match="it is away"):
        breaker.enter()
    breaker.leave()
    breaker.enter()
    breaker.enter()


def test_what_a_server_finds_too_long_is_cut_and_does_not_hold_up_the_rest(
    server: EmbeddingServer, settings: EmbeddingSettings
):
    model = ServerEmbedder(settings)
    server.most_chars = 400
    assert np.allclose(model.embed(NOTES[:4]), HashEmbedder().embed(NOTES[:4]), atol=1e-6)
    assert model.embed([NOTES[0], "A long note. " * 100]).shape == (2, 64)
    assert not model.trouble


# The key


def test_the_key_goes_to_the_server_and_nowhere_else(server: EmbeddingServer, settings: EmbeddingSettings):
    model = ServerEmbedder(settings)
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in repr(settings) + settings.source + model.name + model.fingerprint


def test_a_key_file_that_others_can_read_is_refused(server: EmbeddingServer, tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    settings = EmbeddingSettings(provider="openai", url=server.url, key_file=str(file))
    file.chmod(0o640)
    with pytest.raises(ModelUnavailable, match="mode 0640") as error:
        ServerEmbedder(settings)
    assert KEY not in error.value.message and "chmod 600" in error.value.hint
    file.chmod(0o600)
    assert ServerEmbedder(settings).dims == 64
    assert server.keys[-1] == f"Bearer {KEY}"
    file.write_text("two\nlines")
    with pytest.raises(ModelUnavailable, match="not a key") as error:
        ServerEmbedder(settings)
    assert "lines" not in error.value.message
    file.unlink()
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        ServerEmbedder(settings)


def test_openai_itself_wants_a_key_and_others_get_none_unasked(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable, match="no key for the embedding server in OPENAI_API_KEY"):
        ServerEmbedder(EmbeddingSettings(provider="openai"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    ServerEmbedder(EmbeddingSettings(provider="openai", url=server.url))
    assert server.keys == [""]


# Which model it is


def test_other_machines_are_asked_in_the_open_only_where_that_was_said():
    settings = EmbeddingSettings(provider="ollama", url="http://192.0.2.1:11434")
    with pytest.raises(ModelUnavailable, match="lets others read notes"):
        ServerEmbedder(settings)


def test_a_model_is_another_one_after_a_pull_and_the_same_at_another_place(server: EmbeddingServer):
    def fingerprint(url: str, **more: object) -> str:
        return ServerEmbedder(EmbeddingSettings(provider="ollama", model="granite", url=url, **more)).fingerprint

    first = fingerprint(server.url)
    assert fingerprint(server.url.replace("127.0.0.1", "localhost")) == first
    server.digest = "sha256:2"
    assert fingerprint(server.url) != first
    server.digest = ""
    assert fingerprint(server.url) != fingerprint(server.url.replace("127.0.0.1", "localhost"))


def test_questions_and_notes_are_sent_with_their_prefixes(server: EmbeddingServer, settings: EmbeddingSettings):
    plain = ServerEmbedder(settings)
    model = ServerEmbedder(replace(settings, query_prefix="query: ", document_prefix="passage: "))
    model.embed(["a router"])
    model.embed(["a router"], urgent=True, question=True)
    assert [body["input"] for body in server.asked[-2:]] == [["passage: a router"], ["query: a router"]]
    other = ServerEmbedder(replace(settings, query_prefix="query: "))
    assert plain.fingerprint == other.fingerprint != model.fingerprint


def test_dimensions_are_asked_for_and_must_come(server: EmbeddingServer, settings: EmbeddingSettings):
    wanted = replace(settings, dimensions=3)
    server.fault = "dimensions"
    assert ServerEmbedder(wanted).dims == 3
    assert server.asked[-1]["dimensions"] == 3
    server.fault = ""
    with pytest.raises(ModelUnavailable, match="64 numbers instead of 3"):
        ServerEmbedder(wanted)


# In the daemon


def test_a_daemon_says_when_its_server_is_away_and_goes_on_when_it_is_back(
    home: Home, workspace: Path, server: EmbeddingServer
):
    home.configure(
        f'[embedding]\nprovider = "openai"\nurl = "{server.url}"\nkey_env = "A_KEY"\n\n'
        f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    )
    with home.start(A_KEY=KEY) as client:
        client.sync(vectors=True)
        answer = client.query("planted apple trees", mode="vector")
        assert (answer["hits"][0]["key"], answer["degraded"]) == ("2026-02-15#garden", [])
        assert client.status()["model"]["name"] == "text-embedding-3-small (openai)"
        server.stop()
        for nth in range(12):  # the first in the daemon itself, later ones in readers
            answer = client.query(f"apple trees {nth}")
            assert (answer["hits"][0]["key"], answer["degraded"]) == ("2026-02-15#garden", ["vectors"])
        (trouble,) = client.status()["degraded_details"]
        assert server.url in trouble["why"]
        (workspace / "MEMORY.md").write_text("## New\n\nthe unheard merlin\n")
        client.sync()
        assert client.query("merlin")["hits"][0]["key"] == "MEMORY#new"
        assert "1 piece is still being indexed" in home.run("context", "merlin", cwd=workspace).stderr
        server.start()
        until(lambda: not client.status()["degraded"])
        client.sync(vectors=True)
        assert client.query("unheard merlin", mode="vector")["hits"][0]["key"] == "MEMORY#new"
        assert client.doctor()["ok"]
    traces = [home.log, *(file.read_bytes().decode(errors="replace") for file in home.state.glob("*.*"))]
    assert KEY not in "".join(traces)


def test_while_the_model_loads_every_answer_says_so_and_that_nothing_is_to_be_repaired(
    home: Home, workspace: Path, server: EmbeddingServer
):
    held, plain = threading.Event(), server.embed

    def embed(texts: Sequence[str]) -> Vectors:
        held.wait(PATIENCE)
        return plain(texts)

    server.embed = embed
    place = f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    home.configure(f'[embedding]\nprovider = "ollama"\nurl = "{server.url}"\ntimeout_s = 600\n\n{place}')
    with home.start() as client:
        client.sync()
        for nth in range(12):  # the first in the daemon itself, later ones in readers
            answer = client.query(f"apple trees {nth}")
            assert (answer["hits"][0]["ranks"], answer["degraded"]) == ({"text": 1}, ["vectors"])
            assert answer["unheard"] == "the model is still loading"
        assert client.query("apple trees", mode="text")["degraded"] == [], "meaning was not wanted"
        assert client.query("since:2026-02-15")["degraded"] == [], "a question of filters has none"
        assert (client.status()["model"]["state"], client.status()["degraded"]) == ("loading", [])
        put = client.put("trees", "Planted two apple trees behind the shed.", ns="agent")
        assert put["similar"] and put["unheard"] == answer["unheard"]
        said = home.run("query", "apple trees", cwd=workspace).stderr
        assert said == "memd: degraded: vectors (the model is still loading); memd goes on by itself\n"
        assert json.loads(home.run("query", "apple trees", "--json", cwd=workspace).stdout)["unheard"]

        async def scene() -> None:
            async with agent(home, cwd=workspace) as asking:
                reply = await asking.call_tool("memory_search", {"query": "apple trees"})
                assert (
                    "(vectors: the model is still loading): results may be incomplete; nothing needs repair"
                    in text_of(reply)
                )
                assert "memd status" not in text_of(reply)

        played(scene)
        with page_of(home) as page:
            shown = page.visitor().get("/?q=apple+trees").text
            assert "without vectors (the model is still loading)" in shown
        held.set()
        client.sync(vectors=True)
        answer = client.query("planted apple trees")
        assert (answer["hits"][0]["ranks"]["vector"], answer["degraded"], "unheard" in answer) == (1, [], False)


def test_a_server_has_several_batches_at_once(home: Home, workspace: Path, server: EmbeddingServer):
    notes, together, plain = "".join(f"## Bird {nth}\n\nsmew {nth}\n\n" for nth in range(64)), Together(), server.embed
    (workspace / "MEMORY.md").write_text(notes)

    def embed(texts: Sequence[str]) -> Vectors:
        if any("smew" in text for text in texts):
            together.come()
        return plain(texts)

    server.embed = embed
    place = f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    home.configure(f'[embedding]\nprovider = "ollama"\nurl = "{server.url}"\nbatch = 2\n\n{place}')
    with home.start() as client:
        client.sync(vectors=True)
        assert client.status()["workspaces"][0]["vectors"] >= 64
        assert together.most == IN_FLIGHT
        assert client.query("smew 7", mode="vector", limit=1)["hits"][0]["heading"].endswith("Bird 7")


class Together:
    """Counts how many come at once; each waits a moment for the others."""

    def __init__(self) -> None:
        self.most = self._inside = 0
        self._changed = threading.Condition()

    def come(self) -> None:
        with self._changed:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= IN_FLIGHT, 2.0)
            self._inside -= 1


def test_what_has_no_vector_is_pending_while_the_server_fails(home: Home, workspace: Path, server: EmbeddingServer):
    home.configure(
        f'[embedding]\nprovider = "ollama"\nurl = "{server.url}"\n\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    )
    with home.start() as client:
        client.sync(vectors=True)
        server.fault = "500"
        (workspace / "MEMORY.md").write_text("## New\n\nthe unheard merlin\n")
        client.sync()
        until(lambda: client.status()["model"]["state"] == "failed")
        assert [client.status()[name] for name in ("pending", "pending_vectors", "degraded")] == [1, 1, ["vectors"]]
    home.stop()
    server.stop()
    with home.start() as client:
        until(lambda: client.status()["model"]["state"] == "failed")
        assert client.query("merlin")["pending"] == 1, "what it had made before is not to be made again"
