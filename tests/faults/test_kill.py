"""kill -9 at named places and at random moments: afterwards files, ledger, Whoosh and Chroma agree."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from whoosh.filedb.filestore import FileStorage

from memd.errors import MemdError, NoDaemon
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.faults.agreement import (
    SOAK,
    assert_agreement,
    chroma_processes,
    eventually,
    rounds,
    serve,
    shown,
    wait_for_collections,
)
from tests.test_past import holders

LOADED = True

NO_BACKUP = '[jobs]\nbackup = "off"\n'
"""The first backup, which a daemon that rests makes, has what is forgotten later."""

DECIDED = (
    "after-ledger", "text-before-commit", "text-after-commit", "after-text", "after-vectors", "vectors-in-ledger",
)  # fmt: skip
"""Places behind the ledger's commit: what was forgotten there must not be shown, whatever the caches hold."""

PLACES = ("before-ledger", *DECIDED)
WITH_MODEL = ("after-vectors", "vectors-in-ledger")
"""Places that a change comes past only while the model is there, which takes a moment."""

IN_CHROMA = ("vectors-before-add", "vectors-after-add", "vectors-after-drop")
"""Places in the process that has Chroma, whose death is not the daemon's."""


def add(note: Path, nth: int) -> None:
    (note.parent / f"2026-03-{nth % 28 + 1:02d}-{nth}.md").write_text(f"# Day\n\n## New {nth}\n\nfresh walrus{nth}.\n")


def edit(note: Path, nth: int) -> None:
    note.write_text(f"# Day\n\n## Heron\n\nnothing but walrus{nth} is here now.\n\n## Kept\n\nsteady badger stays.\n")


def delete(note: Path, nth: int) -> None:
    note.unlink()


def prepare(workspace: Path, nth: int) -> Path:
    """A note whose text is about to be forgotten."""
    note = workspace / "memory" / f"2026-01-01-{nth}.md"
    note.write_text(f"# Day\n\n## Heron\n\nthe heron{nth} stands here.\n\n## Kept\n\nsteady badger stays.\n")
    return note


def reachable(place: str, act: Callable[[Path, int], None]) -> bool:
    """A deletion adds nothing to the caches."""
    return not (act is delete and place == "vectors-in-ledger")


def test_killed_at_each_place_while_it_watches(home: Home, workspace: Path) -> None:
    every = [(place, act) for place in PLACES for act in (add, edit, delete) if reachable(place, act)]
    few = [(place, act) for nth, place in enumerate(PLACES) for act in _one_of(place, nth)]
    cases = every if SOAK else few
    notes = [prepare(workspace, nth) for nth in range(len(cases))]
    serve(home, workspace).sync(vectors=True)
    for nth, (place, act) in enumerate(cases):
        _again(home, workspace, place)
        act(notes[nth], nth)
        _dies(home)
        client = serve(home, workspace)
        if act is not add and place in DECIDED:
            for mode in ("text", "vector", "hybrid"):
                assert f"heron{nth} stands" not in shown(client, f"heron{nth}", mode=mode, sync="none")
        thorough = place in WITH_MODEL or SOAK
        client.sync(vectors=thorough)
        assert_agreement(home, workspace, vectors=thorough)
        wanted = "badger" if act is delete else f"walrus{nth}"
        assert wanted in shown(client, wanted)
    client.sync(vectors=True)
    assert_agreement(home, workspace)


def _one_of(place: str, nth: int) -> list[Callable[[Path, int], None]]:
    acts = [act for act in (edit, delete, add) if reachable(place, act)]
    return [acts[nth % len(acts)]]


def _again(home: Home, workspace: Path, place: str) -> Client:
    """Restart with a failpoint set; only changes, not the start itself, come past it."""
    home.wait().sync(vectors=place in WITH_MODEL)
    home.stop()
    client = serve(home, workspace, MEMD_FAILPOINT=place)
    client.sync(vectors=place in WITH_MODEL or SOAK)
    return client


def _dies(home: Home) -> None:
    assert home.daemon is not None
    assert home.daemon.wait(PATIENCE) == -9


@pytest.mark.parametrize("place", IN_CHROMA)
def test_chroma_killed_at_each_place_costs_the_daemon_nothing(home: Home, workspace: Path, place: str) -> None:
    """Its process dies at that place each time it is started again; everything but the collection goes on."""
    notes = [prepare(workspace, nth) for nth in range(3)]
    client = serve(home, workspace)
    client.sync(vectors=True)
    wait_for_collections(home)
    home.stop()
    client = serve(home, workspace, MEMD_FAILPOINT=place)
    for nth, act in enumerate((add, edit, delete)):
        act(notes[nth], nth)
    client.sync(vectors=True)
    eventually(lambda: "collections" in client.status()["degraded"])
    assert "walrus1" in shown(client, "walrus1") and "walrus1" in shown(client, "walrus1", mode="vector")
    for mode in ("text", "vector", "hybrid"):
        assert "heron2 stands" not in shown(client, "heron2", mode=mode, sync="none")
    assert home.stop() == 0
    client = serve(home, workspace)
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    assert client.status()["degraded"] == [] and client.doctor()["ok"], client.doctor()["findings"]


