"""Builds a workspace's text index from the ledger in a child process, so that queries are not held up."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from memd.errors import MemdError
from memd.indexer.store import text
from memd.indexer.store.stores import BUILDING
from memd.models import Chunk

GENTLE = 15
"""The niceness of a build that nobody waits for."""


def build_elsewhere(state: Path, workspace: int, nice: int = 0) -> Path:
    """Build in a child; returns the folder of the finished index."""
    (state / BUILDING).mkdir(mode=0o700, exist_ok=True)
    # A folder for each: a rebuild that someone asked for may meet one that the daemon began by itself.
    fresh = Path(tempfile.mkdtemp(prefix=f"{workspace}.", dir=state / BUILDING))
    module = [sys.executable, "-W", "ignore", "-m", "memd.indexer.maintenance.rebuild"]
    arguments = [str(state), str(workspace), str(fresh), str(nice)]
    watched, held = os.pipe()
    try:
        done = subprocess.run([*module, *arguments], stdin=watched, capture_output=True, text=True, check=False)
    finally:
        os.close(watched)
        os.close(held)
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
        raise MemdError(f"the text index could not be built: {last}", "memd doctor")
    return fresh


def _chunks(state: Path, workspace: int) -> Iterator[tuple[int, Chunk]]:
    connection = sqlite3.connect(f"file:{state / 'state.db'}?mode=ro", uri=True)
    rows = connection.execute(
        "SELECT id, text, start_line, end_line, heading, context FROM chunks WHERE workspace = ? ORDER BY id",
        (workspace,),
    )
    for number, body, start, end, heading, context in rows:
        yield number, Chunk(body, start, end, tuple(json.loads(heading)), context)
    connection.close()


def _end_with_the_parent() -> None:
    """Standard input ends when the daemon does, in whatever way."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main(state: str, workspace: str, fresh: str, nice: str) -> None:
    os.nice(int(nice))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    text.build(Path(fresh), _chunks(Path(state), int(workspace)))


if __name__ == "__main__":
    main(*sys.argv[1:])
