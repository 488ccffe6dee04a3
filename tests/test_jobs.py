"""What runs by the clock: schedules of the config, one job at a time, failures that are told, missed runs, each job."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memd.config.load import load
from memd.config.schema import EmbeddingSettings, JobsSettings, Settings
from memd.daemon.embedding.thread import Embedding
from memd.daemon.jobs.built_in import BuiltInJobs, ReflectionRunner
from memd.daemon.jobs.scheduler import APART, SOON, ScheduledJob, Scheduler
from memd.daemon.process.health import Health
from memd.daemon.serving.events import Events
from memd.daemon.writer.tasks import scan_workspaces
from memd.daemon.writer.worker import Worker
from memd.errors import ConfigError, MemdError, UsageError
from memd.indexer.store import catalog
from memd.indexer.store.own_stores import OwnStores
from memd.models import Workspace
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home, write_notes
from tests.faults.agreement import eventually
from tests.lab import held, wanted

MANY = 20
"""More jobs than there are."""


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.02)


def job(client: Client, name: str) -> dict[str, Any]:
    return next(one for one in client.job_list()["jobs"] if one["name"] == name)


def started(home: Home, workspace: Path, jobs: str = "") -> Client:
    home.configure(f'[jobs]\n{jobs}\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    return home.start()


def ago(**past: float) -> str:
    return (datetime.now(UTC) - timedelta(**past)).isoformat(timespec="milliseconds")


def in_time(moment: str) -> timedelta:
    """How far away something is."""
    return datetime.fromisoformat(moment) - datetime.now(UTC)


# --- the config -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('reflct = "1h"', "unknown setting `jobs.reflct`; did you mean `reflect`?"),
        ('backup = "1 hour"', '`jobs.backup` must be an interval such as "1h" or "90m", five cron fields'),
        ("backup = 3600", "`jobs.backup` must be text, not 3600"),
        ('decay = "0 24 * * *"', "`jobs.decay` must be a cron line whose hour is from 0 to 23 (`24` is not)"),
        ("jitter_s = -1", "`jobs.jitter_s` must be a whole number from 0 to 3600, not -1"),
    ],
)
def test_a_wrong_schedule_is_told_with_its_place(
    home: Home, monkeypatch: pytest.MonkeyPatch, line: str, expected: str
) -> None:
    monkeypatch.setenv("MEMD_HOME", str(home.path))
    home.configure(f"[jobs]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load(environ={})
    assert f"config.toml:2: {expected}" in caught.value.message
    assert home.run("config", "check").returncode == 2


def test_every_default_is_a_schedule_and_the_environment_can_change_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMD_HOME", str(home.path))
    assert load(environ={}).jobs == JobsSettings()
    assert load(environ={"MEMD_JOBS__LINK": "off"}).jobs.link == "off"


# --- the scheduler on its own -----------------------------------------------------------------------------------


class Kept:
    """What was told to be kept, run by run."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, bool, str]] = []

    def __call__(self, job: ScheduledJob) -> None:
        self.runs.append((job.name, job.running, job.result))


@pytest.fixture
def scheduler() -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def start(*jobs: ScheduledJob, keep: Callable[[ScheduledJob], None] = lambda job: None) -> Scheduler:
        made.append(Scheduler(Events(), lambda error: error))
        made[-1].start(jobs, keep, 0)
        return made[-1]

    yield start
    for one in made:
        one.stop()


def test_a_job_that_a_stop_cuts_short_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """And the one that waits for it is not begun."""
    begun, closed, done = threading.Event(), threading.Event(), threading.Event()

    def read() -> str:
        begun.set()
        assert closed.wait(PATIENCE)
        raise ZeroDivisionError("the store is closed")

    jobs = Scheduler(Events(), lambda error: error)
    jobs.start([ScheduledJob("read", "off", read), ScheduledJob("next", "off", lambda: str(done.set()))], Kept(), 0)
    with caplog.at_level(logging.INFO, "memd.scheduler"):
        asked, queued = jobs.ask("read"), jobs.ask("next")
        assert begun.wait(PATIENCE)
        eventually(lambda: not jobs._scheduler.get_jobs())
        jobs.stop()
        closed.set()
        assert not asked.result(PATIENCE)["ok"] and not queued.result(PATIENCE)["ok"]
    assert not done.is_set()
    assert not caplog.records


def test_scans_go_on_while_a_job_takes_long(scheduler: Callable[..., Scheduler]) -> None:
    scans, ended = threading.Semaphore(0), threading.Event()
    jobs = scheduler(
        ScheduledJob("scan", "1s", lambda: str(scans.release()), kept=False),
        ScheduledJob("long", "off", lambda: str(ended.wait(PATIENCE))),
    )
    asked = jobs.ask("long")
    eventually(lambda: jobs.states()[1]["running"])
    assert all(scans.acquire(timeout=PATIENCE) for _ in range(3)) and not asked.done()
    ended.set()
    assert asked.result(PATIENCE)["ok"]


