"""A long life in a short time: edits, questions and clients that come and go; draws what memd holds meanwhile.

python benchmarks/long_run.py [--minutes 60] [--picture docs/pictures/long-run.svg]
"""

from __future__ import annotations

import argparse
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from home import Home, workplace
from memory import memory_by_kind

FILES = 200
SECTIONS = 10
ROUND = 4
"""Files that are saved before twice as many questions are asked."""
WIDTH, HEIGHT, EDGE = 640, 150, 50


@dataclass(frozen=True)
class Look:
    """What memd holds at one moment."""

    minutes: float
    daemon_mb: float
    readers_mb: float
    descriptors: int
    """Of the process that has most."""
    segments: int
    """Of the text index."""


def look(home: Home, began: float) -> Look:
    memory = memory_by_kind(home)
    descriptors = 0
    for pid in home.processes():
        with suppress(OSError):
            descriptors = max(descriptors, len(list(Path(f"/proc/{pid}/fd").iterdir())))
    segments = len(list((home.state / "text").glob("*/*.trm")))
    return Look((time.monotonic() - began) / 60, memory["daemon"], memory["readers"], descriptors, segments)


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
            for file in chance.sample(range(FILES), ROUND):
                (home.workspace / "memory" / f"{file}.md").write_text(text(file, done["edits"]))
                done["edits"] += 1
            for nth in range(2 * ROUND):
                # The first one waits for the edits: they must not be overtaken by the next round's.
                client.query(f"bird{chance.randrange(997)}", sync="none" if nth else "auto")
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


def panels(looks: list[Look]) -> dict[str, list[float]]:
    return {
        "memory of the daemon, MB": [one.daemon_mb for one in looks],
        "memory of the readers, MB": [one.readers_mb for one in looks],
        "open descriptors of the process that has most": [float(one.descriptors) for one in looks],
        "segments of the text index": [float(one.segments) for one in looks],
    }


def picture(looks: list[Look]) -> str:
    drawn = [
        panel(title, list(zip([one.minutes for one in looks], values, strict=True)), nth * HEIGHT)
        for nth, (title, values) in enumerate(panels(looks).items())
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(drawn) * HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>{"".join(drawn)}</svg>\n'
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
    for name, values in panels(looks).items():
        first, half, last = values[0], values[len(values) // 2], values[-1]
        print(f"{name}: start {first:.0f}, half-way {half:.0f}, end {last:.0f}, most {max(values):.0f}")
    print(", ".join(f"{count:,} {name}" for name, count in done.items()))
    if given.picture:
        given.picture.parent.mkdir(parents=True, exist_ok=True)
        given.picture.write_text(picture(looks))


if __name__ == "__main__":
    main()
