"""Exams: `eval`, and the probes that are asked every night. Neither counts as an access."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path

from memd.daemon import tasks
from memd.daemon.desk import Desk, Result, Told, teller
from memd.daemon.handlers.asking import find
from memd.daemon.handlers.talk import MAX_HITS
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, UsageError
from memd.exam import probes, questions, report
from memd.exam.figures import TURN_DEPTH
from memd.exam.probes import Probe
from memd.exam.questions import Problem, Question
from memd.exam.report import Answered
from memd.indexer.asking import recall
from memd.indexer.store.stores import Shelf, Stores
from memd.indexer.views import exams
from memd.models import MODES, Ask

MAX_BYTES = 32_000_000
GENTLE_SECONDS = 0.03
"""The pause after each question that nobody waits for."""


async def evaluate(desk: Desk, params: Params, tell: Tell) -> Result:
    path, given, own = params.place("path"), params.objects("questions"), params.flag("self")
    mode = params.choice("mode", MODES, "hybrid")
    # The figures speak of the first ten hits.
    limit = max(TURN_DEPTH, params.number("limit", TURN_DEPTH, 0, MAX_HITS) or MAX_HITS)
    ns, told = desk.names(params), teller(params, tell)
    params.done()
    if (bool(path), given is not None, own).count(True) != 1:
        raise UsageError("`eval` needs one of `path`, `questions` and `self`")
    await desk.catch_up("auto", ns)
    if mode in ("hybrid", "vector"):
        await desk.model_loaded()
    asking = Ask("", ns, limit, mode)
    if own:
        return {"ns": list(ns), "mode": mode, **await probed(desk, asking, told)}
    read = questions.collect(enumerate(given, 1)) if given is not None else questions.read(await _text(desk, path))
    return {"ns": list(ns), "mode": mode, **await _graded(desk, asking, *read, told)}


async def _graded(desk: Desk, asking: Ask, asked: list[Question], bad: list[Problem], told: Told | None) -> Result:
    """The report on those questions whose answer can be there."""
    doubts = await desk.read(lambda: [_impossible(desk, asking, question) for question in asked])
    sound = [question for question, why in zip(asked, doubts, strict=True) if not why]
    bad = bad + [Problem(question.line, why) for question, why in zip(asked, doubts, strict=True) if why]
    bad.sort(key=lambda problem: problem.line)
    if not sound:
        raise UsageError("the exam has no question that can be asked", _first(bad))
    answers = await _sit(desk, [_ask(asking, question.text, question.ns) for question in sound], told)
    return {**report.graded(sound, answers), "problems": [asdict(problem) for problem in bad]}


def _first(problems: Sequence[Problem]) -> str:
    if not problems:
        return 'a line looks like this: {"question": "…", "expect": "memory/2026-02-15.md:12"}'
    return "\n".join(f"line {problem.line}: {problem.why}" for problem in problems[:5])


def _impossible(desk: Desk, asking: Ask, question: Question) -> str:
    """Why no search could ever answer it: it names something that is not there."""
    stores = desk.parts.stores
    if question.ns and question.ns not in stores.shelves:
        return f"no workspace is called `{question.ns}`"
    shelves = [stores.shelf(ns) for ns in ((question.ns,) if question.ns else asking.ns)]
    for wanted in question.wanted:
        if wanted.span is not None and not any(_has(shelf, wanted.span.path) for shelf in shelves):
            return f"`{wanted.span.path}` is not a memory file"
        base, _, slug = wanted.key.partition("#")
        if base and not any(recall.memories(stores.ledger.reader, shelf.id, base, slug) for shelf in shelves):
            return f"no memory has the key `{wanted.key}`"
    return ""


def _has(shelf: Shelf, path: str) -> bool:
    return path.removeprefix(f"{shelf.workspace.root}/") in shelf.files


async def probed(desk: Desk, asking: Ask, told: Told | None, pause: float = 0.0) -> Result:
    """The report on probes made from the notes of these workspaces."""
    stores, made = desk.parts.stores, []
    for ns in asking.ns:
        made += await desk.read(_probes, stores, stores.shelf(ns))
    answers = await _sit(desk, [_ask(asking, probe.query, probe.piece.ns) for probe in made], told, pause)
    return {**report.recalled(made, answers), "problems": []}


def _probes(stores: Stores, shelf: Shelf) -> list[Probe]:
    return probes.make(exams.pieces(stores.ledger.reader, shelf.id, shelf.workspace.ns))


def _ask(asking: Ask, query: str, ns: str) -> Ask:
    return Ask(query, (ns,) if ns else asking.ns, asking.limit, asking.mode)


async def _sit(desk: Desk, asks: Sequence[Ask], told: Told | None, pause: float = 0.0) -> list[Answered]:
    """Ask one after the other, as a client would; others are answered in between."""
    answers = []
    for nth, ask in enumerate(asks):
        started = time.perf_counter()
        answer = await find(desk, ask)
        answers.append(Answered(answer.hits, (time.perf_counter() - started) * 1000))
        if told and nth % 20 == 0:
            await told("questions", nth, len(asks))
        await asyncio.sleep(pause)
    return answers


async def _text(desk: Desk, path: str) -> str:
    place = Path(path).expanduser()
    if not place.is_absolute():
        raise UsageError(f"`path` must be absolute, not {path}")
    return await desk.read(_read, place)


def _read(place: Path) -> str:
    if not place.is_file():
        raise NotFound(f"there is no file {place}")
    try:
        if place.stat().st_size > MAX_BYTES:
            raise UsageError(f"{place} is larger than {MAX_BYTES // 1_000_000} MB")
        return place.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"{place} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{place} is not UTF-8 text", "an exam has one JSON object a line") from error


# --- every night ----------------------------------------------------------------------------------------------


async def nightly(desk: Desk, today: date) -> str:
    """Probe every workspace and keep the result; what happened, in a few words."""
    parts, told = desk.parts, []
    if parts.worker.pending_files or not await desk.read(parts.embedding.caught_up):
        return "put off: not everything is indexed yet"
    for ns, shelf in list(parts.stores.shelves.items()):
        result = await probed(desk, Ask("", (ns,), TURN_DEPTH), None, GENTLE_SECONDS)
        if result["questions"]:
            keeping = partial(_keep, parts.stores, shelf, today, result)
            await asyncio.wrap_future(parts.worker.submit(tasks.Call(keeping)))
            told.append(f"{ns} {result['figures']['recall@5']:.0%}")
    return f"found in the first 5: {', '.join(told)}" if told else "no notes to make probes from"


def _keep(stores: Stores, shelf: Shelf, today: date, result: Result) -> None:
    """On the writer's thread; the workspace may have been removed meanwhile."""
    if stores.shelves.get(shelf.workspace.ns) is shelf:
        with stores.ledger.write() as connection:
            exams.keep(connection, shelf.id, today.isoformat(), result)
