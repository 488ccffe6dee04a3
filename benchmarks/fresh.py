"""How soon an edit is found: from the return of the write to the first answer that has it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure, spread
from home import Home
from store import Store

from memd.protocol.client import Client

TEXT_EDITS = 60
VECTOR_EDITS = 24
TEXT_WITHIN, VECTOR_WITHIN = 250, 1_000
PATIENCE = 20.0
PAUSE = (0.3, 0.9)
"""Seconds between two edits: long enough for the writer to rest, so that each edit stands alone."""

Edit = Callable[[Path, str], None]
SCENES = "lighthouse submarine orchestra volcano beekeeper glacier chessboard telescope windmill circus".split()
ACTS = "melted whispered vanished collided flowered evaporated trembled sang drifted exploded".split()
PLACES = "Reykjavik Samarkand Patagonia Zanzibar Ljubljana Tasmania Marrakesh Svalbard".split()


def measure(store: Store) -> list[Figure]:
    home = store.home
    try:
        client = home.start()
        home.ready(client)
        rng = random.Random(3)
        text = _text_times(home, client, rng)
        home.ready(client)
        vector = _vector_times(home, client, rng)
    finally:
        home.stop()
    return text + vector


def _text_times(home: Home, client: Client, rng: random.Random) -> list[Figure]:
    words = [f"zqx{rng.getrandbits(40):010x}" for _ in range(TEXT_EDITS)]
    times: dict[str, list[float]] = {}
    for nth, word in enumerate(words):
        edit = (append, in_place)[nth % 2]
        took = _one(home, client, rng, edit, f"The parcel {word} is in the hall.", word, "text", 0.001)
        times.setdefault(edit.__name__, []).append(took)
    both = [took for part in times.values() for took in part]
    figures = spread("edit → text query", both, p95=TEXT_WITHIN, note="sync none, half appended, half in place")
    return figures + [spread(f"  {kind.replace('_', ' ')}", part)[1] for kind, part in times.items()]


def _vector_times(home: Home, client: Client, rng: random.Random) -> list[Figure]:
    times = []
    for nth in range(VECTOR_EDITS):
        sentence = _sentence(rng, nth)
        times.append(_one(home, client, rng, (append, in_place)[nth % 2], sentence, sentence, "vector", 0.01))
    return spread("edit → vector query", times, p95=VECTOR_WITHIN, note="the real model")


def _sentence(rng: random.Random, nth: int) -> str:
    scene, other = rng.sample(SCENES, 2)
    return f"On day {nth + 1} the {scene} {rng.choice(ACTS)} beside the {other} of {rng.choice(PLACES)}."


def _one(
    home: Home, client: Client, rng: random.Random, edit: Edit, text: str, wanted: str, mode: str, pause: float
) -> float:
    """Edit some daily note and ask until the answer has it; milliseconds."""
    time.sleep(rng.uniform(*PAUSE))
    edit(rng.choice(sorted((home.workspace / "memory").glob("2*.md"))), text)
    written = time.monotonic()
    while not _found(client.query(wanted, mode=mode, sync="none"), wanted):
        if time.monotonic() - written > PATIENCE:
            raise RuntimeError(f"an edit was not found within {PATIENCE} s (mode {mode})")
        time.sleep(pause)
    return (time.monotonic() - written) * 1000


def _found(answer: dict[str, Any], wanted: str) -> bool:
    return any(wanted in hit["text"] for hit in answer["hits"])


def append(file: Path, text: str) -> None:
    """What an agent does with its note of the day."""
    with file.open("a", encoding="utf-8") as note:
        note.write(f"\n{text}\n")


def in_place(file: Path, text: str) -> None:
    """What an editor does: a paragraph in the middle changes and the whole file is written again."""
    blocks = file.read_text(encoding="utf-8").split("\n\n")
    prose = [place for place, block in enumerate(blocks) if block[:1].isalpha()]
    place = prose[len(prose) // 2] if prose else len(blocks) // 2
    blocks[place] = f"{blocks[place].rstrip()} {text}"
    file.write_text("\n\n".join(blocks), encoding="utf-8")
