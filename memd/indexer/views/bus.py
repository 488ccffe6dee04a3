"""Ranks whole entries by how often they contain the words of a question, as agents' message buses do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from sqlite3 import Connection

from memd.indexer.indexing.read_files import read_or_none
from memd.indexer.query.lookup import ALIVE
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views.inventory import STAMP, STAMP_WITHIN, InventoryRow, entries, newest
from memd.models import Filters, JsonObject
from memd.notes.read import digest_of

TITLE_COUNTS = 2
TITLE = "CASE m.heading WHEN '' THEN f.stem ELSE m.heading END"
MAX_PATTERNS = 50
"""Words that SQLite filters by; for a longer question every entry is counted."""
HEADING = re.compile(r"\s*(?: {0,3}#{1,6}(?:[ \t].*|[ \t\r]*)|[^\n]+\n {0,3}(?:=+|-+)[ \t\r]*)(?:\n|\Z)")
"""A heading at the beginning of a text, with `#` or underlined."""


def ranked_entries(
    stores: Stores, indexes: Sequence[WorkspaceIndex], query: str, filters: Filters, offset: int, limit: int,
    max_bytes: int,
) -> JsonObject:  # fmt: skip
    """One page of the entries with a word of the question, best first, among equals newest first."""
    with stores.ledger.snapshot() as connection:
        words = query.lower().split()
        by_index = [(index, _scores(connection, index, words, filters)) for index in indexes]
        scores = {memory: score for _, scored in by_index for memory, score in scored.items()}
        # Entries that score too low for the page need not be looked up.
        least = min(sorted(scores.values(), reverse=True)[: offset + limit], default=0)
        possible = {memory for memory, score in scores.items() if score >= least}
        rows = [
            row for index, scored in by_index for row in entries(connection, index, Filters(), possible & scored.keys())
        ]
        page = newest(connection, rows, offset, limit, lambda entry: scores[entry.id])
        texts = _texts(connection, page, max_bytes)
    shown = [
        {**entry.as_object(), "score": float(scores[entry.id]), "text": body_of(texts[entry.id])} for entry in page
    ]
    return {"entries": shown, "total": len(scores)}


def body_of(text: str) -> str:
    """An entry without its heading and its stamp."""
    heading = HEADING.match(text)
    body = "\n" + (text[heading.end() :] if heading else text)
    stamp = STAMP.search(body, 0, STAMP_WITHIN)
    return (body[: stamp.start()] + body[stamp.end() :] if stamp else body).strip("\r\n")


def _count(text: str, words: list[str]) -> int:
    """How often the words occur, also inside other words: `build` is in `rebuild`."""
    text = text.lower()
    return sum(text.count(word) for word in words)


def _scores(connection: Connection, index: WorkspaceIndex, words: list[str], filters: Filters) -> dict[int, int]:
    """The score of each memory that has one of the words."""
    scores: dict[int, int] = {}
    patterns = {f"word{nth}": _like(word) for nth, word in enumerate(dict.fromkeys(words))}
    values = {"workspace": index.id, **patterns}
    for memory, text, first in connection.execute(
        "SELECT c.memory, c.text, c.start_line = m.start_line FROM chunks c JOIN memories m ON m.id = c.memory"
        f" WHERE c.workspace = :workspace AND {ALIVE} AND {_any('c.text', patterns)}",
        values,
    ):
        scores[memory] = scores.get(memory, 0) + _count(body_of(text) if first else text, words)
    for memory, title in connection.execute(
        f"SELECT m.id, {TITLE} FROM memories m JOIN files f ON f.id = m.file"
        f" WHERE m.workspace = :workspace AND {ALIVE} AND {_any(TITLE, patterns)}"
        " AND EXISTS (SELECT 1 FROM chunks WHERE memory = m.id)",
        values,
    ):
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


# --- whole texts --------------------------------------------------------------------------------------------


def _texts(connection: Connection, page: Sequence[InventoryRow], max_bytes: int) -> dict[int, str]:
    """The texts of entries from their files; from the ledger where a file has changed since."""
    files: dict[tuple[str, str], list[str]] = {}
    texts = {}
    for entry in page:
        ns, path, start = entry.place
        if (ns, path) not in files:
            content = read_or_none(entry.workspace_index, path, max_bytes)
            files[ns, path] = content.text.split("\n") if content else []
        text = "\n".join(files[ns, path][start - 1 : entry.row["end_line"]]).rstrip()
        # The digest that the ledger keeps of a memory's text.
        unchanged = digest_of(text.encode("utf-8", "surrogatepass")) == entry.row["digest"]
        texts[entry.id] = text if unchanged else _from_chunks(connection, entry.id)
    return texts


def _from_chunks(connection: Connection, memory: int) -> str:
    rows = connection.execute(
        "SELECT text, start_line, end_line FROM chunks WHERE memory = ? ORDER BY start_line, id", (memory,)
    ).fetchall()
    text, line = "", rows[0]["start_line"] if rows else 0
    for row in rows:
        gap = row["start_line"] - line
        text += ("\n" * gap if gap else " " if text else "") + row["text"]
        line = row["end_line"]
    return text
