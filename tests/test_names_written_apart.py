"""Notes whose names have letters and their signs apart, as a Mac writes them, are found by what one types, and keep the
bytes of their names."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from memd.errors import AlreadyExists, UsageError
from memd.protocol.client import Client
from tests.conftest import Home, write_notes


def apart(name: str) -> str:
    return unicodedata.normalize("NFD", name)


NOTES = {
    "memory/öl.md": "# Öl\n\n## Preis\n\nHeating oil is dear.\n",
    "memory/küche/läden.md": "# Läden\n\n## Märkte\n\nOil is sold here.\n",
    "memory/roles/prüfer.md": "\n## Oil\n_2026-02-07 14:27_\n\nLook twice.\n",
    "memory/topics/käse.md": "---\ntags: [food]\n---\n\nCheddar.\n",
    "MEMORY.md": "# Memory\n\n## Specialized Knowledge\n\n- käse: What is there.\n",
}
BOTH = pytest.mark.parametrize("spelled", [str, apart])


@pytest.fixture
def root(home: Home) -> Path:
    notes = {apart(path): apart(text) for path, text in NOTES.items()}
    return write_notes(home.path.parent / apart("Köln"), notes)


@pytest.fixture
def client(home: Home, root: Path) -> Iterator[Client]:
    home.configure('[embedding]\nprovider = "none"\n')
    with home.start() as client:
        client.workspace_add(str(root))
        client.sync()
        yield client


def files(root: Path) -> list[str]:
    return sorted(file.relative_to(root).as_posix() for file in root.rglob("*.md"))


@BOTH
@pytest.mark.parametrize(
    ("path", "count"), [("memory/öl.md", 1), ("memory/küche", 1), ("memory/küche/", 1), ("memory/*ü*", 2), ("ö*", 0)]
)
def test_a_path_is_one_however_it_is_written(client: Client, spelled: type[str], path: str, count: int) -> None:
    for found in (
        client.list(path=spelled(path))["memories"], client.grep("oil", path=spelled(path))["blocks"],
        client.query("oil", path=spelled(path), mode="text")["hits"], client.tree(path=spelled(path))["memories"],
    ):  # fmt: skip
        assert len(found) == count


@BOTH
def test_a_key_is_one_however_it_is_written(client: Client, root: Path, spelled: type[str]) -> None:
    before = files(root)
    assert client.get(path=spelled("memory/öl.md"))["path"] == apart("memory/öl.md")
    for nth, key in enumerate(("öl#preis", "memory/öl.md#preis", "läden#märkte", "käse", "memory/topics/käse.md")):
        path = client.get(spelled(key))["path"]
        assert client.put(spelled(key), f"text {nth}")["paths"] == [path]
        assert client.get(spelled(key))["text"].endswith(f"text {nth}")
        assert client.history(spelled(key))["versions"][0]["version"] > 1
    with pytest.raises(UsageError, match="is a file of several memories"):
        client.put(spelled("öl"), "another")
    assert client.list(role=spelled("prüfer"))["total"] == 1
    assert client.write("Oil", "Thrice.", role="prüfer")["path"] == apart("memory/roles/prüfer.md")
    assert files(root) == before
    client.rm(spelled("öl#preis"))
    client.restore(spelled("öl#preis"))
    assert client.get("öl#preis")["text"].endswith("text 1")


@BOTH
def test_a_topic_is_one_however_it_is_written(client: Client, root: Path, spelled: type[str]) -> None:
    before, name = files(root), spelled("käse")
    assert client.topic_recall(name)["content"].strip() == "Cheddar."
    with pytest.raises(AlreadyExists):
        client.topic_memorize(name, content="Gouda.", summary="More.")
    client.topic_refine(name, summary="All of it.")
    told = client.topic_list()
    assert told["missing"] == [] and [(row["topic"], row["summary"]) for row in told["topics"]] == [
        ("käse", "All of it.")
    ]
    assert files(root) == before
    assert client.topic_forget(name)["deleted"] and "All of it" not in (root / "MEMORY.md").read_text()


@BOTH
def test_a_workspace_is_one_however_it_is_written(home: Home, client: Client, root: Path, spelled: type[str]) -> None:
    assert client.note("x", ns=spelled("Köln"))["ns"] == "Köln"
    assert home.run("list", "-n", spelled("Köln")).returncode == 0
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\nns = "{apart("Köln")}"\npath = "{root}"\n')
    client.reload()
    assert client.list(ns=spelled("Köln"))["total"] > 0


def test_two_files_that_look_the_same_are_told_apart_by_their_paths(client: Client, root: Path) -> None:
    (root / "memory/topics/käse.md").write_text("Gouda.\n")
    client.sync()
    for path, text in (("memory/topics/käse.md", "Gouda."), (apart("memory/topics/käse.md"), "Cheddar.")):
        assert client.get(path)["text"].strip().endswith(text)
        assert path in [memory["key"] for memory in client.list(path="memory/topics")["memories"]]
    assert client.topic_recall(apart("käse"))["content"].strip() == "Gouda."
