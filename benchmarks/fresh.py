"""How soon an edit is found: from the return of the write to the first answer that has it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from figures import Figure, spread
from home import Home
from store import Store

from memd.errors import MemdError
from memd.protocol.client import Client

TEXT_EDITS = 60
TEXT_WITHIN, VECTOR_WITHIN = 250, 1_000
PATIENCE = 20.0
FIRST_HITS = 10
PAUSE = (0.3, 0.9)
"""Seconds between two edits: long enough for the writer to rest, so that each edit stands alone."""

Edit = Callable[[Path, str], None]
FACTS = """The lighthouse keeper grows strawberries in old paint buckets.
My grandmother won the accordion contest in Ljubljana.
Submarines need a licence to enter the fjord after midnight.
The beekeeper lost eleven hives to the flood.
A glacier swallowed the film crew's second helicopter.
Penguins do not like the smell of fresh varnish.
The chess club meets in the boiler room of the opera.
Marmalade was smuggled inside hollow encyclopedias.
Her telescope is aimed at the neighbour's aquarium.
The mayor promised a cable car to the cemetery.
Camels are weighed before they may cross the bridge.
We buried the time capsule under the tennis court.
The volcano insurance does not cover wedding cakes.
Somebody taught the parrot to imitate the fire alarm.
The violinist is allergic to her own instrument.
All elevators in the tower stop for one minute at noon.
Their tractor runs on oil from the fish restaurant.
The crossword of Thursday contained a marriage proposal.
Snow fell inside the greenhouse during the eclipse.
The tailor sews secret pockets for magicians.
An otter moved into the swimming pool of the embassy.
The carousel horses were carved by prisoners of war.
He translated the whole cookbook into Esperanto.
Lightning struck the same scarecrow three summers in a row.""".splitlines()
"""Things that no other note is about, so that a search by meaning has one right answer."""


def measure(store: Store) -> list[Figure]:
    home = store.home
    try:
        client = home.start()
        home.ready(client)
        trial = Trial(home, client, random.Random(time.time_ns()))
        text = _text_times(trial)
        home.ready(client)
        vector = _vector_times(trial)
    finally:
        home.stop()
    failed = Figure("questions meanwhile that failed", trial.failed, "", most=0, note=trial.why)
    return [*text, *vector, failed]


class Ask(NamedTuple):
    """A question, and what the text of one of its hits must hold."""

    query: str
    wanted: str
    mode: str


class Trial:
    """Edits notes and asks for them, over one connection."""

    def __init__(self, home: Home, client: Client, rng: random.Random) -> None:
        self.notes = sorted((home.workspace / "memory").glob("2*.md"))
        self.client = client
        self.rng = rng
        self.failed, self.why = 0, ""

    def one(self, edit: Edit, text: str, ask: Ask, pause: float) -> float:
        """Edit some daily note and ask until the answer has it; milliseconds."""
        time.sleep(self.rng.uniform(*PAUSE))
        edit(self.rng.choice(self.notes), text)
        written = time.monotonic()
        while not self.found(ask):
            if time.monotonic() - written > PATIENCE:
                raise RuntimeError(f"an edit was not found within {PATIENCE} s by {ask}")
            time.sleep(pause)
        return (time.monotonic() - written) * 1000

    def found(self, ask: Ask) -> bool:
        try:
            answer = self.client.query(ask.query, mode=ask.mode, sync="none", limit=FIRST_HITS)
        except MemdError as error:
            self.failed, self.why = self.failed + 1, error.message
            return False
        return any(ask.wanted in hit["text"] for hit in answer["hits"])


def _text_times(trial: Trial) -> list[Figure]:
    words = ["zq" + "".join(trial.rng.choices("bdfghklmnprstvw", k=10)) for _ in range(TEXT_EDITS)]
    times: dict[str, list[float]] = {}
    for nth, word in enumerate(words):
        edit = (append, in_place)[nth % 2]
        took = trial.one(edit, f"The parcel {word} is in the hall.", Ask(word, word, "text"), 0.005)
        times.setdefault(edit.__name__, []).append(took)
    both = [took for part in times.values() for took in part]
    figures = spread("edit → text query", both, p95=TEXT_WITHIN, note="sync none, half appended, half in place")
    return figures + [spread(f"  {kind.replace('_', ' ')}", part)[1] for kind, part in times.items()]


def _vector_times(trial: Trial) -> list[Figure]:
    times = []
    for nth, fact in enumerate(FACTS):
        unique = f"{fact} ({trial.rng.randrange(10**6)})"
        times.append(trial.one((append_section, rewrite_section)[nth % 2], unique, Ask(fact, unique, "vector"), 0.01))
    return spread("edit → vector query", times, p95=VECTOR_WITHIN, note="the real model")


def append(file: Path, text: str) -> None:
    """An agent adds to its note of the day."""
    with file.open("a", encoding="utf-8") as note:
        note.write(f"\n{text}\n")


def in_place(file: Path, text: str) -> None:
    """An editor changes a paragraph in the middle and writes the whole file again."""
    blocks = file.read_text(encoding="utf-8").split("\n\n")
    prose = [place for place, block in enumerate(blocks) if block[:1].isalpha()]
    place = prose[len(prose) // 2] if prose else len(blocks) // 2
    blocks[place] = text
    file.write_text("\n\n".join(blocks), encoding="utf-8")


def append_section(file: Path, text: str) -> None:
    append(file, f"## Also\n\n{text}")


def rewrite_section(file: Path, text: str) -> None:
    """A section in the middle gets another body; a sentence lost in a long chunk would test the model instead."""
    sections = file.read_text(encoding="utf-8").split("\n## ")
    heading = sections[len(sections) // 2].split("\n")[0]
    sections[len(sections) // 2] = f"{heading}\n\n{text}\n"
    file.write_text("\n## ".join(sections), encoding="utf-8")
