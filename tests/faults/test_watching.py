"""Whatever happens to the files, the index follows: by events at once, by the scan at the latest."""

from __future__ import annotations

import codecs
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memd.errors import NotFound, Refused
from memd.notes.parse import parse
from memd.protocol.client import Client
from tests.conftest import Home, write_notes
from tests.faults.agreement import assert_agreement, eventually, rounds, serve, shown, stand_still

LOADED = True


def found(client: Client, word: str) -> bool:
    """Whether the stores have it, without a look at the files."""
    return word in shown(client, word, sync="none")


def indexed(home: Home) -> int:
    """How many times something was indexed so far."""
    return home.log.count("INFO memd.worker: indexed ")


def the(client: Client) -> dict:
    return client.status()["workspaces"][0]


def scanned(client: Client) -> bool:
    """Whether the first job of a daemon has run, which is a scan."""
    return any(job["name"] == "scan" and job["last"] and not job["running"] for job in client.status()["jobs"])


def skipped(client: Client) -> dict[str, str]:
    return {entry["path"]: entry["why"] for entry in the(client)["skipped"]}


def life_of(home: Home, word: str) -> list[tuple[int, str]]:
    """The number and first sight of the memory that has a word."""
    import sqlite3

    with sqlite3.connect(f"file:{home.state / 'state.db'}?mode=ro", uri=True) as ledger:
        return ledger.execute(
            "SELECT m.id, m.first_seen FROM memories m JOIN chunks c ON c.memory = m.id WHERE c.text LIKE ?",
            (f"%{word}%",),
        ).fetchall()


# --- events: nobody asks for a scan, which comes once an hour here ------------------------------------------

CALM = "[watch]\nscan_seconds = 3600\n"


