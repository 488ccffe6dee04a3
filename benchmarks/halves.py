"""Splits a collection of one workspace in two, so that each half can be asked what only the other one knows.

python benchmarks/halves.py FOLDER TARGET
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

HALVES = ("first", "second")


def main() -> int:
    source, target = map(Path, sys.argv[1:])
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
    return 0


def _placed(question: dict[str, Any], half_of: dict[str, str]) -> dict[str, Any] | None:
    """The question to the half that has its whole answer; None if both have a part of it, or none has any."""
    halves = {half_of[place["file"]] for place in question["gold_sessions"]}
    return {**question, "haystack": halves.pop()} if question["scorable"] and len(halves) == 1 else None


if __name__ == "__main__":
    sys.exit(main())
