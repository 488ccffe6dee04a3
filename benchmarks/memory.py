"""Whether memory stays flat while notes are edited and questions asked: a table by the edits, the bounds, a picture.

python benchmarks/memory.py [--files 200] [--edits 12000] [--minutes 10] [--model] [--picture FILE.svg]

A fifth of the edits are `put`, the others files that an editor saves; meanwhile somebody asks without a pause, over
connections that come and go. In the first half caches fill up and what is loaded late is loaded; in the second half
nothing may grow. `--model` runs the real model instead of the hash embedder. `--picture` draws memory, open descriptors
and segments of the text index over the time.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from figures import Figure, table
from fresh import FACTS
from home import Home, workplace

from memd.protocol.client import Client

WORDS = " ".join(FACTS).split()
KINDS = {"readers.process": "readers", "chroma_process": "chroma"}
"""The kinds of the daemon's children, by a word of their command line."""
MOST_GROWTH = 1.1
"""How much larger each may be at the end than half-way."""
PER_CONNECTION = 8
ROUND = 50
PUTS = 10
ROWS = 24

WIDTH, HEIGHT, EDGE = 640, 150, 50
"""The size of a picture's panel."""


@dataclass(frozen=True)
class Row:
    """The memory of memd after so many edits and questions."""

    edits: int
    questions: int
    seconds: float
    memory: dict[str, float]
    """The MB of each kind of process."""
    descriptors: int
    """Those of the process that has most."""
    segments: int
    """Those of the text index."""


class Asker(threading.Thread):
    """Asks until it is told to end, with a new connection now and then."""

    def __init__(self, home: Home) -> None:
        super().__init__(daemon=True)
        self.home = home
        self.asked = 0
        self.ends = threading.Event()

    def run(self) -> None:
        rng = random.Random(8)
        while not self.ends.is_set():
            with self.home.client() as client:
                for _ in range(PER_CONNECTION):
                    client.query(" ".join(rng.sample(WORDS, 3)), ns="notes", observe=False)
                    self.asked += 1


def main() -> int:
    options = _options()
    with workplace(None) as place, Home(place / "home") as home:
        home.configure()
        rng = random.Random(7)
        for nth in range(options.files):
            _write(home, nth, rng)
        client = home.start(**({} if options.model else {"MEMD_TEST_EMBEDDER": "tests.hash_embedder:HashEmbedder"}))
        client.sync(vectors=True)
        asker = Asker(home)
        asker.start()
        rows = measure(home, client, rng, asker, options)
        asker.ends.set()
        asker.join()
    if options.picture:
        options.picture.write_text(picture(rows))
    figures = _figures(rows)
    print("\n" + table("Memory under edits", figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def measure(home: Home, client: Client, rng: random.Random, asker: Asker, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    began, edits, every = time.monotonic(), 0, max(ROUND, options.edits // ROWS)
    print("    edits  questions  seconds  daemon MB readers MB  chroma MB descriptors segments")
    while edits < options.edits and time.monotonic() - began < options.minutes * 60:
        for _ in range(ROUND - PUTS):
            _write(home, rng.randrange(options.files), rng)
        client.sync()
        for _ in range(PUTS):
            client.put(f"topic-{rng.randrange(options.files)}", _text(rng), ns="notes")
        edits += ROUND
        if edits % every < ROUND:
            assert asker.is_alive(), "a question failed"
            rows.append(look(home, edits, asker.asked, time.monotonic() - began))
            print(_line(rows[-1]), flush=True)
    return rows


def look(home: Home, edits: int, questions: int, seconds: float) -> Row:
    descriptors = 0
    for pid in home.processes():
        with suppress(OSError):
            descriptors = max(descriptors, len(list(Path(f"/proc/{pid}/fd").iterdir())))
    segments = len(list((home.state / "text").glob("*/*.trm")))
    return Row(edits, questions, seconds, memory_by_kind(home), descriptors, segments)


def memory_by_kind(home: Home) -> dict[str, float]:
    """Anonymous memory in MB of the daemon and of its children, by kind."""
    megabytes = {"daemon": 0.0, "readers": 0.0, "chroma": 0.0}
    for pid in home.processes():
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_text()
            kind = next((kind for word, kind in KINDS.items() if word in command), "daemon")
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            megabytes[kind] += sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024 / 1e6
    return megabytes


def _figures(rows: list[Row]) -> list[Figure]:
    last = rows[-1]
    half = next(row for row in rows if row.edits >= last.edits / 2)
    return [
        Figure(
            f"{kind}, {last.edits:,} edits over {half.edits:,}", last.memory[kind] / max(1.0, half.memory[kind]),
            unit="×", most=MOST_GROWTH, note=f"{half.memory[kind]:.0f} → {last.memory[kind]:.0f} MB",
        )
        for kind in ("daemon", "readers")
    ]  # fmt: skip


def _line(row: Row) -> str:
    held = " ".join(f"{row.memory[kind]:10.1f}" for kind in ("daemon", "readers", "chroma"))
    return f"{row.edits:9,} {row.questions:10,} {row.seconds:8.0f} {held} {row.descriptors:11} {row.segments:8}"


def _write(home: Home, nth: int, rng: random.Random) -> None:
    file = home.workspace / "memory" / f"note-{nth}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    sections = "\n\n".join(f"## Part {part}\n\n{_text(rng)}" for part in range(6))
    file.write_text(f"# Note {nth}\n\n{sections}\n")


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=60))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--edits", type=int, default=12_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--model", action="store_true", help="the real model")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw what memd held over the time")
    return parser.parse_args()


# --- the picture ------------------------------------------------------------------------------------------------


def panel(title: str, points: list[tuple[float, float]], top: int) -> str:
    """One line over time, from zero."""
    last, most = points[-1][0], max(value for _, value in points) or 1
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


def picture(rows: list[Row]) -> str:
    panels: dict[str, list[float]] = {
        "memory of the daemon, MB": [row.memory["daemon"] for row in rows],
        "memory of the readers, MB": [row.memory["readers"] for row in rows],
        "open descriptors of the process that has most": [row.descriptors for row in rows],
        "segments of the text index": [row.segments for row in rows],
    }
    return draw([row.seconds / 60 for row in rows], panels)


def draw(minutes: list[float], panels: dict[str, list[float]]) -> str:
    """Each list of values as a line over the minutes, one below the other under their titles."""
    drawn = [
        panel(title, list(zip(minutes, values, strict=True)), nth * HEIGHT)
        for nth, (title, values) in enumerate(panels.items())
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(drawn) * HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>{"".join(drawn)}</svg>\n'
    )


if __name__ == "__main__":
    sys.exit(main())
