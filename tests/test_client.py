"""The Python client on its own: servers that hang, lie, hang up or come back, and what it says of them."""

import inspect
import json
import os
import signal
import socket
import tempfile
import threading
import time

import pytest

from memd import Client, __version__, errors
from memd.protocol.methods import METHODS

GREETING = {"protocol": 1, "version": __version__, "pid": 1}


class Script:
    """A server that goes through a list of behaviours, one a connection."""

    def __init__(self, path, *behaviours):
        self.path = str(path)
        self.requests = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._serve, args=(behaviours,), daemon=True).start()

    def _serve(self, behaviours):
        for behaviour in behaviours:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    request = json.loads(line)
                    self.requests.append(request)
                    replies = behaviour(request)
                    if replies is None:
                        break
                    for reply in replies:
                        stream.write(reply if isinstance(reply, bytes) else json.dumps(reply).encode() + b"\n")
                    stream.flush()


def answer(request, **result):
    return {"jsonrpc": "2.0", "id": request["id"], "result": GREETING if request["method"] == "hello" else result}


def well(request):
    return [answer(request, ok=True)]


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("s") / "m"


def test_no_socket_and_a_dead_socket_are_no_daemon(path):
    with pytest.raises(errors.NoDaemon, match="no daemon is running"):
        Client(path).ping()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(errors.NoDaemon, match="no daemon is running"):
        Client(path).ping()


def test_a_path_that_is_no_socket_is_told(path):
    path.write_text("a file")
    with pytest.raises(errors.NoDaemon):
        Client(path).ping()
    with pytest.raises(errors.NoDaemon, match="cannot be used"):
        Client(str(path) + "x" * 200).ping()


def test_silence_is_no_daemon_with_a_hint(path):
    Script(path, lambda request: [])
    with pytest.raises(errors.NoDaemon, match=r"did not answer within 0\.2 seconds") as caught:
        Client(path, timeout=0.2).ping()
    assert "memd restart" in caught.value.hint and caught.value.exit_code == 3


def test_progress_counts_as_a_sign_of_life(path):
    def slowly(request):
        if request["method"] == "hello":
            return well(request)
        reports = [
            {"jsonrpc": "2.0", "method": "progress", "params": {"id": 0, "phase": "text", "done": n, "total": 3}}
            for n in range(3)
        ]
        return [*reports, {"jsonrpc": "2.0", "method": "something.new", "params": {}}, answer(request, files=3)]

    server, seen = Script(path, slowly), []
    assert Client(path).sync(on_progress=seen.append)["files"] == 3
    assert [report["done"] for report in seen] == [0, 1, 2]
    assert server.requests[-1]["params"]["progress"] is True


def test_a_daemon_that_came_back_is_found_again(path):
    def once(request):
        served.append(request)
        return well(request) if len(served) < 3 else None

    served = []
    Script(path, once, well)
    with Client(path) as client:
        assert client.status()["ok"] and client.status()["ok"]
    assert [request["method"] for request in served] == ["hello", "status", "status"]


def test_what_changes_something_is_not_sent_twice(path):
    server = Script(path, lambda request: well(request) if request["method"] == "hello" else None, well)
    with pytest.raises(errors.NoDaemon, match="hung up"):
        Client(path).rebuild()
    assert [request["method"] for request in server.requests] == ["hello", "rebuild"]


def test_a_read_goes_along_with_the_greeting_and_a_change_waits_for_it(path):
    heard = []

    def hold_the_greeting(request):
        heard.append(request["method"])
        return [] if request["method"] == "hello" else None

    Script(path, hold_the_greeting)
    with pytest.raises(errors.NoDaemon):
        Client(path, timeout=0.3).status()
    assert heard == ["hello", "status"]


def test_answers_may_come_in_any_order(path):
    held = []

    def backwards(request):
        held.append(answer(request, ok=True))
        return held[::-1] if len(held) == 2 else []

    Script(path, backwards)
    assert Client(path).status()["ok"]


@pytest.mark.parametrize("line", [b"[]\n", b'"hello"\n', b"garbage\n", b"\xff\n"])
def test_nonsense_is_an_error_and_no_crash(path, line):
    Script(path, lambda request: [line])
    with pytest.raises(errors.MemdError):
        Client(path).ping()


def test_errors_come_back_as_what_they_are(path):
    def refuse(request):
        data = {"code": "already_exists", "hint": "choose another", "retryable": False}
        return [{"jsonrpc": "2.0", "id": None, "error": {"code": -32007, "message": "taken", "data": data}}]

    Script(path, refuse)
    with pytest.raises(errors.AlreadyExists, match="taken") as caught:
        Client(path).ping()
    assert caught.value.hint == "choose another"


