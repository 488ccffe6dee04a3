"""One memory on several machines: git and synchronisers carry the notes, memd merges them and loses nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import Home, write_notes

DAY = "memory/2026-02-15.md"
IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_EDITOR": "true"}
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def two_branches(home: Home, ours: str, theirs: str) -> Path:
    """A note on two branches, in a repository that memd has set up."""
    root = write_notes(home.path.parent / "agent")
    assert home.run("workspace", "init", "--git", str(root)).returncode == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    before = (root / DAY).read_text()
    for branch, change in (("other", theirs), ("main", ours)):
        git(root, "checkout", "-q", *(["-b"] if branch == "other" else []), branch)
        (root / DAY).write_text(before.replace("for Pierce.", change))
        git(root, "commit", "-qam", branch)
    return root


def test_git_has_memd_merge_what_two_branches_added(home: Home) -> None:
    root = two_branches(home, "for Pierce.\nIt works.", "for Pierce.\nIt is slow.")
    git(root, "merge", "other")
    assert "for Pierce.\nIt works.\nIt is slow.\nThe API" in (root / DAY).read_text()
    again = home.run("workspace", "init", "--git", str(root))
    assert again.returncode == 0 and ".gitattributes:" not in again.stdout, "set up twice is set up once"
    assert git(root, "status", "--porcelain") == "" and git(root, "remote") == ""


def test_what_both_branches_changed_is_left_between_markers(home: Home) -> None:
    root = two_branches(home, "for Otto.", "for Tilda.")
    git(root, "merge", "other", check=False)
    text = (root / DAY).read_text()
    assert git(root, "diff", "--name-only", "--diff-filter=U") == DAY
    assert text.count("<<<<<<<") == 1 and "for Otto." in text and "for Tilda." in text
    assert text.startswith("# 2026-02-15\n\n<<<<<<<") and text.endswith(
        "## Garden\n\nPlanted two apple trees behind the shed.\n"
    )
