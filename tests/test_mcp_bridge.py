"""The byte pump `memd mcp`: light, patient with both sides, and there again when the daemon is."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

import pytest

from memd.cli import mcp_bridge
from memd.cli.mcp_bridge import LineSplitter, TooLong
from memd.daemon.serving.mcp_sessions import SPOKEN
from memd.processes import work_of
from memd.protocol.wire import MAX_REQUEST
from tests.agents import structured  # noqa: F401 (a fixture)
from tests.conftest import PATIENCE, ROOT, Home, write_notes
from tests.faults.agreement import eventually
from tests.test_light_imports import HEAVY, Answerer, answerer, imported_by  # noqa: F401 (a fixture)

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bare", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int | str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


class Agent:
    """The other end of the pump's pipes."""

    def __init__(self, home: Home, cwd: Path, *flags: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "mcp", *flags],
            env=home.env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._early: dict[Any, dict[str, Any]] = {}

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def answer(self, number: int | str) -> dict[str, Any]:
        """The answer to a request; those that come before it are kept."""
        while number not in self._early:
            message = self.line()
            if "method" not in message:
                self._early[message["id"]] = message
        return self._early.pop(number)

    def greet(self) -> None:
        self.send(INITIALIZE, READY)
        assert "result" in self.answer(0)

    def ask(self, number: int | str, tool: str, **arguments: Any) -> dict[str, Any]:
        self.send(call(number, tool, **arguments))
        return dict(self.answer(number)["result"])

    def leave(self) -> tuple[int, str]:
        """Hang up; the exit code and what was said on stderr."""
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said.decode()


@pytest.fixture
def bare(served: Home, workspace: Path) -> Iterator[Agent]:
    made = Agent(served, workspace)
    made.greet()
    yield made
    made.process.kill()
    made.process.wait()


# --- light --------------------------------------------------------------------------------------------------------


@pytest.mark.linux  # /proc says what a process has loaded
def test_the_daemon_loads_what_agents_need_once_one_has_come(home: Home, workspace: Path) -> None:
    def loaded() -> bool:
        assert home.daemon is not None
        return "pydantic_core" in Path(f"/proc/{home.daemon.pid}/maps").read_text()

    def at_rest() -> bool:
        assert home.daemon is not None
        worked, _ = work_of(home.daemon.pid)
        time.sleep(1)
        return work_of(home.daemon.pid)[0] - worked < 0.1

    def known() -> bool:
        with closing(sqlite3.connect(home.state / "state.db")) as ledger:
            return bool(ledger.execute("SELECT 1 FROM meta WHERE key = ?", (SPOKEN,)).fetchone())

    home.from_nothing = True
    with home.start() as client:
        client.workspace_add(str(workspace))
        client.sync(vectors=True)
    # The first backup is made when the daemon rests, and loading would begin in that moment.
    eventually(lambda: list(home.state.glob("backups/*")))
    eventually(at_rest)
    assert not loaded() and not known()
    agent = Agent(home, workspace)
    agent.greet()
    eventually(known)
    assert loaded() and agent.leave() == (0, "")
    home.stop()
    home.start().close()
    eventually(loaded)


def test_the_pump_loads_next_to_nothing(answerer: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def handle(self: Answerer) -> None:
        """Open the session, and hang up as soon as the client does."""
        request = json.loads(self.rfile.readline())
        self.server.lines.append(request)
        self.wfile.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}).encode() + b"\n")
        self.rfile.read()

    monkeypatch.setattr(Answerer, "handle", handle)
    code = "import os\nos.dup2(os.open('/dev/null', 0), 0)\nfrom memd.cli import main\nassert main(['mcp']) == 0"
    loaded, _ = imported_by(code, answerer.home)
    assert [line["method"] for line in answerer.lines] == ["mcp.open"]
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)
    standard = {name for name in loaded if not name.startswith("memd")}
    assert standard <= {"__future__", "_json", "_socket", "time", "errno", "encodings.idna", "select"}, standard
    assert not any(name.startswith(("memd.mcp", "memd.daemon", "memd.indexer", "memd.notes")) for name in loaded)


