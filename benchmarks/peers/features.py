"""Facts about each program that no run can measure, and where its documentation says them."""

from __future__ import annotations

SOURCES: dict[str, str] = {}
"""Program → where it is documented."""

ROWS: list[list[str]] = []
"""What, and a cell for each program in the order of SOURCES."""
