"""Standing queries: each new or changed memory that matches is told as it is saved, whoever else is slow or gone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memd.daemon.serving.events import IN_ALL, PER_CONNECTION, QUEUED
from memd.errors import Busy, NoDaemon, NotFound, TooLarge, UnknownWorkspace, UsageError
from memd.indexer.indexing.subscription_match import awaited_terms, chunk_terms
from memd.models import Chunk
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home, write_notes
from tests.faults.agreement import eventually, serve

DAY = "memory/2026-02-15.md"


def heard(client: Client, count: int = 1) -> list[dict[str, Any]]:
    """The next events of a client's subscriptions."""
    events = client.events()
    return [next(events) for _ in range(count)]


def nothing_more(client: Client, workspace: Path, word: str) -> None:
    """Nothing was told before a note that is known to be told."""
    (workspace / "memory" / "last.md").write_text(f"## Last\n\nThe {word} is the last.\n")
    (event,) = heard(client)
    assert event["hit"]["key"] == "last#last", event


@pytest.fixture
def served(home: Home, workspace: Path) -> Client:
    client = serve(home, workspace)
    client.sync()
    return client


# --- the rule ---------------------------------------------------------------------------------------------------


def shares(query: str, text: str, every: bool = True, heading: str = "", context: str = "") -> float:
    """Which share of the words a text has; 0 when it does not match."""
    chunk = Chunk(text, 1, 1, (heading,) if heading else (), context)
    found = awaited_terms(query, every).best([chunk_terms(chunk)])
    return found[1] if found else 0.0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ErsatzTV", "set up ersatztv again"),
        ("ersatztv", "ErsatzTV is set up"),
        ("ErsatzTV", "the Ersatz TV"),
        ("home-network", "our home network"),
        ("failing backups", "the backup failed"),
        ("what is the backup", "backup"),
        ("10.0.0.1", "the router is 10.0.0.1."),
        ("cafe", "the Café"),
        ("猫", "黒猫がいる"),
        ("東京タワー", "昨日、東京タワーへ"),
    ],
)
def test_every_telling_word_must_stand_there(query: str, text: str) -> None:
    assert shares(query, text) == 1.0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ErsatzTV backup", "set up ErsatzTV"),
        ("ErsatzTV", "an Ersatz for the old TV"),
        ("10.0.0.1", "between 1 and 10, or 0"),
        ("東京", "京都と東北"),
        ("router", "a routine"),
    ],
)
def test_what_does_not_stand_there_does_not_match(query: str, text: str) -> None:
    assert shares(query, text) == 0.0


def test_headings_and_tags_count_and_any_is_enough_where_it_was_asked() -> None:
    assert shares("ErsatzTV port", "the port is 8409", heading="ErsatzTV") == 1.0
    assert shares("baking", "Feed the starter.", context="baking bread") == 1.0
    assert shares("ErsatzTV backup", "set up ErsatzTV", every=False) == 0.5
    assert shares("garden backup", "set up ErsatzTV", every=False) == 0.0


def test_the_words_may_stand_in_different_pieces_and_the_best_is_shown() -> None:
    pieces = [chunk_terms(Chunk(text, 1, 1, ())) for text in ("one apple", "two pears", "pears and plums")]
    assert awaited_terms("apple plums pears", every=True).best(pieces) == (2, 1.0)
    assert awaited_terms("apple cherry", every=True).best(pieces) is None
    assert awaited_terms("", every=True).best(pieces) == (0, 1.0)


# --- what is told -----------------------------------------------------------------------------------------------


