"""Reads a call's parameters and says what is wrong with them, before anything is done."""

from __future__ import annotations

import difflib
import re
from datetime import datetime
from typing import Any

from memd.errors import UsageError
from memd.models import KINDS, PINNED, TIERS, Filters

DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")


class Params:
    """The named parameters of one call; `done` refuses what nobody asked for."""

    def __init__(self, method: str, given: dict[str, Any]) -> None:
        self.method = method
        self.given = given
        self._known: set[str] = {"progress"}

    def _take(self, name: str) -> Any:
        self._known.add(name)
        return self.given.get(name)

    def text(self, name: str, default: str = "") -> str:
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise UsageError(f"`{name}` must be text, not {value!r}")
        return _whole(name, value)

    def place(self, name: str) -> str:
        """A path on this machine, as the caller's system spells it: it need not be valid Unicode."""
        value = self._take(name)
        if not isinstance(value, str | None):
            raise UsageError(f"`{name}` must be text, not {value!r}")
        return value or ""

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value.strip():
            raise UsageError(f"`{self.method}` needs `{name}`")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise UsageError(f"`{name}` must be one of {', '.join(filter(None, choices))}, not {value!r}")
        return value

    def number(self, name: str, default: int, low: int, high: int) -> int:
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise UsageError(f"`{name}` must be a whole number from {low} to {high}, not {value!r}")
        return value

    def share(self, name: str) -> float | None:
        """A number from 0 to 1; None when there is none."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise UsageError(f"`{name}` must be a number from 0 to 1, not {value!r}")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UsageError(f"`{name}` must be true or false, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        value = self._take(name)
        values = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(values, list) or not all(isinstance(entry, str) and entry for entry in values):
            raise UsageError(f"`{name}` must be a list of texts, not {value!r}")
        return tuple(_whole(name, entry) for entry in values)

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        """A list of objects, which the caller of this looks into; None when there is none."""
        value = self._take(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(entry, dict) for entry in value)):
            raise UsageError(f"`{name}` must be a list of objects, not {value!r}")
        return value

    def date(self, name: str) -> str:
        value = self.text(name)
        if value and not (DATE.fullmatch(value) and _exists(value)):
            raise UsageError(f"`{name}` must be a date such as 2026-02-15 or 2026-02, not {value!r}")
        return value

    def moment(self, name: str) -> datetime:
        """The caller's local time, to the minute; the daemon's own where none is given."""
        value = self.text(name)
        try:
            told = datetime.fromisoformat(value) if value else datetime.now()
        except ValueError:
            raise UsageError(f"`{name}` must be a local time such as 2026-02-07T14:27, not {value!r}") from None
        return told.replace(second=0, microsecond=0, tzinfo=None)

    def filters(self) -> Filters:
        """Which memories count, wherever a call may say so."""
        return Filters(
            kind=self.choice("kind", ("", *KINDS), ""),
            tags=self.texts("tags"),
            role=self.text("role"),
            path=self.text("path"),
            since=self.date("since"),
            until=self.date("until"),
            tier=self.choice("tier", ("", *TIERS, PINNED), ""),
        )

    def done(self) -> None:
        for name in self.given:
            if name not in self._known:
                near = difflib.get_close_matches(name, sorted(self._known), n=1, cutoff=0.5)
                meant = f"; did you mean `{near[0]}`?" if near else ""
                raise UsageError(f"`{self.method}` has no parameter `{name}`{meant}")


def _whole(name: str, value: str) -> str:
    """JSON can spell half of a surrogate pair; no store can keep it."""
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise UsageError(f"`{name}` is not valid Unicode")
    return value


def _exists(date: str) -> bool:
    """Whether the calendar has this day, month or year."""
    try:
        datetime.strptime(date, ("%Y", "%Y-%m", "%Y-%m-%d")[date.count("-")])
    except ValueError:
        return False
    return True
