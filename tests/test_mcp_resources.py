"""MCP beside its tools: resources, what changes, the prompt, and the official inspector."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import MODERN, agent, played, until
from tests.conftest import NOTES, PATIENCE, Home
from tests.mcp_calls import SEARCH

# --- resources and the prompt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_resources_are_listed_and_read(served: Home, workspace: Path, mode: str) -> None:
    (workspace / "memory" / "grüße & co.md").write_text("Viele Grüße.\n")

    async def scene() -> None:
        async with agent(served, cwd=workspace, mode=mode) as client:
            with served.wait() as memory:
                memory.sync()
            found = {one.name: str(one.uri) for one in (await client.list_resources()).resources}
            assert found.keys() == {"files", "topics", *NOTES, "memory/grüße & co.md", "sourdough"}
            assert found["sourdough"] == "memory://topic/sourdough"
            for name, text in NOTES.items():
                (content,) = (await client.read_resource(found[name])).contents
                assert content.text == text and content.mime_type == "text/markdown"
            assert (await client.read_resource(found["memory/grüße & co.md"])).contents[0].text == "Viele Grüße.\n"
            assert "Feed the starter daily." in (await client.read_resource(found["sourdough"])).contents[0].text
            assert set((await client.read_resource("memory://files")).contents[0].text.splitlines()) == {
                *NOTES,
                "memory/grüße & co.md",
            }
            assert (await client.read_resource("memory://topics")).contents[0].text.startswith("sourdough")
            templates = (await client.list_resource_templates()).resource_templates
            assert {one.uri_template for one in templates} == {"memory://file/{+path}", "memory://topic/{name}"}
            for uri in (
                "memory://file/../outside.md",
                "memory://file//etc/passwd",
                "memory://topic/nobody",
                "memory://what",
            ):
                with pytest.raises(Exception, match=r"no (memory file|topic|resource)"):
                    await client.read_resource(uri)

    played(scene)


def test_a_long_list_of_resources_comes_in_pages(served: Home, workspace: Path) -> None:
    for nth in range(700):
        (workspace / "memory" / f"n{nth:03}.md").write_text(f"## A\n\none {nth}\n\n## B\n\ntwo {nth}\n")

    async def scene() -> None:
        with served.wait() as memory:
            memory.sync()
        async with agent(served, cwd=workspace) as client:
            names: list[str] = []
            cursor = None
            while True:
                page = await client.list_resources(cursor=cursor)
                names += [one.name for one in page.resources]
                cursor = page.next_cursor
                if cursor is None:
                    break
            files = [name for name in names if name.startswith("memory/n")]
            assert len(files) == len(set(files)) == 700 and names.count("sourdough") == 1
            with pytest.raises(Exception, match="is not a cursor"):
                await client.list_resources(cursor="nonsense")

    played(scene)


def test_a_client_that_subscribed_is_told_when_a_memory_file_changes(served: Home, workspace: Path) -> None:
    told: list[str] = []

    async def heard(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            told.append(str(message.params.uri))

    async def scene() -> None:
        async with agent(served, cwd=workspace, message_handler=heard) as client:
            await client.session.subscribe_resource("memory://file/memory/2026-02-15.md")
            await client.session.subscribe_resource("memory://topic/sourdough")
            (workspace / "memory" / "2026-02-16.md").write_text("## Backup\n\nIt works again.\n")
            (workspace / "memory" / "2026-02-15.md").write_text("## ErsatzTV\n\nIt moved.\n")
            await until(lambda: "memory://file/memory/2026-02-15.md" in told)
            (workspace / "memory" / "topics" / "sourdough.md").write_text("Feed it twice.\n")
            await until(lambda: "memory://topic/sourdough" in told)
            (workspace / "memory" / "2026-02-15.md").unlink()
            await until(lambda: told.count("memory://file/memory/2026-02-15.md") == 2)
            await client.session.unsubscribe_resource("memory://topic/sourdough")
            (workspace / "memory" / "topics" / "sourdough.md").write_text("Feed it never.\n")
            (workspace / "memory" / "2026-02-15.md").write_text("## ErsatzTV\n\nIt is back.\n")
            await until(lambda: told.count("memory://file/memory/2026-02-15.md") == 3)
            assert told.count("memory://topic/sourdough") == 1
            assert set(told) == {"memory://file/memory/2026-02-15.md", "memory://topic/sourdough"}

    played(scene)


def test_a_file_that_was_only_touched_is_not_told_with_one_that_changed(home: Home, workspace: Path) -> None:
    touched, changed, last = "memory/2026-02-15.md", "memory/2026-02-16.md", "MEMORY.md"
    told: list[str] = []

    async def heard(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            told.append(str(message.params.uri).removeprefix("memory://file/"))

    async def scene() -> None:
        async with agent(home, cwd=workspace, message_handler=heard) as client:
            for path in (touched, changed, last):
                await client.session.subscribe_resource(f"memory://file/{path}")
            (workspace / touched).touch()
            (workspace / changed).write_text("## Backup\n\nIt works again.\n")
            memory.sync()
            (workspace / last).write_text("## Home\n\nIt is quiet.\n")
            memory.sync()
            await until(lambda: last in told)

    # Only `sync` looks, so the two are read together.
    home.configure('[watch]\nmode = "poll"\npoll_seconds = 3600\n')
    with home.start() as memory:
        memory.workspace_add(str(workspace))
        memory.sync()
        played(scene)
    assert told == [changed, last]


def test_a_client_of_the_newer_protocol_listens_for_changes(served: Home, workspace: Path) -> None:
    async def scene() -> None:
        async with (
            agent(served, cwd=workspace, mode=MODERN) as client,
            client.listen(resource_subscriptions=["memory://file/memory/grüße.md"]) as events,
        ):
            (workspace / "memory" / "2026-02-16.md").write_text("## Backup\n\nIt works again.\n")
            (workspace / "memory" / "grüße.md").write_text("Viele Grüße.\n")
            async for event in events:
                # As the client spells it.
                assert str(event.uri) == "memory://file/memory/grüße.md"
                break

    played(scene)


def test_the_prompt_recall_brings_what_memory_holds(served: Home, workspace: Path) -> None:
    async def scene() -> None:
        async with agent(served, cwd=workspace) as client:
            (prompt,) = (await client.list_prompts()).prompts
            assert (prompt.name, prompt.arguments[0].name, prompt.arguments[0].required) == ("recall", "about", True)
            (message,) = (await client.get_prompt("recall", {"about": "router"})).messages
            assert message.role == "user"
            assert "Memory Result 1: [source: MEMORY.md]" in message.content.text and "fjord" in message.content.text
            with pytest.raises(Exception, match="needs `about`"):
                await client.get_prompt("recall", {})

    played(scene)


# --- the inspector ------------------------------------------------------------------------------------------------


INSPECTOR = "@modelcontextprotocol/inspector"


@pytest.fixture(scope="module")
def inspector() -> Iterator[list[str]]:
    """The official inspector's command line, where node is there and its package can be had."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    place = tempfile.mkdtemp(prefix="memd-inspector-")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--fetch-retries", "0", "--prefix", place]
    try:
        made = subprocess.run([*install, INSPECTOR], capture_output=True, text=True, timeout=100)
    except subprocess.TimeoutExpired:
        pytest.skip("the inspector could not be installed in time")
    program = Path(place, "node_modules", ".bin", "mcp-inspector")
    if made.returncode or not program.exists():
        shutil.rmtree(place, ignore_errors=True)
        pytest.skip(f"the inspector could not be installed: {made.stderr.strip()[-200:]}")
    yield [str(program), "--cli"]
    shutil.rmtree(place, ignore_errors=True)


def test_the_official_inspector_lists_and_calls_the_tools(served: Home, workspace: Path, inspector: list[str]) -> None:
    def inspected(*how: str) -> dict[str, Any]:
        server = [sys.executable, "-m", "memd", "mcp"]
        variables = [f"{name}={served.env[name]}" for name in ("MEMD_HOME", "PYTHONPATH") if name in served.env]
        settings = [word for one in variables for word in ("-e", one)]
        done = subprocess.run(
            [*inspector, *settings, *server, *how],
            cwd=workspace, env={**os.environ, **served.env}, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    assert [tool["name"] for tool in inspected("--method", "tools/list")["tools"]] == SEARCH
    call = ("--method", "tools/call", "--tool-name", "memory_search", "--tool-arg")
    found = inspected(*call, "query=ErsatzTV")
    assert found["content"][0]["text"].startswith("Memory Result 1: [source: memory/2026-02-15.md]")
    assert "structuredContent" not in found
    assert "MEMORY.md" in {one["name"] for one in inspected("--method", "resources/list")["resources"]}