def test_chroma_killed_while_it_writes_many_rows(home: Home, workspace: Path) -> None:
    """With more than a thousand rows, which it keeps in files of its own; questions are answered all the while."""
    chance = random.Random(11)
    bulk = workspace / "memory" / "bulk"
    bulk.mkdir()
    client = serve(home, workspace)
    client.sync(vectors=True)
    for nth in range(rounds(2, 100)):
        parts = (f"## Part {part}\n\nbulk text {part} of the knot{nth}.\n" for part in range(rounds(100, 15)))
        (bulk / f"{nth % 100}.md").write_text("# Bulk\n\n" + "\n".join(parts))
        client.sync()
        eventually(partial(chroma_processes, home))
        # In a soak long enough to load Chroma and to begin.
        time.sleep(chance.random() * (4.0 if SOAK else 0.3))
        _kill_chroma(home)
        assert f"knot{nth}" in shown(client, f"knot{nth}", sync="none")
        if nth % 2:
            # Of those that fail in a row each is tried later than the one before.
            client.sync(vectors=True)
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    assert client.status()["degraded"] == [] and client.doctor()["ok"], client.doctor()["findings"]


SECRET = "The zebra4711 opens the cellar door."


@pytest.mark.parametrize("whole", [False, True])
def test_killed_while_it_forgets_nothing_is_left_after_the_next_start(home: Home, workspace: Path, whole: bool) -> None:
    """The ledger has forgotten it, its free pages and the caches have not."""
    _secret(home, workspace).sync(vectors=True)
    wait_for_collections(home)
    home.stop()
    client = serve(home, workspace, NO_BACKUP, MEMD_FAILPOINT="forgotten")
    assert {file.split("/")[1] for file in holders(home.path, "zebra4711")} >= {"state.db", "text", "chroma"}
    if whole:
        (workspace / "memory/topics/secret.md").unlink()
        client.sync()
    with suppress(NoDaemon):
        client.workspace_rm(ns="agent", hard=True) if whole else client.rm("secret", hard=True)
    _dies(home)
    _forgotten(home, workspace)


def test_killed_while_chroma_has_yet_to_forget_nothing_is_left_after_the_next_start(
    home: Home, workspace: Path
) -> None:
    client = _secret(home, workspace)
    client.sync(vectors=True)
    wait_for_collections(home)
    for pid in chroma_processes(home):
        os.kill(pid, signal.SIGSTOP)
    assert "chroma" in {one["what"] for one in client.rm("secret", hard=True)["kept"]}
    home.kill()
    _kill_chroma(home)
    _forgotten(home, workspace)


def _secret(home: Home, workspace: Path) -> Client:
    client = serve(home, workspace, NO_BACKUP)
    client.sync()
    client.put("secret", SECRET)
    return client


def _forgotten(home: Home, workspace: Path) -> None:
    """A start finishes what was begun, once."""
    client = serve(home, workspace, NO_BACKUP)
    assert "ErsatzTV" in shown(client, "ErsatzTV") and "zebra4711" not in shown(client, "zebra4711")
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    home.stop()
    assert holders(home.path, "zebra4711") == []
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        assert ledger.execute("SELECT value FROM meta WHERE key = 'purging'").fetchall() == [("[]",)]


