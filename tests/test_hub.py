"""The hub: who is let in by HTTP, what they may call, in whose name, and what the official MCP client sees."""

from __future__ import annotations

import asyncio
import json
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from ruamel.yaml import YAML
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memd import AsyncClient, Client
from memd.config.schema import HubSettings
from memd.config.tokens import AccessToken, add, moment
from memd.errors import MemdError, NoDaemon, NotFound, Refused, TooLarge, UsageError
from memd.http_shell import BodyLimit
from memd.hub import guard as guard_module
from memd.hub.__main__ import check_safe, hosts_of
from memd.hub.access import Access, offered
from memd.hub.guard import ACCESS, AT_ONCE, HubGuard
from memd.protocol.methods import METHODS
from memd.protocol.methods.base import parameters_of
from memd.protocol.wire import RateLimit
from tests.agents import MODERN, played
from tests.conftest import ROOT, Home, write_notes
from tests.hub_door import Hub, call
from tests.test_docs import commands

CLIENTS = 200
LIMIT = BodyLimit(1_000, 10.0, TooLarge("too large"))


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """One for all tests, with two workspaces: `agent` and `other`."""
    place = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(place / "h")
    home.path.mkdir()
    home.env["MEMD_HUB__CALLS_PER_SECOND"] = "10000"
    with home.start() as client:
        client.workspace_add(str(write_notes(place / "agent")))
        client.workspace_add(
            str(write_notes(place / "other", {"MEMORY.md": "# Memory\n\n## Diary\n\nDear zanzibar.\n"}))
        )
    served = Hub(home)
    yield served
    served.close()
    home.close()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def reader(hub: Hub) -> str:
    return hub.token("reader", "--ns", "agent", "--read")


@pytest.fixture(scope="module")
def writer(hub: Hub) -> str:
    return hub.token("writer", "--ns", "agent", "--write", "--expires", "30d")


@pytest.fixture(scope="module")
def both(hub: Hub) -> str:
    return hub.token("both", "--ns", "agent", "--ns", "other", "--read")


# --- who is let in --------------------------------------------------------------------------------------------------


def test_a_request_needs_a_token_that_is_known_valid_and_not_revoked(hub: Hub) -> None:
    question = call("query", query="ErsatzTV")
    assert hub.post("/rpc", question)[0] == 401
    assert hub.post("/mcp", question)[0] == 401
    assert hub.post("/rpc", question, "memd_guessed")[0] == 401
    assert hub.post("/rpc", question, Authorization="Basic YTpi")[0] == 401

    short = hub.token("short", "--ns", "agent", "--read", "--expires", "1d")
    assert hub.post("/rpc", question, short)[0] == 200
    known = json.loads(tokens_file(hub).read_text())
    for row in known["tokens"]:
        row["expires"] = int(time.time()) - 1 if row["name"] == "short" else row["expires"]
    tokens_file(hub).write_text(json.dumps(known))
    assert hub.post("/rpc", question, short)[0] == 401

    gone = hub.token("gone", "--ns", "agent", "--read")
    with hub.client(gone) as client:
        assert client.query("ErsatzTV")["hits"]
        assert hub.home.run("token", "revoke", "gone").returncode == 0
        with pytest.raises(Refused, match="unknown, revoked or expired"):
            client.query("ErsatzTV")


def tokens_file(hub: Hub) -> Path:
    return hub.home.state / "hub" / "tokens.json"


def test_tokens_are_kept_as_digests_in_a_private_file(hub: Hub, reader: str) -> None:
    assert tokens_file(hub).stat().st_mode & 0o777 == 0o600
    assert reader not in tokens_file(hub).read_text()
    listed = hub.home.run("token", "list").stdout
    assert "reader" in listed and reader not in listed
    again = hub.home.run("token", "add", "reader", "--ns", "agent", "--read")
    assert again.returncode == 5 and "already" in again.stderr and not again.stdout
    unknown = hub.home.run("token", "add", "x", "--ns", "agnt", "--read")
    assert unknown.returncode == 2 and "did you mean `agent`?" in unknown.stderr
    assert hub.home.run("token", "add", "x", "--ns", "agent").returncode == 2
    assert hub.home.run("token", "revoke", "nobody").returncode == 1


