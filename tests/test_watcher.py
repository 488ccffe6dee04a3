"""One inotify and one thread watch all workspaces: what they tell, and that nothing is missed when folders change."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from memd.config.schema import WatchSettings
from memd.daemon.process.health import Health, Stopping, log_failure
from memd.daemon.watching import watcher as watching
from memd.daemon.watching.code_outlines import FolderWatch
from memd.daemon.watching.inotify import Inotify
from memd.daemon.watching.watcher import Watcher
from memd.models import Workspace
from tests.conftest import PATIENCE, Home
from tests.faults.agreement import eventually


class Heard:
    """A watcher, and what it told."""

    def __init__(self) -> None:
        self.changes: set[tuple[str, str]] = set()
        self.calls = 0
        """How often it told of changes."""
        self.rescans: list[str] = []
        self._told = threading.Condition()
        self.watcher = Watcher(WatchSettings(poll_seconds=0.2), self._mark_changed, self._rescan)

    def _mark_changed(self, changed: Sequence[tuple[str, str]]) -> None:
        with self._told:
            self.changes.update(changed)
            self.calls += 1
            self._told.notify_all()

    def _rescan(self, names: tuple[str, ...]) -> None:
        with self._told:
            self.rescans += names
            self._told.notify_all()

    def marked(self, ns: str, path: str) -> None:
        """Wait until a file was marked, and forget it."""
        with self._told:
            assert self._told.wait_for(lambda: (ns, path) in self.changes, PATIENCE), (ns, path, self.changes)
            self.changes.clear()

    def marked_when_saved(self, ns: str, root: Path, path: str) -> None:
        """Save a file until it is marked. What was removed may take its watch along once more, late, and then a rescan
        finds what was saved meanwhile."""
        until = time.monotonic() + PATIENCE
        while (ns, path) not in self.changes:
            assert time.monotonic() < until, (ns, path, self.changes)
            save(root / path, f"again {time.monotonic()}")
            time.sleep(0.05)
        self.marked(ns, path)

    def watches(self, ns: str, folder: Path, before: int | None = None) -> int:
        """Wait until a folder has a watch, another one than before: what is saved sooner is found by a scan only."""
        until = time.monotonic() + PATIENCE
        while (number := self.watcher._watched[ns].watches.get(str(folder))) in (None, before):
            assert time.monotonic() < until, folder
            time.sleep(0.01)
        return number

    def rescanned(self, ns: str) -> None:
        with self._told:
            assert self._told.wait_for(lambda: ns in self.rescans, PATIENCE), (ns, self.rescans)
            self.rescans.clear()


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    heard.watcher.start()
    yield heard
    heard.watcher.stop()


def add(heard: Heard, root: Path, ns: str = "agent", **how: object) -> Path:
    (root / "memory").mkdir(parents=True, exist_ok=True)
    heard.watcher.add(Workspace(ns, root, **how))  # type: ignore[arg-type]
    assert heard.watcher.mode(ns) == ("inotify", "")
    return root


def save(file: Path, text: str = "## Note\n") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_workspace_that_comes_before_the_start_is_watched(tmp_path: Path) -> None:
    """The daemon answers before it watches."""
    heard = Heard()
    add(heard, tmp_path)
    save(tmp_path / "memory/a.md")
    heard.watcher.start()
    heard.marked("agent", "memory/a.md")
    heard.watcher.stop()


def inotify_instances() -> int:
    links = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum("inotify" in link for link in links)


def test_two_hundred_workspaces_take_one_thread_and_one_inotify(heard: Heard, tmp_path: Path) -> None:
    threads, instances = threading.active_count(), inotify_instances()
    roots = [add(heard, tmp_path / f"agent{nth}", f"agent{nth}") for nth in range(200)]
    assert (threading.active_count(), inotify_instances()) == (threads, instances)
    for nth, root in enumerate(roots):
        save(root / "memory" / "today.md")
        heard.marked(f"agent{nth}", "memory/today.md")
    for nth, root in enumerate(roots):
        heard.watcher.remove(f"agent{nth}")
        save(root / "MEMORY.md")
    last = add(heard, tmp_path / "last", "last")
    save(last / "MEMORY.md")
    # Events come in order: what the removed ones would have told came before this.
    with heard._told:
        assert heard._told.wait_for(lambda: ("last", "MEMORY.md") in heard.changes, PATIENCE)
        assert {ns for ns, path in heard.changes if path == "MEMORY.md"} == {"last"}


def test_files_that_are_written_replaced_moved_and_removed_are_marked(heard: Heard, tmp_path: Path) -> None:
    root = add(heard, tmp_path / "agent")
    save(root / "MEMORY.md")
    heard.marked("agent", "MEMORY.md")
    save(root / "memory" / ".new.md.tmp")
    (root / "memory" / ".new.md.tmp").rename(root / "memory" / "new.md")
    heard.marked("agent", "memory/new.md")
    (root / "memory" / "new.md").rename(root / "memory" / "newer.md")
    heard.marked("agent", "memory/newer.md")
    (root / "memory" / "newer.md").unlink()
    heard.marked("agent", "memory/newer.md")
    (root / "memory" / "newer.txt").write_text("no memory")
    (root / "MEMORY.md").read_text()
    save(root / "MEMORY.md", "again")
    heard.marked("agent", "MEMORY.md")


def test_events_that_wait_together_are_told_together(heard: Heard, tmp_path: Path) -> None:
    root = add(heard, tmp_path / "agent")
    # As long as somebody looks at its workspaces, the watcher waits.
    with heard.watcher._lock:
        for nth in range(300):
            save(root / "memory" / f"{nth}.md")
    with heard._told:
        assert heard._told.wait_for(lambda: len(heard.changes) == 300, PATIENCE), len(heard.changes)
        # What it had read when it began to wait, and the rest.
        assert heard.calls <= 2


def test_folders_that_come_are_watched_with_what_is_below_them(heard: Heard, tmp_path: Path) -> None:
    root = add(heard, tmp_path / "agent")
    for folder in ("memory/a/b", "daily", ".muxcode/memory/deep"):
        (root / folder).mkdir(parents=True)
        heard.rescanned("agent")
        heard.watches("agent", root / folder)
        save(root / folder / "note.md")
        heard.marked("agent", f"{folder}/note.md")
    (root / "memory" / "node_modules" / "inner").mkdir(parents=True)
    save(root / "memory" / "a" / "other.md")
    heard.marked("agent", "memory/a/other.md")
    assert not [path for path in heard.watcher._watched["agent"].watches if "node_modules" in path]


@pytest.mark.parametrize("gone", ["memory", "."])
def test_a_folder_that_is_removed_and_made_again_is_watched_again(heard: Heard, tmp_path: Path, gone: str) -> None:
    root, number = add(heard, tmp_path / "agent"), None
    for nth in range(5):
        shutil.rmtree(root / gone)
        save(root / "memory" / "sub" / f"{nth}.md")
        heard.rescanned("agent")
        number = heard.watches("agent", root / "memory" / "sub", before=number)
        heard.marked_when_saved("agent", root, f"memory/sub/{nth}.md")


def test_a_folder_that_moves_is_followed_within_and_let_go_outside(heard: Heard, tmp_path: Path) -> None:
    root = add(heard, tmp_path / "agent")
    save(root / "memory" / "old" / "deep" / "note.md")
    heard.watches("agent", root / "memory" / "old" / "deep")
    (root / "memory" / "old").rename(root / "memory" / "new")
    heard.watches("agent", root / "memory" / "new" / "deep")
    save(root / "memory" / "new" / "deep" / "note.md", "within")
    heard.marked("agent", "memory/new/deep/note.md")
    heard.rescans.clear()
    (root / "memory" / "new").rename(tmp_path / "outside")
    heard.rescanned("agent")
    save(tmp_path / "outside" / "deep" / "other.md", "outside")
    save(root / "memory" / "last.md")
    with heard._told:
        assert heard._told.wait_for(lambda: ("agent", "memory/last.md") in heard.changes, PATIENCE)
        assert not [path for _, path in heard.changes if path.endswith("other.md")]


def test_a_workspace_that_moves_away_and_back(heard: Heard, tmp_path: Path) -> None:
    root = add(heard, tmp_path / "agent")
    root.rename(tmp_path / "away")
    heard.rescanned("agent")
    assert heard.watcher.mode("agent")[0] == "waiting"
    (tmp_path / "away").rename(root)
    heard.watches("agent", root / "memory")
    save(root / "memory" / "back.md")
    heard.marked("agent", "memory/back.md")


def test_a_folder_above_a_workspace_that_moves_is_found_in_turn(heard: Heard, tmp_path: Path) -> None:
    """No watch tells of it: the kernel tells only those who watch the folder that moved."""
    add(heard, tmp_path / "above" / "agent")
    (tmp_path / "above").rename(tmp_path / "elsewhere")
    heard.rescanned("agent")
    assert heard.watcher.mode("agent")[0] == "waiting"


def test_workspaces_that_share_a_folder_are_both_told(heard: Heard, tmp_path: Path) -> None:
    outer = add(heard, tmp_path / "agent", "outer")
    inner = add(heard, outer / "memory", "inner", globs=("*.md",))
    save(inner / "note.md")
    with heard._told:
        both = {("outer", "memory/note.md"), ("inner", "note.md")}
        assert heard._told.wait_for(lambda: both <= heard.changes, PATIENCE), heard.changes
        heard.changes.clear()
    heard.watcher.remove("outer")
    save(inner / "note.md", "again")
    heard.marked("inner", "note.md")


def test_links_to_folders_are_watched_where_they_are_followed(heard: Heard, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "agent"
    (root / "memory").mkdir(parents=True)
    (root / "memory" / "out").symlink_to(outside)
    (root / "memory" / "loop").symlink_to(root / "memory")
    add(heard, root, follow=True)
    save(outside / "note.md")
    heard.marked("agent", "memory/out/note.md")
    (root / "memory" / "later").symlink_to(tmp_path / "more")
    (tmp_path / "more").mkdir()
    (root / "memory" / "later").unlink()
    (root / "memory" / "later").symlink_to(tmp_path / "more")
    heard.rescanned("agent")


def test_lost_events_are_noticed_and_everything_is_watched_again(
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue > 50_000:
        pytest.skip(f"fs.inotify.max_queued_events = {queue} would take too long to fill")
    roots = [add(heard, tmp_path / f"agent{nth}", f"agent{nth}") for nth in range(3)]
    with heard.watcher._lock:
        # Whoever reads the events stands still while the queue runs over.
        save(roots[0] / "MEMORY.md")
        for nth in range(queue // 2 + 100):
            save(roots[nth % 3] / "memory" / f"flood{nth % 7}.md", str(nth))
        save(roots[2] / "memory" / "fresh" / "inner" / "note.md")
    for nth in range(3):
        with heard._told:
            assert heard._told.wait_for(lambda nth=nth: f"agent{nth}" in heard.rescans, PATIENCE)
    heard.watches("agent2", roots[2] / "memory" / "fresh" / "inner")
    save(roots[2] / "memory" / "fresh" / "inner" / "note.md", "again")
    heard.marked("agent2", "memory/fresh/inner/note.md")


def test_both_halves_of_a_rename_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells them one after the other: who is quick reads the first alone."""
    monkeypatch.setattr("memd.daemon.watching.inotify.BUFFER", 40)
    (tmp_path / "old.md").write_text("a")
    heard = Inotify()
    heard.watch(str(tmp_path))
    (tmp_path / "old.md").rename(tmp_path / "new.md")
    assert [event.name for event in heard.read(PATIENCE)] == ["old.md", "new.md"]
    heard.close()


