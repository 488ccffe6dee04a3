"""The conversations in tests/protocol are what a daemon says: a client in any language can be checked with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memd import errors
from memd.protocol.client import Client
from memd.protocol.methods import METHODS
from tests.conftest import ROOT, Home
from tests.test_client import Script
from tests.test_docs import Bare

FILES = sorted((ROOT / "tests" / "protocol").glob("*.jsonl"))
ANY = "*"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def differences(told: Any, got: Any, where: str = "") -> Iterator[str]:
    """Where an answer is not the one that the conversation has; it may have more."""
    if told == ANY:
        return
    if isinstance(told, dict) and isinstance(got, dict):
        for key, value in told.items():
            if key in got:
                yield from differences(value, got[key], f"{where}.{key}")
            else:
                yield f"{where}.{key} is missing"
    elif isinstance(told, list) and isinstance(got, list) and len(told) == len(got):
        for nth, (one, other) in enumerate(zip(told, got, strict=True)):
            yield from differences(one, other, f"{where}[{nth}]")
    elif told != got or type(told) is not type(got):
        yield f"{where} is {got!r}, not {told!r}"


def test_the_comparison_can_fail() -> None:
    assert not list(differences({"a": "*", "b": [1]}, {"a": [2], "b": [1], "c": 3}))
    for got in ({"a": 1}, {"a": 1, "b": [2]}, {"a": 1, "b": []}, {"a": 1, "b": [1.0]}):
        assert list(differences({"a": "*", "b": [1]}, got)), got


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_daemon_answers_as_the_conversation_says(file: Path, home: Home) -> None:
    first, *conversation = lines(file)
    root = home.path.parent / "agent"
    for path, text in first["files"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    home.configure(f'[[workspace]]\npath = "{root}"\nns = "agent"\n')
    home.start().sync()
    with ExitStack() as stack:
        links: dict[str, Bare] = {}
        for step in conversation:
            link = links.setdefault(step.get("connection", ""), stack.enter_context(Bare(home)))
            asked = step["request"]
            link.send_line(asked if isinstance(asked, str) else json.dumps(asked))
            got = link.line()
            assert not list(differences(step["response"], got)), f"{step['name']}: {got}"


def test_the_conversations_are_well_formed_and_have_names_of_their_own() -> None:
    assert len(FILES) >= 5
    for file in FILES:
        first, *conversation = lines(file)
        assert first["files"] and conversation
        names = [step["name"] for step in conversation]
        assert len(names) == len(set(names)), file.name
        for step in conversation:
            assert step.keys() <= {"name", "request", "response", "connection"}
            assert ("result" in step["response"]) != ("error" in step["response"]), step["name"]


def test_the_errors_that_a_client_must_know_are_there() -> None:
    seen = {
        step["response"]["error"]["data"]["code"]
        for file in FILES for step in lines(file)[1:] if "error" in step["response"]
    }  # fmt: skip
    assert seen >= {
        "bad_json", "bad_request", "unknown_method", "bad_params", "not_found", "refused", "unknown_workspace",
        "secret", "version_conflict", "context_mismatch", "malformed_patch", "too_large", "already_exists", "busy",
    }  # fmt: skip
    methods = {step["request"]["method"] for file in FILES for step in lines(file)[1:]
               if isinstance(step["request"], dict) and "method" in step["request"]}  # fmt: skip
    assert len(methods & METHODS.keys()) >= 20


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_our_own_client_understands_every_answer(file: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The other use of the conversations: play the daemon with them."""
    for step in lines(file)[1:]:
        told = step["response"]
        if isinstance(step["request"], str):
            continue

        def play(request: dict[str, Any], told: dict[str, Any] = told) -> list[dict[str, Any]]:
            return [{**told, "jsonrpc": "2.0", "id": request["id"]}]

        path = tmp_path_factory.mktemp("s") / "m"
        Script(path, play)
        with Client(path) as client:
            if "error" in told:
                with pytest.raises(errors.BY_CODE[told["error"]["data"]["code"]]):
                    client.call("ping")
            else:
                assert client.call("ping") == told["result"]
