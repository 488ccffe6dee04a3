"""Exams on a real daemon: a user's own questions, probes of the notes, the nightly trend, and the yardstick itself."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memd.cli import reports
from memd.errors import NotFound, UsageError
from memd.indexer.model.scale import QUESTIONS
from memd.indexer.query.certainty import FOUND, WEAK
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.ledger_check import STEPS
from memd.indexer.views import overview
from memd.protocol.client import Client
from tests.conftest import PATIENCE, ROOT, Home

EXAM = """\
# what I expect memd to know
{"question": "What is the ErsatzTV endpoint?", "expect": "memory/2026-02-15.md:6", "category": "home"}
{"question": "What is the router called?", "expect": "MEMORY#home-network", "category": "home"}
{"question": "Why did the photo backup fail?", "expect_text": "disk FULL"}
{"question": "the photo archive", "expect": "memory/2026-02-15.md:10"}
"""


@pytest.fixture
def served(home: Home, workspace: Path) -> Client:
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    client = home.start()
    client.sync(vectors=True)
    return client


@pytest.fixture
def exam(home: Home) -> Path:
    file = home.path.parent / "exam.jsonl"
    file.write_text(EXAM)
    return file


# --- questions ------------------------------------------------------------------------------------------------


def test_a_file_of_questions_is_scored_with_what_was_missed(served: Client, exam: Path):
    told = served.eval(exam, mode="text")
    assert told["questions"] == 4 and told["ns"] == ["agent"] and told["mode"] == "text"
    assert told["figures"]["any@5"] == told["figures"]["any@2k"] == 0.75
    assert told["categories"]["home"]["figures"]["mrr"] == 1
    assert told["missed"] == 1 and told["problems"] == []
    (miss,) = told["misses"]
    assert miss["line"] == 5 and miss["expected"] == ["memory/2026-02-15.md:10"]
    assert miss["rank"] is None and miss["first"] == "memory/2026-02-16.md:3"
    assert 0 < told["p50_ms"] <= told["p95_ms"]


def test_bad_lines_and_impossible_questions_are_told_and_left_out(served: Client, exam: Path):
    exam.write_text(
        EXAM + '{"question": "?", "expect": "memory/none.md:3"}\n{"question": "?", "expect": "MEMORY#none"}\n'
        '{"question": "?", "expect": "MEMORY", "ns": "elsewhere"}\n{"question"\n'
    )
    told = served.eval(exam)
    assert told["questions"] == 4
    assert [problem["line"] for problem in told["problems"]] == [6, 7, 8, 9]
    whys = [problem["why"] for problem in told["problems"]]
    assert "memory/none.md" in whys[0] and "MEMORY#none" in whys[1] and "elsewhere" in whys[2] and "JSON" in whys[3]


def test_an_exam_without_any_question_is_refused_with_the_lines(served: Client, exam: Path):
    exam.write_text('\n{"question"\n')
    with pytest.raises(UsageError) as caught:
        served.eval(exam)
    assert "line 2: not JSON" in caught.value.hint
    exam.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        served.eval(exam)
    with pytest.raises(NotFound):
        served.eval(exam.with_name("none.jsonl"))
    with pytest.raises(NotFound):
        served.eval("/dev/zero")


@pytest.mark.parametrize("params", [{}, {"self": True, "questions": []}, {"path": "relative.jsonl"}])
def test_eval_needs_exactly_one_source(served: Client, params: dict[str, Any]):
    with pytest.raises(UsageError):
        served.call("eval", params)


def test_the_questions_of_a_labelled_collection_are_taken_as_they_are(served: Client):
    gold = {"id": "D1:1", "file": "memory/2026-02-15.md", "start": 6, "end": 6, "session": "S1"}
    entry = {"question": "ErsatzTV endpoint", "haystack": "agent", "gold_turns": [gold], "category": "single-hop"}
    told = served.eval(questions=[entry, {"question": "unanswerable", "adversarial": True}])
    assert told["questions"] == 1 and told["figures"]["mrr"] == 1


def test_the_command_prints_a_table_and_the_misses(served: Client, exam: Path, run: Callable[..., Any]):
    exam.write_text(EXAM + "{\n")
    plain = run("eval", str(exam), "--mode", "text")
    assert plain.returncode == 0
    head, row, *_ = plain.stdout.splitlines()
    assert head.split()[:3] == ["questions", "any@2k", "all@2k"] and row.split()[:3] == ["all", "4", "0.750"]
    assert "1 of 4 had no answer" in plain.stdout and "line 6 is left out" in plain.stderr
    misses = run("eval", str(exam), "--mode", "text", "--misses").stdout
    assert "line 5: the photo archive" in misses and "memory/2026-02-15.md:10 (not found)" in misses
    assert json.loads(run("eval", str(exam), "--json").stdout)["questions"] == 4
    assert run("eval").returncode == 2
    assert run("eval", "--self", str(exam)).returncode == 2
    assert run("eval", str(exam.with_name("none"))).returncode == 1


# --- probes ---------------------------------------------------------------------------------------------------


@pytest.mark.linux  # a poll reads what is two seconds old again, and the answer says so: `pending`
def test_probes_of_the_notes_are_found_again_and_are_the_same_each_time(served: Client, run: Callable[..., Any]):
    told = served.eval(self_=True, mode="text")
    assert told["questions"] > 6 and set(told["categories"]) == {"term", "paraphrase", "date"}
    assert told["categories"]["term"]["figures"]["recall@1"] == 1
    again = served.eval(self_=True, mode="text")
    assert {**told, "p50_ms": 0, "p95_ms": 0} == {**again, "p50_ms": 0, "p95_ms": 0}
    printed = run("eval", "--self").stdout
    assert printed.split()[:2] == ["probes", "recall@1"] and "paraphrase" in printed


def test_a_workspace_without_notes_gives_no_probes(home: Home, run: Callable[..., Any]):
    (home.path.parent / "empty").mkdir()
    home.configure(f'[[workspace]]\npath = "{home.path.parent}/empty"\nns = "empty"\n')
    assert home.start().eval(self_=True)["questions"] == 0
    assert "no notes" in run("eval", "--self").stdout


# --- every night ----------------------------------------------------------------------------------------------


def job(client: Client, name: str) -> dict[str, Any] | None:
    return next((job for job in client.status()["jobs"] if job["name"] == name), None)


def test_the_nightly_exam_keeps_one_result_a_day_and_status_tells_it(home: Home, workspace: Path):
    home.configure(f'[jobs]\nselfexam = "1s"\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    client = home.start()
    until = time.monotonic() + PATIENCE
    while (client.status()["workspaces"][0]["exam"]["last"]) is None and time.monotonic() < until:
        time.sleep(0.05)
    told = client.status()["workspaces"][0]["exam"]
    assert told["last"]["probes"] > 6 and told["last"]["recall"] > 0.5 and told["last"]["p95_ms"] > 0
    assert told["before"] is None
    (kept,) = client.stats()["exams"]
    assert kept["ns"] == "agent" and kept["date"] == told["last"]["date"]
    # It is written down before the job has ended, and a second later the next run begins.
    while "agent" not in str((job(client, "selfexam") or {})["result"]):
        assert time.monotonic() < until
    first = (job(client, "selfexam") or {})["last"]
    while (job(client, "selfexam") or {})["last"] == first and time.monotonic() < until:
        time.sleep(0.05)
    with sqlite3.connect(home.state / "state.db") as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM exams").fetchone() == (1,)
    assert "exam      agent: " in home.run("status").stdout
    assert home.stop() == 0


def test_the_nightly_exam_can_be_turned_off(home: Home, workspace: Path):
    home.configure(f'[jobs]\nselfexam = "off"\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    client = home.start()
    until = time.monotonic() + PATIENCE
    while job(client, "selfexam") is None and time.monotonic() < until:
        time.sleep(0.05)
    assert (job(client, "selfexam") or {})["next"] is None
    assert (job(client, "backup") or {})["next"] is not None


def result(recall: float) -> dict[str, Any]:
    return {"questions": 40, "figures": {"recall@5": recall}, "p95_ms": 12.0}


def test_the_trend_has_the_last_thirty_days_newest_first_and_goes_with_its_workspace(tmp_path: Path):
    ledger = Ledger(tmp_path / "state.db")
    with ledger.write() as connection:
        connection.execute("INSERT INTO workspaces (ns, root) VALUES ('a', '/a'), ('b', '/b')")
        for day in range(1, 41):
            overview.keep_exam(connection, 1, f"2026-{1 + day // 28:02}-{1 + day % 28:02}", result(day / 40))
        overview.keep_exam(connection, 2, "2026-01-01", result(0.5))
        overview.keep_exam(connection, 2, "2026-01-01", result(0.6))
    trend = overview.exam_trend(ledger.reader, 1)
    assert len(trend) == 30 and trend[0] == {"date": "2026-02-13", "probes": 40, "recall": 1.0, "p95_ms": 12.0}
    assert [entry["recall"] for entry in overview.exam_trend(ledger.reader, 2)] == [0.6]
    with ledger.write() as connection:
        connection.execute("DELETE FROM workspaces WHERE id = 1")
    assert overview.exam_trend(ledger.reader, 1) == []
    ledger.close()


def test_a_ledger_of_the_first_schema_is_brought_up_and_keeps_what_it_has(tmp_path: Path):
    with sqlite3.connect(tmp_path / "state.db") as old:
        old.executescript(f"{STEPS[0]};PRAGMA user_version = 1;INSERT INTO workspaces (ns, root) VALUES ('a', '/a');")
    old.close()
    ledger = Ledger(tmp_path / "state.db")
    with ledger.write() as connection:
        overview.keep_exam(connection, 1, "2026-01-01", result(0.5))
    assert overview.exam_trend(ledger.reader, 1)[0]["recall"] == 0.5
    ledger.close()


@pytest.mark.parametrize(
    ("before", "last", "words"),
    [(None, 0.95, "95% of 40 probes"), (0.97, 0.88, "97% before"), (0.97, 0.86, "DROPPED from 97%")],
)
def test_a_drop_of_more_than_ten_points_is_said(before: float | None, last: float, words: str):
    def entry(recall: float, date: str) -> dict[str, Any]:
        return {"date": date, "probes": 40, "recall": recall, "p95_ms": 12.0}

    exam = {"last": entry(last, "2026-02-02"), "before": entry(before, "2026-02-01") if before else None}
    told = reports.status(
        {"version": "1", "pid": 1, "jobs": [], "workspaces": [{"ns": "agent", "root": "/a", "exam": exam}]}
    )
    (line,) = [line for line in told.splitlines() if line.startswith("exam ")]
    assert words in line and ("DROPPED" in words) == ("DROPPED" in line)


# --- the yardstick --------------------------------------------------------------------------------------------

TALKS = {
    "conv-1": ("Ann", "Bob", ["Hello there!", "I adopted a greyhound called Whisper yesterday.", "What a name!"]),
    "conv-2": ("Cid", "Dee", ["Any news?", "The kiln cracked, so the pottery fair is off.", "Oh no, the blue vases!"]),
}
ASKED = {"conv-1": ("What is the name of the greyhound?", 4), "conv-2": ("Why is the pottery fair off?", 4)}


def sample(name: str) -> dict[str, Any]:
    first, second, said = TALKS[name]
    turns = [
        {"speaker": (first, second)[nth % 2], "dia_id": f"D1:{nth + 1}", "text": text} for nth, text in enumerate(said)
    ]
    turns[2]["blip_caption"] = "a photo of a shelf"
    question, category = ASKED[name]
    talk = {"speaker_a": first, "speaker_b": second, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    return {
        "sample_id": name,
        "conversation": {**talk, "session_1": turns},
        "qa": [
            {"question": question, "answer": "yes", "evidence": ["D1:2; D1:9"], "category": category},
            {"question": f"{question} And when?", "evidence": ["D1:2"], "category": 5, "adversarial_answer": "no"},
        ],
    }


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=env, cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=PATIENCE)


def test_the_yardstick_measures_a_converted_collection(tmp_path: Path):
    (tmp_path / "locomo10.json").write_text(json.dumps([sample(name) for name in TALKS]))
    data = tmp_path / "data"
    made = bench("convert.py", "locomo", tmp_path / "locomo10.json", data)
    assert made.returncode == 0, made.stderr
    assert "4 questions, 2 of them with an answer" in made.stdout
    note = (data / "conv-1" / "memory" / "2023-05-08.md").read_text().split("\n")
    assert note[0] == "# 2023-05-08" and note[2] == "## Session 1: Ann and Bob (13:56)"
    assert note[8] == "**Ann:** What a name! [shared image: a photo of a shelf]"
    kept = tmp_path / "figures.json"
    done = bench("retrieval.py", data, "--split", "--verdict", "--json", kept, "--answers", tmp_path / "answers.jsonl")
    assert done.returncode == 0, done.stderr
    told = json.loads(kept.read_text())["collections"]["data"]
    assert set(told["modes"]) == {"text", "vector", "hybrid"}
    for parts in told["modes"].values():
        assert {part: figures["questions"] for part, figures in parts.items()} == {
            "all": 2,
            "tuned on": 1,
            "held out": 1,
        }
        assert parts["all"]["turns"]["any@2k"] == parts["all"]["sessions"]["mrr"] == 1
    assert told["verdict"]["all"]["wrong"]["questions"] == told["verdict"]["all"]["adversarial"]["questions"] == 2
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 6 and all(answer["gold"] == ["memory/2023-05-08.md:7-7"] for answer in answers)
    assert "### data, turns" in done.stdout and "### data, verdict" in done.stdout


# --- the reliability of verdicts, and the margin that is fitted to it ------------------------------------------

MOST = 8
"""Questions of a kind to each workspace."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]], str]:
    """A collection with halves and its kept index, every outcome of its questions, and the table that was printed."""
    place = tmp_path_factory.mktemp("verdicts")
    write_halves(place / "other_words")
    told = bench("reliability.py", place / "other_words", *kept_in(place), "--json", place / "outcomes.json")
    assert told.returncode == 0, told.stderr
    return place, json.loads((place / "outcomes.json").read_text()), told.stdout


