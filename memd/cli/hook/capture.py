"""Saves what was learned in a session to the note of the day: once each, with its source, never a secret."""

import fcntl
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memd.cli.hook import INSIDE, LINES, learned, transcript
from memd.config import paths
from memd.errors import Proposed, SecretFound
from memd.protocol.client import Client

KEPT_DAYS = 60
"""How long it is remembered what a session has saved; one that is resumed later may save it again."""
TAG = "captured"
Settings = dict[str, Any]


def save(client: Client, event: str, payload: dict[str, Any], where: dict[str, Any], settings: Settings) -> int:
    """Save what is new since the last time in this session; how many things."""
    session, path = str(payload.get("session_id") or ""), payload.get("transcript_path")
    if not session or not isinstance(path, str) or not path:
        raise ValueError("the hook does not say which session and which transcript")
    lines = transcript.tail(path, LINES[event])
    texts = (
        _extracted(lines, event, session, payload, settings)
        if settings["extract"]
        else learned.worth_keeping(transcript.utterances(lines))
    )
    with _remembered(session) as (known, remember):
        new = [text for text in texts if _digest(text) not in known]
        if new:
            saved = Saver(client, event, session, payload, where).save(new)
            remember(map(_digest, new))
            return saved
    return 0


def _extracted(lines: list[bytes], event: str, session: str, payload: dict[str, Any], settings: Settings) -> list[str]:
    """What the user's own command makes of the lines; nothing when it fails."""
    place = payload.get("cwd")
    process = subprocess.Popen(
        settings["extract"], shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=place if isinstance(place, str) and Path(place).is_dir() else None, start_new_session=True,
        env={**os.environ, INSIDE: "1", "MEMD_HOOK_EVENT": event, "MEMD_HOOK_SESSION": session},
    )  # fmt: skip
    try:
        out, _ = process.communicate(b"\n".join(lines) + b"\n", timeout=settings["extract_s"])
    finally:
        if process.poll() is None:
            # With whatever it has started: nobody waits for it any more.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return [] if process.returncode else learned.tidy(out.decode("utf-8", "replace").splitlines())


class Saver:
    """Writes things down for one hook."""

    def __init__(
        self, client: Client, event: str, session: str, payload: dict[str, Any], where: dict[str, Any]
    ) -> None:
        self.client, self.event, self.session, self.where = client, event, session, where
        self.place = str(payload.get("cwd") or "")

    def save(self, texts: list[str]) -> int:
        """As one section; where memd's own look finds a secret in it, each for itself and without that one."""
        try:
            self._note(texts)
        except Proposed:
            # A person decides about it; to propose it again would change nothing.
            return len(texts)
        except SecretFound:
            if len(texts) == 1:
                return 0
            return sum(self.save([text]) for text in texts)
        return len(texts)

    def _note(self, texts: list[str]) -> None:
        bullets = "\n".join(f"- {text}" for text in texts)
        source = f"Source: session {self.session}, {self.event}" + (f", in {self.place}" if self.place else "")
        request = _digest(f"{self.session}\n{bullets}")
        name = Path(self.place).name
        self.client.call(
            "note",
            {
                "text": f"{bullets}\n\n{' '.join(source.split())}",
                "title": f"Learned in {name}" if name else "Learned",
                "tags": [TAG],
                "who": f"hook:{self.event}",
                "now": time.strftime("%Y-%m-%dT%H:%M"),
                "request_id": f"hook-{request}",
                **self.where,
            },
        )


# --- what was saved before ----------------------------------------------------------------------------------


@contextmanager
def _remembered(session: str) -> Iterator[tuple[set[str], Callable[[Iterator[str]], None]]]:
    """What this session has saved, and a way to add to it; one hook of a session at a time."""
    directory = paths.private_dir(paths.private_dir(paths.state_dir()) / "hooks")
    _sweep(directory)
    file = directory / _digest(session)
    with file.open("a+", encoding="ascii") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)

        def remember(digests: Iterator[str]) -> None:
            kept.write("".join(f"{digest}\n" for digest in digests))

        yield set(kept.read().split()), remember


def _sweep(directory: Path) -> None:
    oldest = time.time() - KEPT_DAYS * 86_400
    for file in directory.iterdir():
        if file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)


def _digest(text: str) -> str:
    plain = learned.folded(text) or text
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]
