"""Reader processes: they answer as the daemon does, nothing that happens to them is noticed, and they end with it."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from memd.child import encode, receive, start_child
from memd.daemon.readers.messages import (
    CallResult,
    DaemonCall,
    ReadCall,
    Ready,
    dump_work,
    load_work,
)
from memd.daemon.readers.pool import ReaderPool
from memd.errors import Busy, LedgerDamaged, MemdError, UnknownWorkspace
from memd.indexer.indexing.read_files import RACY_NS
from memd.indexer.maintenance.rebuild import reconcile_text
from memd.indexer.query.search import search
from memd.indexer.store.followed import DaemonState, FollowedStores, attached
from memd.indexer.store.ledger import file_id
from memd.indexer.store.mirror import BLOCK, Mirror, MirrorPlace
from memd.indexer.store.stores import Stores
from memd.models import Ask
from memd.protocol.client import Client
from tests.conftest import Home
from tests.faults.agreement import eventually
from tests.lab import Lab

READERS = "[daemon]\nreaders = 2\n"


def readers(client: Client) -> list[int]:
    return list(client.status()["readers"])


def ask_until_read(client: Client, count: int = 2) -> list[int]:
    """Ask until as many readers answer; returns their numbers."""

    def started() -> bool:
        client.query("router")
        return len(readers(client)) == count

    eventually(started)
    return readers(client)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def asked(home: Home, workspace: Path) -> Iterator[Client]:
    """A client of a daemon whose readers answer."""
    home.configure(READERS)
    with home.start() as client:
        client.workspace_add(str(workspace))
        client.sync(vectors=True)
        ask_until_read(client)
        yield client


def test_a_daemon_that_is_hardly_asked_starts_no_readers(memory: Client) -> None:
    assert memory.query("router")["hits"]
    assert readers(memory) == []


@pytest.mark.linux
def test_another_one_is_started_when_all_are_busy(home: Home, workspace: Path) -> None:
    """By default: who asks one question after the other takes the memory of one."""
    with home.start() as client:
        client.workspace_add(str(workspace))
        client.sync(vectors=True)
        ask_until_read(client, 1)
        for nth in range(20):
            assert client.query(f"apple trees {nth}")["hits"]
        assert len(readers(client)) == 1
        (reader,) = (child for child in client.status()["children"] if child["pid"] in readers(client))
        assert reader["module"] == "memd.daemon.readers.process" and reader["memory_mb"] > 1
        most = min(4, os.cpu_count() or 1)

        def ask(nth: int) -> bool:
            with Client(home.socket) as one:
                return bool(one.query(f"apple trees {nth}")["hits"])

        with ThreadPoolExecutor(8) as pool:
            eventually(lambda: all(pool.map(ask, range(32))) and len(readers(client)) == most)


def test_none_are_started_when_none_are_wanted(home: Home, workspace: Path) -> None:
    home.configure("[daemon]\nreaders = 0\n")
    with home.start() as client:
        client.workspace_add(str(workspace))
        for _ in range(30):
            assert client.query("router")["hits"]
        assert readers(client) == []


@pytest.mark.parametrize("mode", ["hybrid", "text", "vector", "exact"])
def test_they_answer_as_the_daemon_does(home: Home, workspace: Path, mode: str) -> None:
    questions = ("apple trees", "the ErsatzTV endpoint", "fjord -router", "backup february", "zzzz")
    found: list[list[dict[str, object]]] = []
    # What was written a moment ago is read again by the next scan, and is pending for that moment.
    written = max(file.stat().st_ctime_ns for file in workspace.rglob("*.md"))
    eventually(lambda: time.time_ns() - written > RACY_NS)
    for config in ("[daemon]\nreaders = 0\n", READERS):
        home.configure(f'{config}[[workspace]]\npath = "{workspace}"\n')
        with home.start() as client:
            client.sync(vectors=True)
            if config is READERS:
                ask_until_read(client)
            answers = [client.query(question, mode=mode, explain=True) for question in questions]
            found.append([{**answer, "took_ms": 0, "clock": "", "lag_ms": 0} for answer in answers])
        home.stop()
    assert found[0] == found[1]


def test_other_questions_are_answered_by_them_too(asked: Client) -> None:
    key = asked.query("apple trees")["hits"][0]["key"]
    assert asked.get(key)["text"].startswith("## Garden")
    assert asked.list()["total"] == 6
    assert asked.grep("fjord")["blocks"] and asked.bus("router")["total"]
    assert asked.stats()["files"] == 4 and asked.log()["entries"] is not None
    assert "apple" in asked.context("plant apple trees")["text"]
    with pytest.raises(MemdError):
        asked.get("no such key")
    with pytest.raises(UnknownWorkspace):
        asked.query("router", ns="elsewhere")


def test_what_is_saved_is_found_at_once(asked: Client, workspace: Path) -> None:
    for nth in range(20):
        asked.note(f"The heron number {nth} stands on one leg.", title=f"Heron {nth}")
        texts = [hit["text"] for hit in asked.query(f"heron number {nth}", mode="text")["hits"]]
        assert any(f"number {nth} stands" in text for text in texts)
    (workspace / "memory" / "2026-02-17.md").write_text("# 2026-02-17\n\n## Owl\n\nThe owl is called Minerva.\n")
    assert asked.query("Minerva", sync="full")["hits"]
    (workspace / "memory" / "2026-02-17.md").unlink()
    assert not asked.query("Minerva", sync="full", mode="text")["hits"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_note_that_is_replaced_again_and_again_is_in_every_answer(home: Home, workspace: Path, count: int) -> None:
    home.configure(f"[daemon]\nreaders = {count}\n")
    note, fresh, done = workspace / "memory" / "heron.md", workspace / "fresh", threading.Event()

    def save(nth: int) -> None:
        fresh.write_text(f"---\ntags: [birds]\n---\n\n## Heron\n\nThe heron stands in pond {nth}.\n")
        fresh.rename(note)

    def save_again_and_again() -> None:
        for nth in itertools.takewhile(lambda _: not done.is_set(), itertools.count()):
            save(nth)
            time.sleep(0.05)

    save(0)
    with home.start() as client, ThreadPoolExecutor(1) as pool:
        client.workspace_add(str(workspace))
        ask_until_read(client, count)
        client.sync()
        saving = pool.submit(save_again_and_again)
        missed = []
        for nth in range(300):
            answer = client.query(('heron "stands in"', "heron tag:birds")[nth % 2], mode="text", sync="none")
            missed += [answer] if not answer["hits"] else []
        done.set()
        saving.result()
    assert missed == []


def test_a_workspace_that_comes_or_goes_is_known_to_them(asked: Client, home: Home) -> None:
    other = home.path.parent / "other"
    other.mkdir()
    (other / "MEMORY.md").write_text("# Memory\n\n## Whale\n\nThe whale sings in the bay.\n")
    asked.workspace_add(str(other), ns="other")
    assert asked.query("whale bay", ns="other", sync="full")["hits"]
    asked.workspace_rm(ns="other")
    with pytest.raises(UnknownWorkspace):
        asked.query("whale bay", ns="other")


def test_an_answer_has_all_that_its_clock_promises(asked: Client, home: Home) -> None:
    promised: list[tuple[int, str]] = []
    done = threading.Event()

    def write() -> None:
        with Client(home.socket) as writer:
            for nth in range(60):
                word = f"promise{nth:03}x"
                told = writer.note(f"It is about {word}.", title=word)
                promised.append((int(told["visible"].rsplit(":", 1)[1]), word))
        done.set()

    writing = threading.Thread(target=write)
    writing.start()
    while not done.is_set():
        known = promised[-1:]
        for clock, word in known:
            answer = asked.query(word, mode="text", sync="none")
            if int(answer["clock"].rsplit(":", 1)[1]) >= clock:
                assert any(word in hit["text"] for hit in answer["hits"]), (answer["clock"], clock, word)
    writing.join()


def test_questions_go_on_while_readers_are_killed(asked: Client) -> None:
    for _ in range(5):
        pids = ask_until_read(asked)
        os.kill(pids[0], signal.SIGKILL)
        for nth in range(10):
            assert asked.query(f"apple trees {nth}")["hits"]
        os.kill(pids[1], signal.SIGKILL)
        assert asked.query("router")["hits"]
        eventually(lambda pids=pids: not set(pids) & set(readers(asked)))
    assert asked.status()["degraded"] == []


def test_a_reader_that_hangs_is_replaced_and_its_question_answered(asked: Client) -> None:
    pids = readers(asked)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert asked.query("apple trees")["hits"]
    eventually(lambda: not set(pids) & set(ask_until_read(asked)))


@pytest.mark.linux
def test_a_reader_that_may_not_grow_is_replaced_and_its_question_answered(asked: Client, workspace: Path) -> None:
    pids = readers(asked)
    for pid in pids:
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
    # More vectors than a block of the mirror has, so that a reader maps another.
    many = (f"## Pear {nth}\n\npear {nth}\n\n" for nth in range(BLOCK + 100))
    (workspace / "memory/2026-03-01.md").write_text("".join(many))
    asked.sync()

    def all_replaced() -> bool:
        assert len(asked.query("pear", limit=100)["hits"]) == 100
        return not set(pids) & set(ask_until_read(asked))

    eventually(all_replaced)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_they_end_with_the_daemon(asked: Client, home: Home, how: str) -> None:
    pids = readers(asked)
    home.kill() if how == "kill" else home.stop()
    eventually(lambda: not any(alive(pid) for pid in pids))


# --- the parts --------------------------------------------------------------------------------------------------


def test_a_mirror_is_seen_by_who_attaches_it() -> None:
    rows = np.eye(16, dtype=np.float32)
    own = Mirror(16)
    other = Mirror.attach(own.place, 16)
    assert other is not None and other.search(rows[0], 3) == [] and len(other) == 0
    own.add(range(100, 116), rows)
    assert other.search(rows[5], 1) == [(105, 1.0)] and len(other) == 16
    own.drop([105])
    assert other.search(rows[5], 16)[0][1] == 0.0 and 105 not in dict(other.search(rows[5], 16))
    own.add(range(200, 400), np.tile(rows, (13, 1))[:200])
    assert len(other) == 215 and other.rank(rows[7], 107) == 1
    assert np.isnan(other.take([105])).all() and other.take([107]).tolist() == [rows[7].tolist()]
    assert not other.closed
    own.close()
    assert other.closed


def test_a_text_index_that_is_filled_without_a_tick_of_the_clock_is_read_again(tmp_path: Path) -> None:
    """As after an upgrade that makes it again: a reader that saw it empty must not answer without words for ever."""
    lab = Lab(tmp_path)
    index = lab.add({"memory/2026-03-01.md": "## Pear\n\nA pear tree.\n"})
    followed = FollowedStores(lab.stores.folder, lambda *asked: Future())

    def told() -> Mapping[str, object]:
        followed.follow(DaemonState(((index.id, index.workspace, False),), None, None))
        return lab.stores.indexes

    lab.stores.renew_text(index)
    before = told()
    assert followed.index("agent").text.postings().count == 0
    assert reconcile_text(lab.stores, index) == 1
    assert lab.stores.indexes is not before, "or the daemon would tell no reader"
    told()
    assert followed.index("agent").text.postings().count == 1


def test_work_is_sent_by_name_and_runs_with_the_stores_of_the_other_end() -> None:
    mine, theirs = Stores.__new__(Stores), Stores.__new__(Stores)
    sent = dump_work(search, (mine, Ask("router", ("agent",))), {"max_bytes": 10})
    work, args, kwargs = load_work(sent, theirs)
    assert work is search and args[0] is theirs and args[1] == Ask("router", ("agent",)) and kwargs == {"max_bytes": 10}


def test_a_reader_answers_also_when_what_it_read_cannot_be_sent(asked: Client, home: Home) -> None:
    ledger = [str(number) for number in file_id(home.state / "state.db") or ()]
    process, ours = start_child("memd.daemon.readers.process", str(home.state), *ledger, environment=home.env)
    with ours, process:
        assert receive(ours) == Ready()
        ours.sendall(encode(DaemonState((), None, None)))
        for number, work in enumerate((threading.Lock, int)):
            ours.sendall(encode(ReadCall(number, dump_work(work, (), {}))))
            answer = receive(ours)
            assert answer.number == number and (answer.error is None) == (work is int)
        ours.shutdown(socket.SHUT_RDWR)


def test_a_reader_hears_when_the_daemon_cannot_answer_it() -> None:
    sent: list[CallResult] = []
    pool = ReaderPool(Stores.__new__(Stores), ThreadPoolExecutor(1), 0)
    reader = SimpleNamespace(send=sent.append)
    loop = SimpleNamespace(call_soon_threadsafe=lambda call, argument: call(argument))
    pool._answer(reader, DaemonCall(7, "no such thing", ()), loop)  # type: ignore[arg-type]
    assert sent[0].number == 7 and isinstance(sent[0].error, MemdError)

    def malformed() -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    pool._for_readers["mirror"] = malformed
    pool._answer(reader, DaemonCall(8, "mirror", ()), loop)  # type: ignore[arg-type]
    assert isinstance(sent[1].error, LedgerDamaged)


def test_a_mirror_that_the_daemon_closed_before_it_was_opened_is_asked_for_again(tmp_path: Path) -> None:
    there, other, short = Mirror(2), Mirror(2), tmp_path / "short"
    there.add([7], np.eye(2, dtype=np.float32)[:1])
    short.write_bytes(b"not a mirror")
    ends = os.pipe(), socket.socketpair()
    # By now the number may be nobody's, or that of another mirror, a file, a pipe or a socket.
    by_now = [Path("/proc/self/fd/99999"), other.place.path, short]
    by_now += [Path(f"/proc/self/fd/{end}") for end in (ends[0][0], ends[1][0].fileno())]
    for path in by_now:
        gone = MirrorPlace(path, there.place.serial)
        told = iter([gone, there.place])
        found = attached(lambda told=told: next(told), 2, 0)
        assert found is not None and len(found) == 1, path
        with pytest.raises(Busy):
            attached(lambda gone=gone: gone, 2, 0)
    for end in ends[0]:
        os.close(end)
    for one in ends[1]:
        one.close()
    assert attached(lambda: None, 2, 0) is None