def test_another_version_is_noticed(path):
    def old(request):
        return [{**answer(request, ok=True), "result": {**GREETING, "version": "0.0.1", "ok": True}}]

    Script(path, old)
    told = []
    assert Client(path, notice=told.append).status()["ok"]
    assert len(told) == 1 and "0.0.1" in told[0] and "memd restart" in told[0]


def test_every_method_has_a_function_with_a_sentence(path):
    asked = {
        "workspace.list": lambda client: client.workspace_list(),
        "workspace.add": lambda client: client.workspace_add("/tmp", globs=["*.md"], follow=True, wait=False),
        "workspace.rm": lambda client: client.workspace_rm(path="/tmp"),
        "query": lambda client: client.query("x", ns="a", limit=3, tags=["b"]),
        "get": lambda client: client.get(path="a.md", from_=3, lines=2),
        "why_not": lambda client: client.why_not("a.md", 3, "x"),
        "grep": lambda client: client.grep("x", regex=True),
        "bus": lambda client: client.bus("x", limit=3),
        "list": lambda client: client.list(ns="a", sort="key"),
        "unsubscribe": lambda client: client.unsubscribe(1),
        "put": lambda client: client.put("k", "x"),
        "patch": lambda client: client.patch("k", "x"),
        "useful": lambda client: client.useful("k"),
        "reflect": lambda client: client.reflect(dry_run=True),
        "rm": lambda client: client.rm("k"),
        "tag.list": lambda client: client.tag_list(),
        "tag.rename": lambda client: client.tag_rename("a", "b"),
        "tag.rm": lambda client: client.tag_rm("a"),
        "history": lambda client: client.history("k"),
        "diff": lambda client: client.diff("k"),
        "restore": lambda client: client.restore("k", 1),
        "job.list": lambda client: client.job_list(),
        "job.run": lambda client: client.job_run("scan"),
        "context": lambda client: client.context("x", budget=300),
        "consolidate": lambda client: client.consolidate("k", "x", ["a", "b"]),
        "expand": lambda client: client.expand("k"),
        "curate": lambda client: client.curate("k", "pin"),
        "note": lambda client: client.note("x"),
        "save": lambda client: client.save("x", "daily"),
        "write": lambda client: client.write("s", "x", role="r"),
        "recent": lambda client: client.recent("r"),
        "edge.add": lambda client: client.edge_add("a", "refines", "b", weight=0.4),
        "edge.rm": lambda client: client.edge_rm("a", "refines", "b"),
        "edge.list": lambda client: client.edge_list("a", min_weight=0.5),
        "related": lambda client: client.related("a", depth=2),
        "import": lambda client: client.import_("a.json"),
        "rule.list": lambda client: client.rule_list(),
        "rule.set": lambda client: client.rule_set("r", "off"),
        "rule.rm": lambda client: client.rule_rm("r"),
        "token.add": lambda client: client.token_add("anna", ns="a"),
        "token.revoke": lambda client: client.token_revoke("anna"),
        "rule.test": lambda client: client.rule_test("r", ns="a", limit=3),
        "ingest": lambda client: client.ingest(["a"]),
        "outline.symbol": lambda client: client.outline_symbol(symbol="a", language="go"),
        "outline.file": lambda client: client.outline_file(file="a.go"),
        "outline.project": lambda client: client.outline_project(),
        "outline.map": lambda client: client.outline_map(budget=10),
    }
    server = Script(path, well)
    with Client(path) as client:
        for method in METHODS.keys() - {"mcp.open"}:
            asked.get(method, lambda client, name=method: getattr(client, METHODS[name].python_name)())(client)
    sent = {request["method"]: request["params"] for request in server.requests}
    assert sent.keys() == METHODS.keys() - {"mcp.open"}, "mcp.open is the end of a conversation, not a part of it"
    assert sent["get"] == {"path": "a.md", "from": 3, "lines": 2, "who": "python"}
    assert sent["grep"] == {"pattern": "x", "regex": True}
    assert sent["list"] == {"ns": "a", "sort": "key"}
    assert sent["workspace.add"] == {"path": "/tmp", "globs": ["*.md"], "follow": True, "wait": False}
    public = [value for name, value in inspect.getmembers(Client, callable) if not name.startswith("_")]
    assert all(function.__doc__ for function in public)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a server as someone else")
def test_a_daemon_of_another_user_is_not_spoken_to():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{folder}/m")
            listener.listen()
            os.write(tell, b".")
            time.sleep(60)
            os._exit(0)
        try:
            os.read(ready, 1)
            with pytest.raises(errors.UnsafePlace, match="uid 65534 listens"):
                Client(f"{folder}/m").ping()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
