"""Makes a memory's text fit to stand among others under a heading of its own. Pure."""

from __future__ import annotations

import re

from memd.notes.declared import COMMENT
from memd.notes.revise import HEADING

LEVEL = 3
"""The level of the heading that a quoted memory stands under."""

LINE = re.compile(r"[^\n]*\n|[^\n]+")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
TITLE = re.compile(rf"\A( {{0,3}})#{{1,{LEVEL}}}(?=\s|\Z)")
BLANK = re.compile(r"\A(?:[ \t]*\n)+")


def quoted(text: str) -> str:
    """A memory's text without its own heading and its comment of facts; no line of it opens a heading beside it.

    A code block that is left open is closed, so that it does not swallow what follows.
    """
    plain = text.replace("\r\n", "\n")
    opens = HEADING.match(plain)
    plain = COMMENT.sub("", plain[opens.end() if opens else 0 :], count=1)
    return _tamed(BLANK.sub("", plain).rstrip())


def _tamed(text: str) -> str:
    out: list[str] = []
    fence = ""
    for line in LINE.findall(text):
        found = FENCE.match(line)
        if fence:
            closes = found is not None and found.group(1).startswith(fence) and not line[found.end() :].strip()
            fence = "" if closes else fence
        elif found:
            fence = found.group(1)
        else:
            line = TITLE.sub(rf"\1{'#' * (LEVEL + 1)}", line)
        out.append(line)
    return "".join(out) + (f"\n{fence}" if fence else "")