def write_halves(folder: Path) -> None:
    """Questions whose notes answer them, 40 in English and 6 in German, in the form of benchmarks/other_words."""
    asked = []
    for language in ("en", "de"):
        notes, sessions = folder / language, {}
        notes.mkdir(parents=True)
        for nth, (question, _) in enumerate(QUESTIONS[language]):
            name = f"{language}-{nth}"
            sessions[name] = {"file": "MEMORY.md", "start": 2 * nth + 1, "end": 2 * nth + 2}
            row = {"id": name, "haystack": language, "question": question, "half": ("fit", "judge")[nth % 2]}
            asked.append({**row, "gold_sessions": [sessions[name]]})
        text = "".join(f"## {nth}\n{note}\n" for nth, (_, note) in enumerate(QUESTIONS[language]))
        (notes / "MEMORY.md").write_text(text)
        (notes / "map.json").write_text(json.dumps({"sessions": sessions}))
    (folder / "all_questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in asked))


def kept_in(place: Path) -> tuple[str | Path, ...]:
    return "--keep", place / "kept", "--most", str(MOST)


def test_reliability_asks_notes_with_and_without_the_answer_and_those_of_others(
    outcomes: tuple[Path, list[dict[str, Any]], str],
):
    _, asked, table = outcomes
    counts = Counter((one["group"], one["kind"]) for one in asked)
    assert counts == {
        ("en", "own"): 8, ("en", "left out"): 8, ("en", "elsewhere"): 6,
        ("de", "own"): 6, ("de", "left out"): 6, ("de", "elsewhere"): 8,
    }  # fmt: skip
    own, left_out = ([one for one in asked if one["kind"] == kind] for kind in ("own", "left out"))
    assert all(one["place"] <= 3 for one in own)
    assert all(one["place"] == 99 for one in asked if one["kind"] != "own")
    # The same questions in the same order, and in English each is less sure without the answer.
    assert all(with_it["confidence"] > 0.05 for with_it in own if with_it["group"] == "en")
    for with_it, without in zip(own, left_out, strict=True):
        assert with_it["confidence"] >= without["confidence"] and with_it["half"] == without["half"]
    # Among six notes the nearest is compared with all others.
    assert all(0 < one["margin"] < 1 for one in asked if one["group"] == "de")
    (english,) = [line.split(" | ") for line in table.splitlines() if line.startswith("| en ")]
    found = sum(one["confidence"] >= FOUND for one in own if one["group"] == "en") / 8
    assert [cell.strip() for cell in english[1:4]] == ["8", f"{found:.2f}", f"{1 - found:.2f}"]


def test_the_fitted_margin_is_the_greatest_that_hides_a_tenth_at_most(
    outcomes: tuple[Path, list[dict[str, Any]], str],
):
    place, asked, _ = outcomes
    fitted = bench("fit.py", place / "other_words", *kept_in(place))
    assert fitted.returncode == 0, fitted.stderr
    chosen = {}
    for group in ("en", "de"):
        own = [one for one in asked if (one["group"], one["kind"], one["half"]) == (group, "own", "fit")]
        # So few that a single hidden one is too many: the margin must be below that of each that is not sure.
        unsure = [one["margin"] for one in own if one["confidence"] < WEAK]
        chosen[group] = max(step / 100 for step in range(31) if step / 100 <= min(unsure, default=1.0))
    assert f"the model (en; 4 questions): {chosen['en']:.2f}" in fitted.stdout
    assert f"the model of other languages (de, ja, zh; 3 questions): {chosen['de']:.2f}" in fitted.stdout
    assert f"certainty.STANDS_OUT: {min(chosen.values()):.2f} is chosen" in fitted.stdout
    assert 0 < chosen["de"] < chosen["en"] == 0.3
    for half in ("fit", "judge"):
        own = [one for one in asked if (one["kind"], one["half"]) == ("own", half)]
        hidden = [one for one in own if one["confidence"] < WEAK and one["margin"] < min(chosen.values())]
        assert f"own: none {len(hidden) / len(own):.3f}, at most 0.10" in fitted.stdout, half
    assert "own: none 0.000, at most 0.10: met" in fitted.stdout, "the fitting half"