def test_an_address_without_a_scheme_is_told(hub: Hub) -> None:
    done = hub.home.run("--remote", "localhost:8428", "list")
    assert done.returncode == 2 and "localhost:8428 is no address of a hub" in done.stderr


def test_the_log_of_a_workspace_tells_who_made_and_took_back_its_tokens(hub: Hub, reader: str) -> None:
    secret = hub.token("brief", "--ns", "agent", "--ns", "other", "--write", "--expires", "1d")
    hub.home.env["MEMD_REMOTE"] = hub.url
    try:
        assert hub.home.run("token", "revoke", "brief").returncode == 0, "a token is about this machine"
    finally:
        del hub.home.env["MEMD_REMOTE"]
    with Client(hub.home.socket) as client:
        client.token_add("brief", ns="other")
        entries = {ns: client.log(ns=ns)["entries"] for ns in ("agent", "other")}
    told = [
        (row["who"], row["what"], row["detail"]["may"], row["undoable"], row["ns"])
        for row in (*entries["agent"], *entries["other"])
        if row["detail"].get("token") == "hub:brief"
    ]
    assert told == [
        ("cli", "token revoke", "write", False, "agent"),
        ("cli", "token add", "write", False, "agent"),
        ("python", "token add", "read", False, "other"),
        ("cli", "token revoke", "write", False, "other"),
        ("cli", "token add", "write", False, "other"),
    ]
    assert secret not in json.dumps(entries) and secret not in (hub.home.state / "memd.log").read_text()
    assert "token add     hub:brief (write)" in hub.home.run("log", "-n", "agent").stdout
    with hub.client(reader) as client:
        assert "other" not in json.dumps(client.log()["entries"])
        with pytest.raises(Refused, match="hub's own machine"):
            client.token_add("mallory", ns="agent", write=True)


def test_other_hosts_origins_paths_and_ways_to_ask_are_refused(hub: Hub, reader: str) -> None:
    question = call("query", query="ErsatzTV")
    for path in ("/rpc", "/mcp"):
        assert hub.post(path, question, reader, Host="evil.example:80")[0] == 421
        for origin in ("https://evil.example", "null", "http://127.0.0.1", f"http://127.0.0.1:{hub.port + 1}"):
            assert hub.post(path, question, reader, Origin=origin)[0] == 403, origin
        assert hub.send("GET", path, None, {"Authorization": f"Bearer {reader}"})[0] == 405
    assert hub.post("/rpc", question, reader, Host=f"localhost:{hub.port}")[0] == 200
    assert hub.post("/rpc", question, reader, Origin=f"http://127.0.0.1:{hub.port}")[0] == 200
    assert hub.post("/shutdown", question, reader)[0] == 404
    assert hub.send("GET", "/health", None, {}) == (200, {"ok": True})


def test_what_is_too_large_is_refused_before_it_is_read(hub: Hub, reader: str) -> None:
    big = json.dumps(call("query", query="x" * (1 << 20))).encode()
    assert hub.post("/rpc", big, reader)[0] == 413
    assert hub.post("/mcp", big, reader)[0] == 413
    assert hub.post("/rpc", b"\n".join([json.dumps(call("ping")).encode()] * 20), reader)[0] == 400
    assert hub.post("/rpc", b"not json", reader)[1]["error"]["data"]["code"] == "bad_json"
    with hub.client(reader) as client, pytest.raises(MemdError, match="bytes"):
        client.query("x" * (1 << 20))


