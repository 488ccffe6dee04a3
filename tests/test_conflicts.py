"""Two versions of one note, as git and synchronisers leave them: no marker in an answer, one command settles them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memd.errors import Conflict, NotFound
from memd.protocol.client import Client
from tests.conftest import Home

NOTE = "memory/2026-02-15.md"


def git(folder: Path, *arguments: str) -> int:
    identity = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", folder, *identity, *arguments], capture_output=True, check=False).returncode


def merge_in_git(workspace: Path, ours: str, theirs: str, old: str = "") -> None:
    """Two branches that add something to a note, or replace something, and a merge that git cannot finish."""
    note = workspace / NOTE
    before = note.read_text()
    ours, theirs = (before.replace(old, new) if old else before + new for new in (ours, theirs))
    assert git(workspace, "init", "-q", "-b", "main") == 0
    git(workspace, "add", "-A")
    git(workspace, "commit", "-q", "-m", "base")
    git(workspace, "checkout", "-q", "-b", "other")
    note.write_text(theirs)
    git(workspace, "commit", "-qam", "theirs")
    git(workspace, "checkout", "-q", "main")
    note.write_text(ours)
    git(workspace, "commit", "-qam", "ours")
    assert git(workspace, "merge", "other") != 0 and "<<<<<<<" in note.read_text()


def test_markers_of_git_are_in_no_answer_and_a_merge_settles_them(home: Home, workspace: Path, memory: Client) -> None:
    merge_in_git(workspace, "\n## Otter\n\nThe otter sleeps.\n", "\n## Weasel\n\nThe weasel hunts.\n")
    memory.sync()
    for word in ("otter", "weasel"):
        assert word in memory.query(word, mode="text")["hits"][0]["text"], "both sides are found"
    everything = str([memory.get(row["key"])["text"] for row in memory.list(limit=1_000)["memories"]])
    assert "<<<<<<<" not in everything and "=======" not in everything and ">>>>>>>" not in everything
    (row,) = memory.conflict_list()["notes"]
    assert (row["path"], row["copy"], row["clashes"]) == (NOTE, "", [])
    assert any("conflict markers" in file["why"] for file in memory.status()["workspaces"][0]["skipped"])
    done = memory.conflict_settle(NOTE)
    text = (workspace / NOTE).read_text()
    assert "The otter sleeps.\n\n## Weasel\n\nThe weasel hunts.\n" in text and "=====" not in text
    memory.sync()
    assert memory.conflict_list()["notes"] == []
    memory.undo(done["action"])
    assert "<<<<<<<" in (workspace / NOTE).read_text()


def test_a_copy_of_a_synchroniser_is_merged_and_removed(home: Home, workspace: Path, memory: Client) -> None:
    note = workspace / NOTE
    copy = workspace / "memory/2026-02-15.sync-conflict-20260216-101010-ABCDEF7.md"
    copy.write_text(note.read_text() + "\n## Weasel\n\nThe weasel hunts.\n")
    note.write_text(note.read_text() + "\n## Otter\n\nThe otter sleeps.\n")
    memory.sync()
    assert not memory.query("weasel", mode="text")["hits"], "a copy is no note"
    (row,) = memory.conflict_list()["notes"]
    assert row["copy"] == copy.relative_to(workspace).as_posix() and row["clashes"] == []
    assert row["taken"] == ["Weasel"]
    assert any(file["path"] == row["copy"] for file in memory.status()["workspaces"][0]["skipped"])
    shown = home.run("conflict", "list", "-n", "agent")
    assert "to settle it: memd conflict settle memory/2026-02-15.md" in shown.stdout and not shown.stderr
    assert home.run("conflict", "settle", str(row["copy"]), "-n", "agent").returncode == 0
    assert "otter" in note.read_text() and "weasel" in note.read_text() and not copy.exists()
    memory.sync()
    assert memory.query("weasel", mode="text")["hits"][0]["path"] == NOTE


@pytest.mark.parametrize("take", ["merge", "theirs"])
def test_bytes_that_are_not_utf8_come_through_a_merge(workspace: Path, memory: Client, take: str) -> None:
    note, copy = workspace / NOTE, workspace / "memory/2026-02-15.sync-conflict-20260216-101010-ABCDEF7.md"
    before = note.read_bytes().replace(b"two apple", b"two pomm\xe9")
    copy.write_bytes(before + b"\n## Weasel\n\nThe weasel d\xeene.\n")
    note.write_bytes(before)
    memory.sync()
    memory.conflict_list()
    memory.conflict_settle(NOTE, take=take)
    assert note.read_bytes() == before + b"\n## Weasel\n\nThe weasel d\xeene.\n"


def test_what_both_changed_is_left_to_a_person(home: Home, workspace: Path, memory: Client) -> None:
    merge_in_git(workspace, "skill for Otto.", "skill for Tilda.", "skill for Pierce.")
    memory.sync()
    (row,) = memory.conflict_list()["notes"]
    assert row["clashes"] == ["ErsatzTV"]
    assert "for Otto." in row["both"][0]["ours"] and "for Tilda." in row["both"][0]["theirs"]
    assert "> Set up the ErsatzTV skill for Tilda." in home.run("conflict", "list", "-n", "agent").stdout
    assert "1 note with two versions: memd conflict list" in home.run("status").stdout
    with pytest.raises(Conflict, match="both versions changed: ErsatzTV"):
        memory.conflict_settle(NOTE)
    memory.conflict_settle(NOTE, take="both")
    text = (workspace / NOTE).read_text()
    assert "Set up the ErsatzTV skill for Otto.\nSet up the ErsatzTV skill for Tilda.\n" in text
    with pytest.raises(NotFound):
        memory.conflict_settle(NOTE)


def test_a_conflict_whose_settling_was_undone_is_the_same_conflict(workspace: Path, memory: Client) -> None:
    note, base = workspace / NOTE, (workspace / NOTE).read_text()
    copy = note.with_name(note.stem + ".sync-conflict-20260216-101010-ABCDEF7.md")
    copy.write_text(base.replace("for Pierce.", "for Tilda."))
    note.write_text(base.replace("for Pierce.", "for Otto."))
    memory.sync()
    for take in ("theirs", "ours"):
        (row,) = memory.conflict_list()["notes"]
        assert row["clashes"] == ["ErsatzTV"]
        memory.conflict_settle(NOTE, take=take)
        memory.sync()
        memory.undo()
        memory.sync()
    with pytest.raises(Conflict, match="both versions changed: ErsatzTV"):
        memory.conflict_settle(NOTE)


def test_our_own_line_that_a_synchroniser_put_aside_is_kept(home: Home, workspace: Path, memory: Client) -> None:
    """Syncthing keeps the older of two versions as the copy: that can be ours, under the name of theirs."""
    note, base = workspace / NOTE, (workspace / NOTE).read_text()
    note.write_text(base.replace("the shed.", "the shed.\nThey are in bloom."))
    memory.sync()
    note.rename(workspace / "memory/2026-02-15.sync-conflict-20260216-101010-ABCDEF7.md")
    note.write_text(base.replace("Planted", "It rained.\nPlanted"))
    memory.sync()
    memory.conflict_settle(NOTE)
    assert "It rained.\nPlanted two apple trees behind the shed.\nThey are in bloom.\n" in note.read_text()


def test_several_copies_of_a_note_leave_every_line_once(home: Home, workspace: Path, memory: Client) -> None:
    """Three other machines have exchanged some of their lines before they met this one."""
    note, garden = workspace / NOTE, (workspace / NOTE).read_text()
    lines = {name: [f"Machine {name} wrote line {nth}." for nth in range(8)] for name in "abcd"}
    shared = [f"Machine e wrote line {nth}." for nth in range(8)]
    written = {name: [*own[:4], *shared[nth:], *own[4:]] for nth, (name, own) in enumerate(lines.items())}
    for nth, own in enumerate(written.values()):
        copy = f".sync-conflict-20260216-10101{nth}-ABCDEF7.md" if nth else ".md"
        note.with_name(note.stem + copy).write_text(garden + "\n".join(own) + "\n")
        memory.sync()
    for row in memory.conflict_list()["notes"]:
        memory.conflict_settle(row["copy"], take="both")
    found = [line for line in note.read_text().splitlines() if line.startswith("Machine")]
    assert sorted(found) == sorted({line for own in written.values() for line in own})
    assert len(found) == 40 and memory.conflict_list()["notes"] == []