def test_create_edit_delete_rename_and_atomic_replace_are_noticed(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.sync()
    note = workspace / "memory" / "2026-03-01.md"
    note.write_text("# Day\n\n## Kite\n\nthe kite flies\n")
    eventually(lambda: found(client, "kite"))
    note.write_text("# Day\n\n## Kite\n\nthe kite flies with a pelican\n")
    eventually(lambda: found(client, "pelican"))
    life = life_of(home, "pelican")

    note.rename(note.with_name("2026-03-02.md"))
    eventually(lambda: "2026-03-02.md" in shown(client, "pelican", sync="none"))
    eventually(lambda: "2026-03-01.md" not in shown(client, "pelican", sync="none"))
    assert life_of(home, "pelican") == life, "a renamed file's memories keep their lives"

    before = indexed(home)
    fresh = note.with_name(".2026-03-02.md.tmp")
    fresh.write_text("# Day\n\n## Kite\n\nthe kite flies with a pelican and an ostrich\n")
    fresh.rename(note.with_name("2026-03-02.md"))
    eventually(lambda: found(client, "ostrich"))
    time.sleep(0.3)
    assert indexed(home) == before + 1, "an atomic replace is one re-index"
    assert life_of(home, "ostrich") == life, "an edit keeps a memory's life"

    note.with_name("2026-03-02.md").unlink()
    eventually(lambda: not found(client, "ostrich"))
    client.sync(vectors=True)
    assert_agreement(home, workspace)


def test_a_folder_is_removed_and_made_again(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.sync()
    for nth in range(rounds(2, 10)):
        shutil.rmtree(workspace / "memory")
        eventually(lambda: not found(client, "ErsatzTV"))
        (workspace / "memory" / "deep" / "er").mkdir(parents=True)
        (workspace / "memory" / "deep" / "er" / "note.md").write_text(f"## Again\n\nErsatzTV is back {nth}\n")
        eventually(lambda: found(client, "ErsatzTV"))
        # The folder that was made again must be watched again.
        time.sleep(1.2)
        (workspace / "memory" / "deep" / "er" / "note.md").write_text(f"## Again\n\nErsatzTV and gannet{nth}\n")
        eventually(lambda nth=nth: found(client, f"gannet{nth}"))
    assert_agreement(home, workspace, vectors=False)


def test_a_workspace_that_does_not_exist_yet(home: Home) -> None:
    place = home.path.parent / "later" / "agent"
    client = serve(home, place, CALM)
    client.sync()
    assert the(client)["watch"] == "waiting"
    assert client.status()["degraded"] == []
    (place / "memory").mkdir(parents=True)
    (place / "memory" / "first.md").write_text("## First\n\nthe first puffin\n")
    eventually(lambda: found(client, "puffin"))
    eventually(lambda: the(client)["watch"] == "inotify")
    (place / "MEMORY.md").write_text("## Second\n\nthe second razorbill\n")
    eventually(lambda: found(client, "razorbill"))


def test_a_workspace_that_vanishes_is_held_and_comes_back(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.sync(vectors=True)
    life = life_of(home, "apple trees")
    away = workspace.with_name("away")
    workspace.rename(away)
    eventually(lambda: client.status()["degraded"] == ["held:agent"])
    told = client.sync()
    assert told["held"] == 4 and told["degraded"] == ["held:agent"]
    assert found(client, "ErsatzTV"), "nothing is lost"
    assert the(client)["missing"]
    assert "--accept-missing" in client.status()["degraded_details"][0]["fix"]
    home.stop()
    client = home.start()
    client.sync()
    assert found(client, "ErsatzTV") and client.status()["degraded"] == ["held:agent"], "nor after a restart"
    away.rename(workspace)
    eventually(lambda: client.status()["degraded"] == [])
    (workspace / "memory" / "2026-02-16.md").write_text("## Back\n\nthe cormorant came back\n")
    eventually(lambda: found(client, "cormorant"))
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    assert life_of(home, "apple trees") == life
    assert client.status()["embedded"] <= 1


def test_an_empty_folder_in_place_of_a_workspace_is_held_as_one_that_is_gone(home: Home, workspace: Path) -> None:
    """An unmounted disk leaves one."""
    client = serve(home, workspace, CALM)
    client.sync()
    away = workspace.with_name("away")
    workspace.rename(away)
    workspace.mkdir()
    assert client.sync()["held"] == 4 and client.status()["degraded"] == ["held:agent"]
    assert found(client, "ErsatzTV"), "nothing is lost"
    workspace.rmdir()
    away.rename(workspace)
    eventually(lambda: client.status()["degraded"] == [])
    shutil.rmtree(workspace / "memory")
    assert client.sync()["held"] == 0
    (workspace / "MEMORY.md").unlink()
    assert client.sync()["held"] == 0, "the last file of all may well be deleted"
    assert client.status()["degraded"] == [] and not found(client, "ErsatzTV")


def test_mass_deletion_is_held_until_it_is_accepted(home: Home, workspace: Path) -> None:
    many = workspace / "memory" / "many"
    many.mkdir()
    for nth in range(30):
        (many / f"note{nth}.md").write_text(f"## Note\n\nguillemot number{nth}\n")
    client = serve(home, workspace, CALM)
    client.sync()
    stand_still(home)  # Else a pause after the first of them makes that one a deletion of its own.
    shutil.rmtree(many)
    home.daemon.send_signal(signal.SIGCONT)
    assert client.sync()["held"] == 30
    assert client.status()["degraded"] == ["held:agent"]
    assert found(client, "guillemot")
    path = "memory/many/note7.md"
    for lost in ({"key": f"{path}#note"}, {"path": path}):
        with pytest.raises(NotFound, match=f"{path} is gone") as told:
            client.get(**lost)
        assert "memd status" in told.value.hint and "sync" not in told.value.hint
    # What else happens is indexed meanwhile, and does not let go of them.
    (workspace / "MEMORY.md").write_text("## Other\n\nan unrelated dunlin\n")
    eventually(lambda: found(client, "dunlin"))
    assert client.sync()["degraded"] == ["held:agent"]
    let_go = client.sync(accept_missing=True)
    assert let_go["removed"] == 30 and let_go["degraded"] == []
    assert not found(client, "guillemot")
    assert_agreement(home, workspace, vectors=False)


def test_many_files_that_memd_removed_itself_are_not_held(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    given = write_notes(workspace.parent / "given", {f"g{nth}.md": f"## G\n\nguillemot {nth}\n" for nth in range(40)})
    (action,) = client.ingest(str(given))["actions"]
    client.undo(action)
    assert client.sync()["degraded"] == [] and not found(client, "guillemot")
    assert_agreement(home, workspace, vectors=False)


def test_a_workspace_that_vanishes_right_after_a_write_is_held(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.sync()
    known = client.list()["total"]
    write_notes(workspace, {f"memory/t{nth}.md": f"A note #old {nth}.\n" for nth in range(30)})
    client.sync()
    client.tag_rename("old", "new", ns="agent")
    home.kill()
    workspace.rename(aside := workspace.with_name("aside"))
    with home.start() as after:
        after.sync()
        assert after.status()["degraded"] == ["held:agent"] and after.list()["total"] == known + 30
        assert after.trash()["memories"] == []
        aside.rename(workspace)
        after.sync()
        assert after.status()["degraded"] == [] and after.query("tag:new", mode="text")["total"] == 30


def test_what_another_workspace_lacks_is_missing_from_no_answer(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.workspace_add(str(write_notes(workspace.parent / "other")), ns="other")
    client.sync()
    shutil.rmtree(workspace)
    assert client.sync(ns="agent")["degraded"] == ["held:agent"]
    assert client.query("router", ns="other", mode="text")["degraded"] == []
    assert client.query("router", ns=["other", "agent"], mode="text")["degraded"] == ["held:agent"]
    with Client(home.socket, bind="other") as bound:
        assert bound.ping()["degraded"] == [] == bound.query("xyzzy", mode="text")["degraded"]


def test_a_few_deletions_are_believed(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.sync()
    before = the(client)["files"]
    for note in (workspace / "memory").glob("*.md"):
        note.unlink()
    # By the events or by the sync, whichever comes first.
    client.sync()
    assert the(client)["files"] == before - 2
    assert client.status()["degraded"] == []


# --- settling -----------------------------------------------------------------------------------------------


SETTLE, LONGEST = 0.4, 2.0
"""Seconds that a file must rest before it is read, and after which one that never rests is read all the same."""


def test_a_dribbling_writer_is_not_indexed_half_written(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, f"[watch]\nscan_seconds = 3600\nsettle_ms = {SETTLE * 1000:.0f}\n")
    client.sync()
    for nth in range(50):
        before = indexed(home)
        if dribbled(workspace / "memory" / f"slow-{nth}.md", lambda bird=f"heron{nth}": found(client, bird), nth):
            break
        # A busy machine let the file rest: it was right to read it.
        eventually(lambda bird=f"heron{nth}": found(client, bird))
    else:
        raise AssertionError("no file was ever written without a rest")
    eventually(lambda: found(client, f"heron{nth}"))
    assert "sentence 7" in shown(client, f"heron{nth}", sync="none")
    eventually(lambda: indexed(home) > before)
    assert indexed(home) == before + 1, home.log


def dribbled(path: Path, seen: Callable[[], bool], nth: int) -> bool:
    """Write a file little by little; nothing of it may be seen, unless it rested meanwhile or took too long: False."""
    began = written = time.monotonic()
    with path.open("w") as file:
        for number in range(8):
            file.write(f"sentence {number} of the heron{nth}. ")
            file.flush()
            early = seen()
            if time.monotonic() - written > SETTLE / 2 or time.monotonic() - began > LONGEST / 2:
                return False
            assert not early
            written = time.monotonic()
            time.sleep(0.05)
    return True


def test_a_burst_of_saves_is_one_re_index(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, "[watch]\nscan_seconds = 3600\nsettle_ms = 300\n")
    client.sync()
    before = indexed(home)
    for nth in range(50):
        (workspace / "MEMORY.md").write_text(f"## Burst\n\nversion {nth} of the plover\n")
    eventually(lambda: "version 49" in shown(client, "plover", sync="none"))
    time.sleep(0.6)
    assert indexed(home) == before + 1, home.log


def test_a_checkout_of_a_thousand_files_is_one_batch(home: Home, workspace: Path) -> None:
    # Without a model: a batch lets whatever else is to be written go first, and that is then two reports.
    more = '[watch]\nscan_seconds = 3600\nsettle_ms = 1000\n[embedding]\nprovider = "none"\n'
    client = serve(home, workspace, more)
    client.sync()
    # The daemon answers before it watches, and then scans once more: what a scan finds is read in slices.
    eventually(lambda: the(client)["watch"] == "inotify" and scanned(client))
    eventually(lambda: client.status()["pending"] == 0)
    before = indexed(home)
    stand_still(home)  # Else whether a pause among the writes ends a batch is up to the machine.
    for nth in range(1_000):
        (workspace / "memory" / f"note-{nth}.md").write_text(f"## Note\n\nsanderling number{nth}\n")
    home.daemon.send_signal(signal.SIGCONT)
    # No question before that: one without hits has what waits read at once.
    eventually(lambda: the(client)["files"] == 1_004)
    eventually(lambda: found(client, "number999"))
    # It is found before the log has it.
    eventually(lambda: indexed(home) > before)
    assert indexed(home) == before + 1, home.log


def test_an_edit_with_the_same_size_and_time_is_found(home: Home, workspace: Path) -> None:
    note = workspace / "MEMORY.md"
    client = serve(home, workspace, '[watch]\nmode = "poll"\npoll_seconds = 3600\nscan_seconds = 3600\n')
    for nth, (old, new) in enumerate([("whimbrel", "redshank"), ("redshank", "bluethro"), ("bluethro", "whimbrel")]):
        note.write_text(f"## Same\n\nthe {old} calls\n")
        client.sync()
        status = note.stat()
        with note.open("r+") as file:
            file.write(f"## Same\n\nthe {new} calls\n")
        os.utime(note, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert note.stat().st_mtime_ns == status.st_mtime_ns and note.stat().st_size == status.st_size
        client.sync()
        assert found(client, new) and not found(client, old), nth


# --- embedding no more than needed --------------------------------------------------------------------------


def test_what_did_not_change_is_not_embedded_again(home: Home, workspace: Path) -> None:
    paragraphs = [f"Paragraph {nth} tells of knot{nth}. " + "It goes on for quite a while. " * 12 for nth in range(60)]
    long = workspace / "memory" / "long.md"
    long.write_text("# Long\n\n## All of it\n\n" + "\n\n".join(paragraphs) + "\n")
    client = serve(home, workspace)
    client.sync(vectors=True)
    chunks = the(client)["chunks"]
    assert client.status()["embedded"] == chunks > 60
    home.stop()

    client = home.start()
    client.sync(vectors=True)
    assert client.status()["embedded"] == 0, "a restart embeds nothing"
    for note in workspace.rglob("*.md"):
        os.utime(note)
    client.sync(vectors=True)
    assert client.status()["embedded"] == 0, "a touch embeds nothing"
    paragraphs[30] = "Something else: the turnstone. " + "It goes on for quite a while. " * 12
    long.write_text("# Long\n\n## All of it\n\n" + "\n\n".join(paragraphs) + "\n")
    client.sync(vectors=True)
    assert 1 <= client.status()["embedded"] <= 3, "one paragraph embeds its chunks and at most their neighbours"
    embedded = client.status()["embedded"]
    long.rename(long.with_name("renamed.md"))
    client.sync(vectors=True)
    assert client.status()["embedded"] == embedded, "a renamed file embeds nothing"
    assert_agreement(home, workspace)


def test_equal_texts_share_a_vector_and_are_all_found(home: Home, workspace: Path) -> None:
    for nth in range(100):
        (workspace / "memory" / f"same-{nth}.md").write_text("## Same\n\nthe very same chiffchaff\n")
    client = serve(home, workspace)
    client.sync(vectors=True)
    assert_agreement(home, workspace)


# --- the limits of inotify ----------------------------------------------------------------------------------


def test_lost_events_are_made_up_for(home: Home, workspace: Path) -> None:
    """The daemon stands still while the kernel's queue runs over; the machine's own queue size is used."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue > 50_000:
        pytest.skip(f"fs.inotify.max_queued_events = {queue} would take too long to fill")
    client = serve(home, workspace, CALM)
    client.sync()
    # The daemon answers before it watches: what it does not watch yet has no events to lose.
    eventually(lambda: the(client)["watch"] == "inotify")
    stand_still(home)
    notes = [workspace / "memory" / f"flood-{nth}.md" for nth in range(200)]
    for nth in range(20_000):
        # In place: some file systems write a file that is emptied and filled again to the disk at once.
        with notes[nth % 200].open("r+" if nth >= 200 else "w") as note:
            note.write(f"## Flood\n\nrising water{nth // 200} in file{nth % 200}\n")
    (workspace / "memory" / "last.md").write_text("## Last\n\nthe last dotterel\n")
    home.daemon.send_signal(signal.SIGCONT)
    eventually(lambda: found(client, "dotterel"))
    assert "file events were lost" in home.log
    eventually(lambda: "water99 in file199" in shown(client, "file199", sync="none"))
    client.sync()
    assert_agreement(home, workspace, vectors=False)


def test_when_there_are_no_watches_left_it_polls_and_says_so(home: Home, workspace: Path) -> None:
    """In a user namespace of its own, whose limit is nobody else's."""
    limit = "/proc/sys/user/max_inotify_watches"
    tried = subprocess.run(["unshare", "-Ur", "sh", "-c", f"echo 5 > {limit} && cat {limit}"], capture_output=True)
    if tried.stdout.strip() != b"5":
        pytest.skip(f"no user namespace with a watch limit of its own: {tried.stderr.decode().strip()}")
    for nth in range(10):
        (workspace / "memory" / f"folder{nth}").mkdir()
    home.configure(f'{CALM}poll_seconds = 0.3\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    with (home.path / "daemon.stderr").open("ab") as stderr:
        home.daemon = subprocess.Popen(
            ["unshare", "-Ur", "sh", "-c", f'echo 5 > {limit} && exec "$0" -m memd.daemon', sys.executable],
            env=home.env, stderr=stderr, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    client = home.wait()
    eventually(lambda: the(client)["watch"] == "poll")
    assert "max_user_watches" in the(client)["watch_note"]
    assert client.status()["degraded"] == [], "polling is not degraded"
    (workspace / "memory" / "folder9" / "note.md").write_text("## Polled\n\nthe polled ruff\n")
    eventually(lambda: found(client, "ruff"))


def test_polling_by_choice(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, '[watch]\nmode = "poll"\npoll_seconds = 0.3\nscan_seconds = 3600\n')
    client.sync()
    assert the(client)["watch"] == "poll"
    (workspace / "memory" / "poll.md").write_text("## Polled\n\nthe polled godwit\n")
    eventually(lambda: found(client, "godwit"))
    (workspace / "memory" / "poll.md").unlink()
    eventually(lambda: not found(client, "godwit"))


# --- odd things in the folder -------------------------------------------------------------------------------


def oddities(workspace: Path, outside: Path) -> None:
    """Everything that should be left out, in front of a watching daemon or a starting one."""
    memory = workspace / "memory"
    outside.mkdir(exist_ok=True)
    (outside / "secret.md").write_text("## Secret\n\nthe smuggled osprey\n")
    (memory / "out.md").symlink_to(outside / "secret.md")
    (memory / "outdir").symlink_to(outside)
    (memory / "loop").symlink_to(memory)
    (memory / "self.md").symlink_to(memory / "self.md")
    (memory / "dangling.md").symlink_to(memory / "nowhere.md")
    os.mkfifo(memory / "pipe.md")
    (memory / "socket.md").symlink_to("/dev/zero")
    (memory / "node_modules").mkdir(exist_ok=True)
    (memory / "node_modules" / "readme.md").write_text("## Package\n\nthe packaged osprey\n")
    with (memory / "huge.md").open("wb") as file:
        file.truncate(100_000_000)
    (memory / "binary.md").write_bytes(bytes(range(256)) * 40 + b"osprey")
    (memory / "inside.md").symlink_to(workspace / "MEMORY.md")
    (workspace / "elsewhere.txt").write_text("## Elsewhere\n\nthe linked egret\n")
    (memory / "linked.md").symlink_to(workspace / "elsewhere.txt")


LEFT_OUT = ("memory/out.md", "memory/self.md", "memory/dangling.md", "memory/pipe.md", "memory/huge.md",
            "memory/binary.md", "memory/socket.md")  # fmt: skip


@pytest.mark.parametrize("when", ["before the start", "while it watches"])
def test_what_is_no_memory_is_left_out_and_never_blocks(home: Home, workspace: Path, when: str) -> None:
    outside = home.path.parent / "outside"
    if when == "before the start":
        oddities(workspace, outside)
    client = serve(home, workspace, CALM)
    client.sync()
    if when == "while it watches":
        oddities(workspace, outside)
    (workspace / "memory" / "good.md").write_text("## Good\n\nthe welcome avocet\n")
    client.sync()
    assert found(client, "avocet")
    time.sleep(0.4)
    client.sync()
    assert not found(client, "osprey"), shown(client, "osprey", sync="none")
    why = skipped(client)
    assert set(LEFT_OUT) <= why.keys(), why
    client.sync(vectors=True)
    assert "pending   nothing; everything on disk can be found but what is left out\n" in home.run("status").stdout
    (files,) = (one for one in client.doctor()["findings"] if one["name"] == "agent: files")
    assert files["state"] == "ok" and files["detail"].endswith(f"; {len(why)} left out: memd status"), files
    assert "max_file_kb" in why["memory/huge.md"]
    assert client.status()["memory_mb"] < 400
    (fjord,) = client.query("fjord", mode="text")["hits"]
    assert (fjord["path"], fjord["also"]) == ("MEMORY.md", []), "a link to a note is that note"
    (egret,) = client.query("egret", mode="text")["hits"]
    assert egret["path"] == "memory/linked.md", "a link to another file inside is read"
    with pytest.raises(Exception, match=r"."):
        client.get(path="memory/out.md")


@pytest.mark.parametrize("place", ["memory/project/a.md", "memory/a.md/b.md"])
def test_a_folder_that_becomes_a_file_has_no_notes_any_more(home: Home, workspace: Path, place: str) -> None:
    write_notes(workspace, {place: "## One\n\nthe vanished avocet\n"})
    client = serve(home, workspace, CALM)
    client.sync()
    assert found(client, "avocet")
    folder = (workspace / place).parent
    shutil.rmtree(folder)
    folder.write_text("## Two\n\nnow a file\n")
    client.sync()
    assert not found(client, "avocet") and client.status()["degraded"] == []


def test_what_is_forgotten_of_a_note_is_forgotten_under_the_name_of_a_link_too(home: Home, workspace: Path) -> None:
    write_notes(workspace, {"memory/real.md": "## One\n\nthe secret avocet\n\n## Two\n\nthe plain egret\n"})
    (workspace / "memory" / "link.md").symlink_to("real.md")
    client = serve(home, workspace, CALM)
    client.sync()
    (hit,) = client.query("egret", mode="text")["hits"]
    assert (hit["path"], hit["also"]) == ("memory/real.md", [])
    client.rm("real#one", hard=True)
    assert not found(client, "avocet") and "avocet" not in (workspace / "memory" / "real.md").read_text()
    client.put("real#two", "the new heron")
    assert not found(client, "egret") and found(client, "heron")
    assert client.get(path="memory/link.md")["path"] == "memory/real.md"
    told = home.run("doctor", str(workspace / "memory" / "link.md")).stdout
    assert "a link to memory/real.md, which is read by that name" in told


def test_a_note_that_becomes_a_link_out_is_let_go(home: Home, workspace: Path) -> None:
    outside = home.path.parent / "outside.md"
    outside.write_text("## Secret\n\nthe smuggled osprey\n")
    client = serve(home, workspace, CALM)
    client.sync()
    note = workspace / "memory" / "2026-02-16.md"
    note.unlink()
    note.symlink_to(outside)
    client.sync()
    time.sleep(0.4)
    client.sync()
    assert not found(client, "osprey") and not found(client, "photo archive")
    assert "memory/2026-02-16.md" in skipped(client)


def test_a_memory_folder_that_leads_out_is_left_out(home: Home, workspace: Path) -> None:
    away = home.path.parent / "away"
    (workspace / "memory").rename(away)
    (workspace / "memory").symlink_to(away)
    client = serve(home, workspace, CALM)
    client.sync()
    assert not found(client, "ErsatzTV") and found(client, "fjord")
    assert "memory" in skipped(client)


def test_links_are_followed_when_the_user_says_so(home: Home, workspace: Path) -> None:
    outside = home.path.parent / "outside"
    outside.mkdir()
    (outside / "note.md").write_text("## Outside\n\nthe invited dunnock\n")
    (workspace / "memory" / "out").symlink_to(outside)
    (workspace / "memory" / "loop").symlink_to(workspace / "memory")
    home.configure(f'{CALM}[[workspace]]\npath = "{workspace}"\nns = "agent"\nfollow = true\n')
    client = home.start()
    client.sync()
    assert found(client, "dunnock")
    (outside / "note.md").write_text("## Outside\n\nthe invited wryneck\n")
    client.sync()
    assert found(client, "wryneck") and not found(client, "dunnock")


def test_a_hard_link_is_read(home: Home, workspace: Path) -> None:
    elsewhere = home.path.parent / "elsewhere.md"
    elsewhere.write_text("## Linked\n\nthe linked siskin\n")
    os.link(elsewhere, workspace / "memory" / "linked.md")
    client = serve(home, workspace)
    client.sync()
    assert found(client, "siskin")
    # A change through the other name makes no event here; the scan finds it.
    elsewhere.write_text("## Linked\n\nthe linked linnet\n")
    client.sync()
    assert found(client, "linnet") and not found(client, "siskin")


ENCODINGS = {
    "bad.md": b"## Bad\n\ncaf\xe9 and brambling \xff\xfe here\n",
    "bom.md": b"\xef\xbb\xbf## Marked\n\nthe fieldfare\n",
    "crlf.md": b"# Dos\r\n\r\n## Lines\r\n\r\nthe redwing\r\n",
    "nul.md": b"## Nul\n\nthe mistle\x00thrush and the whinchat\n",
    "utf16.md": "## Wide\n\nthe stonechat\n".encode("utf-16"),
    "mac.md": b"## Mac\r\rthe wheatear\r",
    "empty.md": b"",
    "blank.md": b"\n\n  \n",
}


def test_odd_bytes_are_read_leniently_and_left_as_they_are(home: Home, workspace: Path) -> None:
    for name, data in ENCODINGS.items():
        (workspace / "memory" / name).write_bytes(data)
    client = serve(home, workspace)
    client.sync(vectors=True)
    for bird in ("brambling", "fieldfare", "redwing", "whinchat", "stonechat", "wheatear"):
        assert found(client, bird), bird
    assert_agreement(home, workspace)
    for name, data in ENCODINGS.items():
        assert (workspace / "memory" / name).read_bytes() == data
    why = "line 3 is not UTF-8; it is indexed with \ufffd in place of the bytes"
    assert the(client)["skipped"] == [{"path": "memory/bad.md", "why": why, "searched": True}]
    assert the(client)["files"] == len(list(workspace.rglob("*.md")))
    shown = home.run("status").stdout
    assert f"problem   agent: memory/bad.md ({why})" in shown and "everything on disk can be found\n" in shown
    (told,) = (one for one in client.doctor()["findings"] if one["name"] == "agent: notes")
    assert told["state"] == "warn" and told["detail"] == f"memory/bad.md: {why}"
    (workspace / "memory/bad.md").write_text("## Good\n\ncafé and brambling\n")
    client.sync()
    assert the(client)["skipped"] == []


def test_what_may_not_be_read_keeps_its_entry(home: Home, workspace: Path) -> None:
    """root passes every check, so the reading is done by a child with another uid."""
    if os.getuid() != 0:
        note = workspace / "MEMORY.md"
        client = serve(home, workspace)
        client.sync()
        note.chmod(0)
        client.sync()
        assert found(client, "fjord") and "unreadable" in skipped(client)["MEMORY.md"]
        with pytest.raises(Refused, match="Permission denied"):
            (workspace / "memory").chmod(0)
            client.get(path="memory/2026-02-15.md", ns="agent")
        (workspace / "memory").chmod(0o700)
        note.chmod(0o600)
        client.sync()
        assert "MEMORY.md" not in skipped(client)
        return
    assert _as_nobody(home.path.parent / "nobody") == 0


def _as_nobody(place: Path) -> int:
    """Index, take the right away, index, give it back, index: all at the level of ingest."""
    place.parent.chmod(0o755)
    place.mkdir()
    os.chown(place, 65534, 65534)
    # Whoosh and the parser ask for these late, and the other user may not reach the interpreter's own files.
    codecs.lookup("latin1")
    codecs.lookup("utf-8-sig")
    parse("warm.md", "---\ntitle: warm\n---\n\n## up\n")
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            _unreadable(place)
        except BaseException:  # noqa: BLE001 - the parent hears of it by the exit code
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _unreadable(place: Path) -> None:
    from memd.indexer.store.own_stores import OwnStores
    from memd.models import Workspace
    from tests.written import apply

    root = place / "agent"
    root.mkdir()
    (root / "MEMORY.md").write_text("## Home\n\nthe router is called fjord\n")
    stores = OwnStores(place)
    index = stores.open_index(Workspace("agent", root, globs=("MEMORY.md", "memory/*.md", "more/*.md")))
    apply(stores, index, ["MEMORY.md"])
    for mode, problem in ((0o000, "unreadable"), (0o600, "")):
        (root / "MEMORY.md").chmod(mode)
        apply(stores, index, ["MEMORY.md"])
        assert index.files["MEMORY.md"].problem.startswith(problem)
        assert index.files["MEMORY.md"].problem == "" or mode == 0
        assert index.text.postings().frequency("exact", "fjord"), "the old entry stays"
    assert sorted(file.name for file in root.iterdir()) == ["MEMORY.md"], "no temporary files"
    birds = ["memory/one.md", "memory/two.md"]
    for name in (*birds, "more/new.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("## Bird\n\na heron by the pond\n")
        apply(stores, index, [name])
    (root / "more/new.md").write_text("## Bird\n\na dunlin by the sea\n")
    for folder, unreadable in ((root / "memory", birds), (root, ["MEMORY.md", *birds, "more/new.md"])):
        folder.chmod(0)
        apply(stores, index, list(index.files))
        folder.chmod(0o700)
        known = {path: row.problem for path, row in index.files.items()}
        assert sorted(known) == ["MEMORY.md", *birds, "more/new.md"], "what may not be looked at has not vanished"
        assert [path for path in sorted(known) if known[path].startswith("unreadable")] == unreadable
        assert len(index.text.postings().of("exact", "heron").docs) == 2
        assert index.text.postings().frequency("exact", "dunlin"), "it holds up nothing else"
        apply(stores, index, list(index.files))


# --- standing still -----------------------------------------------------------------------------------------


def test_changes_while_the_daemon_stands_still(home: Home, workspace: Path) -> None:
    client = serve(home, workspace, CALM)
    client.sync()
    stand_still(home)
    (workspace / "memory" / "still.md").write_text("## Still\n\nthe silent bittern\n")
    (workspace / "memory" / "2026-02-16.md").unlink()
    threading.Timer(0.2, home.daemon.send_signal, [signal.SIGCONT]).start()
    client.sync()
    assert found(client, "bittern") and not found(client, "photo archive")
