"""Turns LoCoMo's `locomo10.json` into a collection that retrieval.py can score: one workspace a conversation.

python benchmarks/locomo.py locomo10.json FOLDER
"""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
TURN = re.compile(r"D\d+:\d+")

Place = dict[str, Any]


def main() -> int:
    source, target = map(Path, sys.argv[1:])
    questions = []
    for sample in json.loads(source.read_text(encoding="utf-8")):
        questions += convert(sample, target / sample["sample_id"])
    lines = [json.dumps(question, ensure_ascii=False) for question in questions]
    (target / "all_questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(questions)} questions, {sum(question['scorable'] for question in questions)} of them with an answer")
    return 0


def convert(sample: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Write one conversation as daily notes and a map of its turns and sessions; its questions."""
    talk = sample["conversation"]
    numbers = sorted(int(found[1]) for name in talk if (found := re.fullmatch(r"session_(\d+)", name)))
    notes: dict[str, list[str]] = {}
    places: dict[str, dict[str, Place]] = {"sessions": {}, "turns": {}}
    for number in numbers:
        if talk[f"session_{number}"]:
            _session(talk, number, notes, places)
    (folder / "memory").mkdir(parents=True, exist_ok=True)
    for path, lines in notes.items():
        (folder / path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "map.json").write_text(json.dumps(places, ensure_ascii=False), encoding="utf-8")
    return [_question(sample["sample_id"], nth, entry, places) for nth, entry in enumerate(sample["qa"])]


def _session(
    talk: dict[str, Any], number: int, notes: dict[str, list[str]], places: dict[str, dict[str, Place]]
) -> None:
    """One section of a day's note: a paragraph a turn."""
    began = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
    path = f"memory/{began:%Y-%m-%d}.md"
    lines = notes.setdefault(path, [f"# {began:%Y-%m-%d}"])
    lines += ["", f"## Session {number}: {talk['speaker_a']} and {talk['speaker_b']} ({began:%H:%M})"]
    first = len(lines)
    for turn in talk[f"session_{number}"]:
        said = f"**{turn['speaker']}:** {turn['text']}"
        said += f" [shared image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
        lines.append("")
        start = len(lines) + 1
        lines += said.strip().split("\n")
        places["turns"][turn["dia_id"]] = {"file": path, "start": start, "end": len(lines), "session": f"S{number}"}
    places["sessions"][f"S{number}"] = {"file": path, "start": first, "end": len(lines)}


def _question(haystack: str, nth: int, entry: dict[str, Any], places: dict[str, dict[str, Place]]) -> dict[str, Any]:
    named = TURN.findall(" ".join(map(str, entry.get("evidence") or ())))
    turns = [{"id": turn, **places["turns"][turn]} for turn in dict.fromkeys(named) if turn in places["turns"]]
    sessions = [{"id": name, **places["sessions"][name]} for name in dict.fromkeys(turn["session"] for turn in turns)]
    category = CATEGORIES[entry["category"]]
    return {
        "id": f"{haystack}-q{nth}",
        "haystack": haystack,
        "question": entry["question"],
        "answer": str(entry.get("answer", "")),
        "category": category,
        "adversarial": category == "adversarial",
        "scorable": category != "adversarial" and bool(turns),
        "gold_turns": turns,
        "gold_sessions": sessions,
    }


if __name__ == "__main__":
    sys.exit(main())
