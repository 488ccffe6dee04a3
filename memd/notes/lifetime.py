"""How long a memory is meant to last: what `ttl: 30d` says, and from when it counts. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from memd.models import Memory
from memd.notes.names import STAMP

TTL = re.compile(r"(?P<number>\d{1,6})\s*(?P<unit>m|h|d|w|y)")
UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
HEAD = 300
"""Characters of a memory in which the line that says when it was written is looked for."""


def span_of(ttl: str) -> timedelta | None:
    """`90m`, `12h`, `30d`, `2w`, `1y` as a span of time; None for anything else."""
    found = TTL.fullmatch(ttl.strip().lower())
    return timedelta(seconds=int(found["number"]) * UNITS[found["unit"]]) if found else None


def expiry(memory: Memory, role: str, first_seen: str) -> str | None:
    """When a memory's ttl runs out, in UTC; None when it has none.

    It counts from `last_updated`, else from the day or time that the note gives, else from when memd first saw it.
    """
    span = span_of(memory.declared.ttl) if memory.declared.ttl else None
    if span is None:
        return None
    stamp = STAMP.search(memory.text[:HEAD])
    dated = stamp.group(0).strip("_") if stamp else memory.date if role == "daily" else ""
    begun = moment(memory.declared.last_updated) or moment(dated) or moment(first_seen)
    try:
        return (begun + span).astimezone(UTC).isoformat(timespec="milliseconds") if begun else None
    except OverflowError:
        return None


def moment(text: str) -> datetime | None:
    """A date or a time as the notes write it; a day counts to its end, so that nothing runs out too early."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if len(text) == len("2026-02-15"):
        found = datetime.combine(found, time()) + timedelta(days=1)
    return found.astimezone() if found.tzinfo is None else found
