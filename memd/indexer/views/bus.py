"""Ranks whole entries by how often they have the question's words, as agents' message buses do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.query.lookup import ALIVE
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views.inventory import HEAD, STAMP, InventoryRow, entries, newest
from memd.models import Filters
from memd.notes.read import SkippedFile, UnreadableFile, digest_of, read

TITLE_COUNTS = 2
TITLE = "CASE m.heading WHEN '' THEN f.stem ELSE m.heading END"
MAX_PATTERNS = 50
"""Words of a question that SQLite is asked for; a longer one is a text, and all entries are counted."""
HEADING = re.compile(r"\s*(?: {0,3}#{1,6}(?:[ \t].*|[ \t\r]*)|[^\n]+\n {0,3}(?:=+|-+)[ \t\r]*)(?:\n|\Z)")
"""A heading at the beginning of a text, in either of its spellings."""


def ranked(
    stores: Stores,
    indexes: Sequence[WorkspaceIndex],
    query: str,
    filters: Filters,
    offset: int,
    limit: int,
    max_bytes: int,
) -> dict[str, Any]:
    """One page of the entries that have a word of the question, best first and among equals newest first."""
    connection = stores.ledger.reader
    words = query.lower().split()
    found = [(index, _scores(connection, index, words, filters)) for index in indexes]
    scores = {memory: score for _, scored in found for memory, score in scored.items()}
    near = _near_page(scores, offset + limit)
    known = [entry for index, scored in found for entry in entries(connection, index, Filters(), near & scored.keys())]
    page = newest(connection, known, offset, limit, lambda entry: scores[entry.id])
    texts = _texts(connection, page, max_bytes)
    told = [{**entry.told(), "score": float(scores[entry.id]), "text": body_of(texts[entry.id])} for entry in page]
    return {"entries": told, "total": len(scores)}


def _near_page(scores: dict[int, int], end: int) -> set[int]:
    """The memories that can stand before `end`; the rest need not be looked up."""
    least = sorted(scores.values(), reverse=True)[:end][-1:]
    return {memory for memory, score in scores.items() if score >= least[0]} if least else set()


def body_of(text: str) -> str:
    """An entry without its heading and the line that says when it was written."""
    heading = HEADING.match(text)
    body = "\n" + (text[heading.end() :] if heading else text)
    stamp = STAMP.search(body, 0, HEAD)
    return (body[: stamp.start()] + body[stamp.end() :] if stamp else body).strip("\r\n")


def _count(text: str, words: list[str]) -> int:
    """How often the words stand in it, parts of other words included: `build` is in `rebuild`."""
    text = text.lower()
    return sum(text.count(word) for word in words)


def _scores(connection: Connection, index: WorkspaceIndex, words: list[str], filters: Filters) -> dict[int, int]:
    """Each memory that has one of the words, with its score."""
    scores: dict[int, int] = {}
    patterns = {f"word{nth}": _like(word) for nth, word in enumerate(dict.fromkeys(words))}
    asked = {"w": index.id, **patterns}
    for memory, text, first in connection.execute(
        "SELECT c.memory, c.text, c.start_line = m.start_line FROM chunks c JOIN memories m ON m.id = c.memory"
        f" WHERE c.workspace = :w AND {ALIVE} AND {_any('c.text', patterns)}",
        asked,
    ):
        scores[memory] = scores.get(memory, 0) + _count(body_of(text) if first else text, words)
    for memory, title in connection.execute(
        f"SELECT m.id, {TITLE} FROM memories m JOIN files f ON f.id = m.file"
        f" WHERE m.workspace = :w AND {ALIVE} AND {_any(TITLE, patterns)}"
        " AND EXISTS (SELECT 1 FROM chunks WHERE memory = m.id)",
        asked,
    ):
        scores[memory] = scores.get(memory, 0) + TITLE_COUNTS * _count(title, words)
    passing = {entry.id for entry in entries(connection, index, filters, scores)} if filters else scores.keys()
    return {memory: score for memory, score in scores.items() if score and memory in passing}


def _any(column: str, patterns: dict[str, str]) -> str:
    """SQLite passes over most of the texts several times as fast as they could be fetched."""
    if len(patterns) > MAX_PATTERNS:
        return "1"
    return "(" + " OR ".join(f"{column} LIKE :{name} ESCAPE '!'" for name in patterns) + ")"


def _like(word: str) -> str:
    """A pattern that every text with the word has; LIKE knows the case of ASCII letters only."""
    escaped = (f"!{char}" if char in "!%_" else char for char in word)
    return "%" + "".join(char if char.isascii() or char.lower() == char.upper() else "%" for char in escaped) + "%"


# --- whole texts --------------------------------------------------------------------------------------------


def _texts(connection: Connection, page: Sequence[InventoryRow], max_bytes: int) -> dict[int, str]:
    """What the files say of these entries; where a file has changed since, what the ledger has of it."""
    files: dict[tuple[str, str], list[str]] = {}
    texts = {}
    for entry in page:
        ns, path, start = entry.place
        if (ns, path) not in files:
            files[ns, path] = _lines(entry.workspace_index, path, max_bytes)
        text = "\n".join(files[ns, path][start - 1 : entry.row["end_line"]]).rstrip()
        # The same sum that the ledger keeps of a memory's text.
        unchanged = digest_of(text.encode("utf-8", "surrogatepass")) == entry.row["digest"]
        texts[entry.id] = text if unchanged else _from_chunks(connection, entry.id)
    return texts


def _lines(index: WorkspaceIndex, path: str, max_bytes: int) -> list[str]:
    try:
        return read(index.workspace.root / path, max_bytes).text.split("\n")
    except (FileNotFoundError, SkippedFile, UnreadableFile):
        return []


def _from_chunks(connection: Connection, memory: int) -> str:
    rows: list[Row] = connection.execute(
        "SELECT text, start_line, end_line FROM chunks WHERE memory = ? ORDER BY start_line, id", (memory,)
    ).fetchall()
    text, line = "", rows[0]["start_line"] if rows else 0
    for row in rows:
        gap = row["start_line"] - line
        text += ("\n" * gap if gap else " " if text else "") + row["text"]
        line = row["end_line"]
    return text
