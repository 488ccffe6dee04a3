"""The asynchronous client: the same table, the same conversation, and what only tasks can do to it."""

from __future__ import annotations

import asyncio
import inspect
import json
import pydoc
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memd import AsyncClient, Client, errors
from memd.protocol.methods import METHODS
from tests.conftest import PATIENCE, ROOT, Home
from tests.test_client import Script, answer, well

PROTOCOL = ROOT / "memd" / "protocol"


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "m"


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


# --- the table ------------------------------------------------------------------------------------------------


def test_both_clients_have_the_same_methods() -> None:
    assert public(Client).keys() == public(AsyncClient).keys()
    assert public(Client).keys() >= {method.python_name for method in METHODS.values()}


def test_help_reads_well() -> None:
    for kind in (Client, AsyncClient):
        text = pydoc.render_doc(kind, renderer=pydoc.plaintext)
        assert f"with {kind.__name__}(autostart=True) as memory:" in text
        # From 3.13 on pydoc breaks a long signature into a line for each parameter.
        unbroken = "".join(text.replace("|", " ").split())
        for method in METHODS.values():
            assert f"{method.python_name}(self" in unbroken and method.sentence.splitlines()[0] in text
        signature = inspect.signature(kind.query)
        assert list(signature.parameters)[:2] == ["self", "query"] and "dict" not in str(signature)


PROGRAM = """
import asyncio
from memd import AsyncClient, Client


def now() -> list[str]:
    with Client(autostart=True, bind="agent", who="planner", retries=2) as memory:
        written: int | None = memory.note("The NAS is up.", title="NAS", tags=["home"])["action"]
        print(written, memory.status()["workspaces"][0]["ns"].upper())
        return [hit["key"] for hit in memory.query("ErsatzTV", limit=3, since="2026-02")["hits"]]


async def later() -> list[str]:
    async with AsyncClient(autostart=True) as memory:
        found, names = await asyncio.gather(memory.query("ErsatzTV"), memory.workspace_list())
        print(names["workspaces"][0]["root"])
        async for event in memory.events():
            print(event)
        return [hit["key"] for hit in found["hits"]]
"""
MISTAKES = {
    'memory.query("x", sinse="2026")': "sinse",
    'memory.query(3)': '"int"; expected "str"',
    'memory.query("x")["hit"]': "hit",
    'memory.query("x")["hits"][0]["text"] + 1': "Unsupported operand",
    'memory.nothing()': "nothing",
    '[hit for hit in later.query("x")["hits"]]': "not indexable",
}  # fmt: skip


def checked(program: str, tmp_path: Path) -> str:
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def test_a_program_that_uses_both_is_type_checked(tmp_path: Path) -> None:
    assert "Success" in checked(PROGRAM, tmp_path)
    wrong = "\n".join(["from memd import AsyncClient, Client", "memory, later = Client(), AsyncClient()", *MISTAKES])
    told = checked(wrong, tmp_path).splitlines()
    for nth, part in enumerate(MISTAKES.values(), 3):
        assert any(line.startswith(f"{tmp_path}/program.py:{nth}:") and part in line for line in told), (nth, told)


# --- the conversation -----------------------------------------------------------------------------------------


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await work()

    return asyncio.run(within())


def test_calls_progress_and_errors_as_in_the_other_client(path: Path) -> None:
    def serve(request: dict[str, Any]) -> list[Any]:
        if request["method"] == "rebuild":
            data = {"code": "already_exists", "hint": "choose", "retryable": False}
            return [
                {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32007, "message": "taken", "data": data}}
            ]
        report = {"jsonrpc": "2.0", "method": "progress", "params": {"id": 0, "phase": "text", "done": 1, "total": 3}}
        return [report, answer(request, files=3)] if request["method"] == "sync" else well(request)

    server, seen = Script(path, serve), []

    async def work() -> None:
        async with AsyncClient(path) as memory:
            assert (await memory.sync(on_progress=seen.append))["files"] == 3
            with pytest.raises(errors.AlreadyExists, match="taken"):
                await memory.rebuild()

    run(work)
    assert [report["done"] for report in seen] == [1]
    assert [request["method"] for request in server.requests] == ["hello", "sync", "rebuild"]