def test_lines_are_cut_however_the_bytes_come() -> None:
    text = b'{"a": 1}\n\n{"b": "\xc3\xa9"}\n'
    for size in range(1, len(text) + 1):
        lines = LineSplitter()
        found = [line for at in range(0, len(text), size) for line in lines.take(text[at : at + size])]
        assert found == [b'{"a": 1}\n', b"\n", b'{"b": "\xc3\xa9"}\n']


def test_a_line_that_is_too_long_is_told_once_and_the_next_one_is_read() -> None:
    for size in (1, 7, 64):
        lines = LineSplitter(10)
        text = b"short\n" + b"x" * 35 + b"\nnext\n"
        found = [line for at in range(0, len(text), size) for line in lines.take(text[at : at + size])]
        first, long, last = found
        assert (first, last) == (b"short\n", b"next\n") and isinstance(long, TooLong)


def test_flags_that_make_no_sense_are_left_to_the_help() -> None:
    assert mcp_bridge.parse(["--profile", "ghost", "-n", "agent"]) == {"profile": "ghost", "ns": "agent"}
    assert mcp_bridge.parse(["--no-start", "--experimental"]) == {"no_start": True, "experimental": True}
    for args in (["--help"], ["extra"], ["--profile"], ["--nonsense"]):
        assert mcp_bridge.parse(args) is None


# --- how it begins and ends ------------------------------------------------------------------------------------------