def test_a_new_note_is_told_as_a_hit(served: Client, workspace: Path) -> None:
    told = served.subscribe("ErsatzTV port", ns="agent", marks=True)
    assert told["ns"] == ["agent"] and served.status()["subscriptions"] == 1
    (workspace / "memory" / "2026-02-17.md").write_text("# 2026-02-17\n\n## Media\n\nErsatzTV has a new port. #media\n")
    (event,) = heard(served)
    hit = event["hit"]
    assert (event["subscription"], event["event"]) == (told["subscription"], "new")
    assert event["clock"].startswith("c:")
    (found,) = [hit for hit in served.query("ErsatzTV port")["hits"] if hit["key"] == "2026-02-17#media"]
    assert {name: hit[name] for name in hit if name not in ("score", "marks")} == {
        name: found[name] for name in hit if name not in ("score", "marks")
    }
    assert (hit["score"], hit["kind"], hit["role"], hit["tags"]) == (1.0, "episodic", "daily", ["media"])
    assert [hit["text"][start:end] for start, end in hit["marks"]] == ["ErsatzTV", "port"]


def test_an_edit_tells_the_memory_that_was_edited_and_no_other(served: Client, workspace: Path) -> None:
    served.subscribe(ns="agent")
    file = workspace / DAY
    file.write_text(file.read_text().replace("two apple trees", "three apple trees"))
    (event,) = heard(served)
    assert (event["event"], event["hit"]["key"]) == ("changed", "2026-02-15#garden")
    assert "three apple trees" in event["hit"]["text"]
    nothing_more(served, workspace, "garden")


def test_what_is_touched_moved_taken_out_or_rebuilt_is_not_told(served: Client, workspace: Path) -> None:
    file = workspace / DAY
    before = file.read_text()
    served.subscribe(ns="agent")
    os.utime(file)
    served.sync()
    file.write_text("# 2026-02-15\n\n" + "".join(f"## {part}" for part in reversed(before.split("## ")[1:])))
    served.sync()
    file.rename(workspace / "memory" / "2026-02-14.md")
    served.sync()
    (workspace / "memory" / "2026-02-16.md").unlink()
    served.sync()
    served.rebuild(ns="agent")
    nothing_more(served, workspace, "note")


def test_what_goes_and_comes_back_as_it_was_is_not_told(served: Client, workspace: Path) -> None:
    file = workspace / DAY
    before = file.read_text()
    served.subscribe(ns="agent")
    file.unlink()
    served.sync()
    file.write_text(before)
    served.sync()
    nothing_more(served, workspace, "note")


def test_the_words_and_the_filters_decide(served: Client, workspace: Path) -> None:
    wishes: dict[str, dict[str, Any]] = {
        "all": {"query": "heron pond"},
        "any": {"query": "heron pond", "match": "any"},
        "role": {"query": "heron", "role": "topic"},
        "kind": {"query": "heron", "kind": "episodic"},
        "tags": {"query": "heron", "tags": ["Birds"]},
        "folder": {"query": "heron", "path": "memory/topics"},
        "glob": {"query": "heron", "path": "memory/2026-*"},
    }
    names = {served.subscribe(ns="agent", **wish)["subscription"]: name for name, wish in wishes.items()}
    (workspace / "memory" / "2026-03-01.md").write_text("## Walk\n\nA heron at the pond.\n")
    (workspace / "memory" / "topics" / "birds.md").write_text("---\ntags: [birds]\n---\n\nThe heron eats frogs.\n")
    (workspace / "memory" / "2026-03-02.md").write_text("## Other\n\nNothing of it.\n")
    served.sync()
    seen = sorted((names[event["subscription"]], event["hit"]["key"]) for event in heard(served, 8))
    assert seen == [
        ("all", "2026-03-01#walk"),
        ("any", "2026-03-01#walk"),
        ("any", "birds"),
        ("folder", "birds"),
        ("glob", "2026-03-01#walk"),
        ("kind", "2026-03-01#walk"),
        ("role", "birds"),
        ("tags", "birds"),
    ]


def test_one_event_a_memory_however_long_it_is(served: Client, workspace: Path) -> None:
    served.subscribe("heron", ns="agent")
    long = "\n\n".join(f"Paragraph {nth}. " + "The heron came again and stood there. " * 8 for nth in range(20))
    (workspace / "memory" / "long.md").write_text(f"## Long\n\n{long}\n\n## Short\n\nA heron.\n")
    assert [event["hit"]["key"] for event in heard(served, 2)] == ["long#long", "long#short"]
    nothing_more(served, workspace, "heron")


