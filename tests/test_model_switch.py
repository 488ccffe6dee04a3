"""A change of models while questions come: the one before answers all of them, and `status` and `degraded` tell."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from memd.errors import Refused
from memd.indexer.model.scale import PARAPHRASES, QUESTIONS
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.embedding_server import EmbeddingServer, wide, words
from tests.test_models import models_in_ledger, save_gather, until

NOTES, BATCH = 80, 8
FIRST_CALLS = 1 + sum(2 * -(-len(pairs) // BATCH) for pairs in QUESTIONS.values()) + -(-2 * len(PARAPHRASES) // BATCH)
"""One for the length of the vectors, and those that measure the scale; the notes come next."""
SLUG = "2026-02-15#garden"
KNOWN = ("planted apple trees in the garden", "the ledger of the harbour, page", "sick hamster")


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    made = EmbeddingServer(wide)
    yield made
    made.stop()


@pytest.fixture
def memory(home: Home, workspace: Path, server: EmbeddingServer) -> Iterator[Client]:
    many = "".join(f"## Entry {nth}\n\nThe ledger of the harbour, page {nth}.\n\n" for nth in range(NOTES))
    (workspace / "memory" / "2026-02-17.md").write_text(many)
    settings = f'[embedding]\nurl = "{server.url}"\nmodel = ""\nbatch = {BATCH}\n'
    home.configure(f'{settings}\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    with home.start() as client:
        client.sync(vectors=True)
        yield client


class Questions:
    """What clients that never stop asking were told."""

    def __init__(self) -> None:
        self.asked = 0
        self.wrong: list[Any] = []

    def ask(self, home: Home, mode: str, stop: threading.Event) -> None:
        with Client(str(home.socket)) as client:
            for nth in count():
                if stop.wait(0.01):
                    return
                try:
                    answer = client.query(f"planted apple trees {nth % 40}", mode=mode)
                except Exception as error:  # noqa: BLE001
                    self.wrong.append(error)
                    return
                found = [hit["key"] for hit in (*answer["hits"], *answer["near"])][:1]
                if found != [SLUG] or answer["degraded"]:
                    self.wrong.append((mode, found, answer["degraded"]))
                self.asked += 1


@contextmanager
def constant_questions(home: Home) -> Iterator[Questions]:
    questions, stop = Questions(), threading.Event()
    askers = [
        threading.Thread(target=questions.ask, args=(home, mode, stop)) for mode in ("hybrid", "vector", "hybrid")
    ]
    for asker in askers:
        asker.start()
    try:
        yield questions
    finally:
        stop.set()
        for asker in askers:
            asker.join(PATIENCE)
    assert not questions.wrong, questions.wrong[:3]
    assert questions.asked > 10


def switch_of(client: Client) -> dict[str, Any]:
    switch: dict[str, Any] = client.status()["model"]["switch"] or {"state": ""}
    return switch


def test_from_local_to_ollama_and_back_no_question_fails(home: Home, memory: Client):
    pid = memory.status()["pid"]
    with constant_questions(home):
        for provider, dims in (("ollama", 96), ("local", 64)):
            assert home.run("config", "set", "embedding.provider", provider).returncode == 0
            memory.sync(vectors=True)
            # Said when all of it is done: the vectors of the other model are gone by then.
            until(lambda: switch_of(memory)["state"] == "done")
            status = memory.status()
            assert (status["model"]["dims"], models_in_ledger(home)) == (dims, [dims])
            assert (status["pending"], status["degraded"], status["pid"]) == (0, [], pid)


def test_what_is_new_during_a_change_is_found_by_meaning_and_a_server_that_fails_only_delays_it(
    home: Home, memory: Client, workspace: Path, server: EmbeddingServer
):
    server.faults.extend([""] * (FIRST_CALLS + 4))
    server.fault = "500"
    with constant_questions(home):
        home.run("config", "set", "embedding.provider", "ollama")
        until(lambda: switch_of(memory).get("note"))
        switch = switch_of(memory)
        assert switch["state"] == "building" and 0 < switch["done"] < switch["total"]
        assert "500" in switch["note"] and "hash answers" in home.run("status").stdout
        (workspace / "MEMORY.md").write_text("## New\n\nthe unheard merlin\n")
        until(lambda: memory.query("unheard merlin", mode="vector")["hits"])
        server.fault = ""
        memory.sync(vectors=True)
        until(lambda: switch_of(memory)["state"] == "done")
        assert memory.query("unheard merlin", mode="vector")["hits"][0]["key"] == "MEMORY#new"
    server.stop()
    answer = memory.query("a question that was never asked about apple trees")
    assert (answer["hits"] or answer["near"]) and answer["degraded"] == ["vectors"]


def test_a_change_that_is_taken_back_costs_nothing(home: Home, memory: Client, server: EmbeddingServer):
    made = memory.status()["embedded"]
    server.faults.extend([""] * (FIRST_CALLS + 3))
    server.fault = "500"
    with constant_questions(home):
        home.run("config", "set", "embedding.provider", "ollama")
        until(lambda: switch_of(memory)["state"] == "building" and switch_of(memory)["note"])
        some = memory.status()["embedded"] - made
        home.run("config", "set", "embedding.provider", "local")
        until(lambda: switch_of(memory)["state"] == "cancelled")
        assert memory.status()["embedded"] == made + some < made + NOTES, "its own vectors were still there"
        until(lambda: models_in_ledger(home) == [64])
        assert "cancelled" in home.run("status").stdout


def test_a_model_that_cannot_be_had_is_waited_for(home: Home, memory: Client, server: EmbeddingServer):
    server.stop()
    with constant_questions(home):
        home.run("config", "set", "embedding.provider", "ollama")
        until(lambda: switch_of(memory)["state"] == "waiting")
        assert server.url in switch_of(memory)["note"] and memory.status()["model"]["dims"] == 64
    # Nor does a restart take away what there is.
    home.stop()
    with home.start() as client:
        until(lambda: switch_of(client)["state"] == "waiting")
        with constant_questions(home):
            server.start()
            until(lambda: switch_of(client)["state"] == "done")
            assert client.status()["model"]["dims"] == 96


def test_vectors_can_be_turned_off_and_on(home: Home, memory: Client):
    made = memory.status()["embedded"]
    home.run("config", "set", "embedding.provider", "none")
    until(lambda: memory.status()["model"]["state"] == "off")
    answer = memory.query("planted apple trees")
    assert (answer["hits"][0]["key"], answer["degraded"]) == (SLUG, [])
    home.run("config", "set", "embedding.provider", "local")
    memory.sync(vectors=True)
    assert memory.query("planted apple trees", mode="vector")["hits"][0]["key"] == SLUG
    assert memory.status()["embedded"] == made


def test_settings_are_read_anew_and_a_wrong_file_changes_nothing(home: Home, memory: Client):
    told = home.run("config", "set", "search.limit", "1")
    assert "follows search.limit" in told.stdout and len(memory.query("harbour")["hits"]) == 1
    told = home.run("config", "set", "watch.settle_ms", "70")
    assert "after memd restart: watch.settle_ms" in told.stdout
    told = home.run("config", "set", "hub.max_clients", "7")
    assert told.stdout.endswith("after memd restart: watch.settle_ms\nonce memd serve starts anew: hub.max_clients\n")
    assert "hub.max_clients" not in home.run("reload").stdout
    assert home.run("config", "set", "embedding.provider", "olama").returncode == 2
    file = home.path / "config.toml"
    right = file.read_text()
    file.write_text(right + "nonsense = [\n")
    done = home.run("reload")
    assert done.returncode == 2 and "not TOML" in done.stderr
    assert len(memory.query("harbour")["hits"]) == 1
    file.write_text(right.replace("limit = 1", "limit = 2"))
    assert home.run("reload").returncode == 0 and len(memory.query("harbour")["hits"]) == 2


def test_vectors_of_another_length_are_another_model_without_a_restart(
    home: Home, memory: Client, workspace: Path, server: EmbeddingServer
):
    home.run("config", "set", "embedding.provider", "ollama")
    until(lambda: memory.status()["model"]["dims"] == 96 and switch_of(memory)["state"] == "done")
    server.embed = words
    (workspace / "MEMORY.md").write_text("## New\n\nthe unheard merlin\n")
    until(lambda: switch_of(memory).get("before") == "" and switch_of(memory)["state"] == "done")
    answer = memory.query("unheard merlin", mode="vector")
    assert (answer["hits"][0]["key"], answer["degraded"], models_in_ledger(home)) == ("MEMORY#new", [], [64])


def save_export(folder: Path, prompt: str) -> Path:
    """An export whose questions are far from all notes: their prefix has a direction of its own."""
    pairs = [" ".join(pair).lower() for some in (PARAPHRASES, *QUESTIONS.values()) for pair in some]
    subjects: dict[str, list[int]] = {}
    for nth, text in enumerate([*pairs, *KNOWN]):
        for word in set(re.findall(r"\w+", text)):
            subjects.setdefault(word, []).append(nth)
    vocabulary = ["[UNK]", prompt, *subjects]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(vocabulary)}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    directions = np.random.default_rng(3).normal(size=(len(pairs) + len(KNOWN), 256)).astype(np.float32)
    table = np.zeros((len(vocabulary), 257), np.float32)
    for row, its in zip(table[2:], subjects.values(), strict=True):
        # A word of several subjects says little.
        row[:256] = directions[its[0]] if len(its) == 1 else 0.02
    table[1, -1] = 240
    save_gather(folder, table)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    prompts = {"prompts": {"query": f"{prompt} "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return folder


def test_a_model_with_a_prefix_for_questions_is_switched_in_and_out_with_right_verdicts(home: Home, memory: Client):
    folder = save_export(home.path / "export", "asked")

    def verdicts() -> list[str]:
        return [memory.query(text, mode="vector")["verdict"] for text in ("planted apple trees", "sick hamster")]

    with constant_questions(home):
        home.run("config", "set", "embedding.path", str(folder))
        for provider, dims in (("onnx", 257), ("local", 64)):
            home.run("config", "set", "embedding.provider", provider)
            until(lambda dims=dims: memory.status()["model"]["dims"] == dims and switch_of(memory)["state"] == "done")
            # The words of a stranger may stand in the same place of the hash embedder as a note's.
            assert verdicts() == ["found", "none"] if provider == "onnx" else verdicts()[0] == "found"
            assert memory.status()["degraded"] == []


# Before a change: `memd model` and `memd model try`


def test_another_model_is_tried_on_the_own_notes_and_nothing_is_changed(
    home: Home, memory: Client, workspace: Path, server: EmbeddingServer
):
    notes = (note for _, note in QUESTIONS["en"])
    (workspace / "MEMORY.md").write_text("\n\n".join(f"## {nth}\n\n{note}" for nth, note in enumerate(notes)))
    memory.sync(vectors=True)
    before = memory.status()["model"]
    result = memory.model_try(server.url, name="granite")
    used, other = result["models"]
    assert (used["name"], other["name"], other["dims"]) == ("hash", "granite (openai)", 96)
    assert 0 < used["first"] <= used["first_5"] <= used["first_10"] <= result["probes"] <= result["passages"]
    assert other["first_5"] > result["probes"] / 2 and other["scale"]["told_apart"] > 0.9
    tried = home.run("model", "try", str(save_blind(home.path / "blind"))).stdout
    assert "blind finds less; nothing was changed" in tried and "hash" in tried
    assert {**memory.status()["model"]} == before and memory.status()["pending"] == 0
    failed = home.run("model", "try", "nowhere")
    assert failed.returncode == 6 and "no such folder" in failed.stderr


def test_the_model_is_shown_with_its_scale_and_the_last_exam(home: Home, memory: Client):
    memory.job_run("selfexam")
    shown = home.run("model").stdout
    assert "hash (64 dimensions), ready" in shown and "questions 0.09 to 0.32, notes 0.09 to 0.32" in shown
    assert "100.0% told apart in en" in shown and "found in the first 5" in shown


def test_an_agent_cannot_have_notes_sent_elsewhere(home: Home, memory: Client, server: EmbeddingServer):
    with Client(str(home.socket), bind="agent") as agent, pytest.raises(Refused):
        agent.model_try(server.url)
    assert not server.asked


def save_blind(folder: Path) -> Path:
    """An export for which all texts are the same but for their length."""
    save_gather(folder, np.eye(3, dtype=np.float32))
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
