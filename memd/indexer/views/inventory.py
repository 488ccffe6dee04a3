"""Every memory of a workspace as a row: what `list` shows, and what `bus` ranks by the words of a question."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Connection, Row
from typing import Any, NamedTuple

from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views.keys import workspace_ids
from memd.models import Filters, JsonObject, pick
from memd.notes import names, sections

SQL = queries(__file__, alive=lookup.ALIVE)


class InventoryRow(NamedTuple):
    """One memory without its text; light, because thousands are sorted to show ten."""

    row: Row
    workspace_index: WorkspaceIndex
    key: str
    time: str
    """`2026-02-21 14:27` if the entry has a stamp with the time, else its day."""

    @property
    def id(self) -> int:
        return int(self.row["id"])

    @property
    def title(self) -> str:
        return str(self.row["heading"])

    @property
    def place(self) -> tuple[str, str, int]:
        return self.workspace_index.workspace.ns, self.row["path"], self.row["start_line"]

    def as_object(self) -> JsonObject:
        return {
            **self.workspace_index.place,
            "key": self.key,
            **pick(self.row, "path", "start_line", "end_line", "role", "kind", "tier", "date"),
            "title": self.title,
            "tags": json.loads(self.row["tags"]),
            "time": self.time,
            **({"expired": True} if self.row["expired"] else {}),
        }


SORTS: dict[str, Callable[[InventoryRow], tuple[Any, ...]]] = {
    "key": lambda entry: (entry.key, *entry.place),
    "role": lambda entry: (entry.row["role"], *entry.place),
    "title": lambda entry: (entry.title.casefold(), *entry.place),
}


def list_memories(
    stores: Stores, indexes: Indexes, filters: Filters, sort: str, offset: int, limit: int, preview: int = 0
) -> JsonObject:
    """One page of the memories, how many there are in all, and which roles the workspaces have.

    With `preview`, each has so many characters of its text.
    """
    if sort in ("newest", "oldest"):
        page, total = _by_day(stores.reader, indexes, filters, offset, limit, sort == "oldest")
    else:
        found = [entry for index in indexes for entry in entries(stores.reader, index, filters)]
        page = _stamped(stores.reader, sorted(found, key=SORTS[sort])[offset : offset + limit])
        total = len(found)
    rows = [(entry.id, entry.as_object()) for entry in page]
    if preview:
        begins = dict(stores.reader.execute(SQL["begins"], (json.dumps([entry.id for entry in page]),)).fetchall())
        rows = [(number, {**row, "preview": body_of(begins.get(number, ""))[:preview]}) for number, row in rows]
    roles = dict(stores.reader.execute(SQL["roles"], (workspace_ids(indexes),)))
    return {"memories": history.with_authors(stores.reader, rows), "total": total, "roles": roles}


def _by_day(
    connection: Connection, indexes: Indexes, filters: Filters, offset: int, limit: int, oldest: bool
) -> tuple[list[InventoryRow], int]:
    """One page of the memories and how many there are; without filters only those of the page's days are read."""
    every = [] if filters else connection.execute(SQL["days"], (workspace_ids(indexes),))
    days = [date for date, memories in every for _ in range(memories)]
    found = [entry for index in indexes for entry in entries(connection, index, filters)] if filters else []
    total = len(days) or len(found)
    if oldest:
        left = max(0, total - offset)
        offset, limit = max(0, left - limit), min(left, limit)
    if on_page := days[offset : offset + limit]:
        span = on_page[-1], on_page[0]
        found = [entry for index in indexes for entry in entries(connection, index, filters, days=span)]
        # Without those of newer days.
        offset -= days.index(on_page[0])
    page = newest(connection, found, offset, limit)
    return page[::-1] if oldest else page, total


def entries(
    connection: Connection, index: WorkspaceIndex, filters: Filters, ids: Iterable[int] | None = None,
    days: tuple[str, str] | None = None,
) -> list[InventoryRow]:  # fmt: skip
    """The memories of a workspace that pass the filters; with `ids` only those, with `days` only of that span."""
    clause, values = lookup.conditions(filters, expired=True)
    clause += "" if ids is None else " AND m.id IN (SELECT value FROM json_each(:ids))"
    # The index has the days: reading every memory for its own would take twenty times as long.
    within = "SELECT id FROM memories WHERE workspace = :workspace AND date BETWEEN :first AND :last"
    clause += "" if days is None else f" AND m.id IN ({within})"
    first, last = days or ("", "")
    values |= {"workspace": index.id, "ids": json.dumps(list(ids or ())), "first": first, "last": last}
    columns = "m.heading, m.start_line, m.end_line, m.digest, m.kind, m.tier, m.role, m.date, m.tags"
    columns += f", NOT {lookup.ALIVE} AS expired"
    clause = f"m.workspace = :workspace AND m.deleted IS NULL{clause}"
    keyed = lookup.keyed_rows(connection, columns, clause, values)
    return [InventoryRow(row, index, key, row["date"]) for key, row in keyed]


