"""Scores memd on labelled collections: does it find the passage that answers, and how much must be read to see it.

python benchmarks/retrieval.py FOLDER... [--modes text,vector,hybrid] [--split] [--verdict] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import places
from collection import Collection, Haystack, Question, load
from home import Home, workplace
from places import NAMES, ScoredHit
from store import say

from memd import exam
from memd.protocol.client import Client

MODES = ("text", "vector", "hybrid")
ALL = "all"
CONFIDENCE = (0.0, 0.02, 0.1, 0.3, 0.6, 0.8, 0.95, 1.01)
"""Between these, confidence is compared with how often it is right; the second and the fifth are those of verdicts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of one question in one mode."""

    question: Question
    hits: list[ScoredHit]
    ms: float
    confidence: float
    verdict: str
    turns: exam.Figures | None
    sessions: exam.Figures | None


def main() -> int:
    options = _options()
    collections = [load(folder) for folder in options.folders]
    with workplace(options.keep) as place, Home(place / "home") as home:
        client = _begin(home, collections, _settings(options))
        told = client.status()
        report = {one.name: measure(client, one, options) for one in collections}
        if options.verdict:
            for one, others in _judged(collections):
                report[one.name]["verdict"] = judge(client, one, others, report[one.name]["asked"], options)
    for name, result in report.items():
        print(tables(name, result), flush=True)
    _write(options, told, report)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a collection; see docs/retrieval.md")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES), help=",".join(MODES))
    parser.add_argument("--limit", type=int, default=40, help="hits to ask for (40)")
    parser.add_argument("--split", action="store_true", help="also report the two halves of the workspaces")
    parser.add_argument("--verdict", action="store_true", help="also ask what the workspace cannot know")
    parser.add_argument("--fusion", metavar="NAME", help="the same as --set search.fusion=NAME")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="a setting of memd")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="write every question and its first ten hits")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the index there and use it again")
    return parser.parse_args()


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """The settings of this run, as the daemon's environment."""
    # A job that puts aside what stands twice would make the figures depend on when it runs: the gold is one of the two.
    given = ["jobs.reflect=off", *options.set, *([f"search.fusion={options.fusion}"] if options.fusion else [])]
    pairs = (setting.partition("=") for setting in given)
    return {"MEMD_" + name.upper().replace(".", "__"): value for name, _, value in pairs}


def _begin(home: Home, collections: Iterable[Collection], settings: dict[str, str]) -> Client:
    """A daemon that has every workspace, its text and its vectors."""
    home.path.mkdir(parents=True, exist_ok=True)
    known = [haystack for one in collections for haystack in one.haystacks]
    parts = [f"[[workspace]]\npath = {json.dumps(str(one.root))}\nns = {json.dumps(one.ns)}\n" for one in known]
    (home.path / "config.toml").write_text("\n".join(parts), encoding="utf-8")
    say(f"indexing {len(known)} workspaces")
    client, told = home.start(**settings), [0.0]

    def progress(step: dict[str, Any]) -> None:
        if time.monotonic() - told[0] > 10:
            told[0] = time.monotonic()
            say(f"  {step['phase']}: {step['done']} of {step['total']}")

    client.sync(vectors=True, on_progress=progress)
    home.ready(client)
    return client


# --- asking ---------------------------------------------------------------------------------------------------


def ask(client: Client, haystack: Haystack, question: Question, mode: str, limit: int) -> Asked:
    """One question over the socket; scored when its answer is known to stand there."""
    started = time.perf_counter()
    answer = client.query(question.text, ns=haystack.ns, mode=mode, limit=limit, sync="none")
    ms = (time.perf_counter() - started) * 1000
    hits = [haystack.found(hit) for hit in answer["hits"]]
    scored = question.haystack == haystack.name and question.scorable
    return Asked(
        question, hits, ms, answer["confidence"], answer["verdict"],
        turns=places.turns(hits, question.turns) if scored and question.turns else None,
        sessions=places.sessions(hits, question.sessions, haystack.sessions) if scored and question.sessions else None,
    )  # fmt: skip


