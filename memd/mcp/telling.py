"""How memory is told to a model: as data with its source, without hidden characters, and never too much of it."""

from __future__ import annotations

import re
from typing import Any

from memd.protocol.safe_text import neutralise, one_line

MOST = 40_000
"""Characters of one answer: some 10,000 tokens, from where on clients warn or cut by themselves."""

ROOM = MOST - 2_000
"""The same without the line that names the source, and what quoting adds."""

MOST_OF_ONE = 8_000
"""Characters of one memory among several."""

LIKE_OURS = re.compile(r"^(?=(?:Memory Result \d+:|\[source:|\[memd:))", re.MULTILINE)
"""Lines of a note that look like memd's own, by which a note could pretend to be another or to be memd."""


def quoted(text: str, most: int = MOST_OF_ONE) -> str:
    """What a note says, made safe to stand among memd's own lines; a word at its end says when there is more."""
    safe = LIKE_OURS.sub("> ", neutralise(text).rstrip())
    return safe if len(safe) <= most else f"{safe[:most]}… [cut: {most:,} of {len(safe):,} characters]"


def sourced(source: str, text: str) -> str:
    """A text under the name of the place that it comes from."""
    return f"[source: {one_line(source)}]\n{quoted(text, MOST)}"


def fitted(text: str) -> tuple[str, list[str]]:
    """As much of an answer as a model should get at once, and a word about the rest."""
    if len(text) <= MOST:
        return text, []
    end = text.rfind("\n", MOST // 2, MOST)
    kept = text[: end if end > 0 else MOST]
    return kept, [f"the answer was cut: {len(kept):,} of {len(text):,} characters; ask for less at once"]


def clean(value: Any) -> Any:
    """Data with every text in it made safe: some clients show a model the data instead of the text."""
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, list):
        return [clean(entry) for entry in value]
    if isinstance(value, dict):
        return {name: clean(entry) for name, entry in value.items()}
    return value


def remarks(result: dict[str, Any]) -> list[str]:
    """What an answer of the daemon says about its own limits."""
    missing = ", ".join(result.get("degraded") or ())
    return [f"memory is degraded ({missing}): something may be missing; `memd status` tells more"] if missing else []
