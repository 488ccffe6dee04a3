"""The text that is embedded for a chunk; hits show the text of the file unchanged."""

from __future__ import annotations

import re

RECIPE = 1
"""Raise it when the text below changes: all vectors are then made again."""

MARKER = re.compile(r"<!--\s*memd:.*?-->", re.DOTALL)


def embedded_text(heading: tuple[str, ...] | list[str], context: str, text: str) -> str:
    """A chunk under its headings, without which a short line means nothing."""
    above = " › ".join(part for part in heading if part and part not in text)
    return "\n".join(part for part in (above, context, MARKER.sub("", text)) if part)
