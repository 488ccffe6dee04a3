"""Saves what was learned in a session to the note of the day: once each, with its source, never a secret."""

import fcntl
import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, TextIO

from memd.cli.hook import INSIDE, LINES, learned
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
    lines = learned.tail(path, LINES[event])
    texts = (
        _extracted(lines, event, session, payload, settings)
        if settings["extract"]
        else learned.worth_keeping(learned.utterances(lines))
    )
    with _remembered(session) as kept:
        known = set(kept.read().split())
        new = [text for text in texts if _digest(text) not in known]
        saved = _saved(client, event, payload, where, new) if new else 0
        kept.writelines(f"{_digest(text)}\n" for text in new)
    return saved


def _extracted(lines: list[bytes], event: str, session: str, payload: dict[str, Any], settings: Settings) -> list[str]:
    """The answer of the user's own command to the lines; nothing when it fails."""
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


def _saved(client: Client, event: str, payload: dict[str, Any], where: dict[str, Any], texts: list[str]) -> int:
    """Write things down as one section; where memd's own look finds a secret in it, each for itself and without that
    one. Tells how many were saved."""
    try:
        client.call("note", {**_note(event, payload, texts), **where})
    except Proposed:
        # A person decides about it; to propose it again would change nothing.
        return len(texts)
    except SecretFound:
        return sum(_saved(client, event, payload, where, [text]) for text in texts) if len(texts) > 1 else 0
    return len(texts)


def _note(event: str, payload: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    session, place = str(payload["session_id"]), str(payload.get("cwd") or "")
    bullets = "\n".join(f"- {text}" for text in texts)
    source = f"Source: session {session}, {event}" + (f", in {place}" if place else "")
    name, request = Path(place).name, _digest(f"{session}\n{bullets}")
    return {
        "text": f"{bullets}\n\n{' '.join(source.split())}", "title": f"Learned in {name}" if name else "Learned",
        "tags": [TAG], "who": f"hook:{event}", "now": time.strftime("%Y-%m-%dT%H:%M"),
        "request_id": f"hook-{request}",
    }  # fmt: skip


# --- what was saved before ----------------------------------------------------------------------------------


def _remembered(session: str) -> TextIO:
    """The file that has what this session has saved, open to be added to; one hook of a session at a time."""
    directory = paths.private_dir(paths.private_dir(paths.state_dir()) / "hooks")
    _sweep(directory)
    kept = (directory / _digest(session)).open("a+", encoding="ascii")
    fcntl.flock(kept, fcntl.LOCK_EX)
    kept.seek(0)
    return kept


def _sweep(directory: Path) -> None:
    oldest = time.time() - KEPT_DAYS * 86_400
    for file in directory.iterdir():
        if file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)


def _digest(text: str) -> str:
    plain = learned.folded(text) or text
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]
