"""Makes collections that the part `retrieval` can score.

python benchmarks/convert.py locomo locomo10.json TARGET    LoCoMo: one workspace a conversation
python benchmarks/convert.py halves FOLDER TARGET           a collection of one workspace, split in two, so that each
                                                            half can be asked what only the other one knows
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
TURN = re.compile(r"D\d+:\d+")
HALVES = ("first", "second")

Place = dict[str, Any]


def main() -> int:
    makers = {"locomo": locomo, "halves": halves}
    if len(sys.argv) != 4 or sys.argv[1] not in makers:
        raise SystemExit(__doc__)
    makers[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    return 0


def locomo(source: Path, target: Path) -> None:
    questions = []
    for sample in json.loads(source.read_text(encoding="utf-8")):
        questions += convert(sample, target / sample["sample_id"])
    lines = [json.dumps(question, ensure_ascii=False) for question in questions]
    (target / "all_questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(questions)} questions, {sum(question['scorable'] for question in questions)} of them with an answer")


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


def halves(source: Path, target: Path) -> None:
    [root] = [entry.parent for entry in source.glob("*/map.json")]
    half_of = {
        path.relative_to(root).as_posix(): HALVES[nth % 2] for nth, path in enumerate(sorted(root.rglob("*.md")))
    }
    sessions = json.loads((root / "map.json").read_text(encoding="utf-8"))["sessions"]
    for path, half in half_of.items():
        (target / half / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target / half / path)
    for half in HALVES:
        known = {name: place for name, place in sessions.items() if half_of[place["file"]] == half}
        (target / half / "map.json").write_text(json.dumps({"sessions": known}, ensure_ascii=False), encoding="utf-8")
    lines = (source / "all_questions.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [placed for line in lines if (placed := _placed(json.loads(line), half_of))]
    text = "".join(json.dumps(question, ensure_ascii=False) + "\n" for question in kept)
    (target / "all_questions.jsonl").write_text(text, encoding="utf-8")
    print(f"{len(kept)} of {len(lines)} questions have their answer in one half")


def _placed(question: dict[str, Any], half_of: dict[str, str]) -> dict[str, Any] | None:
    """The question to the half that has its whole answer; None if both have a part of it, or none has any."""
    halves = {half_of[place["file"]] for place in question["gold_sessions"]}
    return {**question, "haystack": halves.pop()} if question["scorable"] and len(halves) == 1 else None


if __name__ == "__main__":
    sys.exit(main())