def test_a_token_that_asks_too_fast_is_told_to_wait(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"{}")(scope, receive, send)

    async def scene() -> None:
        tokens = [add(name, ("agent",), write=False)[1] for name in ("quick", "calm")]
        guard = HubGuard(app, frozenset({"hub"}), LIMIT, HubSettings(calls_per_second=3))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard), base_url="http://hub") as http:

            async def status(token: str) -> int:
                return (await http.post("/rpc", headers={"Authorization": f"Bearer {token}"})).status_code

            assert [await status(tokens[0]) for _ in range(5)] == [200, 200, 200, 429, 429]
            assert [await status("wrong") for _ in range(12)] == [401] * 10 + [429] * 2
            # Neither another's haste nor a stranger's guesses keep anyone out.
            assert await status(tokens[1]) == 200

    monkeypatch.setenv("MEMD_HOME", str(home.path))
    monkeypatch.setattr(RateLimit.__init__, "__defaults__", (lambda: 0.0,))
    asyncio.run(scene())


def test_one_token_cannot_hold_up_another(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is slow with one waits its turn; nothing of another does."""

    async def scene() -> None:
        busy, calm = (add(name, ("agent",), write=False)[1] for name in ("busy", "calm"))
        asked: list[str] = []
        go_on = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked.append(scope[ACCESS].token.name)
            if asked[-1] == "busy":
                await go_on.wait()
            await Response(b"{}")(scope, receive, send)

        guard = HubGuard(app, frozenset({"hub"}), LIMIT, HubSettings())
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard), base_url="http://hub") as http:
            headers = [{"Authorization": f"Bearer {token}"} for token in (busy, calm)]
            slow = [asyncio.create_task(http.post("/rpc", headers=headers[0])) for _ in range(3 * AT_ONCE)]
            while len(asked) < AT_ONCE:
                await asyncio.sleep(0)
            assert (await http.post("/rpc", headers=headers[1])).status_code == 200
            assert asked.count("busy") == AT_ONCE
            go_on.set()
            assert {(await one).status_code for one in slow} == {200}

    monkeypatch.setenv("MEMD_HOME", str(home.path))
    asyncio.run(scene())


def test_a_token_whose_requests_wait_too_long_is_told_to_come_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        token = add("busy", ("agent",), write=False)[1]
        go_on = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await go_on.wait()
            await Response(b"{}")(scope, receive, send)

        guard = HubGuard(app, frozenset({"hub"}), LIMIT, HubSettings())
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard), base_url="http://hub") as http:
            headers = {"Authorization": f"Bearer {token}"}
            asked = [asyncio.create_task(http.post("/rpc", headers=headers)) for _ in range(AT_ONCE + 5)]
            answers = [one.result() for one in (await asyncio.wait(asked, timeout=5))[0]]
            assert [(one.status_code, one.headers["retry-after"]) for one in answers] == [(429, "1")] * 5
            go_on.set()
            assert [(await one).status_code for one in asked].count(200) == AT_ONCE

    monkeypatch.setenv("MEMD_HOME", str(home.path))
    monkeypatch.setattr(guard_module, "TURN_SECONDS", 0.1)
    asyncio.run(scene())


def test_expressions_that_never_end_hold_up_neither_another_token_nor_a_reader(hub: Hub, writer: str) -> None:
    mad, calm = (hub.token(name, "--ns", "agent", "--read") for name in ("mad", "calm"))
    with hub.client(writer) as client:
        client.note("a" * 60 + "!", request_id="runaway")
        client.sync()
    answered: list[str] = []

    def ask(token: str, pattern: str) -> None:
        status, answer = hub.post("/rpc", call("grep", pattern=pattern, regex=True), token)
        assert status == 200
        answered.append(answer["error"]["message"] if "error" in answer else "found")

    with ThreadPoolExecutor(6) as pool:
        endless = [pool.submit(ask, mad, "(a|aa)+$") for _ in range(5)]
        while not answered:
            time.sleep(0.05)
        pool.submit(ask, calm, "Ersatz[T]V").result()
        for one in endless:
            one.result()
    # One at a time of the first token: the other's is not behind all of them.
    assert answered.index("found") < 3
    assert len([one for one in answered if "was stopped after" in one]) == 5
    assert "does not answer and is killed" not in hub.home.log


@pytest.fixture
def small(hub: Hub) -> Iterator[Hub]:
    """A hub with 16 connections: 4 for a token, 8 for those without one."""
    env = {"MEMD_HUB__MAX_CLIENTS": "16", "MEMD_SERVER__LINE_TIMEOUT_S": "5"}
    hub.home.env |= env
    served = Hub(hub.home)
    for name in env:
        del hub.home.env[name]
    yield served
    served.close()


def opened(hub: Hub, sent: str) -> socket.socket:
    """A connection that has sent so much and waits."""
    made = socket.create_connection(("127.0.0.1", hub.port), timeout=60)
    made.sendall(sent.encode())
    return made


def told(waiting: socket.socket) -> bytes:
    """What comes until the hub closes it."""
    said = b""
    with waiting, suppress(ConnectionResetError):
        while part := waiting.recv(65_536):
            said += part
    return said


HALF_A_HEADER = "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def test_half_open_connections_keep_nobody_out_and_are_closed(small: Hub, reader: str) -> None:
    strangers = [opened(small, HALF_A_HEADER) for _ in range(40)]
    assert small.post("/rpc", call("query", query="ErsatzTV"), reader)[0] == 200
    # The oldest gave way at once, the others when their time was up.
    assert [told(one) for one in strangers] == [b""] * 40


def test_the_next_headers_of_a_connection_have_their_time_too(small: Hub, reader: str) -> None:
    body = json.dumps(call("ping"))
    whole = f"{HALF_A_HEADER}Authorization: Bearer {reader}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    waiting = opened(small, whole)
    assert waiting.recv(65_536).startswith(b"HTTP/1.1 200")
    waiting.sendall(HALF_A_HEADER.encode())
    assert b"HTTP/1.1" not in told(waiting)


def test_a_token_has_its_share_of_connections_and_a_body_its_time(small: Hub, reader: str, both: str) -> None:
    without_body = f"{HALF_A_HEADER}Authorization: Bearer {reader}\r\nContent-Length: 10\r\n\r\n"
    waiting = [opened(small, without_body) for _ in range(5)]
    # One more than its share: which of them that is, the order of their arrival decides.
    (refused,), _, _ = select.select(waiting, [], [], 60)
    assert (said := refused.recv(65_536)).startswith(b"HTTP/1.1 429") and b"retry-after: 1" in said.lower()
    assert small.post("/rpc", call("ping"), both)[0] == 200
    for one in waiting:
        if one is not refused:
            assert one.recv(65_536).startswith(b"HTTP/1.1 408")
        one.close()
    assert small.post("/rpc", call("ping"), reader)[0] == 200


def test_while_no_daemon_runs_it_says_to_come_back(served: Home) -> None:
    alone = Hub(served)
    token = alone.token("reader", "--ns", "agent", "--read")

    async def asked_by_agent() -> Any:
        async with alone.agent(token) as agent:
            return await agent.call_tool("memory_search", {"query": "x"})

    def asked_by_client() -> str:
        with alone.client(token) as client, pytest.raises(NoDaemon) as error:
            client.query("ErsatzTV")
        return str(error.value.code)

    try:
        assert alone.send("GET", "/health", None, {}) == (200, {"ok": True})
        served.stop()
        assert alone.send("GET", "/health", None, {}) == (503, {"ok": False})
        with ThreadPoolExecutor(2) as pool:
            agent, client = pool.submit(asyncio.run, asked_by_agent()), pool.submit(asked_by_client)
            status, answer = alone.post("/rpc", call("query", query="x"), token)
            assert (status, answer["error"]["data"]["code"]) == (503, "no_daemon")
            assert alone.said["retry-after"] == "5"
            # A model is told in words: few programs show it a status of HTTP.
            assert agent.result().is_error and "memory_search_fail: " in agent.result().content[0].text
            assert client.result() == "no_daemon"
    finally:
        alone.close()


def test_a_restart_of_the_daemon_costs_a_wait_and_no_error(served: Home) -> None:
    """Questions and writes, over /rpc and /mcp, go on while the daemon is stopped, killed and started again."""
    front = Hub(served)
    token = front.token("writer", "--ns", "agent", "--write")
    over, saved = threading.Event(), threading.Lock()
    written: list[str] = []

    def people(nth: int) -> int:
        asked = 0
        with front.client(token) as client:
            while not over.is_set():
                assert client.query("ErsatzTV")["hits"]
                text = f"people {nth} {asked} wrote this"
                assert client.note(text)["action"]
                asked += 1
                with saved:
                    written.append(text)
        return asked

    async def agents(mode: str) -> int:
        asked = 0
        async with front.agent(token, mode=mode) as agent:
            while not over.is_set():
                found = await agent.call_tool("memory_search", {"query": "ErsatzTV"})
                assert not found.is_error and "192.0.2.18" in found.content[0].text, found
                text = f"agent {mode} {asked} wrote this"
                kept = await agent.call_tool("memory_save", {"content": text})
                assert not kept.is_error, kept
                asked += 1
                with saved:
                    written.append(text)
        return asked

    try:
        with ThreadPoolExecutor(5) as pool:
            busy = [pool.submit(people, nth) for nth in range(3)]
            busy += [pool.submit(asyncio.run, agents(mode)) for mode in ("legacy", MODERN)]
            try:
                for end in (served.stop, served.kill):
                    before = len(written)
                    while len(written) < before + 10 and not any(one.done() for one in busy):
                        time.sleep(0.02)
                    end()
                    time.sleep(0.5)
                    served.start().close()
                    before = len(written)
                    while len(written) < before + 10 and not any(one.done() for one in busy):
                        time.sleep(0.02)
            finally:
                over.set()
            assert all(one.result() > 2 for one in busy)
        with served.wait() as client:
            client.sync()
            notes = "".join(path.read_text() for path in (served.path.parent / "agent").rglob("*.md"))
        assert {text: notes.count(text) for text in written} == dict.fromkeys(written, 1)
    finally:
        front.close()


# --- what they may call ---------------------------------------------------------------------------------------------

READS = Access.of(AccessToken("anna", "", ("agent", "work"), False, 0, None))
WRITES = Access.of(AccessToken("anna", "", ("agent",), True, 0, None))


def test_what_is_offered_follows_from_the_declarations() -> None:
    refused = {name for name, method in METHODS.items() if not offered(method)}
    about_machine = {name for name, method in METHODS.items() if method.about_daemon and not method.for_bound}
    assert (
        about_machine | {"mcp.open", "subscribe", "watch", "import", "ingest", "rebuild", "eval", "proposal.accept"}
        <= refused
    )
    for name, method in METHODS.items():
        if offered(method):
            assert method.about_daemon or "ns" in parameters_of(name), name
    assert {"query", "get", "put", "note", "undo", "log", "hello", "ping", "status"}.isdisjoint(refused)


@pytest.mark.parametrize("name", sorted(name for name, method in METHODS.items() if offered(method)))
def test_every_call_is_kept_to_the_workspaces_and_the_name_of_the_token(name: str) -> None:
    method = METHODS[name]
    params = WRITES.params(name, {"who": "cli", "cwd": "/home/x", "request_id": "7"})
    assert "cwd" not in params
    if "ns" in method.parameters:
        assert params["ns"] == ["agent"]
        with pytest.raises(Refused, match="not for a workspace"):
            WRITES.params(name, {"ns": "other"})
        with pytest.raises(Refused, match="not for a workspace"):
            WRITES.params(name, {"ns": ["agent", "other"]})
    if method.signed:
        assert params["who"] == "hub:anna"
    if method.writes:
        assert params["request_id"] == "hub:anna:7"
    if method.reads:
        assert READS.params(name, {}).get("ns", ["agent", "work"]) == ["agent", "work"]
    else:
        with pytest.raises(Refused, match="may only read"):
            READS.params(name, {})


@pytest.mark.parametrize(
    ("name", "given"),
    [("eval", {"path": "/etc/passwd"}), ("rm", {"key": "a", "hard": True}), ("gc", {"hard": True}),
     ("put", {"key": "a", "text": "b", "allow_secret": True}), ("hello", {"bind": "other"}),
     ("ingest", {"paths": ["/etc"]}), ("shutdown", {}), ("backup", {}), ("workspace.add", {"path": "/"})],
)  # fmt: skip
def test_paths_of_the_machine_and_what_cannot_be_undone_are_refused(name: str, given: dict[str, object]) -> None:
    with pytest.raises(Refused):
        WRITES.params(name, given)


def test_another_workspace_is_refused_and_never_seen(hub: Hub, reader: str, both: str) -> None:
    with hub.client(reader) as client:
        with pytest.raises(Refused, match="not for a workspace `other`"):
            client.query("zanzibar", ns="other")
        assert not client.query("zanzibar")["hits"]
        listed = client.workspace_list()
        assert [one["ns"] for one in listed["workspaces"]] == ["agent"] and "unwatched" not in listed
        status = client.status()
        assert [one["ns"] for one in status["workspaces"]] == ["agent"]
        assert not {"pid", "socket", "config", "state_dir"} & status.keys()
        assert "shutdown" not in client.hello()["capabilities"] and "put" not in client.hello()["capabilities"]
    with hub.client(both) as client:
        assert client.query("zanzibar")["hits"][0]["ns"] == "other"
    with hub.client(both, bind="agent") as client:
        assert not client.query("zanzibar")["hits"]
    with hub.client(reader, bind="other") as client, pytest.raises(Refused, match="not for a workspace"):
        client.query("zanzibar")


def test_a_write_is_signed_with_the_token_stands_in_the_log_and_can_be_undone(
    hub: Hub, writer: str, reader: str
) -> None:
    with hub.client(writer, who="cli") as client:
        written = client.put("hub-note", "Written from afar.", request_id="1")
        assert client.put("hub-note", "Written from afar.", request_id="1")["repeated"]
        client.sync()
        assert client.get("hub-note")["text"].strip().endswith("Written from afar.")
    entry = next(
        row for row in json.loads(hub.home.run("log", "--json").stdout)["entries"] if row["action"] == written["action"]
    )
    assert entry["who"] == "hub:writer" and entry["what"] == "put" and entry["undoable"]
    with hub.client(reader) as client, pytest.raises(Refused, match="may only read"):
        client.undo(written["action"])
    with hub.client(writer) as client:
        assert client.undo(written["action"])["undid"]["action"] == written["action"]
        client.sync()
        with pytest.raises(NotFound):
            client.get("hub-note")


@pytest.mark.parametrize("number", [7, {"a": 1}, ["x"], "x" * 500])
def test_the_number_of_a_write_is_a_short_text(hub: Hub, writer: str, number: object) -> None:
    said = hub.post("/rpc", call("note", text="x", request_id=number), writer)[1]
    assert said["error"]["data"]["code"] in ("bad_params", "too_large") and "`request_id`" in said["error"]["message"]


def test_the_asynchronous_client_asks_a_hub_too(hub: Hub, writer: str) -> None:
    async def scene() -> None:
        async with AsyncClient(hub.url, token=writer) as memory:
            hits, status = await asyncio.gather(memory.query("ErsatzTV"), memory.status())
            assert hits["hits"] and status["workspaces"]
            with pytest.raises(NotFound):
                await memory.get("no-such-key")

    played(scene)


# --- the command line -----------------------------------------------------------------------------------------------


def test_memd_remote_takes_its_token_from_the_environment_or_a_private_file(
    hub: Hub, reader: str, home: Home, tmp_path: Path
) -> None:
    def memd(*words: str, token: str = "") -> subprocess.CompletedProcess[str]:
        home.env["MEMD_TOKEN"] = token
        return home.run("--remote", hub.url, *words, cwd=tmp_path)

    asked = memd("query", "ErsatzTV", token=reader)
    assert asked.returncode == 0 and "2026-02-15#ersatztv" in asked.stdout
    assert "agent" in memd("status", token=reader).stdout
    without = memd("query", "ErsatzTV")
    assert without.returncode == 2 and "MEMD_TOKEN" in without.stderr
    file = home.path / "token"
    file.write_text(reader + "\n")
    file.chmod(0o644)
    assert memd("query", "ErsatzTV").returncode == 5
    file.chmod(0o600)
    assert memd("query", "ErsatzTV").returncode == 0
    assert memd("note", "x").returncode == 5
    stop = memd("stop")
    assert stop.returncode == 2 and "about this machine" in stop.stderr
    home.env["MEMD_REMOTE"] = hub.url
    assert home.run("query", "ErsatzTV", cwd=tmp_path).returncode == 0
    assert not home.socket.exists()


def test_a_client_sends_no_token_in_the_clear_and_says_what_it_reached() -> None:
    with pytest.raises(Refused, match="not encrypted"):
        Client("http://memory.example.org", token="x").ping()
    with pytest.raises(UsageError, match="no address"):
        Client("https://", token="x").ping()
    with pytest.raises(NoDaemon, match="cannot be reached"):
        Client("http://127.0.0.1:9", token="x").ping()


# --- where it listens -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--listen", "0.0.0.0:0"], "without TLS"),
        (["--listen", "0.0.0.0:0", "--behind-proxy"], "no token yet"),
        (["--listen", "0.0.0.0:0", "--cert", "/nowhere.pem"], "no file /nowhere.pem"),
        (["--listen", "0.0.0.0:0", "--cert", "~/nowhere.pem"], f"no file {Path.home()}/nowhere.pem"),
        (["--listen", "8428"], "not an address to listen on"),
    ],
)
def test_it_refuses_to_listen_where_others_could_read_along(home: Home, flags: list[str], why: str) -> None:
    # Flags count more than the environment, and that more than the config file.
    home.env["MEMD_HUB__LISTEN"] = "127.0.0.1:0"
    refused = home.run("serve", *flags)
    assert refused.returncode in (2, 5) and why in refused.stderr and not refused.stdout


def test_the_names_under_which_it_answers() -> None:
    everywhere = HubSettings(listen="0.0.0.0:8428", behind_proxy=True)
    assert hosts_of(everywhere, "0.0.0.0") == frozenset()
    named = HubSettings(hosts="Memory.example.org", cert=__file__)
    assert {"memory.example.org", "localhost"} <= hosts_of(named, "0.0.0.0")
    assert hosts_of(HubSettings(), "192.0.2.7") == {"192.0.2.7"}
    assert "[::1]" in hosts_of(HubSettings(), "::1")
    check_safe(HubSettings(), "127.0.0.1", frozenset())


def test_the_image_and_the_compose_file_start_what_there_is() -> None:
    """Docker is not needed for the tests; what would be run in the containers is looked at here."""
    (command,) = re.findall(r"^CMD (\[.*\])$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    memd, serve, *flags = json.loads(command)
    assert (memd, serve) == ("memd", "serve")
    options = commands()["serve"].make_context("serve", flags).params
    assert options["behind_proxy"] and options["no_start"] and options["listen"] == "0.0.0.0:8428"
    services = YAML(typ="safe").load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    for name in ("daemon", "hub"):
        confined = services[name]
        assert confined["read_only"] and confined["cap_drop"] == ["ALL"] and "privileged" not in confined
    assert services["daemon"]["command"] == ["memd", "daemon"] and services["daemon"]["network_mode"] == "none"
    assert services["hub"]["volumes"] == ["state:/var/lib/memd:ro"]
    assert "ports" not in services["chroma"]


def test_when_a_token_expires() -> None:
    assert 29 * 86_400 < moment("30d") - time.time() <= 30 * 86_400
    assert moment("2037-01-31") > time.time()
    for past in ("soon", "0d", "2020-01-01"):
        with pytest.raises(UsageError, match="no time to come"):
            moment(past)


def test_tls_by_files(hub: Hub, reader: str, home: Home, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    secure = Hub(hub.home, "--cert", str(cert), "--key", str(key))
    try:
        ask = ("--remote", f"https://localhost:{secure.port}", "query", "ErsatzTV")
        home.env["MEMD_TOKEN"] = reader
        distrusted = home.run(*ask)
        assert distrusted.returncode == 5 and "not trusted" in distrusted.stderr
        home.env["SSL_CERT_FILE"] = str(cert)
        asked = home.run(*ask)
        assert asked.returncode == 0 and "ersatztv" in asked.stdout
    finally:
        secure.close()


# --- MCP ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_official_client_searches_and_saves_over_http(hub: Hub, writer: str, reader: str, mode: str) -> None:
    async def scene() -> None:
        async with hub.agent(writer, mode=mode) as agent:
            names = {tool.name for tool in (await agent.list_tools()).tools}
            assert {"memory_search", "memory_save"} <= names
            found = await agent.call_tool("memory_search", {"query": "ErsatzTV"})
            assert "192.0.2.18" in found.content[0].text
            saved = await agent.call_tool("memory_save", {"content": f"Saved by {mode}."})
            assert not saved.is_error, saved.content[0].text
            assert (await agent.list_resources()).resources
            assert (await agent.get_prompt("recall", {"about": "ErsatzTV"})).messages
        async with hub.agent(reader, mode=mode) as agent:
            assert "memory_save" not in {tool.name for tool in (await agent.list_tools()).tools}

    played(scene)
    assert "hub:writer" in hub.home.run("log").stdout


def test_an_agent_has_one_workspace_and_a_profile(hub: Hub, both: str, reader: str) -> None:
    assert hub.post("/mcp", call("tools/list"), both)[0] == 400
    assert hub.post("/mcp?profile=everything", call("tools/list"), reader)[0] == 400

    async def scene() -> None:
        async with hub.agent(both, "?ns=other&profile=memories") as agent:
            assert "ghost_search" in {tool.name for tool in (await agent.list_tools()).tools}
        async with hub.agent(both, "?ns=other") as agent:
            found = await agent.call_tool("memory_search", {"query": "zanzibar"})
            assert "Dear zanzibar" in found.content[0].text

    played(scene)


def test_many_clients_at_once(hub: Hub, reader: str) -> None:
    """Each with a connection of its own; all are answered."""

    async def one() -> str:
        async with AsyncClient(hub.url, token=reader) as memory:
            return str((await memory.query("ErsatzTV"))["hits"][0]["key"])

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(CLIENTS))
        assert set(await asyncio.gather(*(one() for _ in range(CLIENTS)))) == {"2026-02-15#ersatztv"}

    played(scene)


def test_many_agents_at_once(hub: Hub) -> None:
    """No tool call waits for another's, and none is an error of the hub."""
    tokens = [hub.token(f"agent{nth}", "--ns", "agent", "--read") for nth in range(5)]
    question = call("tools/call", name="memory_search", arguments={"query": "ErsatzTV"})
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda nth: hub.post("/mcp", question, tokens[nth % 5]), range(120)))
        health = set(pool.map(lambda _: hub.send("GET", "/health", None, {})[0], range(120)))
    assert {status for status, _ in answers} == {200} == health
    assert all("192.0.2.18" in answer["result"]["content"][0]["text"] for _, answer in answers)