def test_what_was_asked_before_hanging_up_is_answered(served: Home, workspace: Path) -> None:
    lines = [INITIALIZE, READY, *(call(nth, "memory_search", query="router") for nth in range(1, 30))]
    done = served.run("mcp", cwd=workspace, input="".join(json.dumps(line) + "\n" for line in lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(30))
    assert all("fjord" in answer["result"]["content"][0]["text"] for answer in answers if answer["id"])
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_of_the_opening_are_told_with_the_usual_exit_codes(served: Home, workspace: Path) -> None:
    unknown = served.run("mcp", "-n", "nowhere", cwd=workspace)
    assert (unknown.returncode, unknown.stdout) == (2, "") and "nowhere" in unknown.stderr
    profile = served.run("mcp", "--profile", "everything", cwd=workspace)
    assert profile.returncode == 2 and "'search', 'memories', 'ghost', 'knowledge', 'all'" in profile.stderr
    served.stop()
    without = served.run("mcp", "--no-start", cwd=workspace)
    assert without.returncode == 3 and "no daemon" in without.stderr
    assert served.run("mcp", "--json", "--no-start", cwd=workspace).returncode == 3
    shown = served.run("mcp", "--help")
    assert shown.returncode == 0 and "--profile" in shown.stdout


def test_json_says_what_a_session_would_be(served: Home, workspace: Path) -> None:
    told = json.loads(served.run("mcp", "--json", "--profile", "knowledge", cwd=workspace).stdout)
    assert (told["ns"], told["profile"], told["tools"][0]) == ("agent", "knowledge", "recall_general_memory")


def test_it_starts_the_daemon(home: Home, workspace: Path) -> None:
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    agent = Agent(home, workspace)
    agent.greet()
    assert "fjord" in str(agent.ask(1, "memory_search", query="router"))
    assert agent.leave() == (0, "")


def test_a_message_that_is_too_long_or_no_message_is_refused_and_the_session_goes_on(bare: Agent) -> None:
    bare.send(call(1, "memory_save", content="x" * MAX_REQUEST))
    refused = bare.line()
    assert refused["id"] == 1 and refused["error"]["data"]["code"] == "too_large"
    assert bare.process.stdin is not None
    bare.process.stdin.write(b"this is no message\n")
    bare.process.stdin.flush()
    assert bare.line()["error"]["data"]["code"] == "bad_json"
    assert "fjord" in str(bare.ask(2, "memory_search", query="router"))


def test_an_agent_that_does_not_read_for_a_while_loses_nothing(bare: Agent, workspace: Path) -> None:
    (workspace / "memory" / "long.md").write_text("All work and no play makes Jack a dull boy.\n" * 800)
    count = 60
    bare.send(*(call(nth, "memory_get", path="memory/long.md") for nth in range(1, count + 1)))
    # By now some 4 MB wait: in the pipe, in the pump, in the socket, in the daemon.
    bare.send(call("last", "memory_search", query="router"))
    answers = [bare.line() for _ in range(count + 1)]
    assert {answer["id"] for answer in answers} == {*range(1, count + 1), "last"}
    assert all(not answer["result"]["isError"] for answer in answers)


def test_the_pump_ends_when_the_agent_is_gone(bare: Agent) -> None:
    assert bare.process.stdout is not None
    bare.process.stdout.close()
    assert bare.process.wait(PATIENCE) == 0


# --- when the daemon goes -------------------------------------------------------------------------------------


def test_a_session_outlives_the_daemon(bare: Agent, served: Home) -> None:
    served.stop()
    served.start()
    assert "fjord" in str(bare.ask(1, "memory_search", query="router"))
    served.kill()
    # Nobody started another one: the pump does, because it is asked.
    assert "fjord" in str(bare.ask(2, "memory_search", query="router"))
    assert bare.leave() == (0, "")


def test_a_daemon_that_was_stopped_stays_stopped_until_it_is_asked(bare: Agent, served: Home) -> None:
    process = Path(f"/proc/{bare.process.pid}")

    def connected() -> bool:
        return any(os.readlink(entry).startswith("socket:") for entry in (process / "fd").iterdir())

    assert connected()
    assert served.run("stop").returncode == 0
    until = time.monotonic() + PATIENCE
    while connected() and time.monotonic() < until:
        time.sleep(0.02)
    # It has noticed, and started nothing.
    assert not connected() and not served.socket.exists()
    assert (process / "task" / str(bare.process.pid) / "children").read_text() == ""
    assert "fjord" in str(bare.ask(1, "memory_search", query="router"))


def test_what_had_no_answer_when_the_daemon_was_killed_is_asked_again_and_done_once(
    bare: Agent, served: Home, workspace: Path
) -> None:
    assert served.daemon is not None
    served.daemon.send_signal(signal.SIGSTOP)
    bare.send(call(1, "memory_save", content="The heron is back.", target="long_term"))
    bare.send(call(2, "memory_search", query="router"))
    served.kill()
    assert not bare.answer(1)["result"]["isError"]
    assert "fjord" in str(bare.answer(2))
    assert (workspace / "MEMORY.md").read_text().count("The heron is back.") == 1


def test_another_write_with_a_number_that_was_used_before_is_carried_out(bare: Agent, workspace: Path) -> None:
    for number, text in ((1, "The heron."), (1, "The ibis."), ("1", "The stork."), ("1", "The crane.")):
        assert "Saved" in str(bare.ask(number, "memory_save", content=text, target="long_term"))
        assert text in (workspace / "MEMORY.md").read_text()


@pytest.mark.usefixtures("structured")
def test_a_write_that_is_asked_for_again_in_the_same_session_is_done_once(served: Home, workspace: Path) -> None:
    """The answer was lost, not the write: what the pump then sends is this."""
    opening = {"id": 1, "method": "mcp.open", "params": {"ns": "agent", "session": "s-1"}}
    keys = []
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(PATIENCE)
            link.connect(str(served.socket))
            lines = link.makefile("rwb")
            for message in (
                opening,
                INITIALIZE,
                READY,
                call(7, "memory_save", content="Once only.", target="long_term"),
            ):
                lines.write(json.dumps(message).encode() + b"\n")
            lines.flush()
            answers = [json.loads(lines.readline()) for _ in range(3)]
            keys.append(answers[-1]["result"]["structuredContent"]["key"])
    assert keys[0] == keys[1]
    assert (workspace / "MEMORY.md").read_text().count("Once only.") == 1


def test_subscriptions_are_made_again_and_told_of_what_may_have_been_missed(
    bare: Agent, served: Home, workspace: Path
) -> None:
    uri = "memory://file/MEMORY.md"
    bare.send({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}})
    assert bare.line() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    served.stop()
    (workspace / "MEMORY.md").write_text("## Home network\n\nThe router is called heron.\n")
    served.start()
    updated = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    assert bare.line() == updated
    # What was said again to the new daemon is not answered twice, and the subscription holds.
    assert "heron" in str(bare.ask(2, "memory_search", query="router"))
    (workspace / "MEMORY.md").write_text("## Home network\n\nThe router is called kite.\n")
    assert bare.line() == updated


