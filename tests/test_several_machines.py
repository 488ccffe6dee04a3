"""One memory on several machines: git and synchronisers carry the notes, memd merges them and loses nothing."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from memd.indexer.record import actions
from memd.indexer.store import catalog
from memd.models import DEFAULT_GLOBS
from memd.protocol.client import Client
from tests.conftest import Home, write_notes
from tests.faults.agreement import SOAK
from tests.lab import Lab

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
    attributes = (root / ".gitattributes").read_text()
    assert all(f"{glob} merge=memd-note\n" in attributes for glob in DEFAULT_GLOBS)
    missing = home.run("merge-note", "nowhere.md", str(root / DAY), str(root / DAY), cwd=root)
    assert (missing.returncode, missing.stderr) == (1, "memd: nowhere.md is no file\n")


def test_what_both_branches_changed_is_left_between_markers(home: Home) -> None:
    root = two_branches(home, "for Otto.", "for Tilda.")
    git(root, "merge", "other", check=False)
    text = (root / DAY).read_text()
    assert git(root, "diff", "--name-only", "--diff-filter=U") == DAY
    assert text.count("<<<<<<<") == 1 and "for Otto." in text and "for Tilda." in text
    assert text.startswith("# 2026-02-15\n\n<<<<<<<") and text.endswith(
        "## Garden\n\nPlanted two apple trees behind the shed.\n"
    )


# --- a pull, a switch of branches, a rebase -------------------------------------------------------------------------

FILES = 5_000 if SOAK else 90


def lives(home: Home) -> dict[str, int]:
    """The number of each memory, which its life hangs on, by path and slug."""
    with sqlite3.connect(f"file:{home.state}/state.db?mode=ro", uri=True) as ledger:
        rows = ledger.execute("SELECT f.path, m.slug, m.id FROM memories m JOIN files f ON f.id = m.file")
        return {f"{path}#{slug}": number for path, slug, number in rows}


def test_switching_branches_and_a_rebase_keep_every_life(home: Home, workspace: Path, memory: Client) -> None:
    names = [f"memory/notes/n{nth:04}.md" for nth in range(FILES)]
    texts = {name: f"# Note\n\n## Sheep of {name}\n\nWool {name}.\nHay.\n\n## Goat\n\nMilk {name}.\n" for name in names}
    write_notes(workspace, texts)
    git(workspace, "init", "-q", "-b", "main")
    commit_all(workspace)
    memory.sync()
    before = lives(home)
    assert len(before) >= 2 * FILES

    git(workspace, "checkout", "-q", "-b", "feature")
    moved = {name: f"memory/moved/{Path(name).name}" for name in names[::3]}
    (workspace / "memory/moved").mkdir()
    for nth, (name, new) in enumerate(moved.items()):
        git_free_move(workspace, name, new)
        if nth % 2:
            (workspace / new).write_text(texts[name].replace("Hay.", "Straw.").replace("Milk", "Cheese"))
    for name in names[1::3]:
        (workspace / name).write_text(texts[name].replace("Hay.", "Clover.") + "\n## Hen\n\nEggs.\n")
    commit_all(workspace)
    memory.sync()
    there = lives(home)
    expected = {moved.get(path, path) + "#" + slug: number for (path, slug), number in split_keys(before)}
    assert {key: there.get(key) for key in expected} == expected

    git(workspace, "checkout", "-q", "main")
    memory.sync()
    assert lives(home) == before
    git(workspace, "checkout", "-q", "feature")
    memory.sync()
    assert lives(home) == there

    git(workspace, "checkout", "-q", "main")
    for name in names[2::3]:
        (workspace / name).write_text("# Note, upstream\n\n" + texts[name].split("\n\n", 1)[1])
    commit_all(workspace)
    git(workspace, "checkout", "-q", "feature")
    git(workspace, "rebase", "-q", "main")
    memory.sync()
    assert lives(home) == there


def test_what_left_with_a_branch_does_not_slow_down_what_comes_with_another(tmp_path: Path) -> None:
    """SQLite takes as many steps for a memory, whether a few others are gone or many."""
    lab = Lab(tmp_path)
    index, reader = lab.add({}), lab.stores.ledger.reader

    def steps(work: Callable[..., object], *arguments: object) -> int:
        return lab.steps(partial(work, reader, index.id, *arguments))

    told = []
    for many in (10, 200):
        lab.save({f"memory/{many}-{nth}.md": f"## Sheep\n\nWool {many} {nth}.\n" for nth in range(many)})
        shutil.rmtree(index.workspace.root / "memory")
        lab.save({})
        path = f"memory/{many}-5.md"
        (digest,) = reader.execute("SELECT digest FROM versions WHERE path = ? AND digest <> ''", (path,)).fetchone()
        told.append([steps(catalog.gone_memories, digest), steps(actions.author, path, digest, "Wool.")])
    lab.close()
    assert all(later < 2 * earlier for earlier, later in zip(*told, strict=True)), told


def commit_all(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "notes")


def git_free_move(root: Path, old: str, new: str) -> None:
    (root / old).rename(root / new)


def split_keys(keys: dict[str, int]) -> list[tuple[tuple[str, str], int]]:
    return [((path, slug), number) for key, number in keys.items() for path, _, slug in [key.partition("#")]]


# --- three machines -------------------------------------------------------------------------------------------------

SECONDS = float(os.environ.get("MEMD_MINUTES", "60")) * 60 if SOAK else 0
STEPS = 14
"""What is done at least; with `MEMD_SOAK` as much as an hour allows."""
NOTES_SHARED = (DAY, "memory/2026-02-16.md", "MEMORY.md")
HEADINGS = ("Garden", "Backup", "Otter", "Weasel")
MARKS = ("<<<<<<<", "=======", ">>>>>>>")


class Machine:
    """A home with a daemon, and a workspace that others have too."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root = Home(folder / "h"), folder / "agent"
        self.home.path.mkdir(parents=True)
        self.base: dict[str, str] = {}
        """The files as they were when they were last synchronised."""

    def start(self) -> None:
        self.home.configure('[embedding]\nprovider = "none"\n')
        self.client = self.home.start()
        self.client.workspace_add(str(self.root), ns="agent")

    def files(self) -> dict[str, str]:
        return {str(file.relative_to(self.root)): file.read_text() for file in self.root.rglob("*")
                if file.is_file() and ".git" not in file.parts and file.suffix in (".md", ".jsonl")}  # fmt: skip

    def answers(self) -> str:
        """Much of what this machine would answer."""
        self.client.sync()
        rows = self.client.list(limit=1_000)["memories"]
        texts = [self.client.get(row["key"], observe=False)["text"] for row in rows]
        hits = [self.client.query(word, mode="text", limit=50, observe=False)["hits"] for word in ("token", *HEADINGS)]
        return str([texts, hits])

    def settle(self) -> list[str]:
        """Make one of every two versions; returns the notes."""
        settled = []
        while rows := self.client.conflict_list()["notes"]:
            self.client.conflict_settle(rows[0]["copy"] or rows[0]["path"], take="both")
            settled.append(rows[0]["path"])
        return settled

    def lives(self) -> dict[str, tuple[object, ...]]:
        """What memd observed, by the names that all machines share."""
        with sqlite3.connect(f"file:{self.home.state}/state.db?mode=ro", uri=True) as ledger:
            rows = ledger.execute(
                "SELECT f.path || '#' || m.slug, m.accesses, m.days, m.accessed, m.useful, m.tier, m.moved, m.moved_by,"
                " m.home, m.deleted FROM memories m JOIN files f ON f.id = m.file"
            )
            return {name: facts for name, *facts in rows}


