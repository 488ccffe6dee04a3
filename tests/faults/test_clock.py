"""The clock of a running daemon jumps, and zones change theirs: changes are found, in order, and jobs come in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memd.protocol.client import Client
from tests.conftest import Home
from tests.faults.agreement import SOAK, assert_agreement, eventually, serve, shown

SCANNED = """
[watch]
mode = "poll"
poll_seconds = 3600
scan_seconds = 1
[jobs]
jitter_s = 0
backup = "10h"
reflect = "off"
decay = "off"
link = "off"
selfexam = "off"
reconcile = "off"
compact = "off"
"""
"""Only the job that scans finds what changed; the backup is due once in ten hours."""

JUMPS = [timedelta(days=400), timedelta(hours=-30), timedelta(hours=2), timedelta(hours=-2), timedelta(0)]
FEW = [timedelta(days=400), timedelta(0)]
ZONES = ["Australia/Lord_Howe", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "Europe/Berlin"]


class Clock:
    """What a daemon takes for the time of day: libfaketime reads it from a file, once a second."""

    def __init__(self, file: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not libraries:
            pytest.skip("libfaketime is not installed")
        self.file = file
        self.jump(timedelta(0))
        self.env = {
            "LD_PRELOAD": str(libraries[0]), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
        }  # fmt: skip

    def jump(self, by: timedelta) -> None:
        """From now on it is so much later, or earlier, than it is."""
        self.by = by
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{by.total_seconds():+.0f}\n")
        fresh.rename(self.file)

    def until(self, moment: str) -> timedelta:
        return datetime.fromisoformat(moment) - datetime.now(UTC) - self.by

    def shows(self, moment: str | None) -> bool:
        """Whether something happened just now."""
        return moment is not None and abs(self.until(moment)) < timedelta(minutes=5)


@pytest.fixture
def clock(home: Home) -> Iterator[Clock]:
    yield Clock(home.path / "clock")
    home.close()
    # libfaketime leaves these behind when its process is killed.
    for left in Path("/dev/shm").glob(f"*faketime_*_{home.daemon.pid if home.daemon else 0}"):
        left.unlink()


def job(client: Client, name: str) -> dict[str, Any]:
    return next(one for one in client.job_list()["jobs"] if one["name"] == name)


def test_whatever_the_clock_does_changes_are_found_and_jobs_come_in_time(
    home: Home, workspace: Path, clock: Clock
) -> None:
    client = serve(home, workspace, SCANNED, **clock.env)
    # The daemon answers before its jobs are planned; a jump before that is a start at another time.
    eventually(lambda: any(one["name"] == "backup" and one["next"] for one in client.job_list()["jobs"]))
    numbers = [_number(client)]
    for nth, by in enumerate(JUMPS * 20 if SOAK else FEW):
        clock.jump(by)
        eventually(lambda: clock.shows(job(client, "scan")["last"]))
        (workspace / "MEMORY.md").write_text(f"## Only\n\nthe timeless dotterel{nth}\n")
        eventually(lambda nth=nth: f"dotterel{nth}" in shown(client, f"dotterel{nth}", sync="none"))
        numbers.append(_number(client))
        # Neither long ago nor in a year.
        eventually(lambda: timedelta(hours=5) < clock.until(job(client, "backup")["next"]) <= timedelta(hours=10))
    assert numbers == sorted(set(numbers))
    versions = [one["version"] for one in client.history("MEMORY#only")["versions"]]
    assert versions == sorted(versions, reverse=True)
    client.sync()
    assert_agreement(home, workspace, vectors=False)


def _number(client: Client) -> int:
    return int(client.ping()["clock"].split(":")[2])


@pytest.mark.parametrize("zone", ZONES if SOAK else ZONES[:1])
def test_a_job_comes_at_its_time_in_every_zone(home: Home, workspace: Path, zone: str) -> None:
    client = serve(home, workspace, '[jobs]\njitter_s = 0\nbackup = "15 3 * * *"\n', TZ=zone)
    client.job_run("backup")
    due = datetime.fromisoformat(job(client, "backup")["next"]).astimezone(ZoneInfo(zone))
    assert (due.hour, due.minute) == (3, 15)
    assert timedelta(0) < due - datetime.now(UTC) < timedelta(hours=25)