def measure(client: Client, one: Collection, options: argparse.Namespace) -> dict[str, Any]:
    """Every scorable question in every mode; hybrid first, so that its questions are embedded for the first time."""
    asked: dict[str, list[Asked]] = {}
    for haystack in one.haystacks:
        # The first question in another language has the notes embedded for such: what is scored is what comes after.
        client.query(haystack.questions[0].text, ns=haystack.ns, sync="none")
    client.sync(vectors=True)
    for mode in sorted(options.modes, key=lambda mode: mode != "hybrid"):
        say(f"asking {one.name}: {mode}")
        client.query("warm up", ns=one.haystacks[0].ns, mode=mode, sync="none")
        asked[mode] = [
            ask(client, haystack, question, mode, options.limit)
            for haystack in one.haystacks
            for question in haystack.scorable
        ]
    parts = {ALL: one.haystacks, **(one.halves() if options.split else {})}
    chosen = {part: {haystack.name for haystack in haystacks} for part, haystacks in parts.items()}
    modes = {
        mode: {
            part: summary([a for a in asked[mode] if a.question.haystack in names]) for part, names in chosen.items()
        }
        for mode in options.modes
    }
    main = "hybrid" if "hybrid" in asked else options.modes[-1]
    return {"modes": modes, "categories": _categories(asked[main]), "categories_of": main, "asked": asked}


def summary(asked: Sequence[Asked]) -> dict[str, Any]:
    times = [one.ms for one in asked]
    return {
        "questions": len(asked),
        "turns": exam.mean([one.turns for one in asked if one.turns]),
        "sessions": exam.mean([one.sessions for one in asked if one.sessions]),
        "mean_length": places.mean_length(one.hits for one in asked),
        "p50_ms": exam.percentile(times, 0.5),
        "p95_ms": exam.percentile(times, 0.95),
    }


def _categories(asked: Sequence[Asked]) -> dict[str, Any]:
    names = sorted({one.question.category for one in asked})
    return {name: summary([one for one in asked if one.question.category == name]) for name in names}


# --- what is not there ----------------------------------------------------------------------------------------


def _judged(collections: list[Collection]) -> list[tuple[Collection, list[Haystack]]]:
    """Each collection with whose questions its workspaces are asked: the next workspace's, one place on."""
    for one in collections:
        if len(one.haystacks) == 1:
            say(f"no verdict for {one.name}: it has one workspace; `benchmarks/convert.py halves` makes two of it")
    return [(one, [*one.haystacks[1:], one.haystacks[0]]) for one in collections if len(one.haystacks) > 1]


def judge(
    client: Client, one: Collection, others: list[Haystack], asked: dict[str, list[Asked]], options: argparse.Namespace
) -> dict[str, Any]:
    """How well `confidence` tells questions that the notes answer from questions that they do not."""
    say(f"asking {one.name} what it cannot know")
    wrong: dict[str, list[Asked]] = {}
    adversarial: dict[str, list[Asked]] = {}
    right = asked.get("hybrid") or [
        ask(client, hay, question, "hybrid", options.limit) for hay in one.haystacks for question in hay.scorable
    ]
    for haystack, other in zip(one.haystacks, others, strict=True):
        wrong[haystack.name] = [ask(client, haystack, q, "hybrid", options.limit) for q in other.scorable]
        adversarial[haystack.name] = [ask(client, haystack, q, "hybrid", options.limit) for q in haystack.unanswerable]
    parts = {ALL: one.haystacks, **(one.halves() if options.split else {})}
    judged = {}
    for part, haystacks in parts.items():
        names = [haystack.name for haystack in haystacks]
        judged[part] = verdicts(
            [answer for answer in right if answer.question.haystack in names],
            [answer for name in names for answer in wrong[name]],
            [answer for name in names for answer in adversarial[name]],
        )
    return judged


def verdicts(right: Sequence[Asked], wrong: Sequence[Asked], adversarial: Sequence[Asked]) -> dict[str, Any]:
    sure = [one.confidence for one in right]
    return {
        "auc_wrong": places.area(sure, [one.confidence for one in wrong]),
        "auc_adversarial": places.area(sure, [one.confidence for one in adversarial]) if adversarial else None,
        "right": _shares(right), "wrong": _shares(wrong), "adversarial": _shares(adversarial),
        "reliability": reliability(right, wrong),
    }  # fmt: skip


def reliability(right: Sequence[Asked], wrong: Sequence[Asked]) -> dict[str, float | None]:
    """By confidence, how often the notes do answer, if as many questions have an answer as have none."""
    told: dict[str, float | None] = {}
    for low, high in pairwise(CONFIDENCE):
        there, not_there = (
            sum(low <= one.confidence < high for one in some) / max(1, len(some)) for some in (right, wrong)
        )
        told[f"{low:g} to {min(1.0, high):g}"] = there / (there + not_there) if there + not_there else None
    return told