def _kill_chroma(home: Home) -> None:
    for pid in chroma_processes(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_killed_in_each_commit_of_a_start(home: Home, workspace: Path) -> None:
    """The changes were made while no daemon ran; each start dies one ledger commit later than the one before."""
    home.from_nothing = True
    notes = [prepare(workspace, nth) for nth in range(3)]
    serve(home, workspace).sync(vectors=True)
    home.stop()
    for nth, act in enumerate((add, edit, delete)):
        act(notes[nth], nth)
    for nth in range(2, rounds(6, 15)):
        try:
            serve(home, workspace, MEMD_FAILPOINT=f"ledger-commit:{nth}").sync(vectors=True)
        except (AssertionError, MemdError):
            # It died before it answered, or while.
            _dies(home)
        else:
            home.kill()
    serve(home, workspace).sync(vectors=True)
    assert_agreement(home, workspace)


def test_killed_at_random_moments(home: Home, workspace: Path) -> None:
    """Writes go on while the daemon is killed again and again; Chroma has more than 1,000 rows in a soak."""
    chance = random.Random(7)
    for nth in range(rounds(3, 60)):
        body = "\n\n".join(f"## Part {part}\n\nbulk text number {part} of file {nth}." for part in range(20))
        (workspace / "memory" / f"bulk-{nth}.md").write_text(f"# Bulk\n\n{body}\n")
    serve(home, workspace).sync(vectors=True)
    for nth in range(rounds(3, 100)):
        for _ in range(chance.randint(1, 6)):
            _scribble(workspace, chance, nth)
        time.sleep(chance.random() * 0.6)
        home.kill()
        client = serve(home, workspace)
        if chance.random() < 0.5:
            client.sync(vectors=chance.random() < 0.5)
    home.kill()
    client = serve(home, workspace)
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    assert client.doctor()["ok"]


def _scribble(workspace: Path, chance: random.Random, nth: int) -> None:
    files = sorted((workspace / "memory").glob("*.md"))
    note = chance.choice(files)
    match chance.randrange(4):
        case 0:
            (workspace / "memory" / f"new-{nth}-{chance.randrange(99)}.md").write_text(f"## New\n\nword{nth}\n")
        case 1:
            with note.open("a") as file:
                file.write(f"\n## Later {nth}\n\nappended word{nth}\n")
        case 2:
            note.write_text(note.read_text().replace("text", f"text{nth}", 5))
        case _ if len(files) > 3:
            note.unlink()


def test_what_was_acknowledged_is_there_after_a_kill(home: Home, workspace: Path) -> None:
    client = serve(home, workspace)
    for nth in range(rounds(3, 30)):
        (workspace / "MEMORY.md").write_text(f"# Memory\n\n## Only\n\nacknowledged otter{nth}\n")
        client.sync()
        clock = client.ping()["clock"]
        home.kill()
        client = home.start()
        # Without a look at the files: the stores themselves have it.
        assert f"otter{nth}" in shown(client, f"otter{nth}", sync="none")
        assert int(client.ping()["clock"].split(":")[2]) >= int(clock.split(":")[2])


def test_no_answer_at_or_past_the_clock_of_an_acknowledged_note_lacks_it_after_a_kill(
    home: Home, workspace: Path
) -> None:
    """The kill comes with the acknowledgement, and thousands of other changes before the next start."""
    home.from_nothing = False
    files = [workspace / "memory" / f"2026-01-{nth % 28 + 1:02d}-{nth}.md" for nth in range(rounds(200, 1_500))]
    for nth, file in enumerate(files):
        file.write_text(f"# Day\n\n## Part\n\nthe teal{nth} of the pond.\n")
    other = workspace.parent / "other"
    (other / "memory").mkdir(parents=True)
    more = f'[[workspace]]\npath = "{other}"\nns = "other"\n'
    client = serve(home, workspace, more)
    client.sync()
    compared = due = 0
    for nth in range(rounds(3, 50)):
        visible = [_promised(client.note(f"the {word}{nth} calls", ns=ns)) for ns, word in NOTED]
        home.kill()
        for file in files:
            file.write_text(f"# Day\n\n## Part\n\nthe teal{nth} of {file.stem}.\n")
        client = serve(home, workspace, more)
        importing = Thread(target=Client(home.socket).sync)
        importing.start()
        while importing.is_alive():
            for (ns, word), seq in zip(NOTED, visible, strict=True):
                for sync in ("none", "auto"):
                    answer = client.query(f"{word}{nth}", ns=[ns], sync=sync, mode="text", limit=50)
                    there = any(f"{word}{nth} calls" in hit["text"] for hit in answer["hits"])
                    compared += 1
                    due += int(answer["clock"].split(":")[2]) >= seq
                    assert there or (sync == "none" and int(answer["clock"].split(":")[2]) < seq), (nth, answer, seq)
    print(f"{compared} answers compared, {due} of them at or past the acknowledged clock; none lacked the note")


def test_a_note_that_only_the_ledger_has_when_it_is_killed_is_seen_at_its_clock(home: Home, workspace: Path) -> None:
    # On a busy machine the kill may overtake the answer: then nothing was promised.
    wordings = (f"the wigeon{nth} calls" for nth in count())
    said, seq = next((said, seq) for said in wordings if (seq := _noted_and_killed(home, workspace, said)) is not None)
    answer = serve(home, workspace).query(said, sync="none", mode="text")
    assert said in str(answer["hits"]) and int(answer["clock"].split(":")[2]) >= seq


def _noted_and_killed(home: Home, workspace: Path, said: str) -> int | None:
    """Write a note, and die when the ledger has it; the clock that was promised for it, if it was acknowledged."""
    serve(home, workspace).sync()
    client, seq = _again(home, workspace, "after-ledger"), None
    with suppress(NoDaemon):
        seq = _promised(client.note(said))
    _dies(home)
    return seq


NOTED = (("agent", "smew"), ("other", "scaup"))


def _promised(done: dict[str, Any]) -> int:
    return int(done["visible"].split(":")[2])


def test_a_killed_writer_leaves_no_files_behind(home: Home, workspace: Path) -> None:
    serve(home, workspace).sync()
    text = next((home.state / "text").iterdir())
    for nth in range(rounds(1, 20)):
        _again(home, workspace, "text-before-commit")
        (workspace / "MEMORY.md").write_text(f"## Only\n\nlynx{nth}\n")
        _dies(home)
        serve(home, workspace).sync()
        assert f"lynx{nth}" in shown(home.wait(), f"lynx{nth}")
    home.stop()
    segments = {file.name.split(".")[0] for file in text.iterdir() if file.suffix in (".trm", ".pst", ".col")}
    kept = FileStorage(str(text)).open_index()._segments()
    assert segments == {f"MAIN_{segment.segid}" for segment in kept}
    assert not list(text.glob("*tmp*"))
