"""When each job last ran and its result, so that a start knows what was missed."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from sqlite3 import Connection


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job."""

    name: str
    last: str
    """When it began."""
    took_ms: float
    result: str


def keep(connection: Connection, run: LastRun) -> None:
    connection.execute("INSERT OR REPLACE INTO jobs (name, last, took_ms, result) VALUES (?, ?, ?, ?)", astuple(run))


def known(connection: Connection) -> dict[str, LastRun]:
    rows = connection.execute("SELECT name, last, took_ms, result FROM jobs")
    return {row["name"]: LastRun(**dict(row)) for row in rows}
