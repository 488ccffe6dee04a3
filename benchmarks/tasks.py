"""Scores `context` on the labelled tasks of the example notes: is what they need there, and how much else is.

python benchmarks/tasks.py [--budget 2000] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from home import Home, workplace
from retrieval import markdown

EXAMPLES = Path(__file__).parent.parent / "examples"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budget", type=int, default=2_000)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the index there and use it again")
    options = parser.parse_args()
    lines = (EXAMPLES / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    tasks = [json.loads(line) for line in lines]
    with workplace(options.keep) as place, Home(place / "home") as home:
        shutil.copytree(EXAMPLES / "workspace", home.workspace, dirs_exist_ok=True)
        home.configure()
        client = home.start()
        client.sync(vectors=True)
        told = [
            score(set(task["needs"]), client.context(task["task"], budget=options.budget, observe=False))
            for task in tasks
        ]
    names = list(told[0])
    means = [sum(one[name] for one in told) / len(told) for name in names]
    print(markdown(["tasks", *names], [[str(len(tasks)), *(f"{mean:.3f}".lstrip("0") for mean in means)]]))
    return 0


def score(needs: set[str], answer: dict[str, Any]) -> dict[str, float]:
    """Which of a task's needs are there, whether one of them comes first, and their share of what is not pinned."""
    memories = answer["memories"]
    about = [one for one in memories if one["phase"] != "pinned" or one["key"] in needs]
    tokens = sum(one["tokens"] for one in about)
    needed = sum(one["tokens"] for one in about if one["key"] in needs)
    return {
        "needed": len(needs & {one["key"] for one in memories}) / len(needs),
        "first": float(bool(memories) and memories[0]["key"] in needs),
        "share": needed / tokens if tokens else 0.0,
        "tokens": float(answer["tokens"]),
    }


if __name__ == "__main__":
    sys.exit(main())
