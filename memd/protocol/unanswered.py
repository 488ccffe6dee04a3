"""Writes that got no answer: the same one, given again soon, carries the same request id and is carried out once."""

import hashlib
import time
from contextlib import suppress
from typing import Any

from memd.config import paths

KEPT_SECONDS = 600
"""How long a write counts as the same one; later it is meant anew."""
NOT_COMPARED = ("now", "progress", "request_id")
"""Parameters that may differ although the same thing is asked."""


class UnansweredWrite:
    """A small file, named by the digest of what was asked, so that another process finds it; it has no text."""

    def __init__(self, daemon: str, method: str, params: dict[str, Any]) -> None:
        compared = sorted((name, value) for name, value in params.items() if name not in NOT_COMPARED)
        digest = hashlib.sha256(repr((daemon, method, compared)).encode("utf-8", "surrogatepass"))
        self._file = paths.unanswered_dir() / digest.hexdigest()[:32]

    @property
    def request_id(self) -> str:
        """The id that the write carried when it got no answer; empty where it got one, or where that is long ago."""
        with suppress(OSError):
            if time.time() - self._file.stat().st_mtime < KEPT_SECONDS:
                return self._file.read_text(encoding="ascii")
        return ""

    def remember(self, request_id: str) -> None:
        """Keep the id of a write that got no answer; where that cannot be done, the same write is another one."""
        with suppress(OSError):
            folder = paths.private_dir(paths.private_dir(paths.state_dir()) / self._file.parent.name)
            paths.remove_old(folder, KEPT_SECONDS)
            paths.replace_file(self._file, request_id.encode(), 0o600)

    def forget(self) -> None:
        """It was answered."""
        with suppress(OSError):
            self._file.unlink()