# --- who is told ------------------------------------------------------------------------------------------------


def test_each_subscriber_is_told_and_each_ends_on_its_own(home: Home, served: Client, workspace: Path) -> None:
    first, second = Client(str(home.socket)), Client(str(home.socket))
    number = first.subscribe("heron", ns="agent")["subscription"]
    second.subscribe("heron", ns="agent")
    with pytest.raises(NotFound, match="no subscription"):
        second.unsubscribe(number)
    (workspace / "memory" / "a.md").write_text("## One\n\nA heron.\n")
    assert [heard(client)[0]["hit"]["key"] for client in (first, second)] == ["a#one", "a#one"]
    assert first.unsubscribe(number)["unsubscribed"] is True
    assert served.status()["subscriptions"] == 1
    second.close()
    eventually(lambda: served.status()["subscriptions"] == 0)


def test_a_subscription_hears_its_workspace_and_everywhere_means_later_ones_too(
    home: Home, served: Client, workspace: Path
) -> None:
    inside, everywhere = Client(str(home.socket)), Client(str(home.socket))
    assert inside.subscribe("heron", cwd=str(workspace / "memory"))["ns"] == ["agent"]
    assert everywhere.subscribe("heron", cwd="/")["ns"] == []
    served.workspace_add(write_notes(home.path.parent / "other", {"MEMORY.md": "## Birds\n\nA heron.\n"}))
    (event,) = heard(everywhere)
    assert (event["hit"]["ns"], event["event"]) == ("other", "new")
    nothing_more(inside, workspace, "heron")


def test_what_cannot_be_subscribed_to_is_refused(served: Client) -> None:
    for wish, error in (
        ({"query": "?!"}, UsageError),
        ({"query": "x" * 10_001}, TooLarge),
        ({"ns": "nobody"}, UnknownWorkspace),
        ({"match": "some"}, UsageError),
        ({"kind": "odd"}, UsageError),
    ):
        with pytest.raises(error):
            served.subscribe(**wish)
    with pytest.raises(UsageError, match="needs `subscription`"):
        served.call("unsubscribe")
    assert served.status()["subscriptions"] == 0


