"""Watching: what happens is told as it happens, by whom, to those who may know it, whoever else is slow or gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memd.daemon.jobs.scheduler import ScheduledJob, Scheduler
from memd.daemon.serving.events import PER_CONNECTION, Events
from memd.errors import Busy, NotFound, UnknownWorkspace, UsageError
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home, write_notes
from tests.faults.agreement import eventually, serve

ERSATZ = "2026-02-15#ersatztv"


@pytest.fixture
def served(home: Home, workspace: Path) -> Client:
    client = serve(home, workspace)
    client.sync()
    return client


@pytest.fixture
def watcher(served: Client, home: Home) -> Iterator[Client]:
    """A second connection, which watches."""
    with Client(home.socket) as client:
        yield client


def heard(client: Client, count: int = 1) -> list[dict[str, Any]]:
    events = client.events()
    return [next(events) for _ in range(count)]


def test_what_is_written_and_indexed_is_told_with_who_and_what(
    served: Client, watcher: Client, workspace: Path
) -> None:
    told = watcher.watch(ns="agent")
    assert told["ns"] == ["agent"] and watcher.status()["subscriptions"] == 1
    done = served.note("The NAS is up.", title="NAS", now="2026-02-17T14:27", who="mcp:claude-code")
    served.sync()
    # On a busy machine what the start indexed may be told as late as now.
    events = (event for event in watcher.events() if "memory/2026-02-17.md" in event["paths"])
    written, indexed = next(events), next(events)
    assert written == {
        "subscription": told["subscription"], "event": "written", "at": written["at"], "ns": "agent",
        "who": "mcp:claude-code", "what": "note", "key": done["key"], "action": done["action"],
        "paths": ["memory/2026-02-17.md"], "changed": True,
    }  # fmt: skip
    assert (indexed["event"], indexed["files"], indexed["paths"]) == ("indexed", 1, ["memory/2026-02-17.md"])
    assert indexed["chunks_added"] == 1 and indexed["chunks_dropped"] == 0
    (workspace / "memory" / "2026-02-16.md").unlink()
    (gone,) = heard(watcher)
    assert (gone["files"], gone["removed"], gone["paths"]) == (0, 1, ["memory/2026-02-16.md"])


def test_undo_and_imports_are_told_and_a_repeated_request_is_not(
    served: Client, watcher: Client, home: Home, tmp_path: Path
) -> None:
    watcher.watch(events="written")
    served.note("Once.", title="Once", who="a", request_id="r1")
    assert served.note("Once.", title="Once", who="a", request_id="r1")["repeated"]
    served.undo(who="a")
    (tmp_path / "other.md").write_text("## Kite\n\nIt flies.\n")
    served.ingest([tmp_path / "other.md"], who="b")
    assert [(event["what"], event["who"]) for event in heard(watcher, 3)] == [("note", "a"), ("undo", "a"), ("ingest", "b")]  # fmt: skip # noqa: E501


def test_only_the_kinds_and_workspaces_that_were_asked_for_are_told(
    served: Client, watcher: Client, home: Home
) -> None:
    served.workspace_add(write_notes(home.path.parent / "other"))
    watcher.watch(events=["written"], ns="other")
    served.note("Not for those who watch other.", ns="agent")
    served.sync()
    served.note("For them.", title="For them", ns="other")
    (event,) = heard(watcher)
    assert (event["event"], event["ns"]) == ("written", "other")


def test_jobs_are_told_but_not_the_scan_of_every_minute() -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    class Someone(Events):
        def tell(self, kind: str, **facts: Any) -> None:
            told.append((kind, facts))

    scheduler = Scheduler(Someone(), lambda error: error)
    jobs = [ScheduledJob("scan", "60s", lambda: "0 changed", kept=False), ScheduledJob("sweep", "1h", lambda: "swept")]
    scheduler.start(jobs, lambda job: None, 0)
    try:
        for job in jobs:
            assert scheduler.ask(job.name).result(PATIENCE)["ok"]
    finally:
        scheduler.stop()
    ((kind, facts),) = told
    assert kind == "job" and facts["job"] == "sweep" and facts["result"] == "swept"


def test_who_was_shown_a_memory_is_told_and_a_probe_is_not(served: Client, watcher: Client, home: Home) -> None:
    watcher.watch(events="accessed", ns="agent")
    served.get("2026-02-15#garden", observe=False)
    served.query("ErsatzTV endpoint", mode="text", limit=1, who="ada")
    (event,) = heard(watcher)
    assert (event["event"], event["ns"], event["key"], event["who"]) == ("accessed", "agent", ERSATZ, "ada")
    with Client(home.socket, who="planner") as planner:
        planner.get(ERSATZ)
    (event,) = heard(watcher)
    assert (event["key"], event["who"]) == (ERSATZ, "planner"), "a client says who it is without being asked"


def test_a_move_is_told_whoever_made_it_and_an_undo_of_it_too(served: Client, watcher: Client) -> None:
    watcher.watch(events="moved", ns="agent")
    done = served.curate(ERSATZ, "archive", who="ada", request_id="r1")
    served.curate(ERSATZ, "archive", who="ada", request_id="r1")
    served.undo(done["action"])
    there, back = heard(watcher, 2)
    assert there == {
        "subscription": there["subscription"], "event": "moved", "at": there["at"], "ns": "agent",
        "key": ERSATZ, "from": "stm", "to": "dormant", "why": "archive",
    }  # fmt: skip
    assert (back["key"], back["from"], back["to"]) == (ERSATZ, "dormant", "stm")
    served.rule_set("rest", "tier=stm age>0h → archive")
    served.reflect(dry_run=True)
    (report,) = served.reflect()["workspaces"]
    told = heard(watcher, report["moved"])
    assert report["moved"] and {(one["key"], one["from"], one["to"], one["why"]) for one in told} == {
        (move["key"], move["from"], move["to"], move["why"]) for move in report["moves"]
    }


def test_it_ends_with_unsubscribe_and_with_its_connection(served: Client, watcher: Client, home: Home) -> None:
    number = watcher.watch()["subscription"]
    with pytest.raises(NotFound):
        served.unsubscribe(number)
    assert watcher.unsubscribe(number)["unsubscribed"] and served.status()["subscriptions"] == 0
    watcher.watch()
    watcher.close()
    eventually(lambda: served.status()["subscriptions"] == 0)


def test_bad_wishes_are_refused(served: Client, watcher: Client) -> None:
    with pytest.raises(UsageError, match="indexed, written, accessed, moved, job, not 'read'"):
        watcher.watch(events="read")
    with pytest.raises(UnknownWorkspace):
        watcher.watch(ns="nowhere")
    for _ in range(PER_CONNECTION):
        watcher.watch()
    with pytest.raises(Busy):
        watcher.watch()


def test_a_reader_who_does_not_read_holds_up_nobody_and_is_told_how_much_he_missed(served: Client, home: Home) -> None:
    many, long = 40, "w" * 200_000
    with Client(home.socket) as slow:
        slow.watch(events="written")
        for nth in range(many):
            served.note(f"Text {nth}.", title=f"Note {nth}", who=long)
        seen = missed = 0
        for event in slow.events():
            seen, missed = seen + (event["event"] == "written"), missed + event.get("dropped", 0)
            if seen + missed == many:
                break
        assert 0 < missed < many
        served.note("Now he reads.", title="Now", who="last")
        assert heard(slow)[0]["who"] == "last"


# --- the command ------------------------------------------------------------------------------------------------


class Watching:
    """`memd watch`, running."""

    def __init__(self, home: Home, *arguments: str, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "watch", *arguments],
            env=home.env, cwd=cwd or home.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout and self.process.stderr
        self.out, self.err = self.process.stdout, self.process.stderr

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_the_command_shows_a_line_an_event(served: Client, home: Home, workspace: Path) -> None:
    with Watching(home, "--event", "written", "--count", "2", cwd=workspace) as watching:
        assert "watching agent" in watching.err.readline()
        served.note("The NAS is up.", title="NAS", now="2026-02-17T14:27", who="mcp:claude-code")
        served.put("deploy", "make \x1b[31mship", who="cli\x1b[2J")
        first, second = watching.out.readline(), watching.out.readline()
        assert first.split()[1:] == ["written", "2026-02-17#14-27-nas", "note", "by", "mcp:claude-code"]
        assert "deploy  put by cli" in second and "\x1b" not in second
        assert watching.process.wait(PATIENCE) == 0


def test_the_command_speaks_json_and_outlives_the_daemon(served: Client, home: Home, workspace: Path) -> None:
    with Watching(home, "--json", "--event", "indexed", "-n", "agent") as watching:
        assert "watching agent" in watching.err.readline()
        home.stop()
        assert "the daemon is gone" in watching.err.readline()
        again = home.start()
        assert "memd log" in watching.err.readline()
        assert json.loads(watching.out.readline()) == {"event": "gap"}
        again.sync()
        (workspace / "memory" / "new.md").write_text("## New\n\nIt is.\n")
        event = json.loads(watching.out.readline())
        assert event["event"] == "indexed" and event["paths"] == ["memory/new.md"]
        watching.process.send_signal(signal.SIGINT)
        assert watching.process.wait(PATIENCE) == 130


def test_the_command_ends_with_its_reader(served: Client, home: Home) -> None:
    with Watching(home) as watching:
        assert "watching" in watching.err.readline()
        watching.out.close()
        watching.process.wait(PATIENCE)


def test_the_command_shows_the_other_kinds() -> None:
    from memd.cli.commands.events import columns

    base = {"subscription": 1, "at": "2026-02-17T14:27:00.000+00:00", "ns": "agent"}
    shown = {
        kind: "  ".join(columns({**base, "event": kind, **facts}, several=True)).split("  ", 1)[1]
        for kind, facts in {
            "accessed": {"key": "a#b", "who": "cli"},
            "moved": {"key": "a#b", "from": "stm", "to": "ltm", "why": "used often"},
            "job": {"job": "sweep", "result": "swept"},
            "indexed": {"files": 5, "removed": 1, "chunks_added": 9, "chunks_dropped": 2, "paths": list("abcdef")},
            "later": {"some": 1},
        }.items()
    }
    assert shown == {
        "accessed": "accessed  agent  a#b  by cli",
        "moved": "moved     agent  a#b  stm → ltm  used often",
        "job": "job       agent  sweep  swept",
        "indexed": "indexed   agent  a, b, c, and 3 more  (5 files, 1 removed; chunks +9 -2)",
        "later": "later     agent  subscription=1  some=1",
    }
