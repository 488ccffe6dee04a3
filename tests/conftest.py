"""What the tests share: real daemons in homes of their own, and workspaces made of real files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings

from memd.errors import MemdError
from memd.protocol.client import Client
from tests.forge import CHROMA_AFTER, Forge, Forged, forged_processes

ROOT = Path(__file__).parent.parent

PATIENCE = 300.0
"""Seconds that a test waits for what must come. What takes a second alone takes a minute beside forty busy programs;
only a test that fails waits for all of it."""

# Nothing in the tests depends on how fast they run.
settings.register_profile("memd", deadline=None)
settings.load_profile("memd")

# Who is started in the background is deaf to Ctrl-C, and so are the programs that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    *("test_place", "faults/test_model", "faults/test_kill", "test_many_workspaces", "faults/test_corrupt"),
    "test_service",
    *("faults/test_watching", "faults/test_life", "test_chroma_process", "faults/test_disk", "faults/test_memory"),
    *("test_cli_life", "test_subscribe", "test_readers", "test_outline_agrees", "test_mcp_resources"),
)
"""The files whose tests take longest, mostly by waiting."""

LINUX_ONLY = {
    "faults": "the damage is done by what Linux has: mounts, limits, /proc; and slowly",
    "test_watcher": "inotify itself; what it is for is tested everywhere",
    "test_service": "systemd",
    "test_web_browser": "a browser of its own, which sees all that Linux has",
    "test_outline_agrees": "two parsers side by side: minutes, and nothing of the system in it",
    "test_place": "runs a part of the suite itself, in another place",
    "test_elsewhere": "runs a part of the suite itself, with this hidden",
}
"""The files that are not run where what only Linux has is hidden (`make elsewhere`), and why. Single tests say it
beside their marker, `linux`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only Linux can run; give each test process its share of the longest first.

    What is left at the end is short, and can be shared.
    """
    for item in items:
        parts = item.path.relative_to(ROOT / "tests").with_suffix("").parts
        if not LINUX_ONLY.keys().isdisjoint(parts):
            item.add_marker("linux")
    shares: list[list[pytest.Item]] = [[] for _ in range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))]
    if len(shares) == 1:
        return
    size = -(-len(items) // len(shares))
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path.relative_to(ROOT / "tests").with_suffix("").as_posix(), []).append(item)
    # A test of these is several files.
    several = [[item] for item in by_file.pop("test_elsewhere", [])]
    for nth, long in enumerate([*several, *(by_file.pop(name, []) for name in LONGEST)]):
        shares[nth % len(shares)] += long
    rest = [item for each in by_file.values() for item in each]
    for share in shares:
        missing = max(0, size - len(share))
        share += rest[:missing]
        del rest[:missing]
    items[:] = [item for share in shares for item in share] + rest


NOTES = {
    "MEMORY.md": "# Memory\n\n## Home network\n\nThe router is at 10.0.0.1 and is called fjord.\n\n"
    "## Preferences\n\nPierce likes short answers. #style\n",
    "memory/2026-02-15.md": "# 2026-02-15\n\n## ErsatzTV\n\nSet up the ErsatzTV skill for Pierce.\n"
    "The API endpoint is http://192.0.2.18:8409.\n\n## Garden\n\nPlanted two apple trees behind the shed.\n",
    "memory/2026-02-16.md": "# 2026-02-16\n\n## Backup\n\nThe backup of the photo archive failed: disk full.\n",
    "memory/topics/sourdough.md": "---\ntitle: Sourdough\ntags: [baking, bread]\n---\n\nFeed the starter daily.\n",
}


@lru_cache
def forge(module: str) -> Forge:
    """One for all daemons and one for all commands of a test process; the daemons of a command are of the first."""
    return Forge(module, forge("memd.daemon") if module == "memd" else None)


class Home:
    """A MEMD_HOME with, when asked for, a daemon in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MEMD_")},
            # This memd, whichever one is installed too.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "MEMD_HOME": str(path),
            "MEMD_TEST_EMBEDDER": "tests.hash_embedder:HashEmbedder",
            "NO_COLOR": "1",
        }
        self.daemon: subprocess.Popen[bytes] | Forged | None = None
        self.from_nothing = False
        """Whether the daemon is started as the command starts it, however long that takes."""
        self.collections = False
        """Whether Chroma is filled as soon as ever, rather than only in a test that takes long."""

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def socket(self) -> Path:
        return self.path / "run" / "memd.sock"

    @property
    def log(self) -> str:
        file = self.path / "daemon.stderr"
        return file.read_text(errors="replace") if file.exists() else ""

    def configure(self, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "config.toml").write_text(text)

    def start(self, **env: str) -> Client:
        """Start the daemon and wait until it answers."""
        self.path.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "memd.daemon"]
        with (self.path / "daemon.stderr").open("ab") as stderr:
            if self.from_nothing:
                self.daemon = subprocess.Popen(command, env=self.env | env, stderr=stderr, stdin=subprocess.DEVNULL)
            else:
                if not self.collections:
                    env = {CHROMA_AFTER: "30", **env}
                with Path(os.devnull).open("r+b") as nothing:
                    files = [nothing.fileno(), nothing.fileno(), stderr.fileno()]
                    self.daemon = forge("memd.daemon").start(self.env | env, files)
        return self.wait()

    def wait(self, seconds: float = PATIENCE) -> Client:
        """A client, as soon as the daemon answers."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.daemon is not None and self.daemon.poll() is not None:
                raise AssertionError(f"the daemon exited with {self.daemon.returncode}:\n{self.log}")
            try:
                client = Client(str(self.socket))
                client.ping()
                return client
            except MemdError:
                time.sleep(0.02)
        raise AssertionError(f"no answer within {seconds} s:\n{self.log}")

    def kill(self) -> None:
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def stop(self) -> int:
        """Stop as systemd would."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGTERM)
        return self.daemon.wait(PATIENCE)

    def run(
        self, *arguments: str, cwd: Path | None = None, input: str | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the `memd` command in this home."""
        if not (self.from_nothing or env):
            return forge("memd").run(arguments, self.env, cwd or self.path, input, PATIENCE)
        return subprocess.run(
            [sys.executable, "-m", "memd", *arguments],
            env={**self.env, **env}, cwd=cwd or self.path,
            input=input, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip

    def run_daemon(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the daemon's own command in this home until it ends."""
        if not self.from_nothing:
            return forge("memd.daemon").run(arguments, self.env, self.path, None, PATIENCE)
        command = [sys.executable, "-m", "memd.daemon", *arguments]
        return subprocess.run(command, env=self.env, cwd=self.path, capture_output=True, text=True, timeout=PATIENCE)

    def close(self) -> None:
        """Kill whatever runs here, also what a command started."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        known = forged_processes(self.path)
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                forged = process.name in known and b"forge.py" in (process / "cmdline").read_bytes()
                if forged or f"MEMD_HOME={self.path}\0".encode() in (process / "environ").read_bytes() + b"\0":
                    os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def home() -> Iterator[Home]:
    # Not pytest's own directory: its long names do not fit into a socket's path.
    path = Path(tempfile.mkdtemp(prefix="memd-"))
    made = Home(path / "h")
    made.path.mkdir()
    yield made
    made.close()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def chroma_at_once(home: Home) -> None:
    """For tests that look at Chroma: to be named before what starts the daemon."""
    home.collections = True


@pytest.fixture
def run(home: Home) -> Callable[..., subprocess.CompletedProcess[str]]:
    return home.run


def write_notes(root: Path, notes: Mapping[str, str | bytes] = NOTES) -> Path:
    for path, text in notes.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


@pytest.fixture
def workspace(home: Home) -> Path:
    return write_notes(home.path.parent / "agent")


@pytest.fixture
def memory(home: Home, workspace: Path) -> Iterator[Client]:
    """A client of a daemon that has taken in the workspace, vectors and all."""
    with home.start() as client:
        client.workspace_add(str(workspace))
        client.sync(vectors=True)
        yield client


@pytest.fixture
def served(memory: Client, home: Home) -> Home:
    """A home whose daemon has taken in the workspace."""
    return home


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """What was synced, in order: the name, and what a file held in that moment."""
    seen: list[tuple[str, bytes]] = []
    really = os.fsync

    def noting(descriptor: int) -> None:
        really(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        seen.append((path.name, path.read_bytes() if path.is_file() else b""))

    monkeypatch.setattr(os, "fsync", noting)
    return seen