def _shares(asked: Sequence[Asked]) -> dict[str, float]:
    given = [one.verdict for one in asked]
    shares = {verdict: given.count(verdict) / len(given) if given else 0.0 for verdict in ("found", "weak", "none")}
    return {"questions": len(given), **shares}


# --- telling --------------------------------------------------------------------------------------------------


def tables(name: str, result: dict[str, Any]) -> str:
    rows = {_row_name(mode, part): told for mode, parts in result["modes"].items() for part, told in parts.items()}
    by_category = f"{result['categories_of']} by category"
    blocks = []
    for level in ("turns", "sessions"):
        for title, chosen in ((level, rows), (f"{level}, {by_category}", result["categories"])):
            if any(told[level] for told in chosen.values()):
                blocks.append(_table(f"{name}, {title}", level, chosen))
    if "verdict" in result:
        blocks.append(_verdict_table(name, result["verdict"]))
    return "\n\n".join(blocks) + "\n"


def _row_name(mode: str, part: str) -> str:
    return mode if part == ALL else f"{mode}, {part}"


def _table(title: str, level: str, rows: dict[str, Any]) -> str:
    head = ["", *NAMES, "length", "p50 ms", "p95 ms", "questions"]
    body = [
        [row, *(f"{told[level][name]:.3f}".lstrip("0") for name in NAMES), f"{told['mean_length']:.0f}",
         f"{told['p50_ms']:.1f}", f"{told['p95_ms']:.1f}", str(told["questions"])]
        for row, told in rows.items() if told[level]
    ]  # fmt: skip
    return f"### {title}\n\n" + markdown(head, body)


def _verdict_table(name: str, judged: dict[str, Any]) -> str:
    bins = list(next(iter(judged.values()))["reliability"])
    head = ["", "AUC wrong workspace", "AUC adversarial", *(
        f"{kind}: {verdict}" for kind in ("right", "wrong", "adversarial") for verdict in ("found", "weak", "none")
    ), *(f"right at {name}" for name in bins)]  # fmt: skip
    body = []
    for part, told in judged.items():
        areas = [told["auc_wrong"], told["auc_adversarial"]]
        shares = [
            told[kind][verdict] for kind in ("right", "wrong", "adversarial") for verdict in ("found", "weak", "none")
        ]
        values = (*areas, *shares, *told["reliability"].values())
        body.append([part, *("" if value is None else f"{value:.3f}" for value in values)])
    return f"### {name}, verdict\n\n" + markdown(head, body)


def markdown(head: list[str], body: list[list[str]]) -> str:
    """A table that reads well as it is and can be put into the docs."""
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]
    sided = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in (head, *body)]
    lines = [f"| {' | '.join([cells[0].strip().ljust(widths[0]), *cells[1:]])} |" for cells in sided]
    lines.insert(1, "|" + "|".join("-" * (width + 1) + (":" if nth else "-") for nth, width in enumerate(widths)) + "|")
    return "\n".join(lines)


def _write(options: argparse.Namespace, told: dict[str, Any], report: dict[str, Any]) -> None:
    if options.answers:
        with options.answers.open("w", encoding="utf-8") as file:
            for result in report.values():
                for mode, asked in result["asked"].items():
                    file.writelines(json.dumps(_answer(mode, one), ensure_ascii=False) + "\n" for one in asked)
    if options.json:
        kept = {
            name: {key: value for key, value in result.items() if key != "asked"} for name, result in report.items()
        }
        record = {
            "memd": told["version"], "model": told["model"]["name"], "python": platform.python_version(),
            "machine": platform.machine(), "load": os.getloadavg()[0], "settings": _settings(options),
            "limit": options.limit, "collections": kept,
        }  # fmt: skip
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _answer(mode: str, one: Asked) -> dict[str, Any]:
    return {
        "mode": mode, "id": one.question.id, "haystack": one.question.haystack, "category": one.question.category,
        "question": one.question.text, "turns": one.turns, "sessions": one.sessions, "confidence": one.confidence,
        "verdict": one.verdict, "gold": [_place(span) for span in one.question.turns or one.question.sessions],
        "hits": [_place(hit.span) for hit in one.hits[:10]], "ms": round(one.ms, 2),
    }  # fmt: skip


def _place(span: exam.LineSpan) -> str:
    return f"{span.path}:{span.start}-{span.end}"


if __name__ == "__main__":
    sys.exit(main())