def test_a_job_that_fails_says_so_and_does_not_stop_the_next(scheduler: Callable[..., Scheduler]) -> None:
    def refuse() -> str:
        raise MemdError("the disk is full", "make room")

    def slip() -> str:
        raise ZeroDivisionError("by nothing")

    kept = Kept()
    jobs = scheduler(
        ScheduledJob("refuse", "off", refuse),
        ScheduledJob("slip", "off", slip),
        ScheduledJob("well", "off", lambda: "done"),
        keep=kept,
    )
    told = [jobs.ask(name).result(PATIENCE) for name in ("refuse", "slip", "well")]
    assert [(one["ok"], one["result"]) for one in told] == [
        (False, "failed: the disk is full"),
        (False, "failed: ZeroDivisionError: by nothing"),
        (True, "done"),
    ]
    assert kept.runs[:2] == [("refuse", True, ""), ("refuse", False, "failed: the disk is full")]
    assert [one["next"] for one in jobs.states()] == [None, None, None]


def test_jobs_run_one_at_a_time(scheduler: Callable[..., Scheduler]) -> None:
    inside, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def long() -> str:
        inside.set()
        assert go_on.wait(PATIENCE)
        order.append("long")
        return ""

    jobs = scheduler(
        ScheduledJob("long", "off", long), ScheduledJob("short", "off", lambda: order.append("short") or "")
    )
    jobs.ask("long")
    assert inside.wait(PATIENCE)
    asked = jobs.ask("short")
    assert [one["running"] for one in jobs.states()] == [True, False]
    assert not asked.done() and not order
    go_on.set()
    asked.result(PATIENCE)
    assert order == ["long", "short"]


def test_a_job_runs_again_and_again(scheduler: Callable[..., Scheduler]) -> None:
    times: list[int] = []
    scheduler(ScheduledJob("often", "1s", lambda: str(times.append(1))))
    wait_for(lambda: len(times) >= 2)


def test_a_job_whose_runs_are_not_remembered_runs_at_the_start(scheduler: Callable[..., Scheduler]) -> None:
    """A scan does: `memd jobs` said for a minute after each start that there was none ever."""
    jobs = scheduler(
        ScheduledJob("scan", "1h", lambda: "nothing", kept=False), ScheduledJob("hourly", "1h", lambda: "")
    )
    wait_for(lambda: jobs.states()[0]["result"])
    assert in_time(jobs.states()[0]["next"]) > timedelta(minutes=59)
    assert jobs.states()[1]["last"] is None


def test_who_gives_up_waiting_does_not_make_it_run(scheduler: Callable[..., Scheduler]) -> None:
    inside, go_on = threading.Event(), threading.Event()
    ran: list[str] = []

    def hold() -> str:
        inside.set()
        assert go_on.wait(PATIENCE)
        return ""

    jobs = scheduler(ScheduledJob("hold", "off", hold), ScheduledJob("asked", "off", lambda: ran.append("x") or ""))
    jobs.ask("hold")
    assert inside.wait(PATIENCE)
    assert jobs.ask("asked").cancel()
    go_on.set()
    jobs.ask("hold").result(PATIENCE)
    assert ran == []


def test_a_run_that_was_asked_for_counts_as_the_one_that_was_missed(scheduler: Callable[..., Scheduler]) -> None:
    jobs = scheduler(ScheduledJob("missed", "10h", str, last=ago(hours=11)))
    assert in_time(jobs.states()[0]["next"]) <= SOON
    told = jobs.ask("missed").result(PATIENCE)
    assert timedelta(hours=9) < in_time(told["next"]) <= timedelta(hours=10)


def test_an_unknown_job_is_refused_with_the_list(scheduler: Callable[..., Scheduler]) -> None:
    jobs = scheduler(ScheduledJob("one", "off", str), ScheduledJob("two", "off", str))
    with pytest.raises(UsageError, match="no job is called 'three'") as caught:
        jobs.ask("three")
    assert caught.value.hint == "there are: one, two"


def test_missed_jobs_come_soon_one_after_the_other_and_the_others_as_ever(scheduler: Callable[..., Scheduler]) -> None:
    jobs = scheduler(
        ScheduledJob("missed", "10h", str, last=ago(hours=11)),
        ScheduledJob("not yet", "10h", str, last=ago(hours=1)),
        ScheduledJob("never", "10h", str),
        ScheduledJob("off", "off", str, last=ago(days=400)),
    )
    states = {one["name"]: one["next"] for one in jobs.states()}
    assert timedelta(0) < in_time(states["missed"]) <= SOON
    assert timedelta(hours=8) < in_time(states["not yet"]) <= timedelta(hours=9)
    assert SOON < in_time(states["never"]) <= SOON + 2 * APART
    assert states["off"] is None


