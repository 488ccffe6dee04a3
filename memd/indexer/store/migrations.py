"""The schema of `state.db` as numbered steps, a file each in schema/. A released one is never edited; add another."""

from __future__ import annotations

from pathlib import Path

STEPS = tuple(file.read_text(encoding="utf-8") for file in sorted((Path(__file__).parent / "schema").glob("*.sql")))
VERSION = len(STEPS)
