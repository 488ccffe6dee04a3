"""A long life in a short time: edits, notes, questions and clients that come and go, with memory and descriptors drawn.

python benchmarks/long_run.py [--minutes 60] [--picture docs/pictures/long-run.svg]
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from pathlib import Path

from home import Home, workplace

FILES = 40
SECTIONS = 10
WIDTH, HEIGHT, EDGE = 640, 150, 50


@dataclass(frozen=True)
class Look:
    """What the daemon holds at one moment."""

    minutes: float
    memory_mb: float
    descriptors: int


def look(home: Home, began: float) -> Look:
    process = Path(f"/proc/{home.pid}")
    resident = next(line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS"))
    count = len(list((process / "fd").iterdir()))
    return Look((time.monotonic() - began) / 60, int(resident.split()[1]) / 1024, count)


def text(file: int, version: int) -> str:
    """A note whose size stays and whose words change."""
    parts = (f"## Part {part}\n\nbird{(version * 7 + part) % 997} seen by {file}.\n" for part in range(SECTIONS))
    return f"# Note {file}\n\n" + "\n".join(parts)


def live(home: Home, minutes: float, every: float) -> tuple[list[Look], dict[str, int]]:
    """Do what a day brings, over and over; a look now and then."""
    chance, began, looks = random.Random(5), time.monotonic(), list[Look]()
    done = {"edits": 0, "questions": 0, "notes": 0}
    while (passed := time.monotonic() - began) < minutes * 60:
        with home.client() as client:
            for _ in range(20):
                file = chance.randrange(FILES)
                (home.workspace / "memory" / f"{file}.md").write_text(text(file, done["edits"]))
                done["edits"] += 1
                for _ in range(4):
                    client.query(f"bird{chance.randrange(997)}", sync="none")
                    done["questions"] += 1
            client.put("log", f"round {done['edits']}")
            done["notes"] += 1
        if passed >= len(looks) * every:
            looks.append(look(home, began))
    looks.append(look(home, began))
    return looks, done


# --- the picture ------------------------------------------------------------------------------------------------


def panel(title: str, points: list[tuple[float, float]], top: int) -> str:
    """One line over time, from zero."""
    last, most = points[-1][0], max(value for _, value in points)
    line = " ".join(
        f"{EDGE + x / last * (WIDTH - 2 * EDGE):.1f},{top + HEIGHT - 30 - y / most * (HEIGHT - 60):.1f}"
        for x, y in points
    )
    low, right = top + HEIGHT - 30, WIDTH - EDGE
    return (
        f'<text x="{EDGE}" y="{top + 18}">{title}</text>'
        f'<path d="M{EDGE} {top + 25}V{low}H{right}" fill="none" stroke="#888"/>'
        f'<text x="{EDGE - 6}" y="{top + 34}" text-anchor="end">{most:.0f}</text>'
        f'<text x="{EDGE - 6}" y="{low}" text-anchor="end">0</text>'
        f'<text x="{right}" y="{low + 15}" text-anchor="end">{last:.0f} min</text>'
        f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="1.5"/>'
    )


def picture(looks: list[Look]) -> str:
    memory = panel("memory of the daemon, MB", [(one.minutes, one.memory_mb) for one in looks], 0)
    files = panel("open descriptors", [(one.minutes, one.descriptors) for one in looks], HEIGHT)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>{memory}{files}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    with workplace(None) as place, Home(place) as home:
        home.configure()
        (home.workspace / "memory").mkdir()
        for file in range(FILES):
            (home.workspace / "memory" / f"{file}.md").write_text(text(file, 0))
        home.start(MEMD_TEST_EMBEDDER="hash").sync(vectors=True)
        looks, done = live(home, given.minutes, given.minutes * 60 / 120)
    for name, values in (
        ("memory, MB", [one.memory_mb for one in looks]),
        ("descriptors", [float(one.descriptors) for one in looks]),
    ):
        first, quarter, last = values[0], values[len(values) // 4], values[-1]
        print(f"{name}: start {first:.0f}, a quarter {quarter:.0f}, end {last:.0f}, most {max(values):.0f}")
    print(", ".join(f"{count:,} {name}" for name, count in done.items()))
    if given.picture:
        given.picture.parent.mkdir(parents=True, exist_ok=True)
        given.picture.write_text(picture(looks))


if __name__ == "__main__":
    main()
