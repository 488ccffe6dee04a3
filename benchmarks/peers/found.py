"""Parts `found` and `languages`: does a rival find the passage that answers; scored as memd scores itself."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import embedder
import places
from collection import Collection, Haystack, Question, load
from context import Context, workplace
from located import Notes
from places import ScoredHit
from processes import Failed, Peer, Worker, copy_notes

from memd import exam

COLLECTIONS = ("locomo", "longmemeval")
LANGUAGES = ("xquad-zh", "xquad-cross")
LANGUAGE_QUESTIONS = 20
LIMIT = 40

Figures = dict[str, Any]
Asked = tuple[Haystack, Question, list[ScoredHit]]


def measure(peer: Peer, context: Context) -> Figures:
    """Every collection that is there, in the rival's own chunks and best mode."""
    if context.data is None:
        raise Failed("no labelled collections were given")
    there = [context.data / name for name in context.collections if (context.data / name).is_dir()]
    return {folder.name: _collection(peer, load(folder), context) for folder in there}


def measure_languages(peer: Peer, context: Context) -> Figures:
    """Questions in Chinese to Chinese notes, and in four languages to English notes."""
    if context.data is None:
        raise Failed("no labelled collections were given")
    there = [context.data / "languages" / name for name in LANGUAGES]
    cut = replace(context, questions=min(LANGUAGE_QUESTIONS, context.questions or LANGUAGE_QUESTIONS))
    return {folder.name: _collection(peer, load(folder), cut) for folder in there if folder.is_dir()}


def _collection(peer: Peer, collection: Collection, context: Context) -> Figures:
    """The means over all questions: as memd scores itself, and with hits of any length."""
    asked: list[Asked] = []
    with embedder.served(peer.rival, context.remember) as model:
        for haystack in collection.haystacks[: context.haystacks]:
            asked += _asked(peer, haystack, context, model.url)
    return {
        "questions": len(asked),
        "mean_length": places.mean_length(hits for _, _, hits in asked),
        "scored": _scored(asked, exam.LONGEST),
        "any_length": _scored(asked, math.inf),
    }


def _scored(asked: list[Asked], longest: float) -> dict[str, exam.Figures]:
    turns = [places.turns(hits, one.turns, longest) for _, one, hits in asked if one.turns]
    sessions = [
        places.sessions(hits, one.sessions, there.sessions, longest) for there, one, hits in asked if one.sessions
    ]
    return {"turns": exam.mean(turns), "sessions": exam.mean(sessions)}


def _asked(peer: Peer, haystack: Haystack, context: Context, url: str) -> list[Asked]:
    files, able = _within(haystack, context.kilobytes * 1024)
    chosen = spread(able, context.questions)
    with workplace() as place:
        notes = copy_notes(haystack.root, place / "notes", files)
        known = Notes(notes)
        with Worker(peer, notes, place, url, context.patience) as worker:
            worker.call("index")
            return [
                (haystack, question, known.hits(worker.ask(question.text, LIMIT, context.patience)))
                for question in chosen
            ]


def _within(haystack: Haystack, most: int) -> tuple[set[str], list[Question]]:
    """As many questions, with the files of their answers, as fit; the same ones for every rival."""
    size = {str(file.relative_to(haystack.root)): file.stat().st_size for file in haystack.root.rglob("*.md")}
    if sum(size.values()) <= most:
        return set(size), haystack.scorable
    files: set[str] = set()
    for question in haystack.scorable:
        wanted = files | {span.path for span in (*question.turns, *question.sessions)}
        if sum(size[file] for file in wanted) <= most:
            files = wanted
    able = [one for one in haystack.scorable if {span.path for span in (*one.turns, *one.sessions)} <= files]
    return files, able


def spread(questions: list[Question], most: int | None) -> list[Question]:
    """So many of them, from the first to the last in equal steps."""
    if most is None or most >= len(questions):
        return questions
    return [questions[nth * len(questions) // most] for nth in range(most)]


def remembered(cache: Path) -> Path:
    """Where vectors of the scored parts are kept from run to run."""
    cache.mkdir(parents=True, exist_ok=True)
    return cache / "vectors.db"