class Hanging(StreamRequestHandler):
    """A daemon that opens sessions and goes as soon as it is asked something."""

    def handle(self) -> None:
        opening = json.loads(self.rfile.readline())
        self.server.opened += 1
        self.wfile.write(json.dumps({"jsonrpc": "2.0", "id": opening["id"], "result": {}}).encode() + b"\n")
        self.rfile.readline()


@contextmanager
def daemon_like(home: Home, handler: type[StreamRequestHandler]) -> Iterator[Any]:
    home.socket.parent.mkdir(mode=0o700, parents=True)
    with ThreadingUnixStreamServer(str(home.socket), handler) as server:
        server.opened = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_request_is_given_up_when_every_daemon_hangs_up_on_it(home: Home) -> None:
    with daemon_like(home, Hanging) as server:
        agent = Agent(home, home.path, "--no-start")
        agent.send(call(1, "memory_search", query="router"))
        error = agent.answer(1)["error"]
        assert error["data"]["code"] == "no_daemon" and server.opened == 2
        assert agent.leave() == (0, "")


# --- limits ---------------------------------------------------------------------------------------------------


def test_an_agent_that_calls_too_fast_is_told_busy(home: Home, workspace: Path) -> None:
    home.configure(f'[server]\ncalls_per_second = 5\n\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    home.start().sync()
    agent = Agent(home, workspace)
    agent.greet()
    agent.send(*({"jsonrpc": "2.0", "id": nth, "method": "ping"} for nth in range(1, 41)))
    answers = [agent.line() for _ in range(40)]
    busy = [answer["error"]["data"] for answer in answers if "error" in answer]
    assert busy and all(error["code"] == "busy" and error["retryable"] for error in busy)
    assert any("result" in answer for answer in answers)


@pytest.mark.usefixtures("structured")
def test_notes_take_the_day_of_the_agents_time_zone(served: Home, workspace: Path) -> None:
    """Kiritimati and Midway are 25 hours apart: their days always differ."""
    paths = set()
    for zone in ("Pacific/Kiritimati", "Pacific/Midway"):
        served.env["TZ"] = zone
        agent = Agent(served, workspace)
        agent.greet()
        paths.add(agent.ask(1, "memory_save", content=f"It is late in {zone}.")["structuredContent"]["path"])
        agent.leave()
    assert len(paths) == 2


def test_several_agents_of_several_workspaces_do_not_see_each_other(served: Home, workspace: Path) -> None:
    other = write_notes(workspace.parent / "other", {"MEMORY.md": "## Router\n\nThe router is called heron.\n"})
    served.wait().workspace_add(str(other))
    agents = [
        (Agent(served, place), bird) for place, bird in ((workspace, "fjord"), (other, "heron")) for _ in range(3)
    ]
    for one, _ in agents:
        one.greet()
    for one, _ in agents:
        one.send(*(call(nth, "memory_search", query="router") for nth in range(1, 11)))
    for one, bird in agents:
        for _ in range(10):
            text = str(one.line())
            assert bird in text and ("fjord" if bird == "heron" else "heron") not in text
        assert one.leave() == (0, "")


def test_the_pump_needs_little_memory(bare: Agent) -> None:
    status = Path(f"/proc/{bare.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    assert resident * 1024 < 15e6


def test_the_example_of_the_manual_works(served: Home, workspace: Path) -> None:
    (body,) = re.findall(r"^```console\n\$ (memd mcp.*?)^```$", (ROOT / "docs" / "mcp.md").read_text(), re.M | re.S)
    script = body.replace("memd mcp", f"{shlex.quote(sys.executable)} -m memd mcp", 1)
    done = subprocess.run(["sh", "-eu"], input=script, cwd=workspace, env=served.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Memory Result 1: [source: memory/2026-02-15.md]" in done.stdout.splitlines()[-1]