def test_there_are_limits_for_a_connection_and_for_all(home: Home, served: Client) -> None:
    clients = [Client(str(home.socket)) for _ in range(IN_ALL // PER_CONNECTION)]
    for client in clients:
        for _ in range(PER_CONNECTION):
            client.subscribe("heron", ns="agent")
        with pytest.raises(Busy):
            client.subscribe("heron", ns="agent")
    with pytest.raises(Busy, match=str(IN_ALL)):
        served.subscribe("heron", ns="agent")
    clients[0].close()
    eventually(lambda: served.status()["subscriptions"] == IN_ALL - PER_CONNECTION)
    assert served.subscribe("heron", ns="agent")["subscription"]


def test_an_answer_may_come_between_and_loses_nothing(served: Client, workspace: Path) -> None:
    served.subscribe("heron", ns="agent")
    (workspace / "memory" / "a.md").write_text("## One\n\nA heron.\n")
    served.sync()
    eventually(lambda: served.ping() and served._events)
    assert heard(served)[0]["hit"]["key"] == "a#one"


def test_a_connection_that_ended_is_not_waited_for(home: Home, served: Client) -> None:
    served.subscribe("heron", ns="agent")
    home.kill()
    with pytest.raises(NoDaemon, match="subscriptions ended"):
        next(served.events())
    home.start()
    assert served.ping()["pong"]
    with pytest.raises(NoDaemon):
        next(served.events())


# --- slow readers -----------------------------------------------------------------------------------------------


def many(workspace: Path, count: int, words: int) -> None:
    """A file of many memories."""
    parts = (f"## Note {nth}\n\nA heron, number {nth}. {'and so on ' * words}\n" for nth in range(count))
    (workspace / "memory" / "many.md").write_text("\n".join(parts))


def deaf(home: Home, **wish: Any) -> socket.socket:
    """A client that subscribes and then never reads."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(home.socket))
    link.sendall(json.dumps({"id": 1, "method": "subscribe", "params": wish}).encode() + b"\n")
    return link


def test_a_subscriber_that_never_reads_holds_up_nobody_and_is_told_what_it_missed(home: Home, workspace: Path) -> None:
    # Answers must be read within a second, but this was not asked for just now.
    served = serve(home, workspace, "[server]\nline_timeout_s = 1.0")
    link = deaf(home, query="heron", ns="agent")
    eventually(lambda: served.status()["subscriptions"] == 1)
    rounds = 0
    # What the kernel, the connection and the queue hold; then as many again.
    while rounds < 2:
        rounds += 1
        many(workspace, QUEUED, 40 + rounds)
        served.sync()
        (workspace / "memory" / "quick.md").write_text(f"## Quick\n\nThe kingfisher {rounds} dives.\n")
        assert served.query(f"kingfisher {rounds}", mode="exact", sync="full")["hits"]
    link.settimeout(PATIENCE)
    lines = link.makefile("rb")
    assert json.loads(lines.readline())["result"]["subscription"]
    told = dropped = 0
    while told + dropped < rounds * QUEUED:
        event = json.loads(lines.readline())["params"]
        told, dropped = told + ("hit" in event), dropped + event.get("dropped", 0)
    assert told + dropped == rounds * QUEUED
    assert QUEUED < told < rounds * QUEUED
    # The line is as good as new.
    (workspace / "memory" / "after.md").write_text("## After\n\nA heron.\n")
    assert json.loads(lines.readline())["params"]["hit"]["key"] == "after#after"
    link.close()


def test_an_import_of_many_files_reaches_a_reader_who_keeps_up(home: Home, served: Client) -> None:
    listening = Client(str(home.socket))
    listening.subscribe("heron")
    notes = {f"memory/{nth}.md": f"## Note\n\nA heron, number {nth}.\n" for nth in range(1_500)}
    served.workspace_add(write_notes(home.path.parent / "many", notes))
    events = heard(listening, len(notes))
    assert {event["hit"]["path"] for event in events} == set(notes)
    assert all(event["event"] == "new" and event["hit"]["ns"] == "many" for event in events)


# --- the command ------------------------------------------------------------------------------------------------


class Command:
    """A `memd subscribe` that runs."""

    def __init__(self, home: Home, *arguments: str, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "subscribe", *arguments],
            env=home.env, cwd=cwd or home.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None and self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr
        self.begun = self.err.readline()

    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.out.readline()))


@pytest.fixture
def command(home: Home) -> Iterator[Callable[..., Command]]:
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, cwd: Path | None = None) -> Command:
            made = Command(home, *arguments, cwd=cwd)
            stack.enter_context(made.process)
            stack.callback(made.process.kill)
            return made

        yield start


def test_a_memory_is_shown_as_a_hit_and_count_ends_it(
    served: Client, workspace: Path, command: Callable[..., Command]
) -> None:
    shown = command("grey", "heron", "--count", "1", cwd=workspace)
    assert shown.begun == "memd: waiting for “grey heron” in agent\n"
    (workspace / "memory" / "2026-03-01.md").write_text("## Walk\n\nA grey heron \x1b[31m stood there.\n")
    assert shown.process.wait(PATIENCE) == 0
    first, *lines = shown.out.read().splitlines()
    assert first == "new  memory/2026-03-01.md:1  2026-03-01#walk"
    assert [line.strip() for line in lines if line.strip()] == ["A grey heron ␛[31m stood there."]


def test_json_is_one_line_an_event_at_once(served: Client, workspace: Path, command: Callable[..., Command]) -> None:
    shown = command("heron", "--json", "-w", str(workspace), "--role", "daily")
    for nth in (1, 2):
        (workspace / "memory" / "birds.md").write_text(f"## Birds\n\nA heron, not daily, {nth}.\n")
        (workspace / "memory" / "2026-03-01.md").write_text(f"## Walk\n\nA heron, {nth}.\n")
        event = shown.event()
        assert (event["event"], event["hit"]["key"]) == (("new", "changed")[nth - 1], "2026-03-01#walk")
        assert "marks" not in event["hit"]


def test_exec_gets_the_memory_as_data_and_its_failure_is_told(
    home: Home, served: Client, workspace: Path, command: Callable[..., Command]
) -> None:
    out = home.path / "out"
    script = f'cat >> {out}; echo "$MEMD_EVENT|$MEMD_KEY|$MEMD_PATH|$MEMD_LINE|$MEMD_NS|$MEMD_ROOT"; exit 3'
    shown = command("heron", "--exec", script, "-n", "agent", "--count", "2")
    evil = f"$(touch {home.path}/evil) `touch {home.path}/evil`; touch {home.path}/evil; '\" && touch {home.path}/evil"
    (workspace / "memory" / "$(touch evil).md").write_text(f"## A heron {evil}\n\n{evil}\n")
    event, key, path, line, ns, root = shown.out.readline().rstrip("\n").split("|")
    assert (event, path, line, ns, root) == ("new", "memory/$(touch evil).md", "1", "agent", str(workspace))
    assert key.startswith("$(touch evil)#a-heron")
    assert "failed with code 3" in shown.err.readline()
    (workspace / "memory" / "b.md").write_text("## B\n\nA heron.\n")
    assert shown.process.wait(PATIENCE) == 0
    first, second = (json.loads(line) for line in out.read_text().splitlines())
    assert evil in first["hit"]["text"] and second["hit"]["key"] == "b#b"
    assert not list(home.path.parent.rglob("evil"))


def test_it_goes_on_when_the_daemon_was_killed_and_says_that_there_was_a_gap(
    home: Home, served: Client, workspace: Path, command: Callable[..., Command]
) -> None:
    shown = command("heron", "--json", "-n", "agent")
    home.kill()
    assert "the daemon is gone" in shown.err.readline()
    home.start()
    assert "the daemon is back" in shown.err.readline()
    assert shown.event() == {"event": "gap"}
    (workspace / "memory" / "a.md").write_text("## One\n\nA heron.\n")
    assert shown.event()["hit"]["key"] == "a#one"
    assert shown.process.poll() is None


def test_what_was_dropped_is_said(home: Home, served: Client, workspace: Path, command: Callable[..., Command]) -> None:
    go = home.path / "go"
    os.mkfifo(go)
    shown = command("heron", "--exec", f'[ "$MEMD_KEY" = first#first ] && cat {go}; true', "-n", "agent")
    (workspace / "memory" / "first.md").write_text("## First\n\nA heron.\n")
    with go.open("w"):
        # The command runs now, and memd does not read.
        for nth in range(2):
            many(workspace, QUEUED, 40 + nth)
            served.sync()
    assert re.fullmatch(
        r"memd: [1-9]\d* more events came faster than they could be shown, and are left out\n", shown.err.readline()
    )


def test_it_ends_with_its_reader_and_with_ctrl_c(
    served: Client, workspace: Path, command: Callable[..., Command]
) -> None:
    piped, interrupted = command("heron", cwd=workspace), command("heron", cwd=workspace)
    piped.out.close()
    assert piped.process.wait(PATIENCE) == 141 and piped.err.read() == ""
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.process.wait(PATIENCE) == 130
    assert interrupted.out.read() == ""


def test_what_makes_no_sense_is_refused(home: Home, served: Client) -> None:
    for arguments, code in (
        (["--json", "--exec", "true", "heron"], 2),
        (["--match", "some", "heron"], 2),
        (["-n", "nobody", "heron"], 2),
        (["--count", "0", "heron"], 2),
    ):
        done = home.run("subscribe", *arguments)
        assert done.returncode == code and (done.stdout if "--json" in arguments else done.stderr), arguments


def test_no_daemon_and_none_wanted_is_said(home: Home) -> None:
    assert home.run("subscribe", "heron", "--no-start").returncode == 3
