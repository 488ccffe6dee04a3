"""One line for each thing that happened: text or JSON, to stderr and to a rotated file."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

from memd.config.schema import LogSettings


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


def start(settings: LogSettings, file: Path, to_journal: bool) -> None:
    """Begin logging. The journal stamps its own time, so its lines carry none."""
    plain = "%(levelname)s %(name)s: %(message)s"
    to_file: logging.Formatter = logging.Formatter(f"%(asctime)s {plain}")
    to_stderr: logging.Formatter = logging.Formatter(plain if to_journal else f"%(asctime)s {plain}")
    if settings.format == "json":
        to_file = to_stderr = JsonLines()
    rotated = RotatingFileHandler(file, maxBytes=settings.file_kb * 1024, backupCount=settings.files, encoding="utf-8")
    rotated.setFormatter(to_file)
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(to_stderr)
    root = logging.getLogger()
    # Started by a client, nobody reads stderr; it is kept for the words of a daemon that could not start.
    root.handlers = [rotated] if os.environ.get("MEMD_DETACHED") else [rotated, stderr]
    root.setLevel(logging.WARNING)
    logging.getLogger("memd").setLevel(settings.level.upper())
    # A full disk must not fill stderr with tracebacks of the log itself.
    logging.raiseExceptions = False