def test_no_daemon_and_silence_are_told_as_such(path: Path) -> None:
    async def nobody() -> None:
        await AsyncClient(path).ping()

    with pytest.raises(errors.NoDaemon, match="no daemon is running"):
        run(nobody)
    Script(path, lambda request: [])

    async def silence() -> None:
        await AsyncClient(path, timeout=0.2).ping()

    with pytest.raises(errors.NoDaemon, match=r"did not answer within 0\.2 seconds"):
        run(silence)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_read_is_sent_again_as_often_as_was_wished_and_a_write_without_a_number_never(
    path: Path, client: Any
) -> None:
    def hang_up(request: dict[str, Any]) -> Any:
        return well(request) if request["method"] in ("hello", "ping") else None

    server = Script(path, hang_up, hang_up, hang_up, well, hang_up)

    async def work() -> None:
        memory = client(path, retries=3)
        asked = [lambda: memory.ping(), lambda: memory.status(), lambda: memory.close(), lambda: memory.rebuild()]
        for ask in asked:
            told = ask()
            if inspect.isawaitable(told):
                await told

    with pytest.raises(errors.NoDaemon, match="hung up"):
        run(work)
    sent = [request["method"] for request in server.requests if request["method"] != "hello"]
    assert sent == ["ping", "status", "status", "status", "status", "rebuild"]


def test_a_call_that_was_given_up_does_not_answer_the_next_one(path: Path) -> None:
    held: list[Any] = []

    def late(request: dict[str, Any]) -> list[Any]:
        if request["method"] == "query":
            held.append(answer(request, late=True))
            return []
        return [*held, answer(request, late=False)] if request["method"] == "status" else well(request)

    server = Script(path, late)

    async def work() -> None:
        async with AsyncClient(path) as memory:
            question = asyncio.ensure_future(memory.query("x"))
            while not held:
                await asyncio.sleep(0.01)
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
            assert (await memory.status())["late"] is False  # type: ignore[typeddict-item]

    run(work)
    assert [request["method"] for request in server.requests][:2] == ["hello", "query"]


def test_large_answers_and_many_tasks(memory: Client, home: Home, workspace: Path) -> None:
    # Not one word again and again: equal texts hold up the vector store, which is no matter of answers and tasks.
    (workspace / "memory" / "long.md").write_text("## Long\n\n" + " ".join(f"word{nth}" for nth in range(32_000)))

    async def work() -> None:
        async with AsyncClient(home.socket) as client:
            await client.sync()
            tasks = [client.get(path="memory/long.md") for _ in range(3)]
            tasks += [client.query("ErsatzTV", mode="text") for _ in range(50)]
            answers = await asyncio.gather(*tasks)
            assert all(len(told["text"]) > 290_000 for told in answers[:3])
            assert all(told["hits"][0]["key"] == "2026-02-15#ersatztv" for told in answers[3:])

    run(work)


def test_what_is_told_comes_while_other_tasks_call(memory: Client, home: Home, workspace: Path) -> None:
    async def work() -> None:
        async with AsyncClient(home.socket) as client:
            await client.subscribe("heron", ns="agent")
            events = client.events()
            waiting = asyncio.ensure_future(anext(events))
            for nth in range(3):
                await client.note(f"The heron came, day {nth}.", title=f"Heron {nth}")
                await client.sync()
                event = await waiting
                assert event["hit"]["heading"].endswith(f"Heron {nth}"), event
                waiting = asyncio.ensure_future(anext(events))
            home.stop()
            with pytest.raises(errors.NoDaemon, match="subscriptions ended"):
                await waiting

    run(work)


def test_a_daemon_is_started_when_none_runs(home: Home, workspace: Path) -> None:
    program = f"""
        import asyncio
        from memd import AsyncClient

        async def main():
            async with AsyncClient(autostart=True) as memory:
                await memory.workspace_add({str(workspace)!r})
                print((await memory.query("ErsatzTV", mode="text"))["hits"][0]["key"])

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=home.env, capture_output=True, text=True, timeout=90
    )
    assert done.stdout.strip() == "2026-02-15#ersatztv", done.stderr


def test_the_client_says_who_writes(memory: Client, home: Home) -> None:
    with Client(home.socket, who="planner") as planner:
        planner.note("Who wrote this?", title="Who")
        memory.note("And this?", title="Who else", who="scribe")
        who = {entry["key"]: entry["who"] for entry in memory.log(limit=2)["entries"]}
        assert sorted(who.values()) == ["planner", "scribe"]
        assert planner.undo()["undid"]["who"] == "planner"
    assert json.dumps(memory.history("2026-02-15#garden")["versions"][0]["who"]) == '"editor"'
