"""`memd query` and `from memd import Client` stay light: what they may import is counted."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer

import pytest

import memd
from memd.daemon.process.lock import Lock
from memd.errors import AlreadyRunning

HEAVY = """
argparse asyncio chromadb click collections contextlib dataclasses datetime enum functools importlib.metadata inspect
json logging numpy pathlib pydantic re rich shutil socket subprocess tempfile tomlkit tomllib typer typing urllib.parse
whoosh
""".split()

HIT = {
    "id": 1, "ns": "agent", "key": "2026-02-15#tv", "path": "memory/2026-02-15.md", "start_line": 3, "end_line": 4,
    "heading": "TV", "text": "ErsatzTV is set up", "score": 0.03, "kind": "episodic", "tier": "stm", "role": "daily",
    "tags": [], "date": "2026-02-15", "ranks": {"text": 1}, "also": [], "marks": [[0, 8]], "root": "/tmp/agent",
}  # fmt: skip
ANSWERS = {
    "hello": {"protocol": 1, "version": memd.__version__, "pid": 1, "capabilities": [], "limits": {}, "bound": "agent"},
    "query": {"hits": [HIT], "verdict": "found", "confidence": 1.0, "ns": ["agent"], "degraded": [], "pending": 0},
    "grep": {"blocks": [], "next": "", "skipped": [], "ns": ["agent"], "degraded": []},
    "bus": {"entries": [], "total": 0, "ns": ["agent"], "degraded": []},
    "workspace.list": {"workspaces": [{"ns": "agent", "root": "/"}]},
}


class Answerer(StreamRequestHandler):
    """Just enough of a daemon: the question is what the client loads."""

    def handle(self):
        for line in self.rfile:
            request = json.loads(line)
            self.server.lines.append(request)
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": ANSWERS[request["method"]]}
            self.wfile.write(json.dumps(reply).encode() + b"\n")


@pytest.fixture
def answerer(tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    with ThreadingUnixStreamServer(str(tmp_path / "run" / "memd.sock"), Answerer) as server:
        server.lines = []
        server.home = tmp_path
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def imported_by(code, home):
    """What `code` adds to what a bare interpreter has loaded, and what it printed."""
    probe = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before), file=sys.stderr)"
    root = str(Path(memd.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {root!r})\n{probe}"],
        env={"MEMD_HOME": str(home), "HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split()), done.stdout


@pytest.mark.parametrize(
    "args",
    [["query", "ErsatzTV"], ["search", "--color=always", "-l", "3", "a", "b"], ["query", "-w", "/tmp", "x", "--json"]],
)
def test_query_loads_little(answerer, args):
    loaded, printed = imported_by(f"from memd.cli import main\nmain({args!r})", answerer.home)
    assert "ErsatzTV" in printed
    assert_light(loaded)


@pytest.mark.parametrize(
    "args",
    [
        ["grep", "-E", "-C", "1", "x"],
        ["query", "--format", "bus", "x"],
        ["query", "--format=jsonl", "--all", "x"],
        ["query", "--format", "memory-search", "x"],
    ],
)
def test_other_formats_and_grep_load_as_little(answerer, args):
    assert_light(imported_by(f"from memd.cli import main\nmain({args!r})", answerer.home)[0])


@pytest.mark.parametrize("event", ["user-prompt-submit", "session-start", "stop", "session-end"])
@pytest.mark.parametrize("config", ["", "limit = 2\nconfidence = 0.8\n"])
def test_hooks_load_as_little(answerer, event, config):
    # How long a hook waits is another test's business.
    (answerer.home / "config.toml").write_text(f"[hooks]\ntimeout_ms = 60000\nstart_ms = 60000\n{config}")
    spoken = json.dumps({"prompt": "ErsatzTV", "cwd": "/"}).encode()
    given = f"import os\nout, into = os.pipe()\nos.write(into, {spoken!r})\nos.close(into)\nos.dup2(out, 0)\n"
    loaded, printed = imported_by(f"{given}from memd.cli import main\nmain(['hook', {event!r}])", answerer.home)
    assert ("ErsatzTV is set up" in printed) == (event == "user-prompt-submit")
    assert_light(loaded)


def assert_light(loaded):
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)
    standard = {name for name in loaded if not name.startswith("memd")}
    assert standard <= {"__future__", "_json", "_socket", "time", "errno", "encodings.idna"}, standard
    assert not any(name.startswith(("memd.daemon", "memd.indexer", "memd.notes")) for name in loaded)


def test_hello_and_query_leave_in_one_write(answerer):
    imported_by("from memd.cli import main\nmain(['query', 'ErsatzTV'])", answerer.home)
    assert [line["method"] for line in answerer.lines] == ["hello", "query"]


def test_the_client_is_standard_library_only(answerer):
    code = f"from memd import Client\nassert Client({str(answerer.home / 'run' / 'memd.sock')!r}).query('x')['hits']"
    loaded, _ = imported_by(code, answerer.home)
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


def test_the_command_line_never_loads_the_daemon(answerer):
    loaded, _ = imported_by("from memd.cli import app\napp.run(['workspaces'])", answerer.home)
    floors = ("memd.daemon", "memd.indexer", "memd.notes")
    assert not any(name.startswith(floors) for name in loaded)
    assert loaded.isdisjoint({"chromadb", "whoosh", "numpy", "pydantic"})


def test_a_daemon_that_comes_too_late_is_refused_before_it_loads_the_rest(home):
    home.state.mkdir(mode=0o700)
    held = Lock(home.state / "memd.lock")
    command = [sys.executable, "-X", "importtime", "-m", "memd.daemon"]
    late = subprocess.run(command, env=home.env, capture_output=True, text=True)
    held.close()
    assert late.returncode == AlreadyRunning.exit_code and f"pid {os.getpid()}" in late.stderr
    assert "memd.daemon.process.lock" in late.stderr and "numpy" not in late.stderr