def test_what_cannot_be_watched_is_polled(tmp_path: Path) -> None:
    heard = Heard()
    heard.watcher = Watcher(WatchSettings(mode="poll", poll_seconds=0.2), heard._mark_changed, heard._rescan)
    heard.watcher.start()
    try:
        heard.watcher.add(Workspace("agent", tmp_path))
        assert heard.watcher.mode("agent") == ("poll", 'watch.mode = "poll"')
        heard.rescanned("agent")
        heard.rescanned("agent")
    finally:
        heard.watcher.stop()


def test_a_thousand_workspaces_are_looked_at_in_turn(heard: Heard, tmp_path: Path) -> None:
    for nth in range(90):
        add(heard, tmp_path / f"agent{nth}", f"agent{nth}")
    heard.watcher.stop()
    looks: list[set[str]] = []
    for _ in range(12):
        looks.append({watched.workspace.ns for watched in heard.watcher._next_in_turn()})
    assert max(len(look) for look in looks) == watching.EACH_TICK
    assert set().union(*looks) == {f"agent{nth}" for nth in range(90)}


# --- single folders, and threads that die ---------------------------------------------------------------------


def test_descriptors_above_a_thousand_are_watched_too(tmp_path: Path) -> None:
    """`select` takes none from 1,024 on; a daemon with many clients has them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_200:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_200), hard))
    changed = threading.Event()
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while opened.enter_context(Path(os.devnull).open("rb")).fileno() < 1_050:
            pass
        folders = FolderWatch(changed.set)
        opened.callback(folders.stop)
        for name in ("a.py", "b.py"):
            folders.watch(tmp_path, [""])
            (tmp_path / name).touch()
            assert changed.wait(PATIENCE), name
            changed.clear()


def test_a_thread_that_dies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health()
    monkeypatch.setattr(threading, "excepthook", health.thread_died)

    def fail() -> None:
        raise RuntimeError("nobody expects this")

    folders = FolderWatch(fail)
    folders.watch(tmp_path, [""])
    (tmp_path / "a.py").touch()
    assert folders._thread is not None
    folders._thread.join(PATIENCE)
    folders.stop()
    (trouble,) = health.troubles
    assert trouble.what == "thread:memd-folders" and "RuntimeError: nobody expects this" in trouble.why
    assert "memd restart" in trouble.fix


MISTAKEN = """
import sys
from memd.daemon import __main__
from memd.daemon.watching import watcher

def mistake(*_):
    raise RuntimeError("nobody expects this")

watcher.Watcher._hear = mistake
sys.exit(__main__.main([]))
"""


def test_status_names_a_thread_that_died(home: Home, workspace: Path) -> None:
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    home.daemon = subprocess.Popen([sys.executable, "-c", MISTAKEN], env=home.env, stdin=subprocess.DEVNULL)
    with home.wait() as client:
        eventually(lambda: client.status()["workspaces"][0]["watch"] == "inotify")
        (workspace / "MEMORY.md").write_text("## Changed\n")
        assert eventually(lambda: client.status()["degraded"]) == ["thread:memd-watcher"]
        (told,) = client.status()["degraded_details"]
        assert "RuntimeError: nobody expects this" in told["why"]


def test_work_that_nobody_waits_for_does_not_fail_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int, "no number").add_done_callback(log_failure)
        pool.submit(int, "1").add_done_callback(log_failure)
        ended: Future[None] = Future()
        ended.set_exception(Stopping())  # That is no failure.
        log_failure(ended)
    (record,) = caplog.records
    assert record.name == "memd.health" and record.exc_info and "no number" in str(record.exc_info[1])
