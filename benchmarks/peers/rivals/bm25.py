"""Plain BM25, no stemming, over paragraphs packed to so many characters: what a page of code can do."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict

from rival import Hit, Rival

K1, B = 1.2, 0.75


class Peer(Rival):
    title = "plain BM25"
    variants = {"bm25-400": {"size": 400}, "bm25-800": {"size": 800}}  # noqa: RUF012
    mode = "words, no stemming; paragraphs of a section packed to 400 or 800 characters"
    asked = "in its own Python process, everything in memory"

    def index(self) -> None:
        self.pieces: list[tuple[str, int, int]] = []
        self.postings: dict[str, dict[int, int]] = defaultdict(dict)
        self.lengths: list[int] = []
        for file in sorted(self.notes.rglob("*.md")):
            self._pack(self.relative(file), file.read_text(encoding="utf-8").split("\n"))

    def ask(self, question: str, limit: int) -> list[Hit]:
        if not hasattr(self, "pieces"):
            self.index()
        scores: Counter[int] = Counter()
        mean = sum(self.lengths) / len(self.lengths)
        for word in set(words(question)):
            found = self.postings.get(word, {})
            weight = math.log(1 + (len(self.lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for nth, count in found.items():
                scores[nth] += weight * count * (K1 + 1) / (count + K1 * (1 - B + B * self.lengths[nth] / mean))  # type: ignore[assignment]
        return [
            dict(zip(("path", "start_line", "end_line"), self.pieces[nth], strict=True))
            for nth, _ in scores.most_common(limit)
        ]

    def _pack(self, path: str, lines: list[str]) -> None:
        first, size = 0, 0
        for nth, line in enumerate([*lines, "## end"]):
            if nth > first and (line.startswith("#") or size + len(line) > self.settings["size"]):
                self._add(path, first, nth, " ".join(lines[first:nth]))
                first, size = nth, 0
            size += len(line) + 1

    def _add(self, path: str, first: int, after: int, text: str) -> None:
        found = words(text)
        if found:
            for word, count in Counter(found).items():
                self.postings[word][len(self.pieces)] = count
            self.pieces.append((path, first + 1, after))
            self.lengths.append(len(found))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
