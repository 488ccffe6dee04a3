"""How much of the machine the making of vectors takes: all of it while nobody asks, less on battery."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
ON_BATTERY = 0.5
"""The part of its usual share that it takes on battery."""
LONGEST_REST = 5.0


def on_battery(supplies: Path = SUPPLIES) -> bool:
    """Whether a battery of the machine itself is being used up; that of a mouse is none."""
    used_up = (one.parent for one in supplies.glob("*/status") if _told(one) == "Discharging")
    return any(_told(one / "type") == "Battery" and _told(one / "scope") != "Device" for one in used_up)


def _told(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def rest(seconds: float, share: float) -> float:
    """How long to rest after so many seconds of work, so that it takes its share of the time."""
    return min(LONGEST_REST, seconds * (1 / (share * (ON_BATTERY if on_battery() else 1.0)) - 1))
