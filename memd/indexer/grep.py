"""Exact search: reads the files themselves, so that it is right even when the index is not."""

from __future__ import annotations

from collections.abc import Iterator

from memd.indexer.scan import scan
from memd.indexer.stores import Shelf
from memd.notes.names import date_of
from memd.notes.read import Skipped, Unreadable, read


def lines_with(shelf: Shelf, needle: str, max_bytes: int) -> Iterator[tuple[str, list[int]]]:
    """Each file that has the text, newest first, with the lines it stands on."""
    wanted = needle.casefold()
    found = scan(shelf.workspace)
    for path in sorted(found.files, key=lambda path: (date_of(path) or "", found.files[path].mtime_ns), reverse=True):
        try:
            text = read(shelf.workspace.root / path, max_bytes).text
        except (FileNotFoundError, Skipped, Unreadable):
            continue
        lines = [number for number, line in enumerate(text.split("\n"), 1) if wanted in line.casefold()]
        if lines:
            yield path, lines
