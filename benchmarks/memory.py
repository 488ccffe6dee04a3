"""Whether memory stays flat while notes are edited and questions asked: a table by the edits, and the bounds.

python benchmarks/memory.py [--files 200] [--edits 12000] [--minutes 10] [--model]

A fifth of the edits are `put`, the others files that an editor saves; meanwhile somebody asks without a pause. In the
first half caches fill up and what is loaded late is loaded; in the second half nothing may grow. `--model` runs the
real model instead of the hash embedder.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from figures import Figure, table
from fresh import FACTS
from home import Home, workplace

from memd.protocol.client import Client

WORDS = " ".join(FACTS).split()
KINDS = {"readers.process": "readers", "chroma_process": "chroma"}
"""Of the daemon's children, by a word of their command line."""
MOST_GROWTH = 1.1
"""How much larger each may be at the end than half-way."""
ROUND = 50
PUTS = 10
ROWS = 24

Row = tuple[int, int, float, dict[str, float]]
"""How many edits and questions, after how many seconds, and the MB of each kind of process."""


class Asker(threading.Thread):
    """Asks until it is told to end."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.asked = 0
        self.ends = threading.Event()

    def run(self) -> None:
        rng = random.Random(8)
        while not self.ends.is_set():
            self.client.query(" ".join(rng.sample(WORDS, 3)), ns="notes", observe=False)
            self.asked += 1


def main() -> int:
    options = _options()
    with workplace(None) as place, Home(place / "home") as home:
        home.configure()
        rng = random.Random(7)
        for nth in range(options.files):
            _write(home, nth, rng)
        client = home.start(**({} if options.model else {"MEMD_TEST_EMBEDDER": "hash"}))
        client.sync(vectors=True)
        asker = Asker(home.client())
        asker.start()
        rows = measure(home, client, rng, asker, options)
        asker.ends.set()
        asker.join()
    figures = _figures(rows)
    print("\n" + table("Memory under edits", figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def measure(home: Home, client: Client, rng: random.Random, asker: Asker, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    began, edits, every = time.monotonic(), 0, max(ROUND, options.edits // ROWS)
    print("    edits  questions  seconds  daemon MB readers MB  chroma MB")
    while edits < options.edits and time.monotonic() - began < options.minutes * 60:
        for _ in range(ROUND - PUTS):
            _write(home, rng.randrange(options.files), rng)
        client.sync()
        for _ in range(PUTS):
            client.put(f"topic-{rng.randrange(options.files)}", _text(rng), ns="notes")
        edits += ROUND
        if edits % every < ROUND:
            assert asker.is_alive(), "a question failed"
            rows.append((edits, asker.asked, time.monotonic() - began, memory_by_kind(home)))
            print(_line(rows[-1]), flush=True)
    return rows


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
    half = next(row for row in rows if row[0] >= rows[-1][0] / 2)
    return [
        Figure(
            f"{kind}, {rows[-1][0]:,} edits over {half[0]:,}", rows[-1][-1][kind] / max(1.0, half[-1][kind]),
            unit="×", most=MOST_GROWTH, note=f"{half[-1][kind]:.0f} → {rows[-1][-1][kind]:.0f} MB",
        )
        for kind in ("daemon", "readers")
    ]  # fmt: skip


def _line(row: Row) -> str:
    edits, questions, seconds, memory = row
    return f"{edits:9,} {questions:10,} {seconds:8.0f} " + " ".join(
        f"{memory[kind]:10.1f}" for kind in ("daemon", "readers", "chroma")
    )


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
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