class World:
    """Three machines that edit the same notes, and every line that they wrote and did not take back."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.tokens = random.Random(seed), 0
        self.machines = [Machine(folder / name) for name in ("one", "two", "three")]
        self.written: set[str] = set()
        self.steps = 0

    def go_on(self, until: float) -> bool:
        self.steps += 1
        return self.steps <= STEPS or time.monotonic() < until

    def token(self) -> str:
        self.tokens += 1
        self.written.add(f"token {self.tokens}")
        return f"token {self.tokens}"

    def edit(self, machine: Machine) -> None:
        """Something that a person or an agent does on one machine."""
        file = machine.root / self.random.choice(NOTES_SHARED)
        text, heading = file.read_text(), self.random.choice(HEADINGS)
        lines = text.splitlines()
        known = [nth for nth, line in enumerate(lines) if line in self.written]
        what = self.random.choice(("add", "add", "new", "note", "change", "remove", "used", "useful", "promote"))
        if what == "note":
            machine.client.note(self.token(), now="2026-02-15T12:00:00+00:00")
        elif what in ("change", "remove") and known:
            nth = self.random.choice(known)
            self.written.discard(lines[nth])
            lines[nth : nth + 1] = [self.token()] if what == "change" else []
            file.write_text("\n".join(lines) + "\n")
        elif f"## {heading}" in lines and what != "new":
            nth = lines.index(f"## {heading}") + 2
            file.write_text("\n".join([*lines[:nth], self.token(), *lines[nth:]]) + "\n")
        else:
            file.write_text(text.rstrip() + f"\n\n## {heading} {self.tokens}\n\n{self.token()}\n")
        if what in ("used", "useful", "promote"):
            self.observe(machine, what)

    def observe(self, machine: Machine, what: str) -> None:
        machine.client.sync()
        key = self.random.choice(machine.client.list(limit=1_000)["memories"])["key"]
        if what == "used":
            machine.client.get(key)
        elif what == "useful":
            machine.client.useful(key)
        else:
            machine.client.curate(key, "promote")

    def check(self) -> None:
        """Every line is there, on all machines the same, and no marker is in any answer."""
        first = self.machines[0].files()
        lines = {line for text in first.values() for line in text.splitlines()}
        assert self.written <= lines, f"lost: {self.written - lines}"
        for machine in self.machines:
            assert machine.files() == first
            assert not any(mark in machine.answers() for mark in MARKS)

    def close(self) -> None:
        for machine in self.machines:
            machine.home.close()


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    # Not pytest's own directory: its long names do not fit into a socket's path.
    folder = Path(tempfile.mkdtemp(prefix="memd-"))
    made = World(folder, seed=int(os.environ.get("MEMD_SEED", "18")))
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def exchange_by_git(world: World, machine: Machine) -> None:
    """Commit, pull, settle what git could not merge, push."""
    git(machine.root, "add", "-A")
    git(machine.root, "commit", "-qm", "notes", check=False)
    git(machine.root, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main", check=False)
    if unmerged := git(machine.root, "diff", "--name-only", "--diff-filter=U"):
        assert not any(mark in machine.answers() for mark in MARKS)
        assert machine.client.status()["workspaces"][0]["conflicts"] == len(unmerged.splitlines())
        assert set(machine.settle()) == set(unmerged.splitlines())
        git(machine.root, "add", "-A")
        git(machine.root, "commit", "-qm", "merged")
    git(machine.root, "push", "-q", "origin", "main")


def test_three_machines_that_git_connects_lose_nothing_and_come_to_the_same_lives(world: World) -> None:
    first, *others = world.machines
    bare = first.root.parent.parent / "bare.git"
    git(write_notes(first.root), "init", "-q", "-b", "main")
    first.home.run("workspace", "init", "--git", str(first.root))
    commit_all(first.root)
    git(first.root, "clone", "-q", "--bare", str(first.root), str(bare))
    git(first.root, "remote", "add", "origin", str(bare))
    for machine in others:
        git(bare, "clone", "-q", str(bare), str(machine.root))
        machine.home.run("workspace", "init", "--git", str(machine.root))
    for machine in world.machines:
        machine.start()
    until = time.monotonic() + SECONDS
    while world.go_on(until):
        machine = world.random.choice(world.machines)
        world.edit(machine)
        if world.random.random() < 0.4:
            exchange_by_git(world, machine)
        if world.steps % 500 == 0:
            exchange_all(world, partial(exchange_by_git, world))
    exchange_all(world, partial(exchange_by_git, world))


def exchange_all(world: World, exchange: Callable[[Machine], None]) -> None:
    """Bring the notes to all machines, then what was observed, and compare."""
    for machine in (*world.machines, *world.machines[:-1]):
        exchange(machine)
    for machine in world.machines:
        machine.client.sync()
        machine.client.reflect()
    for machine in (*world.machines * 2, *world.machines[:-1]):
        # As one does it: fetch what others know, exchange, send what is new. Else a round is seen one round later.
        exchange(machine)
        assert machine.client.sync_state()["garbage"] == []
        exchange(machine)
    world.check()
    lives = [machine.lives() for machine in world.machines]
    assert lives[0] == lives[1] == lives[2]
    before = world.machines[0].files()
    assert [machine.client.sync_state()["written"] for machine in world.machines] == [0, 0, 0]
    assert world.machines[0].files() == before


def test_state_is_exchanged_through_no_link_and_garbage_is_named(home: Home, workspace: Path, memory: Client) -> None:
    memory.useful("2026-02-15#garden")
    shown = home.run("sync-state", "-n", "agent")
    assert "1 line added to memory/.memd/" in shown.stdout, shown.stderr
    (own,) = (workspace / "memory/.memd").iterdir()
    other = own.with_name("other.jsonl")
    other.write_text(own.read_text().replace('"useful":1', '"useful":4') + '{"v":2,"memory":"memory/2026-02')
    own.with_name("copy.sync-conflict-20260216-101010-ABCDEF7.jsonl").write_text(other.read_text())
    shown = home.run("sync-state", "-n", "agent")
    assert "0 lines added" in shown.stdout and "1 other machine: 1 memory and 0 edges changed" in shown.stdout
    assert "left out: memory/.memd/other.jsonl:2: it is no whole line of JSON" in shown.stderr
    assert memory.get("2026-02-15#garden")["life"]["useful"] == 5
    other.unlink()
    memory.sync_state()
    assert memory.get("2026-02-15#garden")["life"]["useful"] == 1
    secret = workspace.parent / "elsewhere"
    secret.write_text("mine")
    own.unlink()
    own.symlink_to(secret)
    assert "leads elsewhere" in home.run("sync-state", "-n", "agent").stderr and secret.read_text() == "mine"


# --- the same with a synchroniser -----------------------------------------------------------------------------------


def exchange_by_synchroniser(world: World, shared: dict[str, str], machine: Machine) -> None:
    """As Syncthing does it: what only one side changed is copied; of what both did, the loser becomes a copy."""
    local = machine.files()
    for path in sorted(local.keys() | shared.keys() | machine.base.keys()):
        here, there, base = local.get(path), shared.get(path), machine.base.get(path)
        if here == there:
            continue
        if there == base:
            give(shared, path, here)
        elif here == base or here is None:
            arrive(world, machine, path, there)
        elif there is None:
            give(shared, path, here)
        else:
            kept, loser = world.random.sample([here, there], 2)
            copy = path.replace(".", f".sync-conflict-20260216-{world.steps:06}-ABCDEF7.", 1)
            arrive(world, machine, copy, loser)
            arrive(world, machine, path, kept)
            shared[path], shared[copy] = kept, loser
    machine.base = dict(shared)


def give(shared: dict[str, str], path: str, text: str | None) -> None:
    shared.pop(path, None)
    if text is not None:
        shared[path] = text


def arrive(world: World, machine: Machine, path: str, text: str | None) -> None:
    """A file comes, often first its half, or goes."""
    file = machine.root / path
    if text is None:
        file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if world.random.random() < 0.5:
        file.write_text(text[: len(text) // 2])
        machine.client.sync()
    file.write_text(text)


def test_three_machines_that_a_synchroniser_connects_lose_nothing(world: World) -> None:
    shared: dict[str, str] = {}
    for machine in world.machines:
        write_notes(machine.root)
        machine.start()
    exchange = partial(exchange_by_synchroniser, world, shared)
    for machine in world.machines:
        exchange(machine)
    until = time.monotonic() + SECONDS
    while world.go_on(until):
        machine = world.random.choice(world.machines)
        world.edit(machine)
        if world.random.random() < 0.4:
            exchange(machine)
            assert not any(mark in machine.answers() for mark in MARKS)
            machine.settle()
        if world.steps % 500 == 0:
            settle_all(world, exchange)
    settle_all(world, exchange)


def settle_all(world: World, exchange: Callable[[Machine], None]) -> None:
    """Exchange and settle one machine at a time until there is nothing left to settle, then compare."""
    for machine in world.machines * 2:
        exchange(machine)
        machine.settle()
        exchange(machine)
    exchange_all(world, exchange)
