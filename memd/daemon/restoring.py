"""Puts a backup back without a daemon: takes the lock, so that nobody has the ledger open."""

from __future__ import annotations

from pathlib import Path

from memd.config import paths
from memd.daemon.lock import Lock
from memd.indexer.upkeep import backups


def check(file: Path) -> dict[str, str]:
    """Whether a file is a backup that can be put back."""
    backups.check(file)
    return {"backup": str(file)}


def restore(file: Path) -> dict[str, str]:
    """Put it back; what it replaces is put aside."""
    state = paths.private_dir(paths.state_dir())
    lock = Lock(paths.lock_file())
    try:
        done = backups.restore(state, file)
    finally:
        lock.release()
    return {"backup": str(done.backup), "aside": str(done.aside or "")}
