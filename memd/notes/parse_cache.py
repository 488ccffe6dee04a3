"""Parses files that were parsed lately again: a line that is added to a long note does not cost all of it."""

from __future__ import annotations

import threading
from collections import OrderedDict

from memd.models import Note
from memd.notes.parse import ParsedNote, parsed

FILES = 4
"""Files that are kept of each workspace; few are written to at the same time."""
LONGEST = 1 << 20
"""Characters; a longer one is not kept."""


class ParseCache:
    """The last files that were parsed, by path."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[str, ParsedNote] = OrderedDict()
        self._lock = threading.Lock()

    def parse(self, path: str, text: str, fallback_date: str = "") -> Note:
        """A memory that stands as it stood is the very same object as before."""
        with self._lock:
            before = self._parsed.get(path)
        if before is not None and (before.text, before.fallback_date) == (text, fallback_date):
            return before.note
        now = parsed(path, text, fallback_date, before)
        with self._lock:
            self._parsed.pop(path, None)
            if len(text) <= LONGEST:
                self._parsed[path] = now
            while len(self._parsed) > FILES:
                self._parsed.popitem(last=False)
        return now.note
