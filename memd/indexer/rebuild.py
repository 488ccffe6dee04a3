"""Builds a workspace's text index from the ledger in a process of its own, so that queries are not held up."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from memd.errors import MemdError
from memd.indexer import text
from memd.models import Chunk


def build_elsewhere(state: Path, workspace: int) -> Path:
    """Run the build in a child; answers the folder of the finished index."""
    fresh = state / "text" / f"{workspace}.fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    command = [sys.executable, "-W", "ignore", "-m", "memd.indexer.rebuild", str(state), str(workspace), str(fresh)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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


if __name__ == "__main__":
    text.build(Path(sys.argv[3]), _chunks(Path(sys.argv[1]), int(sys.argv[2])))
