"""A progress bar on standard error, drawn only where a person sees it."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from memd.cli import say

WIDTH = 30
REDRAW_SECONDS = 0.05
PHASES = {"scan": "reading", "text": "indexing", "vectors": "embedding", "questions": "asking",
          "import": "writing", "ingest": "writing", "outline": "reading"}  # fmt: skip


class Bar:
    """Draws what the daemon reports while a long call runs; `update` is the client's `on_progress`."""

    def __init__(self) -> None:
        self._shown = say.on_terminal(sys.stderr)
        self._drawn_at = 0.0
        self._phase = ""
        self._phase_began = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._drawn_at:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def update(self, report: dict[str, Any]) -> None:
        now = time.monotonic()
        done, total, phase = int(report["done"]), int(report["total"]), str(report["phase"])
        if phase != self._phase:
            self._phase, self._phase_began, self._drawn_at = phase, now, 0.0
        if self._shown and (now - self._drawn_at > REDRAW_SECONDS or done >= total):
            self._drawn_at = now
            sys.stderr.write("\r\x1b[K" + line(phase, done, total, now - self._phase_began))
            sys.stderr.flush()


def line(phase: str, done: int, total: int, seconds: float) -> str:
    """`indexing  [#####.....]  120/340  4 s left`."""
    share = min(1.0, done / total) if total else 1.0
    filled = round(share * WIDTH)
    left = f"  {seconds * (1 - share) / share:.0f} s left" if 0 < share < 1 and seconds > 1 else ""
    return f"{PHASES.get(phase, phase):<9}  [{'#' * filled}{'.' * (WIDTH - filled)}]  {done}/{total}{left}"
