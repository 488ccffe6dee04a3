"""Questions by kind in four languages: words, codes, parts of words, typos and neighbouring words of the notes.

python benchmarks/kinds.py [--keep DIR] [--mode hybrid] [--misses]

The notes are those of `other_words`; each question is made from what stands in one section only: its answer is known.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from collection import load
from home import Home, workplace
from other_words import FOLDER, ask, count, rank, start, table

from memd.exam import LineSpan

EACH = 30
"""Questions of a kind in a language."""
WIDE = r"[\u3040-\u30ff\u4e00-\u9fff]"
"""Characters of scripts without blanks."""
WORD = re.compile(r"[^\W\d_]+")
CODE = re.compile(r"\b(?=[A-Za-z-]*\d)[A-Za-z0-9]+(?:[-.:/][A-Za-z0-9]+)*\b", re.ASCII)


class Section(NamedTuple):
    """A part of a note below one heading."""

    span: LineSpan
    text: str


def sections(root: Path) -> Iterator[Section]:
    for file in sorted(root.rglob("*.md")):
        lines = file.read_text(encoding="utf-8").splitlines()
        starts = [nth for nth, line in enumerate(lines) if line.startswith("## ")]
        for first, end in pairwise([*starts, len(lines)]):
            path = file.relative_to(root).as_posix()
            yield Section(LineSpan(path, first + 1, end), "\n".join(lines[first:end]))


def pieces(kind: str, text: str) -> Iterator[str]:
    """What may be asked for of a kind; the caller takes what stands in one section only."""
    words = WORD.findall(text)
    if kind == "code":
        yield from (code for code in CODE.findall(text) if len(code) > 3)
    elif kind == "two":
        yield from re.findall(r"(?=\b([^\W\d_]{4,} [^\W\d_]{4,})\b)", text)
    elif re.search(WIDE, text):
        length = {"word": 4, "part": 2}.get(kind, 0)
        yield from re.findall(rf"(?=({WIDE}{{{length}}}))", text) if length else ()
    elif kind == "word":
        yield from (word for word in words if len(word) > 4)
    elif kind == "part":
        yield from (part for word in words if len(word) > 8 for part in (word[:6], word[-6:]))
    elif kind == "typo":
        yield from (word for word in words if len(word) > 6)


def asked(kind: str, piece: str) -> str:
    """The piece as it is typed: for a typo two letters in its middle change places."""
    middle = len(piece) // 2
    return piece[: middle - 1] + piece[middle] + piece[middle - 1] + piece[middle + 1 :] if kind == "typo" else piece


def questions(kind: str, all_sections: list[Section]) -> list[tuple[str, Section]]:
    whole = [section.text.casefold() for section in all_sections]
    made: dict[str, Section] = {}
    for section in all_sections:
        for piece in pieces(kind, section.text):
            if sum(piece.casefold() in text for text in whole) == 1:
                made.setdefault(asked(kind, piece), section)
    return random.Random(kind).sample(sorted(made.items()), min(EACH, len(made)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Counter[str]] = {}
    stacks = load(FOLDER).haystacks
    with workplace(options.keep) as place, Home(place / "home") as home:
        client = start(home, [(stack.ns, stack.root) for stack in stacks])
        for stack in stacks:
            known = list(sections(stack.root))
            for kind in ("word", "code", "part", "typo", "two"):
                for text, section in questions(kind, known):
                    answer = ask(client, stack.ns, text, options.mode)
                    found_at = rank(answer["hits"], [section.span])
                    count(figures.setdefault(f"{stack.name} {kind}", Counter()), answer["verdict"], found_at)
                    if options.misses and found_at > 3:
                        print(f"{stack.name} {kind} {found_at} {text!r} {section.span}")
    print(table(figures))


if __name__ == "__main__":
    main()
