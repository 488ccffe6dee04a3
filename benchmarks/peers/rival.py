"""An adapter: one program that indexes a folder of notes and answers questions from it.

Adapters run inside the environment of their rival, so this file and they import nothing but the standard library and
the rival. A hit is `{"path", "start_line", "end_line"}` where the rival tells lines, else `{"text"}` with `"path"`
where it tells that; the runner finds the lines.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

Hit = dict[str, Any]

_COMMON = set(
    """a an and are as at be been by did do does for from had has have he her his how i in is it its me my of on or our
    she that the their them they this to was we were what when where which who whom whose why will with would you
    your""".split()
)


class Rival:
    """One rival on one folder of notes; subclasses fill in what it does."""

    title: ClassVar[str] = ""
    packages: ClassVar[Sequence[str]] = ()
    """Installed for it, pinned; the first one's version is the rival's. Empty: nothing needs installing."""
    npm: ClassVar[Sequence[str]] = ()
    python: ClassVar[str] = "3.12"
    overrides: ClassVar[Sequence[str]] = ()
    """Packages whose declared versions are ignored when installing, because the index at hand is older."""
    extensions: ClassVar[bool] = False
    """Whether it needs a SQLite that can load extensions, which many Pythons do not have."""
    absent: ClassVar[str] = ""
    """Why it cannot be compared here at all, and what its authors publish instead."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Rows of the table that this adapter gives, each with its settings; empty: one, named after the file."""
    asked: ClassVar[str] = "in its own Python process"
    """How it is asked warm."""
    mode: ClassVar[str] = ""
    """The settings and the mode of search, in words."""
    embeds: ClassVar[str] = ""
    """With what it embeds in this run."""
    loopback: ClassVar[bool] = False
    """Whether that is the embedder on loopback, at `self.embedder`; empty there means the rival's own model."""

    def __init__(self, notes: Path, place: Path, embedder: str, **settings: Any) -> None:
        self.notes, self.place, self.embedder, self.settings = notes, place, embedder, settings
        self.bin = Path(sys.executable).parent

    def index(self) -> None:
        """Return when everything in the folder can be found; called again, take in what changed."""
        raise NotImplementedError

    def ask(self, question: str, limit: int) -> list[Hit]:
        """The best hits first."""
        raise NotImplementedError

    def cold(self, question: str) -> list[str] | None:
        """The command that a person types; None where there is none."""
        return None

    def watch(self) -> bool:
        """Start what finds edits by itself; whether there is such a thing."""
        return False

    def stop(self) -> None:
        """End everything that was started."""

    def run(self, *command: str | Path, **env: str) -> str:
        """One command of the rival; what it printed."""
        done = subprocess.run(
            [str(part) for part in command], env=os.environ | env, cwd=self.notes, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            raise RuntimeError(f"{Path(command[0]).name} exited with {done.returncode}: {' '.join(said[-3:])[-300:]}")
        return done.stdout

    def background(self, *command: str | Path, **env: str) -> subprocess.Popen[bytes]:
        """A command that goes on; it ends with the worker."""
        given = [str(part) for part in command]
        return subprocess.Popen(given, env=os.environ | env, cwd=self.notes, stdin=subprocess.PIPE, stdout=sys.stderr)

    def reach(self, url: str) -> None:
        """Return when a server answers there."""
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)

    def logged(self, words: str) -> None:
        """Return when something that runs in the background has said these words."""
        while words not in (self.place / "worker.log").read_text(errors="replace"):
            time.sleep(0.05)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of an async call, on one loop that goes on between calls."""
        if not hasattr(self, "_loop"):
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def relative(self, path: str | Path) -> str:
        """A path as the notes have it."""
        path = Path(path)
        return str(path.relative_to(self.notes)) if path.is_absolute() else str(path)


def keywords(question: str) -> list[str]:
    """The words of a question but for the commonest; for rivals that look for words and nothing else."""
    words = re.findall(r"\w+", question.lower())
    return [word for word in words if word not in _COMMON] or words or [question]
