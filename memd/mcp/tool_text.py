"""How memory is shown to a model: as data with its source, without hidden characters, and within a limit."""

import re
from typing import Any

from memd.prose import with_texts
from memd.protocol.safe_text import neutralise, one_line

MAX_ANSWER = 40_000
"""Characters of one answer: about 10,000 tokens, above which clients warn or cut by themselves."""

MAX_TEXT = MAX_ANSWER - 2_000
"""The same without the line that names the source and what quoting adds."""

MAX_EXCERPT = 8_000
"""Characters of one memory among several."""

LIKE_OURS = re.compile(r"^(?=(?:Memory Result \d+:|\[source:|\[memd:))", re.MULTILINE)
"""Lines of a note that look like memd's own, by which a note could pretend to be another one or memd itself."""


def quote(text: str, limit: int = MAX_EXCERPT) -> str:
    """A note's text, safe to stand among memd's own lines; where it is cut, its end says so."""
    safe = LIKE_OURS.sub("> ", neutralise(text).rstrip())
    return safe if len(safe) <= limit else f"{safe[:limit]}… [cut: {limit:,} of {len(safe):,} characters]"


def source_of(row: dict[str, Any], *facts: str) -> str:
    """Where a text comes from, and who wrote some of it where that was not only a person."""
    authors = f"written by {', '.join(row['written_by'])}" if row.get("written_by") else ""
    return ", ".join(part for part in (row["path"], *facts, authors) if part)


def written_by(row: dict[str, Any]) -> dict[str, list[str]]:
    """The same as data, always there."""
    return {"written_by": row.get("written_by", [])}


def with_source(source: str, text: str, limit: int = MAX_ANSWER) -> str:
    """A note's text under a line that names where it comes from."""
    return f"[source: {one_line(source)}]\n{quote(text, limit)}"


def with_notes(text: str, notes: list[str]) -> str:
    """A text with memd's own remarks below it."""
    return "\n\n".join(part for part in (text, *(f"[memd: {note}]" for note in notes)) if part)


def truncate(text: str) -> tuple[str, list[str]]:
    """As much of an answer as a model should get at once, and a note about the rest."""
    if len(text) <= MAX_ANSWER:
        return text, []
    end = text.rfind("\n", MAX_ANSWER // 2, MAX_ANSWER)
    kept = text[: end if end > 0 else MAX_ANSWER]
    return kept, [f"the answer was cut: {len(kept):,} of {len(text):,} characters; ask for less at once"]


def sanitize(value: Any) -> Any:
    """Data with every text in it made safe: some clients show a model the data instead of the text."""
    return with_texts(value, neutralise)


def degraded_note(result: dict[str, Any]) -> list[str]:
    """A note where the daemon says that its answer may be incomplete."""
    missing = ", ".join(result.get("degraded") or ())
    return [f"memory is degraded ({missing}): results may be incomplete; `memd status` says more"] if missing else []
