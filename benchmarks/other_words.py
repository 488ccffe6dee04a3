"""Questions in other words than the notes': how often the right section is among the first, and what memd calls it.

python benchmarks/other_words.py [--keep DIR] [--mode hybrid] [--half judge] [--flat] [--misses] [--json FILE]

With `--flat` the daily notes have lost their headings: a day is one list, as many agents write it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

from collection import load
from home import Home, workplace
from places import turns

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
    with workplace(options.keep) as place, Home(place / "home") as home:
        collection = load(flattened(place / "flat") if options.flat else FOLDER)
        client = start(home, [(stack.ns, stack.root) for stack in collection.haystacks])
        for stack in collection.haystacks:
            others = [one for other in collection.haystacks if other is not stack for one in other.questions]
            for question in stack.questions:
                half = halves[question.id]
                if options.half in ("", half):
                    asked = ask(client, stack.ns, question.text, options.mode)
                    place_of = rank(asked["hits"], question.sessions)
                    read = turns([stack.found(hit) for hit in asked["hits"]], question.sessions)["any@2k"]
                    count(figures.setdefault(f"{stack.name} {half}", Counter()), asked["verdict"], place_of, read)
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
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def flattened(folder: Path) -> Path:
    """A copy of the collection whose daily notes have no headings but the day; the wanted lines move with them."""
    rmtree(folder, ignore_errors=True)
    copytree(FOLDER, folder)
    kept: dict[tuple[str, str], list[int]] = {}
    for path in folder.glob("*/memory/*.md"):
        lines = path.read_text(encoding="utf-8").split("\n")
        numbers = [n for n, line in enumerate(lines, 1) if line.strip() and not line.startswith("## ")]
        path.write_text("".join(f"{lines[n - 1]}\n" for n in numbers), encoding="utf-8")
        kept[path.parts[-3], f"memory/{path.name}"] = numbers
    rows = [json.loads(line) for line in (FOLDER / "all_questions.jsonl").open(encoding="utf-8")]
    for row in rows:
        for gold in row["gold_sessions"]:
            numbers = kept.get((row["haystack"], gold["file"]), [])
            places = [at for at, n in enumerate(numbers, 1) if gold["start"] <= n <= gold["end"]]
            gold.update({"start": places[0], "end": places[-1]} if places else {})
    (folder / "all_questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return folder


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


def count(counts: Counter[str], verdict: str, place: int, read: float = 0) -> None:
    """Count an answer; `read`: whether the right lines stand in its first 2,000 characters."""
    counts.update(["questions", verdict, *(f"first {most}" for most in PLACES if place <= most)])
    counts["any@2k"] += round(read)


def table(figures: dict[str, Counter[str]]) -> str:
    columns = [*(f"first {most}" for most in PLACES), "any@2k", "found", "weak", "none"]
    lines = [f"{'':16}" + "".join(f"{column:>9}" for column in columns) + f"{'questions':>11}"]
    for name, counts in figures.items():
        shares = "".join(f"{counts[column] / counts['questions']:9.2f}" for column in columns)
        lines.append(f"{name:16}{shares}{counts['questions']:>11}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
