"""The daemon's health: what is degraded and how to repair it, and a line in the log for each thing that
happened."""

import json
import logging
import os
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from memd.config.schema import LogSettings
from memd.errors import MemdError

log = logging.getLogger("memd.health")


class Stopping(MemdError):
    """memd is stopping; what was asked for is not begun any more."""

    def __init__(self) -> None:
        super().__init__("memd is stopping")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is degraded."""

    what: str
    why: str
    fix: str


class Health:
    """Everything that is degraded; empty when all is well."""

    def __init__(self) -> None:
        self._troubles: dict[tuple[str, str], Trouble] = {}
        self._lock = threading.Lock()

    def set(self, what: str, why: str, fix: str, cause: str = "") -> bool:
        """Note a trouble, or one of its causes where it may have several; returns whether that is new."""
        with self._lock:
            new = (what, cause) not in self._troubles
            self._troubles[what, cause] = Trouble(what, why, fix)
            return new

    def clear(self, what: str, cause: str = "") -> bool:
        with self._lock:
            return self._troubles.pop((what, cause), None) is not None

    def thread_died(self, death: threading.ExceptHookArgs) -> None:
        """A thread that dies of an error is a trouble with its name; for `threading.excepthook`."""
        if death.exc_type is SystemExit or death.exc_value is None:
            return
        name = death.thread.name if death.thread else "of unknown name"
        log.critical("the thread %s died", name, exc_info=death.exc_value)
        why = f"the thread {name} died: {death.exc_type.__name__}: {death.exc_value}"
        self.set(f"thread:{name}", why, "memd restart starts it again; memd logs tells more")

    @property
    def names(self) -> list[str]:
        return [trouble.what for trouble in self.troubles]

    @property
    def troubles(self) -> list[Trouble]:
        """By name, each with the first of its causes."""
        with self._lock:
            first = {trouble.what: trouble for trouble in reversed(self._troubles.values())}
        return [first[name] for name in sorted(first)]


def log_failure(work: Future[Any]) -> None:
    """The end of something that nobody waits for: an error in it must not go unnoticed."""
    error = None if work.cancelled() else work.exception()
    if isinstance(error, Stopping):
        return
    if isinstance(error, MemdError):
        log.error("%s", error)
    elif error is not None:
        log.error("work that nobody waits for failed", exc_info=error)


class JsonLines(logging.Formatter):
    """A log record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "part": record.name.removeprefix("memd."),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def start_logging(settings: LogSettings, file: Path, to_journal: bool) -> None:
    """Begin logging. The journal stamps its own time, so its lines carry none."""
    plain = "%(levelname)s %(name)s: %(message)s"
    timed = f"%(asctime)s {plain}"
    json_lines = JsonLines() if settings.format == "json" else None
    rotated = RotatingFileHandler(file, maxBytes=settings.file_kb * 1024, backupCount=settings.files, encoding="utf-8")
    rotated.setFormatter(json_lines or logging.Formatter(timed))
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(json_lines or logging.Formatter(plain if to_journal else timed))
    root = logging.getLogger()
    # Started by a client, nobody reads stderr; it is kept for the words of a daemon that could not start.
    root.handlers = [rotated] if os.environ.get("MEMD_DETACHED") else [rotated, stderr]
    root.setLevel(logging.WARNING)
    logging.getLogger("memd").setLevel(settings.level.upper())
    # A full disk must not fill stderr with tracebacks of the log itself.
    logging.raiseExceptions = False
