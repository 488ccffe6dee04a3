"""A workspace that is shared answers along with every other one, says so, and hears nothing of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memd.errors import Refused, UsageError
from memd.protocol.client import Client
from tests.agents import agent, played, structured, text_of  # noqa: F401 (a fixture)
from tests.conftest import Home, write_notes
from tests.test_hooks import QUESTION, context, hook

PINNED = "## Health\n<!-- memd: pinned -->\n\nThe allergy of Ada is to penicillin.\n"
PEOPLE = {"MEMORY.md": PINNED, "memory/2026-02-15.md": "## Birthday\n\nThe birthday of Ada is the tenth of December.\n"}
ASKED = "when is the birthday of Ada"


@pytest.fixture
def people(memory: Client, tmp_path: Path) -> Path:
    root = write_notes(tmp_path / "people", PEOPLE)
    memory.workspace_add(str(root))
    memory.sync(vectors=True)
    return root


@pytest.fixture
def shared(home: Home, people: Path) -> Path:
    assert "people answers along with every other workspace" in home.run("workspace", "share", "people").stdout
    return people


@pytest.fixture
def bound(home: Home, shared: Path) -> Iterator[Client]:
    with Client(str(home.socket)) as client:
        client.hello(bind="agent")
        yield client


def told_by(client: Client, **where: object) -> set[str]:
    return {hit["ns"] for hit in client.query(ASKED, **where)["hits"]}


def test_nothing_is_shared_until_somebody_says_so_and_no_longer_than_that(home, workspace, memory, people):
    assert "people" not in told_by(memory, cwd=str(workspace))
    home.run("workspace", "share", "people")
    assert "people" in told_by(memory, cwd=str(workspace))
    assert ", shared" in home.run("workspaces").stdout
    assert "shared = true" in (home.path / "config.toml").read_text()
    home.run("workspace", "unshare", "people")
    assert "people" not in told_by(memory, cwd=str(workspace)) and ", shared" not in home.run("workspaces").stdout
    assert "shared = " not in (home.path / "config.toml").read_text()
    missed = home.run("workspace", "share", "nobody")
    assert missed.returncode == 2 and "there are: agent, people" in missed.stderr


def test_a_shared_workspace_answers_in_every_other_one_and_says_where_it_stands(home, workspace, shared):
    found = home.run("query", ASKED, cwd=workspace).stdout
    assert "people" in found and "the tenth of December" in found
    assert "people:memory/2026-02-15.md" in home.run("context", ASKED, cwd=workspace).stdout
    assert "the tenth of December" in home.run("grep", "tenth of", cwd=workspace).stdout
    assert "penicillin" in home.run("get", "people:MEMORY#health", cwd=workspace).stdout
    # Its day has the name of one of the project's own, which wins.
    assert "8409" in home.run("get", "2026-02-15", cwd=workspace).stdout
    assert "Birthday" not in home.run("list", cwd=workspace).stdout
    named = json.loads(home.run("query", ASKED, "-n", "agent", "--json").stdout)
    assert named["ns"] == ["agent"], "a name means what it names"


def test_where_all_are_shared_or_an_agents_the_one_that_is_asked_wins(home, memory, shared, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    for name, about in {"machines": {}, "kept": {"project": str(project)}}.items():
        root = write_notes(tmp_path / name, {"MEMORY.md": f"## Health\n\nThat of {name} is good.\n"})
        memory.workspace_add(str(root), **about)
    home.run("workspace", "share", "machines")
    for place, ns in {shared: "people", tmp_path / "machines": "machines", project: "kept"}.items():
        assert memory.get("MEMORY#health", cwd=str(place))["ns"] == ns
    with pytest.raises(UsageError, match="names several memories"):
        memory.get("MEMORY#health", ns=["agent", "people", "machines"])
    missed = home.run("get", "MEMORY#heal", cwd=project).stderr
    assert missed.count("`MEMORY#health`") == 1


def test_nothing_flows_the_other_way(home, workspace, memory, bound, shared):
    assert {hit["ns"] for hit in memory.query(QUESTION, cwd=str(shared))["hits"]} <= {"people"}
    assert bound.note("The parrot is green.")["ns"] == "agent"
    for refused in (
        lambda: bound.note("The parrot is red.", ns="people"),
        lambda: bound.query(ASKED, ns=["agent", "elsewhere"]),
        lambda: bound.curate("people:MEMORY#health", "unpin", ns=["people"]),
    ):
        with pytest.raises(Refused):
            refused()
    with Client(str(home.socket)) as other:
        other.hello(bind="people")
        assert told_by(other) == {"people"}
        with pytest.raises(Refused):
            other.query(QUESTION, ns="agent")


def test_an_agent_finds_what_is_shared_and_reads_it_by_the_name_it_was_told(home, workspace, shared):
    async def scene() -> None:
        async with agent(home, "--profile", "all", cwd=workspace) as client:
            found = text_of(await client.call_tool("memory_search", {"query": ASKED, "context_lines": 2}))
            assert "[source: people:memory/2026-02-15.md]" in found and "## Birthday" in found
            read = text_of(await client.call_tool("memory_get", {"path": "people:memory/2026-02-15.md"}))
            assert read.startswith("[source: people:memory/2026-02-15.md") and "tenth of December" in read
            own = text_of(await client.call_tool("memory_get", {"path": "memory/2026-02-15.md"}))
            assert "8409" in own and "people:" not in own
            assert "people:memory/2026-02-15.md" in text_of(await client.call_tool("memory_context", {"task": ASKED}))
            refused = await client.call_tool("ghost_put", {"key": "x", "content": "x", "ns": "people"})
            assert refused.is_error

    played(scene)


@pytest.mark.usefixtures("structured")
def test_a_memory_that_is_shared_has_a_key_that_is_no_other_ones(home, workspace, memory, shared):
    write_notes(workspace, {"memory/2026-02-15.md": "## Birthday\n\nThe birthday of the parrot is unknown.\n"})
    memory.sync()

    async def scene() -> None:
        async with agent(home, "--profile", "all", cwd=workspace) as client:
            found = (await client.call_tool("memory_search", {"query": ASKED})).structured_content["results"]
            keys = [one["key"] for one in found if one["path"] == "people:memory/2026-02-15.md"]
            assert keys == ["people:2026-02-15#birthday"]
            assert "tenth of December" in text_of(await client.call_tool("memory_get", {"key": keys[0]}))
            own = text_of(await client.call_tool("memory_get", {"key": "2026-02-15#birthday"}))
            assert "the parrot" in own and "people:" not in own

    played(scene)


def test_a_hook_tells_of_it_only_where_the_person_allowed_it(home, workspace, memory, shared, tmp_path):
    other = write_notes(tmp_path / "other", {"MEMORY.md": "## Moon\n\nThe moon landing was in 1969.\n"})
    memory.workspace_add(str(other))
    memory.sync(vectors=True)
    outside = tmp_path / "outside"
    outside.mkdir()

    def told(root: Path) -> str:
        said = {"cwd": str(root), "prompt": ASKED, "session_id": "s"}
        return context(hook(home, "user-prompt-submit", said)) + context(hook(home, "session-start", said))

    for root in (workspace, other, outside):
        assert "Ada" not in told(root)
    home.run("workspace", "share", "people", "--hooks-in", "agent")
    text = told(workspace)
    assert "[1] people:memory/2026-02-15.md:" in text and "the tenth of December" in text
    assert "] people:MEMORY.md:" in text and "penicillin" in text
    assert "Ada" not in told(other) and not told(outside)
    assert "8409" not in context(hook(home, "user-prompt-submit", {"cwd": str(shared), "prompt": QUESTION}))
    home.run("workspace", "unshare", "people")
    assert "Ada" not in told(workspace)


def test_a_token_of_the_hub_reaches_what_it_is_for_and_nothing_that_is_shared(home, workspace, memory, shared):
    """The hub names the workspaces of a token in every call, and a name means what it names."""
    assert "people" not in told_by(memory, ns=["agent"])
    with pytest.raises(Exception, match="no memory"):
        memory.get("people:MEMORY#health", ns=["agent"])
