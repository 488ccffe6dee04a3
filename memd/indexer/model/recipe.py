"""The text that is embedded for a chunk; hits show the text of the file unchanged."""

from __future__ import annotations

import re

from memd.notes.names import COMMENT

RECIPE = 1
"""Raise it when the text below changes: all vectors are then made again."""

SENTENCE = re.compile(r"(?<=[.!?;…])\s+|(?<=[。！？；])|\n+")
PIECE = 120
"""Characters of a piece; shorter sentences in a row are one."""


def embedded_text(heading: tuple[str, ...] | list[str], context: str, text: str) -> str:
    """A chunk under its headings, without which a short line means nothing."""
    above = " › ".join(part for part in heading if part and part not in text)
    return "\n".join(part for part in (above, context, COMMENT.sub("", text)) if part)


def sentence_pieces(text: str) -> list[str]:
    """The sentences of a chunk, short ones joined; none for a chunk that is a single piece.

    A question in another language is seldom near a whole chunk, which says several things; one of its sentences is.
    """
    pieces: list[str] = []
    for sentence in SENTENCE.split(COMMENT.sub("", text)):
        if pieces and len(pieces[-1]) + len(sentence) <= PIECE:
            pieces[-1] += f" {sentence}"
        elif sentence.strip():
            pieces.append(sentence)
    return pieces if len(pieces) > 1 else []
