"""The comparison with rivals: one that is broken is listed with the reason, and the figures of the others come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import PATIENCE, ROOT

PEERS = ROOT / "benchmarks" / "peers"
WHISPER, KILN = "I adopted a greyhound called Whisper.", "The kiln cracked, so the pottery fair is off."
NOTE = f"""# 2023-05-08

## Session 1

Hello there!

{WHISPER}

What a name!

## Session 2

Any news?

{KILN}
"""
PLACES = {"S1": (3, 9), "S2": (11, 15)}
QUESTIONS = {"What is the greyhound called?": (7, "S1"), "Why is the pottery fair off?": (15, "S2")}

STUB = """
import subprocess, sys
from rival import Rival

class Peer(Rival):
    variants = {"memd": {"lines": True}, "by-text": {"lines": False}}

    def index(self):
        self.notes_there = sorted(self.notes.rglob("*.md"))

    def ask(self, question, limit):
        print("a rival may print what it likes")
        word = question.rstrip("?").split()[-1]
        found = subprocess.run(["grep", "-n", word, *map(str, self.notes_there)], capture_output=True, text=True).stdout
        hits = [line.partition(":") for line in found.splitlines()]
        if self.settings["lines"]:
            return [{"path": "memory/2023-05-08.md", "start_line": int(n), "end_line": int(n)} for n, _, _ in hits]
        return [{"text": "> " + text.replace(" ", "  ")} for _, _, text in hits]
"""
BROKEN = {
    "unloadable": "import nothing_of_this_name",
    "unable": STUB.replace(
        "self.notes_there = sorted(", "raise OSError('no vectors today') if self else sorted("
    ).replace('variants = {"memd": {"lines": True}, "by-text": {"lines": False}}', ""),
    "dying": "import os\nfrom rival import Rival\nclass Peer(Rival):\n    def index(self):\n        os._exit(9)\n",
    "missing": "from rival import Rival\nclass Peer(Rival):\n    python = '2.3'\n    packages = ('nothing==0',)\n",
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run over a good stub and every kind of broken one."""
    place = tmp_path_factory.mktemp("peers")
    haystack = place / "data" / "locomo" / "conv-1"
    (haystack / "memory").mkdir(parents=True)
    (haystack / "memory" / "2023-05-08.md").write_text(NOTE)
    (haystack / "map.json").write_text(
        json.dumps({"turns": {}, "sessions": {name: gold(*PLACES[name]) for name in PLACES}})
    )
    asked = [
        {
            "haystack": "conv-1",
            "question": text,
            "gold_turns": [gold(line, line)],
            "gold_sessions": [gold(*PLACES[name])],
        }
        for text, (line, name) in QUESTIONS.items()
    ]
    (haystack.parent / "all_questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    adapters = place / "adapters"
    adapters.mkdir()
    for name, code in {"stub": STUB, **BROKEN}.items():
        (adapters / f"{name}.py").write_text(code)
    (place / "out.json").write_text(json.dumps({"peers": {"by-text": before("longmemeval")}}))
    given = {"adapters": adapters, "data": place / "data", "json": place / "out.json", "page": place / "out.md"}
    command = [sys.executable, PEERS / "compare.py", "--parts", "found", "--patience", "20"]
    command += [part for name, value in given.items() for part in (f"--{name}", value)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}", "MEMD_PEERS": str(place / "cache")}
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return {"peers": json.loads(given["json"].read_text())["peers"], "page": given["page"].read_text()}


def before(collection: str) -> dict[str, Any]:
    """What an earlier run measured of one rival."""
    figures = {"sessions": {"any@5": 0.5, "frac@5": 0.5}, "turns": {"any@2k": 0.5, "any@5": 0.5, "mrr": 0.5}}
    found = {"questions": 2, "mean_length": 30.0, "scored": figures, "any_length": figures}
    part = {
        "runs": [{collection: found}],
        "date": "2026-01-01",
        "load": [0, 0],
        "seconds": 1,
        "size": "–",
        "version": "",
    }
    return {
        "title": "",
        "mode": "",
        "asked": "",
        "embeds": "",
        "version": "",
        "installed": {},
        "parts": {"found": part},
    }


def gold(start: int, end: int) -> dict[str, Any]:
    return {"file": "memory/2023-05-08.md", "start": start, "end": end}


@pytest.mark.parametrize("row", ["memd", "by-text"])
def test_a_rival_is_scored_by_its_lines_or_by_where_its_text_stands(compared: dict[str, Any], row: str) -> None:
    """“called” stands in the line that answers, “off” too; both are the only lines with the word."""
    (run,) = compared["peers"][row]["parts"]["found"]["runs"]
    told = run["locomo"]
    assert told["questions"] == 2
    for scored in (told["scored"], told["any_length"]):
        assert scored["turns"]["any@2k"] == scored["turns"]["mrr"] == scored["sessions"]["any@5"] == 1
    assert told["mean_length"] == (len(WHISPER) + len(KILN)) / 2
    assert f"| {row} | 1.000 {'' if row == 'memd' else '× 1 '}|" in compared["page"]


@pytest.mark.parametrize(
    ("rival", "why"),
    [
        ("unloadable", "No module named 'nothing_of_this_name'"),
        ("unable", "no vectors today"),
        ("dying", "ended"),
        ("missing", "needs Python 2.3"),
    ],
)
def test_a_broken_rival_is_listed_with_the_reason(compared: dict[str, Any], rival: str, why: str) -> None:
    entry = compared["peers"][rival]
    said = entry.get("unavailable") or entry["parts"]["found"]["runs"][0]["failed"]
    assert why in said
    assert f"| {rival} |" in compared["page"] and why in compared["page"]


def test_a_run_of_one_collection_leaves_the_figures_of_another(compared: dict[str, Any]) -> None:
    (run,) = compared["peers"]["by-text"]["parts"]["found"]["runs"]
    assert run.keys() == {"locomo", "longmemeval"} and run["longmemeval"]["mean_length"] == 30.0


def test_an_adapter_has_at_most_sixty_lines() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in (PEERS / "rivals").glob("*.py")}
    assert len(lengths) >= 3 and not {name: length for name, length in lengths.items() if length > 60}


def test_the_page_is_what_its_figures_say() -> None:
    """docs/comparison.md is generated from docs/comparison.json, never edited."""
    write = "import json, sys, page; print(page.write(json.load(open(sys.argv[1]))), end='')"
    paths = os.pathsep.join(map(str, (PEERS, ROOT / "benchmarks", ROOT)))
    made = subprocess.run(
        [sys.executable, "-c", write, ROOT / "docs" / "comparison.json"],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout == (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