def newest(
    connection: Connection, found: Iterable[InventoryRow], offset: int, limit: int,
    score: Callable[[InventoryRow], int] = lambda entry: 0,
) -> list[InventoryRow]:  # fmt: skip
    """A page of the best, among equals newest first.

    Times are read from texts, so only for entries that can be on the page by their day.
    """

    def by_day(entry: InventoryRow) -> tuple[int, str]:
        return score(entry), entry.row["date"]

    ordered = sorted(found, key=by_day, reverse=True)
    days = [by_day(entry) for entry in ordered]
    if offset >= len(days) or not limit:
        return []
    most, least = days[offset], days[offset : offset + limit][-1]
    begin, end = days.index(most), len(days) - days[::-1].index(least)
    candidates = _stamped(connection, ordered[begin:end])
    # A file is written from top to bottom, so among equal times its later entry is the newer one.
    candidates.sort(key=lambda entry: (*entry.place[:2], -entry.place[2]))
    candidates.sort(key=lambda entry: (*by_day(entry), entry.time), reverse=True)
    return candidates[offset - begin : offset - begin + limit]


def _stamped(connection: Connection, found: Sequence[InventoryRow]) -> list[InventoryRow]:
    """The entries with the times of their stamps."""
    rows = connection.execute(SQL["stamped"], (json.dumps([entry.id for entry in found]),))
    times = {memory: sections.time_of(text, "") for memory, text in rows}
    return [entry._replace(time=times.get(entry.id) or entry.time) for entry in found]


# --- ranked by the words of a question, as agents' message buses do it ----------------------------------------


TITLE_COUNTS = 2
MAX_PATTERNS = 50
"""Words that SQLite filters by; for a longer question every entry is counted."""
HEADING = re.compile(r"\s*(?: {0,3}#{1,6}(?:[ \t].*|[ \t\r]*)|[^\n]+\n {0,3}(?:=+|-+)[ \t\r]*)(?:\n|\Z)")
"""A heading at the beginning of a text, with `#` or underlined."""


def ranked_entries(
    stores: Stores, indexes: Indexes, query: str, filters: Filters, offset: int, limit: int
) -> JsonObject:
    """One page of the entries with a word of the question, best first, among equals newest first."""
    with stores.ledger.snapshot() as connection:
        words = query.lower().split()
        by_index = [(index, _scores(connection, index, words, filters)) for index in indexes]
        scores = {memory: score for _, scored in by_index for memory, score in scored.items()}
        # Entries that score too low for the page need not be looked up.
        least = min(sorted(scores.values(), reverse=True)[: offset + limit], default=0)
        possible = {memory for memory, score in scores.items() if score >= least}
        numbers = [(index, possible & scored.keys()) for index, scored in by_index]
        rows = [row for index, some in numbers for row in entries(connection, index, Filters(), some)]
        page = newest(connection, rows, offset, limit, lambda entry: scores[entry.id])
        shown = []
        for entry in page:
            text = body_of(lookup.text_of(connection, entry.id, entry.row["digest"]))
            shown.append((entry.id, {**entry.as_object(), "score": float(scores[entry.id]), "text": text}))
        return {"entries": history.with_authors(connection, shown), "total": len(scores)}


def body_of(text: str) -> str:
    """An entry without its heading and its stamp."""
    heading = HEADING.match(text)
    body = text[heading.end() :] if heading else text
    stamp = sections.STAMP.search(names.head(body))
    return (body[: max(stamp.start() - 1, 0)] + body[stamp.end() :] if stamp else body).strip("\r\n")


def _count(text: str, words: list[str]) -> int:
    """How often the words occur, also inside other words: `build` is in `rebuild`."""
    text = text.lower()
    return sum(text.count(word) for word in words)


def _scores(connection: Connection, index: WorkspaceIndex, words: list[str], filters: Filters) -> dict[int, int]:
    """The score of each memory that has one of the words."""
    scores: dict[int, int] = {}
    patterns = {f"word{nth}": _like(word) for nth, word in enumerate(dict.fromkeys(words))}
    values = {"workspace": index.id, **patterns}
    texts = connection.execute(SQL["texts"].format(which=_any("c.text", patterns)), values)
    titles = connection.execute(SQL["titles"].format(which=_any("title", patterns)), values)
    for memory, text, first in texts:
        scores[memory] = scores.get(memory, 0) + _count(body_of(text) if first else text, words)
    for memory, title in titles:
        scores[memory] = scores.get(memory, 0) + TITLE_COUNTS * _count(title, words)
    passing = {entry.id for entry in entries(connection, index, filters, scores)} if filters else scores.keys()
    return {memory: score for memory, score in scores.items() if score and memory in passing}


def _any(column: str, patterns: dict[str, str]) -> str:
    """SQLite skips texts without the words several times as fast as they could be fetched."""
    if len(patterns) > MAX_PATTERNS:
        return "1"
    return "(" + " OR ".join(f"{column} LIKE :{name} ESCAPE '!'" for name in patterns) + ")"


def _like(word: str) -> str:
    """A LIKE pattern that every text with the word matches; LIKE ignores the case of ASCII letters only."""
    escaped = (f"!{char}" if char in "!%_" else char for char in word)
    return "%" + "".join(char if char.isascii() or char.lower() == char.upper() else "%" for char in escaped) + "%"