def test_jobs_are_planned_again_when_the_clock_was_put_back(scheduler: Callable[..., Scheduler]) -> None:
    jobs = scheduler(ScheduledJob("hourly", "1h", str, last=ago(minutes=-50)))
    jobs._scheduler.get_job("hourly").modify(next_run_time=datetime.now(UTC) + timedelta(days=1))
    jobs.follow_clock()
    assert in_time(jobs.states()[0]["next"]) > timedelta(hours=20)
    # As if it had been a day later until now.
    jobs._clock += 86_400
    jobs.follow_clock()
    assert timedelta(0) < in_time(jobs.states()[0]["next"]) <= timedelta(hours=1)


# --- with a daemon ----------------------------------------------------------------------------------------------


def test_jobs_are_listed_run_and_remembered(home: Home, workspace: Path) -> None:
    # As soon as there are notes memd makes a first backup by itself.
    for note in workspace.rglob("*.md"):
        note.unlink()
    client = started(home, workspace, 'backup = "10h"\ncompact = "off"\njitter_s = 0')
    backup = job(client, "backup")
    assert backup["schedule"] == "10h" and backup["last"] is None and not backup["running"]
    assert in_time(backup["next"]) <= SOON + MANY * APART
    assert job(client, "compact")["next"] is None
    assert {one["name"] for one in client.status()["jobs"]} == {one["name"] for one in client.job_list()["jobs"]}
    done = home.run("jobs", "run", "backup")
    assert done.returncode == 0 and done.stdout.startswith("backup: state-night-"), done.stderr
    assert len(list(home.state.glob("backups/state-night-*.db"))) == 1
    told = json.loads(home.run("jobs", "run", "compact", "--json").stdout)["job"]
    assert told["ok"] and told["result"] == "swept" and told["next"] is None
    table = home.run("jobs").stdout.splitlines()
    assert table[0].split() == ["job", "schedule", "last", "run", "took", "next", "result"]
    assert any(line.startswith("backup") and "every 10h" in line and "state-night-" in line for line in table)
    last = job(client, "backup")["last"]
    assert in_time(job(client, "backup")["next"]) > timedelta(hours=9)
    assert home.stop() == 0
    again = job(home.start(), "backup")
    assert again["last"] == last and again["result"].startswith("state-night-")
    assert timedelta(hours=9) < in_time(again["next"]) <= timedelta(hours=10)


def test_a_run_that_was_missed_while_nobody_was_there_is_caught_up_once(home: Home, workspace: Path) -> None:
    started(home, workspace, 'backup = "10h"\nselfexam = "0 4 * * *"\njitter_s = 0').sync()
    assert home.stop() == 0
    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.execute("INSERT OR REPLACE INTO jobs VALUES ('backup', ?, 1, 'x')", (ago(days=9),))
        ledger.execute("INSERT OR REPLACE INTO jobs VALUES ('selfexam', ?, 1, 'x')", (ago(seconds=1),))
    client = home.start()
    assert timedelta(0) < in_time(job(client, "backup")["next"]) <= SOON + MANY * APART
    exam = datetime.fromisoformat(job(client, "selfexam")["next"]).astimezone()
    assert (exam.hour, exam.minute) == (4, 0)


def test_an_unknown_job_and_a_failed_one_have_their_exit_codes(home: Home, workspace: Path) -> None:
    client = started(home, workspace)
    wrong = home.run("jobs", "run", "bakup")
    assert wrong.returncode == 2 and "no job is called 'bakup'" in wrong.stderr and "backup" in wrong.stderr
    with pytest.raises(UsageError):
        client.job_run("")
    (home.state / "backups").write_text("in the way")
    failed = home.run("jobs", "run", "backup")
    assert failed.returncode == 6 and "failed: " in failed.stdout
    assert "job backup failed" in (home.state / "memd.log").read_text() + home.log
    assert job(client, "backup")["result"].startswith("failed: ")
    assert home.run("jobs", "run", "scan").returncode == 0


def test_jobs_count_no_accesses(home: Home, workspace: Path) -> None:
    client = started(home, workspace)
    client.sync(vectors=True)
    for one in client.job_list()["jobs"]:
        assert client.job_run(one["name"])["job"]["ok"], one["name"]
    assert job(client, "selfexam")["result"].startswith("found in the first 5")
    with sqlite3.connect(home.state / "state.db") as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM accesses").fetchone() == (0,)
        assert ledger.execute("SELECT SUM(accesses) FROM memories").fetchone() == (0,)


