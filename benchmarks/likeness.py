"""How near memories are to each other that say the same, nearly the same, or nothing in common.

The thresholds for linking, merging and laying aside are read from it.

python benchmarks/likeness.py [FOLDER] [--pairs 300] [--seed 5] [--json FILE]

Pairs of notes are generated from a seed; with the FOLDER of a labelled collection also taken from there: passages that
answer the same question are related, passages of different questions are not.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from collection import Collection, load
from corpus import PEOPLE, THINGS
from numpy.typing import NDArray

from memd.exam import LineSpan
from memd.indexer.lifecycle.similarity import DEDUP, LINK, MERGE, mean_of, same_words, similarity
from memd.indexer.model.embedder import Embedder, load_granite
from memd.indexer.model.pooling import Vectors
from memd.indexer.store.vector_table import embedded_text
from memd.notes.parse import parse

Pair = tuple[str, str]
Made = Callable[[random.Random], Pair]

SHARES = (1, 5, 25, 50, 75, 95, 99)

SUBJECTS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (
        ("The {thing} of {name} is kept in the cellar, on the {n}th shelf from the door.",
         "You find {name}'s {thing} downstairs: it stands on shelf number {n}, counted from the door.",
         "{name} stores the {thing} in the basement, {n} shelves in."),
        ("{name} wants to sell the {thing} before the summer and asks {m} euros for it.",
         "The {thing} is for sale until summer; {name} would like {m} euros.",
         "By the start of summer {name} hopes to get rid of the {thing} for {m} euros."),
    ),
    (
        ("The nightly job copies the {thing} data to {host} at {n} o'clock and keeps {m} days of it.",
         "Every night at {n}, what belongs to the {thing} is backed up to {host}; copies older than {m} days go.",
         "{host} receives a copy of all {thing} files each night ({n}:00), with {m} days of history."),
        ("If the disk of {host} fills up, delete old {thing} exports first and tell {name}.",
         "When {host} runs out of space, the {thing} exports are the first to go; let {name} know.",
         "A full disk on {host}: remove {thing} exports, then inform {name}."),
    ),
    (
        ("{name} is allergic to penicillin and carries a card that says so.",
         "Penicillin makes {name} ill; there is a note about it in the wallet.",
         "Never give {name} penicillin: allergy, see the card."),
        ("{name} goes to the dentist on the {n}th and needs someone to drive home.",
         "On the {n}th there is a dentist's appointment for {name}, who must be picked up afterwards.",
         "Dentist for {name} on day {n}; a lift home is needed."),
    ),
    (
        ("We decided to use {host} for the {thing} service because it restarts faster than the old machine.",
         "The {thing} service moves to {host}: the machine we had took too long to come back up.",
         "Decision: {host} hosts the {thing}, chosen for its quick restart."),
        ("The {thing} service answers on port {port} and needs the header X-{name}-Token.",
         "Requests to the {thing} go to port {port}, with X-{name}-Token as a header.",
         "Port {port} is where the {thing} listens; send X-{name}-Token along."),
    ),
    (
        ("{name} prefers short answers with one example and no greeting.",
         "Keep replies to {name} brief: one example, no hello.",
         "When writing to {name}, leave out greetings and be concise, with a single example."),
        ("{name} works from nine to three and does not read messages on Fridays.",
         "On Fridays {name} is not reachable; otherwise between nine and three.",
         "Working hours of {name}: 9 to 15, never on a Friday."),
    ),
    (
        ("The {thing} leaks when it rains from the west; the seal behind it has to be replaced.",
         "Westerly rain gets in at the {thing}, so a new seal is needed at its back.",
         "Replace the seal at the back of the {thing}: water comes in with rain from the west."),
        ("A new {thing} was ordered from {host} for {m} euros and should arrive within {n} days.",
         "{host} will deliver the {thing} in about {n} days; it cost {m} euros.",
         "Ordered: one {thing}, {m} euros, from {host}, expected in {n} days."),
    ),
    (
        ("Tests of the {thing} module fail on leap days, as the fixture counts 365 days.",
         "On a 29th of February the {thing} tests break: the fixture assumes years of 365 days.",
         "The fixture of the {thing} tests has no leap years, which makes them fail on such days."),
        ("To build the {thing} module run make {host} and wait {n} minutes for the cache.",
         "make {host} builds the {thing} module; filling the cache takes {n} minutes.",
         "Building {thing}: use make {host}; expect {n} minutes while the cache is filled."),
    ),
    (
        ("The starter for the {thing} bread is fed with rye every {n} days.",
         "Feed rye to the {thing} bread's starter, once in {n} days.",
         "Every {n} days the sourdough of the {thing} bread gets rye flour."),
        ("{name} baked the {thing} bread at {m} degrees and found the crust too dark.",
         "At {m} degrees the crust of {name}'s {thing} bread came out too dark.",
         "Too dark a crust: {name} had the oven at {m} degrees for the {thing} bread."),
    ),
)  # fmt: skip
"""Subjects, each with facts, each in several wordings."""

TRIVIAL: tuple[Callable[[str], str], ...] = (
    lambda text: text.replace(".", "").replace(";", ","),
    lambda text: f"**{text.split()[0]}** {' '.join(text.split()[1:])}",
    lambda text: text[0].lower() + text[1:],
    lambda text: f"- {text}",
    lambda text: "\n".join(part.strip() for part in re.split(r"(?<=[,;:])", text)),
    lambda text: f"Note: {text}",
)


def filled(wording: str, slots: dict[str, str]) -> str:
    return wording.format(**slots)


def drawn(rng: random.Random) -> dict[str, str]:
    thing, name = rng.choice(THINGS.split()), rng.choice(PEOPLE.split())
    host = rng.choice("fjord tarn skerry kelp gneiss moraine heron plover curlew dunlin".split())
    return {"thing": thing, "name": name, "host": host, "n": str(rng.randrange(2, 28)),
            "m": str(rng.randrange(30, 900)), "port": str(rng.randrange(1024, 65000))}  # fmt: skip


def trivial(rng: random.Random) -> Pair:
    text = filled(rng.choice(rng.choice(rng.choice(SUBJECTS))), drawn(rng))
    return text, rng.choice(TRIVIAL)(text)


def paraphrase(rng: random.Random) -> Pair:
    slots = drawn(rng)
    one, other = rng.sample(rng.choice(rng.choice(SUBJECTS)), 2)
    return filled(one, slots), filled(other, slots)


def number(rng: random.Random) -> Pair:
    """The same sentence with another number in it."""
    wording = rng.choice(
        [one for facts in SUBJECTS for fact in facts for one in fact if re.search(r"\{(n|m|port)\}", one)]
    )
    slots = drawn(rng)
    others = {**drawn(rng), **{name: slots[name] for name in ("thing", "name", "host")}}
    return filled(wording, slots), filled(wording, others)


def fact(rng: random.Random) -> Pair:
    """Two facts about the same thing and the same people."""
    slots = drawn(rng)
    one, other = rng.sample(rng.choice(SUBJECTS), 2)
    return filled(rng.choice(one), slots), filled(rng.choice(other), slots)


def form(rng: random.Random) -> Pair:
    """The same sentence about somebody or something else."""
    wording = rng.choice(rng.choice(rng.choice(SUBJECTS)))
    return filled(wording, drawn(rng)), filled(wording, drawn(rng))


def unrelated(rng: random.Random) -> Pair:
    one, other = rng.sample(SUBJECTS, 2)
    return filled(rng.choice(rng.choice(one)), drawn(rng)), filled(rng.choice(rng.choice(other)), drawn(rng))


CLASSES: dict[str, Made] = {
    "trivial edit": trivial,
    "other number": number,
    "paraphrase": paraphrase,
    "same form, other subject": form,
    "same subject, other fact": fact,
    "unrelated": unrelated,
}


# --- a labelled collection ------------------------------------------------------------------------------------


def labelled(collection: Collection, rng: random.Random, count: int) -> dict[str, list[Pair]]:
    """Passages that answer one question, and passages that answer different ones."""
    answers: list[list[str]] = []
    for haystack in collection.haystacks:
        for question in haystack.scorable:
            spans = question.turns or question.sessions
            texts = [_lines(haystack.root, span) for span in spans]
            # A claim stands for a passage of its own where it has no other beside its answer.
            answers.append([*texts, *([question.text] if not question.turns else [])])
    together = [pair for texts in answers for pair in combinations(texts, 2) if pair[0] != pair[1]]
    rng.shuffle(together)
    together = together[:count]
    # Every two of them: what is rare is what counts here, and comparing costs nothing.
    firsts = list(dict.fromkeys(rng.choice(texts) for texts in rng.sample(answers, min(count, len(answers)))))
    of = {text: nth for nth, texts in enumerate(answers) for text in texts}
    apart = [pair for pair in combinations(firsts, 2) if of[pair[0]] != of[pair[1]]]
    return {"answers to one question": together, "answers to two questions": apart}


def _lines(root: Path, span: LineSpan) -> str:
    lines = (root / span.path).read_text(encoding="utf-8").split("\n")
    return "\n".join(lines[span.start - 1 : span.end])


# --- measuring ------------------------------------------------------------------------------------------------


def vectors_of(model: Embedder, texts: Sequence[str]) -> dict[str, Vectors]:
    """The vector of each text, as memd would make it for a memory."""
    found = {}
    for text in dict.fromkeys(texts):
        chunks = [chunk for memory in parse("memory/topics/note.md", text).memories for chunk in memory.chunks]
        rows = model.embed([embedded_text(chunk.heading, chunk.context, chunk.text) for chunk in chunks])
        found[text] = mean_of(rows)
    return found


def nearness(model: Embedder, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """How near the memories of each pair are: 0 has nothing in common, 1 is a paraphrase."""
    vectors = vectors_of(model, [text for pair in pairs for text in pair])
    return model.scale.notes.near(np.array([float(vectors[one] @ vectors[other]) for one, other in pairs]))


def report(found: dict[str, list[Pair]], nears: dict[str, NDArray[np.float64]], model: Embedder) -> str:
    lines = ["| pairs | " + " | ".join(f"p{share}" for share in SHARES) + " | link | merge | dedup | same words |",
             "|---|" + "---|" * (len(SHARES) + 4)]  # fmt: skip
    for name, values in nears.items():
        spread = [f"{value:.2f}" for value in np.percentile(values, SHARES)]
        alike = similarity(values, model.scale.notes)
        over = [_share(alike >= least) for least in (LINK, MERGE, DEDUP)]
        same = np.array([same_words(*pair) for pair in found[name]])
        lines.append(f"| {name} | {' | '.join((*spread, *over, _share((alike >= DEDUP) & same)))} |")
    return "\n".join(lines)


def _share(which: NDArray[np.bool_]) -> str:
    share = float(which.mean())
    return f"{share:.0%}" if share in (0, 1) or 0.01 <= share <= 0.99 else f"{share:.2%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="*", type=Path, help="a labelled collection")
    parser.add_argument("--pairs", type=int, default=300, help="of each class")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    found = {name: [made(rng) for _ in range(options.pairs)] for name, made in CLASSES.items()}
    for folder in options.folder:
        for name, pairs in labelled(load(folder), rng, options.pairs).items():
            found[f"{folder.name}: {name}"] = pairs
    with tempfile.TemporaryDirectory(prefix="memd-bench-") as cache:
        model = load_granite(Path(cache), threads=2)
        nears = {name: nearness(model, pairs) for name, pairs in found.items()}
        scale = model.scale.notes
    print(f"{model.name}: unrelated {scale.unrelated:.3f}, paraphrase {scale.related:.3f}")
    print(report(found, nears, model))
    if options.json:
        options.json.write_text(json.dumps({name: values.tolist() for name, values in nears.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
