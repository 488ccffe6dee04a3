"""A labelled collection: folders of notes, and questions of which it is known where the answer stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from places import ScoredHit

from memd.exam import LineSpan


@dataclass(frozen=True, slots=True)
class Question:
    """One question to one haystack; `scorable` ones have an answer there."""

    id: str
    haystack: str
    text: str
    category: str
    scorable: bool
    turns: tuple[LineSpan, ...]
    sessions: tuple[LineSpan, ...]


@dataclass(eq=False)
class Haystack:
    """One workspace of the collection."""

    name: str
    ns: str
    root: Path
    questions: list[Question] = field(default_factory=list)
    _lines: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def sessions(self) -> list[LineSpan]:
        known = json.loads((self.root / "map.json").read_text(encoding="utf-8"))["sessions"]
        return [span(entry) for entry in known.values()]

    @property
    def scorable(self) -> list[Question]:
        return [question for question in self.questions if question.scorable]

    @property
    def unanswerable(self) -> list[Question]:
        return [question for question in self.questions if not question.scorable]

    def found(self, hit: dict[str, Any]) -> ScoredHit:
        """A hit of the wire; its length is that of the file's text between its lines."""
        path, start, end = hit["path"], hit["start_line"], hit["end_line"]
        if path not in self._lines:
            self._lines[path] = (self.root / path).read_text(encoding="utf-8").split("\n")
        return ScoredHit(LineSpan(path, start, end), len("\n".join(self._lines[path][start - 1 : end])))


@dataclass(eq=False)
class Collection:
    """A folder with `all_questions.jsonl` and a subfolder with `map.json` for each workspace."""

    name: str
    haystacks: list[Haystack]

    def halves(self) -> dict[str, list[Haystack]]:
        """The workspaces that one tunes on, and those that one does not look at."""
        middle = (len(self.haystacks) + 1) // 2
        return {"tuned on": self.haystacks[:middle], "held out": self.haystacks[middle:]}


def span(entry: dict[str, Any]) -> LineSpan:
    return LineSpan(entry["file"], entry["start"], entry["end"])


def load(folder: Path) -> Collection:
    """Read a collection; the haystacks in the order of their names."""
    roots = sorted(entry.parent for entry in folder.glob("*/map.json"))
    if not roots:
        raise SystemExit(f"{folder} has no subfolder with a map.json")
    haystacks = {root.name: Haystack(root.name, f"{folder.name}.{root.name}", root.resolve()) for root in roots}
    lines = (folder / "all_questions.jsonl").read_text(encoding="utf-8").splitlines()
    for question in (_question(json.loads(line)) for line in lines if line.strip()):
        if question.haystack in haystacks:
            haystacks[question.haystack].questions.append(question)
    return Collection(folder.name, list(haystacks.values()))


def _question(entry: dict[str, Any]) -> Question:
    turns, sessions = (tuple(span(gold) for gold in entry.get(name) or ()) for name in ("gold_turns", "gold_sessions"))
    scorable = bool(entry.get("scorable", True)) and not entry.get("adversarial") and bool(turns or sessions)
    return Question(
        id=str(entry.get("id", "")),
        haystack=str(entry["haystack"]),
        text=entry["question"],
        category=str(entry.get("category", "")),
        scorable=scorable,
        turns=turns,
        sessions=sessions,
    )