def test_every_job_run_twice_is_run_once(home: Home, workspace: Path) -> None:
    client = started(home, workspace)
    client.sync(vectors=True)
    names = [one["name"] for one in client.job_list()["jobs"] if one["name"] not in ("backup", "selfexam")]
    for name in names:
        client.job_run(name)
    before = rows(home)
    for name in names:
        client.job_run(name)
    assert rows(home) == before


def rows(home: Home) -> dict[str, list[Any]]:
    """Everything that jobs could change, but for when they ran."""
    with sqlite3.connect(home.state / "state.db") as ledger:
        tables = ("memories", "edges", "mentions", "shifts", "versions", "chunks", "accesses", "together")
        return {table: ledger.execute(f"SELECT * FROM {table}").fetchall() for table in tables}


def test_compact_gives_room_back_where_much_is_free(home: Home, workspace: Path) -> None:
    started(home, workspace).sync(vectors=True)
    assert home.stop() == 0
    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.execute("CREATE TABLE ballast (x)")
        ledger.executemany("INSERT INTO ballast VALUES (zeroblob(1000000))", [()] * 8)
        ledger.execute("DROP TABLE ballast")
    ledger.close()
    client = home.start()
    size = (home.state / "state.db").stat().st_size
    assert size > 8_000_000
    told = client.job_run("compact")["job"]["result"]
    assert "MB given back" in told
    wait_for(lambda: (home.state / "state.db").stat().st_size < size / 4)
    assert client.job_run("compact")["job"]["result"] == "swept"
    assert client.query("fjord", mode="text")["hits"]


def test_compact_drops_the_past_that_is_kept_no_longer(home: Home, workspace: Path) -> None:
    home.configure(f'[history]\nkeep_days = 30\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    client = home.start()
    client.sync()
    for nth in range(4):
        (workspace / "memory" / "2026-02-16.md").write_text(f"# 2026-02-16\n\n## Backup\n\nIt failed {nth} times.\n")
        client.sync()
    assert client.job_run("compact")["job"]["result"] == "swept, 0 former texts dropped"
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE versions SET at = '2020-01-01T00:00:00.000+00:00'")
    versions = len(client.history("2026-02-16#backup")["versions"])
    assert versions > 3
    assert client.job_run("compact")["job"]["result"] == f"swept, {versions - 2} former texts dropped"
    assert len(client.history("2026-02-16#backup")["versions"]) == 2


# --- reconcile --------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BuiltInJobs, Worker]]:
    """The jobs over real stores with one workspace, vectors and all, and no daemon that would mend them first."""
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    (tmp_path / "state").mkdir()
    stores = OwnStores(tmp_path / "state")
    worker = Worker(stores, Settings(), Health())
    worker.start()
    embedding = Embedding(worker, EmbeddingSettings())
    worker.submit(worker.stores.open_index, Workspace("agent", write_notes(tmp_path / "agent"))).result()
    worker.submit(scan_workspaces, worker).result()
    embedding.start()
    embedding.hurry()
    wait_for(lambda: embedding.phase == "ready" and embedding.caught_up())
    reflection = ReflectionRunner(worker, lambda: ())
    yield BuiltInJobs(worker, embedding, reflection, lambda day: "", lambda: None), worker
    embedding.stop(10)
    worker.stop(10)
    stores.close()


def test_reconcile_mends_caches_that_nobody_suspects(kept: tuple[BuiltInJobs, Worker]) -> None:
    jobs, worker = kept
    index, ledger = worker.stores.index("agent"), worker.stores.ledger
    chunks = catalog.chunk_ids(ledger.reader, index.id)
    assert index.collection is not None and held(index.collection) == wanted(index.collection)
    assert jobs.reconcile() == "in step"
    lost, collection = sorted(chunks)[0], index.collection
    index.text.apply((), [lost])
    (text,) = ledger.reader.execute("SELECT digest FROM chunks WHERE id = ?", (lost,)).fetchone()
    assert worker.stores.vectors is not None
    worker.stores.vectors.wait_open().drop(collection.name, [text])
    assert lost not in index.text.ids() and text not in held(collection)
    assert jobs.reconcile() == "mended agent: 1 in the text index, agent: 1 in the collection"
    assert index.text.ids() == chunks and held(collection) == wanted(collection)
    assert jobs.reconcile() == "in step"


def test_reconcile_makes_a_torn_text_index_again(kept: tuple[BuiltInJobs, Worker]) -> None:
    jobs, worker = kept
    index = worker.stores.index("agent")
    wanted = catalog.chunk_ids(worker.stores.ledger.reader, index.id)
    for file in worker.stores.text_folder(index.id).glob("*.trm"):
        file.write_bytes(b"torn")
    assert jobs.reconcile().startswith("mended agent: ")
    assert worker.stores.index("agent").text.ids() == wanted
    assert jobs.reconcile() == "in step"
