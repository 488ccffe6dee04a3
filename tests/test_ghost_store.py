"""Ghost's users: their store is imported with versions, lives and links, and what is awake answers first."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memd.errors import UsageError
from memd.protocol.client import Client
from tests.agents import agent, played, text_of
from tests.conftest import Home

TABLES = """
CREATE TABLE memories (id TEXT PRIMARY KEY, ns TEXT, key TEXT, content TEXT, kind TEXT, tags TEXT, version INTEGER,
    supersedes TEXT, created_at TEXT, deleted_at TEXT, priority TEXT, access_count INTEGER, last_accessed_at TEXT,
    meta TEXT, expires_at TEXT, importance REAL, utility_count INTEGER, tier TEXT, est_tokens INTEGER, pinned INTEGER);
CREATE TABLE memory_edges (from_id TEXT, to_id TEXT, rel TEXT, weight REAL, access_count INTEGER,
    last_accessed_at TEXT, created_at TEXT);
"""
ROW: dict[str, Any] = {
    "ns": "agent:pika", "kind": "semantic", "tags": None, "version": 1, "created_at": "2026-01-05T10:00:00Z",
    "deleted_at": None, "priority": "normal", "access_count": 0, "last_accessed_at": None, "expires_at": None,
    "importance": 0.5, "utility_count": 0, "tier": "ltm", "pinned": 0,
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"id": "A1", "key": "deploy", "content": "Deploy by hand."},
    {"id": "A2", "key": "deploy", "version": 2, "content": "Deploy with the sluice script.\n\n## Steps\nOne.",
     "created_at": "2026-01-06T10:00:00Z", "tags": json.dumps(["project:ghost", "ops"]), "access_count": 9,
     "importance": 0.8, "kind": "procedural", "last_accessed_at": "2026-01-07T10:00:00Z", "utility_count": 2},
    {"id": "B1", "key": "who/am:i", "content": "I am Pika.", "pinned": 1, "tags": json.dumps(["identity"])},
    {"id": "C1", "key": "old", "content": "The sluice script is in the barn.", "tier": "dormant"},
    {"id": "D1", "key": "raw", "content": "The sluice script, the sluice script!", "tier": "sensory"},
    {"id": "E1", "key": "gone", "content": "Nobody sees this.", "deleted_at": "2026-01-08T10:00:00Z"},
    {"id": "F1", "key": "sum", "content": "Deploying and who I am."},
    {"id": "G1", "key": "x", "content": "Of another agent.", "ns": "agent:other"},
]  # fmt: skip
EDGES = [
    ("C1", "A2", "contradicts", 0.9),
    ("A2", "B1", "relates_to", 0.83),
    ("F1", "A2", "contains", 0.6),
    ("F1", "B1", "contains", 0.6),
    ("A2", "E1", "relates_to", 0.9),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = tmp_path / "memory.db"
    connection = sqlite3.connect(file)
    connection.executescript(TABLES)
    for row in ROWS:
        values = {**ROW, **row}
        names = ", ".join(values)
        connection.execute(
            f"INSERT INTO memories ({names}) VALUES ({', '.join('?' * len(values))})", [*values.values()]
        )
    for edge in EDGES:
        connection.execute("INSERT INTO memory_edges VALUES (?, ?, ?, ?, 3, NULL, '2026-01-06T10:00:00Z')", edge)
    connection.commit()
    connection.close()
    return file


@pytest.fixture
def pika(home: Home, tmp_path: Path) -> Client:
    (tmp_path / "pika").mkdir()
    client = home.start()
    client.workspace_add(str(tmp_path / "pika"), ns="agent:pika")
    return client


def test_ghosts_store_is_imported_with_versions_lives_and_links(home: Home, pika: Client, store: Path) -> None:
    pika.workspace_add(str(store.parent / "other"), ns="agent:other")
    done = home.run("import", str(store))
    assert done.returncode == 0 and "6 memories added" in done.stdout, done.stderr
    told = pika.get("deploy", ns="agent:pika")
    assert told["text"].startswith("Deploy with the sluice script.") and told["version"] == 2
    assert told["tags"] == ["project:ghost", "ops"] and told["kind"] == "procedural"
    life = told["life"]
    assert (told["tier"], life["accesses"], life["useful"]) == ("ltm", 9, 2)
    assert pika.get("deploy", ns="agent:pika", version=1)["text"] == "Deploy by hand."
    assert pika.get("old", ns="agent:pika")["tier"] == "dormant"
    assert pika.get("x", ns="agent:other")["text"] == "Of another agent."
    assert "pinned: true" in (store.parent / "pika/memory/topics/who-am-i.md").read_text()
    edges = {(one["from"], one["rel"], one["to"], round(one["weight"], 2))
             for key in ("old", "deploy", "sum") for one in pika.edge_list(key, ns="agent:pika")["edges"]}  # fmt: skip
    assert {("old", "contradicts", "deploy", 0.9), ("sum", "contains", "deploy", 0.6)} <= edges
    assert {("deploy", "relates_to", "who-am-i", 0.83), ("who-am-i", "relates_to", "deploy", 0.83)} & edges
    assert not pika.query("Nobody sees this", mode="exact")["hits"]
    assert "nothing changed: 6 memories are here already" in home.run("import", str(store)).stdout
    dormant = home.run("gc", "-n", "agent:pika").stdout
    assert "dormant" in dormant and "never" not in dormant


def test_a_namespace_without_a_directory_gets_one(home: Home, pika: Client) -> None:
    done = home.run("put", "k", "The sluice is new.", "-n", "agent:new")
    place = home.path / "workspaces" / "agent-new"
    assert done.returncode == 0 and f"agent:new is a new workspace; its notes are in {place}" in done.stderr
    assert "The sluice is new." in (place / "memory/topics/k.md").read_text()
    assert home.run("put", "k", "The sluice is old.", "-n", "agent:new").stderr == ""
    assert home.run("put", "k", "Mistyped.", "-n", "agent:neww").returncode == 2
    assert sorted(one["ns"] for one in pika.workspace_list()["workspaces"]) == ["agent:new", "agent:pika"]


def test_a_database_of_something_else_is_no_store(pika: Client, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE memories (id)")
    connection.close()
    with pytest.raises(UsageError, match="neither an export of memd nor Ghost's store"):
        pika.call("import", {"path": str(tmp_path / "x.db")})


def test_what_is_awake_answers_first_and_ghosts_tools_can_have_all(home: Home, pika: Client, store: Path) -> None:
    pika.workspace_add(str(store.parent / "other"), ns="agent:other")
    home.run("import", str(store))
    pika.sync(vectors=True)
    tiers = [hit["tier"] for hit in pika.query("sluice script", all=False)["hits"]]
    assert tiers[0] == "ltm"

    async def scene() -> None:
        async with agent(home, "--profile", "ghost", cwd=store.parent / "pika") as client:
            found = await client.call_tool("ghost_search", {"query": "sluice script", "include_all": True})
            assert "dormant, " in text_of(found) and "sensory, " in text_of(found)
            context = await client.call_tool("ghost_context", {"query": "sluice script", "include_all": True})
            assert not context.is_error
            summaries = text_of(await client.call_tool("ghost_expand", {}))
            assert "contains 2" in summaries and "Deploying and who I am." in summaries

    played(scene)
