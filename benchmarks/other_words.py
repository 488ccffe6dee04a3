"""Questions in other words than the notes': how often the right section is among the first, and what memd calls it.

python benchmarks/other_words.py [--keep DIR] [--mode hybrid] [--half judge] [--misses] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collection import load
from home import Home, workplace

from memd.exam import LineSpan
from memd.protocol.client import Client

FOLDER = Path(__file__).parent / "other_words"
PLACES = (1, 3, 5)
ASKED = 20
LINES = ("path", "start_line", "end_line")


def main() -> None:
    options = _options()
    halves = {
        row["id"]: row["half"] for row in map(json.loads, (FOLDER / "all_questions.jsonl").open(encoding="utf-8"))
    }
    figures: dict[str, Counter[str]] = {}
    collection = load(FOLDER)
    with workplace(options.keep) as place, Home(place / "home") as home:
        client = start(home, [(stack.ns, stack.root) for stack in collection.haystacks])
        for stack in collection.haystacks:
            others = [one for other in collection.haystacks if other is not stack for one in other.questions]
            for question in stack.questions:
                half = halves[question.id]
                if options.half in ("", half):
                    asked = ask(client, stack.ns, question.text, options.mode)
                    place_of = rank(asked["hits"], question.sessions)
                    count(figures.setdefault(f"{stack.name} {half}", Counter()), asked["verdict"], place_of)
                    if options.misses and (place_of > PLACES[1] or asked["verdict"] == "none"):
                        print(f"{question.id} {asked['verdict']:5} {place_of:2} {question.text}")
            strangers = figures.setdefault(f"{stack.name} strangers", Counter())
            for question in others[:: max(1, len(others) // ASKED)]:
                count(strangers, ask(client, stack.ns, question.text, options.mode)["verdict"], 99)
    print(table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--half", default="", choices=["", "fit", "judge"])
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def start(home: Home, workspaces: list[tuple[str, Path]], **settings: str) -> Client:
    home.path.mkdir(parents=True, exist_ok=True)
    parts = [f'[[workspace]]\npath = "{root}"\nns = "{ns}"\n' for ns, root in workspaces]
    (home.path / "config.toml").write_text("".join(parts))
    client = home.start(**settings)
    client.sync(vectors=True)
    home.ready(client)
    return client


def ask(client: Client, ns: str, text: str, mode: str) -> dict[str, Any]:
    """The answer; what comes near without being an answer follows the hits."""
    answer: dict[str, Any] = client.query(text, ns=ns, mode=mode, limit=ASKED)
    return {**answer, "hits": [*answer["hits"], *answer["near"]]}


def rank(hits: list[dict[str, Any]], gold: Sequence[LineSpan]) -> int:
    """The place of the first hit of a right section, where hits of one memory are one; 99 for none."""
    sections = list(dict.fromkeys((hit["path"], hit["key"]) for hit in hits))
    covering = (hit for hit in hits if any(LineSpan(*map(hit.get, LINES)).overlaps(one) for one in gold))
    return min((sections.index((hit["path"], hit["key"])) + 1 for hit in covering), default=99)


def count(counts: Counter[str], verdict: str, place: int) -> None:
    counts.update(["questions", verdict, *(f"first {most}" for most in PLACES if place <= most)])


def table(figures: dict[str, Counter[str]]) -> str:
    columns = [*(f"first {most}" for most in PLACES), "found", "weak", "none"]
    lines = [f"{'':16}" + "".join(f"{column:>9}" for column in columns) + f"{'questions':>11}"]
    for name, counts in figures.items():
        shares = "".join(f"{counts[column] / counts['questions']:9.2f}" for column in columns)
        lines.append(f"{name:16}{shares}{counts['questions']:>11}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
