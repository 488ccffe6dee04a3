"""Clients that are broken, slow, rude, too many or somebody else: each is answered or cut off, the rest is served."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from memd.errors import NoDaemon
from memd.protocol.client import Client
from memd.protocol.methods import METHODS
from memd.protocol.wire import INTERNAL_ERROR, MAX_REQUEST
from tests.conftest import PATIENCE, Home, write_notes
from tests.faults.agreement import eventually, rounds, serve
from tests.forge import OWN_CHILDREN

NOBODY = 65534
LOADED = True

READERS = min(4, os.cpu_count() or 1)
BIG = "memory/big.md"
"""A file whose text does not fit into a socket's buffers many times over."""

HARMLESS = sorted(set(METHODS) - {"shutdown", "mcp.open", "rebuild", "workspace.add", "workspace.rm"})
PARAMETERS = (
    "accept_missing", "client", "cwd", "explain", "fix", "from", "key", "kind", "limit", "lines", "marks", "mode", "ns",
    "path", "progress", "protocol", "query", "role", "since", "sync", "tags", "tier", "until", "vectors", "version",
)  # fmt: skip


class Caller:
    """A client without manners: raw bytes out, lines in."""

    def __init__(self, home: Home, seconds: float = PATIENCE) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(seconds)
        self.socket.connect(str(home.socket))
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
        self.socket.close()

    def send(self, *requests: dict[str, Any] | bytes) -> None:
        lines = [part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n" for part in requests]
        self.socket.sendall(b"".join(lines))

    def answer(self) -> dict[str, Any] | None:
        """The next line, or None when the daemon hung up."""
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def ask(self, *requests: dict[str, Any] | bytes) -> dict[str, Any]:
        self.send(*requests)
        answer = self.answer()
        assert answer is not None, "the daemon hung up"
        return answer


def call(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def served(home: Home) -> bool:
    """Whether a well-behaved client gets its answer."""
    with Caller(home) as normal:
        answers = [normal.ask(call("query", query="ErsatzTV", sync="none")), normal.ask(call("status"))]
        return all("result" in answer for answer in answers)


def alive(home: Home) -> bool:
    return home.daemon is not None and home.daemon.poll() is None and served(home)


def opened_by(home: Home) -> list[str]:
    """What the daemon has open."""
    assert home.daemon is not None
    targets = []
    for entry in Path(f"/proc/{home.daemon.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(os.readlink(entry))
    return targets


def descriptors(home: Home) -> set[str]:
    """What the daemon has open. A file counts once: each thread opens the ledger when it first reads it."""
    return set(opened_by(home))


def no_more_is_open_than(before: set[str], home: Home) -> None:
    """Wait until the daemon has closed what it opened since; other files may have taken the place of some."""
    now = descriptors(home)

    def as_few() -> bool:
        now.clear()
        now.update(descriptors(home))
        return len(now) <= len(before)

    try:
        eventually(as_few)
    except AssertionError:
        raise AssertionError(f"open now: {sorted(now - before)}; open before: {sorted(before - now)}") from None


def connections(home: Home) -> int:
    """The daemon's sockets; other files come and go with what it does meanwhile."""
    return sum(target.startswith("socket:") for target in opened_by(home))


def memory_mb(home: Home) -> float:
    assert home.daemon is not None
    pages = int(Path(f"/proc/{home.daemon.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def warmed_up(home: Home) -> set[str]:
    """Every reading thread has opened what it keeps open; the descriptors from then on."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: served(home), range(64)))
    with home.wait() as client:
        client.sync(vectors=True)
        with ThreadPoolExecutor(8) as pool:
            eventually(
                lambda: all(pool.map(lambda _: served(home), range(16))) and len(client.status()["readers"]) == READERS,
                30,
            )
    seen = [descriptors(home)]

    def steady() -> bool:
        seen.append(descriptors(home))
        return len(seen) > 10 and all(one == seen[-1] for one in seen[-10:])

    eventually(steady)
    return seen[-1]


@pytest.fixture
def home(home: Home) -> Home:
    home.env[OWN_CHILDREN] = "1"
    return home


@pytest.fixture(scope="module")
def common() -> Iterator[Home]:
    """One daemon with the usual settings, which every test of this file that needs no others talks to."""
    path = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(path / "h")
    home.env[OWN_CHILDREN] = "1"
    home.path.mkdir()
    workspace = write_notes(path / "agent")
    (workspace / BIG).write_text(
        "# Big\n\n" + "\n\n".join(f"Paragraph {n}. " + "lorem ipsum " * 45 for n in range(500))
    )
    serve(home, workspace).sync(vectors=True)
    yield home
    home.close()
    shutil.rmtree(path, ignore_errors=True)


# --- what makes no sense --------------------------------------------------------------------------------------


def assert_answered(home: Home, line: bytes) -> None:
    """One line that may be anything, then a ping: errors and results in between, and the ping is answered."""
    with Caller(home) as caller:
        try:
            caller.send(line.replace(b"\n", b" ") + b"\n", call("ping", "the end"))
        except (BrokenPipeError, ConnectionResetError):
            assert alive(home)
            return
        while (answer := caller.answer()) is not None:
            assert answer["jsonrpc"] == "2.0"
            if answer.get("id") == "the end":
                assert answer["result"]["pong"] is True
                return
            if "error" in answer:
                assert answer["error"]["code"] != INTERNAL_ERROR, (line[:300], answer)
                assert set(answer["error"]) == {"code", "message", "data"}
                assert set(answer["error"]["data"]) == {"code", "hint", "retryable"}
        assert alive(home)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
parameters = st.dictionaries(st.sampled_from(PARAMETERS) | st.text(max_size=8), json_values, max_size=5)
requests = st.fixed_dictionaries(
    {"method": st.sampled_from(HARMLESS)},
    optional={"jsonrpc": st.just("2.0") | json_values, "id": json_values, "params": parameters | json_values},
)
odd_texts = st.sampled_from(
    [
        "\ud800",
        "memory/\udcff.md",
        "memory/\0.md",
        "~",
        "~nosuch/x",
        "..",
        "memory/../../x.md",
        "memory/" + "a" * 300 + ".md",
    ]
)
likely = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["query", "get"]),
        "id": st.integers(),
        "params": st.fixed_dictionaries(
            {},
            optional={
                name: odd_texts | st.text(st.characters(), max_size=30)
                for name in ("query", "key", "path", "ns", "cwd", "kind", "tags", "role", "tier")
            },
        ),
    }
)
fuzzed = settings(
    max_examples=rounds(60, 3_000), deadline=None, suppress_health_check=list(HealthCheck), print_blob=False
)


@fuzzed
@given(line=st.binary(max_size=400))
def test_any_bytes_get_an_error_or_a_close(common: Home, line: bytes) -> None:
    assert_answered(common, line)


@fuzzed
@given(value=json_values | requests)
def test_any_json_gets_an_answer(common: Home, value: Any) -> None:
    assert_answered(common, json.dumps(value).encode())


@fuzzed
@given(value=likely)
@example(value={"method": "get", "id": 1, "params": {"path": "memory/\0.md"}})
def test_any_text_in_a_question_is_answered_without_a_mistake(common: Home, value: Any) -> None:
    assert_answered(common, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"[" * 100_000, "bad_json"),
        (b'{"a":' * 100_000, "bad_json"),
        (b"[" * 100_000 + b"]" * 100_000, "bad_json"),
        (b'{"id":1,"method":"query","params":{"query":' + b"[" * 50_000 + b"]" * 50_000 + b"}}", "bad_json"),
        (b'{"id":1,"method":"query","params":{"query":' + b"[" * 99 + b"]" * 99 + b"}}", "bad_json"),
        (b'{"id": ' + b"9" * 4_301 + b', "method": "ping"}', "bad_json"),
        (b'{"id": 1, "method": "query", "params": {"limit": ' + b"9" * 500_000 + b"}}", "bad_json"),
        (b'{"id": 1e400, "method": "ping"}', "bad_json"),
        (b'{"id": NaN, "method": "ping"}', "bad_json"),
        (b'\xff\xfe{"id": 1}', "bad_json"),
        (b'{"id": 1, "method": "ping"', "bad_json"),
        (b'{"id": 1, "method": "ping"}{"id": 2, "method": "ping"}', "bad_json"),
        (b"[]", "bad_request"),
        (b'[{"id": 1, "method": "ping"}]', "bad_request"),
        (b'{"id": 1, "method": "query", "params": {"query": "x", "limit": ' + b"9" * 4_299 + b"}}", "bad_params"),
        (b'{"id": 1, "method": "query", "params": {"query": "x", "limit": -1}}', "bad_params"),
        (b'{"id": 1, "method": "query", "params": {"query": "x", "limit": 1.5}}', "bad_params"),
        (b'{"id": 1, "method": "query", "params": {"query": ""}}', "bad_params"),
        (b'{"id": 1, "method": "query", "params": {"query": "x", "since": "someday"}}', "bad_params"),
    ],
    ids=lambda value: repr(value[:60]),
)
def test_nonsense_is_refused_by_name(common: Home, line: bytes, code: str) -> None:
    with Caller(common) as caller:
        assert caller.ask(line + b"\n")["error"]["data"]["code"] == code
        assert caller.ask(call("ping"))["result"]["pong"] is True


def test_a_number_of_4299_digits_comes_back_as_it_was(common: Home) -> None:
    number = int("9" * 4_299)
    with Caller(common) as caller:
        assert caller.ask(call("ping", number))["id"] == number


def test_a_question_has_its_limit(common: Home) -> None:
    """One of 1 MiB would be seconds of work, which everybody else would wait for."""
    shapes = (" ".join(f"word{n}" for n in range(2_000)), "x" * 10_000, "(" * 10_000, '"' * 10_000, "世" * 10_000)
    for query in (shape[:10_000] for shape in shapes):
        with Caller(common) as caller:
            assert "result" in caller.ask(call("query", query=query, sync="none"))
            longer = caller.ask(call("query", query=query.ljust(10_001, "x")))
            assert longer["error"]["data"]["code"] == "too_large"


def test_a_request_over_one_mebibyte_is_too_large(common: Home) -> None:
    whole = b'{"id":1,"method":"ping","params":{}}'
    fits = whole + b" " * (MAX_REQUEST - len(whole) - 1) + b"\n"
    assert len(fits) == MAX_REQUEST
    with Caller(common) as caller:
        assert caller.ask(fits)["result"]["pong"] is True
        # One byte more, newline and all: refused, and the connection goes on.
        assert caller.ask(b" " + fits)["error"]["data"]["code"] == "too_large"
        assert caller.ask(call("ping"))["result"]["pong"] is True
        # No newline in sight: refused and closed.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            caller.send(b"x" * (MAX_REQUEST * 3))
        answer = caller.answer()
        assert answer is None or answer["error"]["data"]["code"] == "too_large"
        assert caller.answer() is None
    assert alive(common)


# --- the rules of the conversation ----------------------------------------------------------------------------


def test_a_notification_gets_no_answer(common: Home) -> None:
    quiet = [{"jsonrpc": "2.0", "method": method, "params": {}} for method in ("ping", "no.such", "query")]
    told = {"jsonrpc": "2.0", "method": "sync", "params": {"progress": True}}
    with Caller(common) as caller:
        assert caller.ask(*quiet, told, call("ping", "last"))["id"] == "last"


def test_an_id_comes_back_as_it_was(common: Home) -> None:
    with Caller(common) as caller:
        for number in (0, -7, 2.5, "", "späte Nachricht", "\ud83d", None):
            assert caller.ask(call("ping", number))["id"] == number


def test_answers_come_in_the_order_of_the_questions(common: Home) -> None:
    slow_and_quick = [("sync", {}), ("ping", {}), ("query", {"query": "tv"}), ("status", {}), ("nonsense", {})]
    asked = [call(*slow_and_quick[n % 5][:1], n, **slow_and_quick[n % 5][1]) for n in range(rounds(50, 1_000))]
    with Caller(common) as caller:
        sender = threading.Thread(target=caller.send, args=asked)
        sender.start()
        assert [caller.answer()["id"] for _ in asked] == list(range(len(asked)))  # type: ignore[index]
        sender.join()


def test_empty_lines_and_half_a_line_are_no_request(common: Home) -> None:
    with Caller(common) as caller:
        assert caller.ask(b"\n\r\n  \n", call("ping", 5))["id"] == 5
        caller.send(b'{"id": 6, "method": "pi')
        caller.socket.shutdown(socket.SHUT_WR)
        assert caller.answer() is None


def test_a_client_that_has_finished_sending_still_gets_its_answers(common: Home) -> None:
    with Caller(common) as caller:
        caller.send(call("sync", 1), call("get", 2, path=BIG))
        caller.socket.shutdown(socket.SHUT_WR)
        first, second = caller.answer(), caller.answer()
        assert first and first["id"] == 1
        assert second and len(second["result"]["text"]) > 200_000
        assert caller.answer() is None


def test_an_unknown_method_or_parameter_is_named(common: Home) -> None:
    with Caller(common) as caller:
        unknown = caller.ask(call("qeury"))["error"]
        assert unknown["code"] == -32601 and "`qeury`" in unknown["message"]
        assert "query" in unknown["data"]["hint"]
        typo = caller.ask(call("query", query="x", limt=3))["error"]
        assert typo["code"] == -32602 and "did you mean `limit`?" in typo["message"]
        far = caller.ask(call("ping", xyzzy=1))["error"]
        assert "no parameter `xyzzy`" in far["message"] and "did you mean" not in far["message"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"path": ""},
        {"path": "notes"},
        {"path": "~nosuchuser/notes"},
        {"path": "/tmp/a\0b", "ns": "x"},
        {"path": "/tmp/\ud800", "ns": "x"},
        {"path": "/" + "a/" * 4_000},
        {"path": "/nowhere/notes", "ns": "two words"},
        {"path": "/nowhere/notes", "globs": ["../*.md"]},
        {"path": "/nowhere/notes", "globs": ["/etc/*.md"]},
        {"path": "/nowhere/notes", "globs": "MEMORY.md", "follow": "yes"},
        {"path": "/etc/passwd"},
    ],
    ids=lambda given: repr(given)[:60],
)
def test_a_directory_that_cannot_be_one_is_refused_and_the_config_stays(common: Home, given: dict[str, Any]) -> None:
    before = (common.path / "config.toml").read_bytes()
    with Caller(common) as caller:
        assert caller.ask(call("workspace.add", **given))["error"]["data"]["code"] == "bad_params"
        assert caller.ask(call("workspace.rm", path="~nosuchuser/x"))["error"]["data"]["code"] == "bad_params"
        assert caller.ask(call("workspace.rm"))["error"]["data"]["code"] == "bad_params"
    assert (common.path / "config.toml").read_bytes() == before


def test_many_add_the_same_directory_at_once_and_it_is_added_once(home: Home) -> None:
    roots = [write_notes(home.path.parent / f"notes-{n}", {"MEMORY.md": f"## Only\n\nnumber{n}\n"}) for n in range(6)]
    home.configure("# mine\n")
    home.start()

    def add(root: Path) -> dict[str, Any]:
        with Caller(home) as caller:
            return caller.ask(call("workspace.add", path=str(root)))

    for _ in range(rounds(1, 20)):
        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(add, roots * 4))
        assert all("result" in answer for answer in answers), answers
        config = (home.path / "config.toml").read_text()
        assert config.startswith("# mine\n")
        assert [config.count(f'path = "{root}"') for root in roots] == [1] * len(roots)
        assert sum(answer["result"]["added"] for answer in answers) == len(roots)
        with ThreadPoolExecutor(6) as pool, Caller(home):
            list(pool.map(lambda root: home.wait().workspace_rm(path=root), roots))
        assert "workspace" not in (home.path / "config.toml").read_text()


# --- clients that leave, dawdle or come in crowds ---------------------------------------------------------------


def test_a_client_that_leaves_in_the_middle_of_an_answer_leaves_nothing_behind(common: Home) -> None:
    before = warmed_up(common)
    for nth in range(rounds(60, 1_000)):
        caller = Caller(common)
        match nth % 4:
            case 0:  # before the answer
                caller.send(call("get", path=BIG))
            case 1:  # in the middle of it
                caller.send(call("get", 1, path=BIG), call("get", 2, path=BIG))
                caller.socket.recv(10_000)
            case 2:  # in the middle of a request
                caller.send(b'{"id": 1, "method": "que')
            case _:  # while a long call runs
                caller.send(call("sync", vectors=True, progress=True))
        caller.leave()
    assert alive(common)
    no_more_is_open_than(before, common)


def test_who_does_not_wait_for_an_import_may_leave(home: Home) -> None:
    many = home.path.parent / "many"
    write_notes(
        many, {f"memory/{nth}.md": "".join(f"## {n}\n\nthe {n} smew\n\n" for n in range(40)) for nth in range(60)}
    )
    home.start()
    with Caller(home) as caller:
        assert caller.ask(call("workspace.add", path=str(many), wait=False, progress=True))["result"]["added"]
    home.wait().sync()
    assert "Traceback" not in home.log, home.log


def test_dribbling_senders_are_cut_off_and_slow_nobody_down(home: Home, workspace: Path) -> None:
    serve(home, workspace, "[server]\nline_timeout_s = 2.0\n")
    before = warmed_up(home)
    with Caller(home) as normal:
        alone = sorted(seconds_to_answer(normal) for _ in range(200))
    dribblers = [Caller(home) for _ in range(300)]
    going = dict.fromkeys(dribblers, True)
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.1):
            for dribbler in [one for one, on in going.items() if on]:
                try:
                    dribbler.socket.send(b" ")
                except OSError:
                    going[dribbler] = False

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        with Caller(home) as idle:
            beside: list[float] = []
            with Caller(home) as normal:
                while len(beside) < 200 or any(going.values()):
                    beside.append(seconds_to_answer(normal))
            # They never stopped for a second, and were cut off all the same; whoever had begun no line was not.
            assert idle.ask(call("ping"))["result"]["pong"] is True
    finally:
        stop.set()
        thread.join()
        for dribbler in dribblers:
            dribbler.leave()
    no_more_is_open_than(before, home)
    for who, took in (("alone", alone), ("beside 300 dribblers", sorted(beside))):
        print(f"{who}: p50 {took[len(took) // 2] * 1000:.1f} ms, p99 {took[len(took) * 99 // 100] * 1000:.1f} ms")


def seconds_to_answer(caller: Caller) -> float:
    began = time.monotonic()
    assert "result" in caller.ask(call("query", query="ErsatzTV", mode="text", sync="none"))
    return time.monotonic() - began


def test_clients_that_never_read_are_cut_off_and_cost_little(home: Home, workspace: Path) -> None:
    (workspace / BIG).write_text("# Big\n\n" + "\n\n".join(f"Paragraph {n}. " + "lorem " * 80 for n in range(600)))
    serve(home, workspace, "[server]\nline_timeout_s = 1.5\n")
    warmed_up(home)
    before = connections(home)
    with Caller(home) as caller:
        answer = len(json.dumps(caller.ask(call("get", path=BIG))))
    base, count = memory_mb(home), rounds(20, 200)
    deaf, peaks = [Caller(home) for _ in range(count)], []
    try:
        for nth, one in enumerate(deaf):
            one.send(*(call("get", number, path=BIG) for number in range(100)))
            if nth % 2:
                one.socket.shutdown(socket.SHUT_WR)
            # On a busy machine the first are cut off before the last have sent.
            peaks.append(memory_mb(home))
        # 100 answers for each would be count × 100 × 300 kB; what is kept is one buffer and one answer.
        while connections(home) > before:
            assert served(home)
            peaks.append(memory_mb(home))
            assert len(peaks) < 20_000
        bound = count * (2 * MAX_REQUEST + 2 * answer) / 1e6 + 100
        assert max(peaks) - base < bound < count * 100 * answer / 1e6
    finally:
        for one in deaf:
            one.leave()
    assert alive(home)


def test_a_thousand_clients_at_once_are_all_served(common: Home) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 1_000
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 500), hard))
    before = warmed_up(common)
    crowd: list[Caller] = []
    try:
        # While the daemon sleeps they queue up, so that all thousand are there at the same moment.
        assert common.daemon is not None
        common.daemon.send_signal(signal.SIGSTOP)
        try:
            for nth in range(count):
                crowd.append(Caller(common, 60))
                crowd[-1].send(call("ping", nth))
        finally:
            common.daemon.send_signal(signal.SIGCONT)
        answers = [caller.answer() for caller in crowd]
        assert [answer and answer["id"] for answer in answers] == list(range(count))
        assert [caller.ask(call("ping", "again"))["id"] for caller in crowd] == ["again"] * count
    finally:
        for caller in crowd:
            caller.leave()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    no_more_is_open_than(before, common)


def test_one_client_too_many_is_told_busy_and_may_come_again(home: Home, workspace: Path) -> None:
    serve(home, workspace, "[server]\nmax_clients = 10\n").close()
    crowd = [Caller(home) for _ in range(50)]
    for nth, caller in enumerate(crowd):
        with contextlib.suppress(BrokenPipeError):
            caller.send(call("ping", nth))
    answers = [caller.answer() for caller in crowd]
    refused = [answer["error"] for answer in answers if answer and "error" in answer]
    # A refused client that asked at once may see its connection reset before it sees why.
    assert sum(bool(answer and "result" in answer) for answer in answers) == 10
    assert refused and all(error["data"]["code"] == "busy" and error["data"]["retryable"] for error in refused)
    for caller in crowd:
        caller.leave()
    eventually(lambda: home.wait().ping()["pong"])


# --- writes whose answer does not come --------------------------------------------------------------------------


class Forgetful:
    """Stands between clients and the daemon, and hangs up instead of passing on the answer to a note."""

    def __init__(self, daemon: Home, place: Path) -> None:
        self.losing = True
        self._daemon = daemon
        place.mkdir(parents=True, mode=0o700)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(place / "memd.sock"))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with client, client.makefile("rb") as lines, Caller(self._daemon) as daemon:
                for line in lines:
                    answer = daemon.ask(line)
                    if self.losing and b'"note"' in line:
                        break
                    client.sendall(json.dumps(answer).encode() + b"\n")


def told(home: Home, text: str) -> int:
    """How often a text stands in the notes of the workspace."""
    return sum(file.read_text().count(text) for file in (home.path.parent / "agent").rglob("*.md"))


def test_a_write_that_timed_out_is_done_once_when_it_is_repeated(common: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert common.daemon is not None
    monkeypatch.setenv("MEMD_HOME", str(common.path))
    with Client(timeout=0.3) as impatient, Client() as patient:
        impatient.ping(), patient.ping()
        impatient.status(), patient.status()
        common.daemon.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(NoDaemon, match="may still be carried out") as caught:
                impatient.note("the okapi came at noon", now="2026-02-17T23:59", ns="agent")
            assert "memd log" in caught.value.hint
        finally:
            common.daemon.send_signal(signal.SIGCONT)
        # The client hung up before the daemon had read its line.
        eventually(lambda: "its client had gone before it began" in common.log)
        assert told(common, "okapi") == 0
        assert not patient.note("the okapi came at noon", now="2026-02-18T00:00", ns="agent")["repeated"]
        assert told(common, "okapi") == 1
        # It was answered, so that the next one is meant.
        assert not patient.note("the okapi came at noon", now="2026-02-18T00:01", ns="agent")["repeated"]


def test_a_command_whose_answer_was_lost_finds_what_it_did(common: Home) -> None:
    behind = Home(common.path.parent / "f")
    between = Forgetful(common, behind.path / "run")
    lost = behind.run("note", "the tapir sleeps", "-n", "agent")
    assert lost.returncode == 3 and "this may still be carried out" in lost.stderr and "memd log" in lost.stderr
    assert told(common, "tapir") == 1
    between.losing = False
    other = behind.run("note", "the tapir sleeps", "soundly", "-n", "agent")
    again = behind.run("note", "the tapir sleeps", "-n", "agent")
    assert other.returncode == again.returncode == 0
    assert "carried out already" in again.stderr and "carried out already" not in other.stderr
    assert told(common, "tapir") == 2
    assert not any((behind.state / "unanswered").iterdir()), "nothing is left of what was answered"


def test_one_who_has_finished_sending_and_one_who_wants_no_answer_are_served(common: Home) -> None:
    """`nc -U` ends its side when its input ends; that is not the same as leaving."""
    with Caller(common) as caller:
        caller.send(call("note", text="the kudu stays", ns="agent"))
        caller.socket.shutdown(socket.SHUT_WR)
        answer = caller.answer()
        assert answer and "result" in answer
    with Caller(common) as caller:
        caller.send({"jsonrpc": "2.0", "method": "note", "params": {"text": "the gnu left", "ns": "agent"}})
    eventually(lambda: told(common, "the gnu left") == 1)


# --- somebody else ----------------------------------------------------------------------------------------------


def test_another_user_is_closed_before_a_byte_is_read(home: Home, workspace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    serve(home, workspace).close()
    # The directories keep others out; they are opened here to see the second line of defence.
    for place in (home.path.parent, home.path, home.socket.parent):
        place.chmod(0o755)
    home.socket.chmod(0o666)
    # One byte, sent while the daemon sleeps. Closing a socket with something unread in it resets the connection;
    # had the byte been read, this would be a plain end of file.
    assert home.daemon is not None
    home.daemon.send_signal(signal.SIGSTOP)
    try:
        reader, writer = os.pipe()
        child = _as_nobody(home, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            assert told.read(5) == b"sent\n"
            home.daemon.send_signal(signal.SIGCONT)
            assert told.read() == b"reset"
        os.waitpid(child, 0)
    finally:
        home.daemon.send_signal(signal.SIGCONT)
    assert f"a connection of uid {NOBODY} was closed" in home.log
    assert alive(home)


def _as_nobody(home: Home, told: int) -> int:
    """A process of another user that sends one byte and says what became of it."""
    child = os.fork()
    if child:
        return child
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        caller.settimeout(PATIENCE)
        caller.connect(str(home.socket))
        caller.sendall(b"{")
        os.write(told, b"sent\n")
        try:
            os.write(told, caller.recv(100) or b"end of file")
        except ConnectionResetError:
            os.write(told, b"reset")
    except OSError as error:
        os.write(told, repr(error).encode())
    finally:
        os._exit(0)


def test_the_socket_itself_keeps_others_out(home: Home) -> None:
    home.start().close()
    assert home.socket.stat().st_mode & 0o777 == 0o600
    assert home.socket.parent.stat().st_mode & 0o777 == 0o700
    assert subprocess.run(["test", "-S", str(home.socket)], check=False).returncode == 0
