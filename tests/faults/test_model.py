"""The overall proof: whatever happens to files and daemon, after `sync` the files and all stores agree."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.conftest import Home, write_notes
from tests.faults.agreement import assert_agreement, rounds, serve

PATHS = ("MEMORY.md", "memory/2026-01-01.md", "memory/2026-01-02.md", "memory/topics/tea.md", "memory/deep/er/x.md")
WORDS = ("wren", "tea", "router", "Zürich", "設定", "snake_case", "100 %", "`code`")
FOLDERS = ("memory/topics", "memory/deep", "memory")

paths = st.sampled_from(PATHS)
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
sections = st.lists(st.tuples(st.sampled_from(WORDS), sentences), min_size=0, max_size=4)


def note(parts: list[tuple[str, str]]) -> str:
    return "# Note\n\nbefore it all\n\n" + "".join(f"## {heading}\n\n{body}\n\n" for heading, body in parts)


class FilesAndDaemon(RuleBasedStateMachine):
    """Steps that people, editors, git and the kernel take; the daemon must keep up with all of them."""

    @initialize()
    def begin(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="memd-"))
        self.home = Home(self.place / "h")
        self.home.collections = True
        self.root = write_notes(self.place / "agent")
        self.still = False
        self.client = serve(self.home, self.root)

    # --- files ----------------------------------------------------------------------------------------------

    @rule(path=paths, parts=sections)
    def write(self, path: str, parts: list[tuple[str, str]]) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(note(parts))

    @rule(path=paths, old=st.sampled_from(WORDS), new=st.sampled_from(WORDS))
    def edit(self, path: str, old: str, new: str) -> None:
        if (self.root / path).exists():
            (self.root / path).write_text((self.root / path).read_text().replace(old, new))

    @rule(path=paths, body=sentences)
    def append(self, path: str, body: str) -> None:
        if (self.root / path).exists():
            with (self.root / path).open("a") as file:
                file.write(f"\n## Later\n\n{body}\n")

    @rule(path=paths)
    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    @rule(path=paths, place=paths)
    def rename(self, path: str, place: str) -> None:
        if (self.root / path).exists() and path != place:
            (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).rename(self.root / place)

    @rule(path=paths, parts=sections)
    def replace_atomically(self, path: str, parts: list[tuple[str, str]]) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        fresh = (self.root / path).with_suffix(".tmp")
        fresh.write_text(note(parts))
        fresh.rename(self.root / path)

    @rule(folder=st.sampled_from(FOLDERS))
    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(self.root / folder, ignore_errors=True)

    @rule(folder=st.sampled_from(FOLDERS))
    def make_folder(self, folder: str) -> None:
        (self.root / folder).mkdir(parents=True, exist_ok=True)

    @rule(folder=st.sampled_from(FOLDERS))
    def move_folder_away_and_back(self, folder: str) -> None:
        if (self.root / folder).exists():
            (self.root / folder).rename(self.place / "away")
            (self.place / "away").rename(self.root / folder)

    # --- the daemon -----------------------------------------------------------------------------------------

    @rule(after=st.sampled_from((0.0, 0.05, 0.15, 0.4)))
    def kill_and_start(self, after: float) -> None:
        time.sleep(after)
        self.home.kill()
        self.still = False
        self.client = self.home.start()

    @rule()
    def stop_and_start(self) -> None:
        self._go_on()
        assert self.home.stop() == 0
        self.client = self.home.start()

    @precondition(lambda self: not self.still)
    @rule()
    def stand_still(self) -> None:
        self._signal(signal.SIGSTOP)
        self.still = True

    @rule()
    def go_on(self) -> None:
        self._go_on()

    @rule(thorough=st.booleans())
    def sync(self, thorough: bool) -> None:
        self._go_on()
        self.client.sync(vectors=thorough)
        assert_agreement(self.home, self.root, vectors=thorough)

    @invariant()
    def the_daemon_lives(self) -> None:
        if hasattr(self, "home"):
            assert self.home.daemon is not None and self.home.daemon.poll() is None, self.home.log

    # --- how ------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self.still:
            self._signal(signal.SIGCONT)
            self.still = False

    def _signal(self, number: signal.Signals) -> None:
        assert self.home.daemon is not None
        self.home.daemon.send_signal(number)

    def teardown(self) -> None:
        if not hasattr(self, "home"):
            return
        try:
            self._go_on()
            self.client.sync(vectors=True)
            assert_agreement(self.home, self.root)
            assert "Traceback" not in self.home.log, self.home.log
        finally:
            self.home.close()
            shutil.rmtree(self.place, ignore_errors=True)


FilesAndDaemon.TestCase.settings = settings(
    max_examples=rounds(4, 250),
    stateful_step_count=rounds(15, 40),
    deadline=None,
    derandomize=rounds(1, 0) == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestFilesAndDaemon = FilesAndDaemon.TestCase
