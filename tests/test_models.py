"""A changed embedder: text search goes on, the old vectors serve, and nothing of the old model stays behind.

The models here know eleven words, so none can be trusted to say how near a note is: `degraded` has `verdicts`.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home

VOCABULARY = ["[UNK]", "router", "fjord", "apple", "trees", "backup", "photo", "ErsatzTV", "skill", "starter", "short"]


def make_model(folder: Path, seed: int, dims: int) -> Path:
    """A model of a user's own: a table of random word vectors, averaged."""
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(VOCABULARY)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_gather(folder, np.random.default_rng(seed).normal(size=(len(VOCABULARY), dims)).astype(np.float32))
    return folder


def save_gather(folder: Path, table: np.ndarray) -> None:
    """A graph that looks up the row of each token."""
    folder.mkdir(parents=True, exist_ok=True)
    dims = table.shape[1]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", dims])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words", [ids], [out], [numpy_helper.from_array(table, "table")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))


def configure(home: Home, workspace: Path, model: Path) -> None:
    home.configure(
        f'[embedding]\nmodel = "{model}"\npooling = "mean"\n\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    )


def nearest(client: Client) -> dict[str, Any]:
    """By meaning; a model of random words is never sure that it is an answer."""
    answer = client.query("apple trees", mode="vector")
    hit: dict[str, Any] = (answer["hits"] + answer["near"])[0]
    return hit


def models_in_ledger(home: Home) -> list[int]:
    with sqlite3.connect(home.state / "state.db") as ledger:
        return [row[0] for row in ledger.execute("SELECT dims FROM models")]


def until(condition: object, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


def test_a_second_model_takes_over_and_the_first_serves_meanwhile(home: Home, workspace: Path):
    del home.env["MEMD_TEST_EMBEDDER"]
    first = make_model(home.path / "first", seed=1, dims=16)
    second = make_model(home.path / "second", seed=2, dims=24)
    configure(home, workspace, first)
    with home.start() as client:
        client.sync(vectors=True)
        assert nearest(client)["key"] == "2026-02-15#garden"
        assert client.status()["model"]["dims"] == 16
    home.stop()
    configure(home, workspace, second)
    with home.start() as client:
        assert client.query("apple trees", mode="text")["hits"][0]["key"] == "2026-02-15#garden"
        until(lambda: client.status()["model"]["state"] == "ready")
        client.sync(vectors=True)
        assert nearest(client)["key"] == "2026-02-15#garden"
        status = client.status()
        assert (status["model"]["dims"], status["degraded"], status["pending"]) == (24, ["verdicts"], 0)
        assert status["embedded"] == status["workspaces"][0]["chunks"]
        until(lambda: models_in_ledger(home) == [24])
    assert "the model changed from" in home.log


def test_the_first_model_is_gone_when_the_second_comes(home: Home, workspace: Path):
    del home.env["MEMD_TEST_EMBEDDER"]
    first = make_model(home.path / "first", seed=1, dims=16)
    second = make_model(home.path / "second", seed=2, dims=16)
    configure(home, workspace, first)
    with home.start() as client:
        client.sync(vectors=True)
    home.stop()
    (first / "model.onnx").unlink()
    configure(home, workspace, second)
    with home.start() as client:
        until(lambda: client.status()["model"]["state"] == "ready")
        client.sync(vectors=True)
        until(lambda: client.status()["degraded"] == ["verdicts"])
        assert nearest(client)["key"] == "2026-02-15#garden"
    assert "the former model cannot be loaded" in home.log


def test_a_model_that_comes_back_is_taken_up_without_a_restart_of_text_search(home: Home, workspace: Path):
    del home.env["MEMD_TEST_EMBEDDER"]
    model = make_model(home.path / "model", seed=1, dims=16)
    configure(home, workspace, model)
    (model / "model.onnx").rename(home.path / "aside.onnx")
    with home.start() as client:
        until(lambda: client.status()["model"]["state"] == "failed")
        answer = client.query("router fjord")
        assert (answer["degraded"], answer["hits"][0]["path"]) == (["vectors"], "MEMORY.md")
    home.stop()
    (home.path / "aside.onnx").rename(model / "model.onnx")
    with home.start() as client:
        until(lambda: client.status()["model"]["state"] == "ready")
        assert client.query("router fjord")["degraded"] == ["verdicts"]
        assert "words alone decide" in home.run("status").stdout
