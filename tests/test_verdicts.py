"""Found, weak or none: verdicts with and without a model, other ways of fusing, and answers while files change."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from memd.errors import ModelUnavailable
from memd.protocol.client import Client
from tests.conftest import NOTES, Home, write_notes

ONE_NOTE = {"MEMORY.md": "## Home network\n\nThe router is at 10.0.0.1 and is called fjord.\n"}


def test_a_word_of_the_notes_is_found_and_gibberish_is_not(memory: Client):
    for question in ("fjord", "ErsatzTV", "who planted the apple trees", "sourdough starter", "appl*"):
        answer = memory.query(question)
        assert answer["verdict"] == "found", question
        assert answer["confidence"] >= 0.6
    for question in ("xyzzy plugh frobnicate", "qwrtz", "zzz*"):
        answer = memory.query(question)
        assert answer["verdict"] == "none", question
        assert answer["confidence"] < 0.3
    mistyped = memory.query("ersatztc")
    assert (mistyped["verdict"], mistyped["corrected"]) == ("weak", {"ersatztc": ["ersatztv"]})
    # What comes near is on the wire all the same.
    answer = memory.query("xyzzy plugh frobnicate")
    assert answer["near"] and not answer["hits"]
    assert answer["missing"] == ["xyzzy", "plugh", "frobnicate"]


def test_an_identifier_is_not_found_by_a_piece_of_it(memory: Client):
    assert memory.query("ErsatzTV", mode="text")["verdict"] == "found"
    assert memory.query("HomeAssistant", mode="text")["verdict"] != "found"
    assert memory.query("10.0.0.1", mode="text")["verdict"] == "found"
    assert memory.query("10.8.0.1", mode="text")["verdict"] != "found"


def test_a_workspace_with_a_single_note(home: Home):
    with home.start() as client:
        client.workspace_add(str(write_notes(home.path.parent / "one", ONE_NOTE)))
        client.sync(vectors=True)
        for mode in ("hybrid", "text"):
            assert client.query("where is the router", mode=mode)["verdict"] == "found"
            assert client.query("favourite cheese", mode=mode)["verdict"] == "none"


def test_the_model_that_comes_with_memd_on_a_single_note(home: Home):
    del home.env["MEMD_TEST_EMBEDDER"]
    with home.start() as client:
        client.workspace_add(str(write_notes(home.path.parent / "one", ONE_NOTE)))
        client.sync(vectors=True)
        for right in ("where is the router", "what is the router called?", "fjord", "router address"):
            answer = client.query(right)
            assert (answer["verdict"], answer["degraded"]) == ("found", []), right
        for wrong in ("Which cheese does Pierce like best?", "xyzzy plugh", "when was the roof mended"):
            answer = client.query(wrong)
            assert (answer["verdict"], len(answer["hits"]), len(answer["near"])) == ("none", 0, 1), wrong


def test_without_a_model_words_alone_decide(home: Home, workspace: Path):
    home.configure('[embedding]\nprovider = "none"\n')
    with home.start() as client:
        client.workspace_add(str(workspace))
        answer = client.query("which apple trees did we plant")
        assert (answer["verdict"], answer["hits"][0]["key"]) == ("found", "2026-02-15#garden")
        assert set(answer["hits"][0]["ranks"]) == {"text"}
        nothing = client.query("xyzzy plugh")
        assert (nothing["verdict"], nothing["hits"], nothing["checked"]) == ("none", [], True)
        # By meaning alone nothing could be found, so that is not what is said.
        with pytest.raises(ModelUnavailable, match="vectors are off") as caught:
            client.query("apple trees", mode="vector")
        ask, _, command = caught.value.hint.partition("memd ")
        assert "--mode text" in ask and home.run(*command.split()).returncode == 0
        client.sync(vectors=True)
        assert client.query("apple trees", mode="vector")["hits"]


def test_reciprocal_ranks_can_be_chosen_and_are_explained(home: Home, workspace: Path):
    home.configure('[search]\nfusion = "rrf"\nrrf_k = 10\n')
    with home.start() as client:
        client.workspace_add(str(workspace))
        client.sync(vectors=True)
        answer = client.query("apple trees behind the shed", explain=True)
        hits = answer["hits"]
        assert (hits[0]["key"], answer["verdict"]) == ("2026-02-15#garden", "found")
        assert hits[0]["ranks"] == {"text": 1, "vector": 1}
        for hit in hits:
            assert hit["score"] == pytest.approx(sum(1 / (10 + rank) for rank in hit["ranks"].values()), abs=1e-5)
            assert {voice: part["value"] for voice, part in hit["explain"].items()} == hit["ranks"]
            assert sum(part["adds"] for part in hit["explain"].values()) == pytest.approx(hit["score"], abs=1e-5)
        assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


def test_the_parts_of_a_score_add_up_to_it(memory: Client, workspace: Path):
    crowd = "".join(f"## Lamp {word}\n\nThe {word} lamp hums.\n\n" for word in "amber beige coral denim ebony".split())
    (workspace / "memory/2026-02-17.md").write_text(crowd)
    memory.sync(vectors=True)
    hits = memory.query("which lamp hums", explain=True, limit=20)["hits"]
    for hit in hits:
        assert sum(part["adds"] for part in hit["explain"].values()) == pytest.approx(hit["score"], abs=1e-3)
    assert any("crowded" in hit["explain"] for hit in hits)


def test_what_was_taken_out_of_a_file_never_comes_back_while_it_changes(memory: Client, home: Home, workspace: Path):
    note, done = workspace / "memory/2026-02-16.md", threading.Event()
    gone: list[str] = []
    wrong: list[Any] = []

    def ask() -> None:
        with Client(str(home.socket)) as client:
            while not done.is_set():
                known = set(gone)
                for mode in ("hybrid", "text"):
                    texts = [hit["text"] for hit in client.query("what is the secret token", mode=mode)["hits"]]
                    wrong.extend((token, text) for token in known for text in texts if token in text)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for nth in range(25):
        note.write_text(
            f"# 2026-02-16\n\n## Secret\n\nThe secret token is kestrel{nth}x.\n\n## Rest {nth % 2}\n\nA day.\n"
        )
        memory.sync()
        gone.append(f"kestrel{nth - 1}x")
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert "kestrel24x" in memory.query("secret token")["hits"][0]["text"]
    assert "Traceback" not in home.log


def test_notes_are_those_of_the_manual():
    """The questions above lean on these words."""
    text = " ".join(NOTES.values())
    assert all(word in text for word in ("fjord", "apple trees", "ErsatzTV", "10.0.0.1", "starter"))
