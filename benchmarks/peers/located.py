"""Finds where in the notes a hit stands whose rival tells its text but not its lines."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

from places import ScoredHit
from rival import Hit

from memd.exam import LineSpan

ENDS = 60
"""Letters at the start and the end of a text that are looked for when the whole is not there as it was told."""


class Notes:
    """The files of a folder, letter by letter without what renderers change: space and marks."""

    def __init__(self, root: Path) -> None:
        self.lines = {
            str(file.relative_to(root)): file.read_text(encoding="utf-8").split("\n")
            for file in sorted(root.rglob("*.md"))
        }
        bare = {path: [_bare(line) for line in lines] for path, lines in self.lines.items()}
        self._text = {path: "".join(lines) for path, lines in bare.items()}
        self._ends = {path: list(accumulate(map(len, lines))) for path, lines in bare.items()}

    def hits(self, told: Iterable[Hit]) -> list[ScoredHit]:
        """Where the hits stand; what stands nowhere in the notes covers nothing and takes up its length."""
        return [self.hit(one) for one in told]

    def hit(self, told: Hit) -> ScoredHit:
        path = told.get("path", "")
        if "start_line" in told and path in self.lines:
            span = LineSpan(path, told["start_line"], min(told["end_line"], len(self.lines[path])))
        else:
            found = self._find(told.get("text", ""), path)
            if found is None:
                return ScoredHit(LineSpan("", 0, 0), len(told.get("text", "")))
            span = found
        return ScoredHit(span, len("\n".join(self.lines[span.path][span.start - 1 : span.end])))

    def _find(self, text: str, path: str) -> LineSpan | None:
        letters = _bare(text)
        paths = [path] if path in self._text else list(self._text)
        for wanted in (letters, letters[:ENDS], letters[-ENDS:]):
            for each in paths if wanted else ():
                at = self._text[each].find(wanted)
                if at >= 0:
                    return self._span(each, at, wanted, letters)
        return None

    def _span(self, path: str, at: int, wanted: str, letters: str) -> LineSpan:
        """From the line of the first letter to that of the last."""
        last = at + len(wanted) - 1
        if wanted != letters:
            tail = self._text[path].find(letters[-ENDS:], at)
            if at <= tail <= at + 2 * len(letters):
                last = tail + ENDS - 1
        ends = self._ends[path]
        return LineSpan(path, bisect.bisect_right(ends, at) + 1, bisect.bisect_right(ends, last) + 1)


def holds(root: Path, told: Iterable[Hit], word: str) -> bool:
    """Whether a hit's text, or the lines of the notes that it names, have the word."""
    for hit in told:
        text = hit.get("text", "")
        if "start_line" in hit:
            lines = (root / hit["path"]).read_text(encoding="utf-8").split("\n")
            text += "\n".join(lines[hit["start_line"] - 1 : hit["end_line"]])
        if word in text:
            return True
    return False


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())
