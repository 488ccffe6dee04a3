"""How much of the machine the making of vectors takes: all of it while nobody asks, less on battery."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
LOOK_SECONDS = 10.0
"""How long what was read of the supplies holds."""
ON_BATTERY = 0.5
"""The part of its usual share that it takes on battery."""
LONGEST_REST = 5.0


def on_battery(supplies: Path = SUPPLIES) -> bool:
    """Whether a battery of the machine itself is being used up; that of a mouse is none."""
    return any(
        _told(one, "type") == "Battery" and _told(one, "scope") != "Device" and _told(one, "status") == "Discharging"
        for one in supplies.glob("*")
    )


def _told(supply: Path, name: str) -> str:
    with suppress(OSError):
        return (supply / name).read_text(encoding="utf-8", errors="replace").strip()
    return ""


class Pace:
    """The rests between batches."""

    def __init__(self) -> None:
        self._battery = False
        self._looked = 0.0

    def rest(self, seconds: float, share: float) -> float:
        """How long to rest after so many seconds of work, so that it takes its share of the time."""
        if time.monotonic() >= self._looked + LOOK_SECONDS:
            self._battery, self._looked = on_battery(), time.monotonic()
        share *= ON_BATTERY if self._battery else 1.0
        return min(LONGEST_REST, seconds * (1 / share - 1))
