"""Replays a year of notes and questions with an injected clock, under different rules, and tells what each did.

python benchmarks/lifecycle.py [--seeds 1,2,3] [--only NAME,NAME] [--hash] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import year as a_year
from store import say
from year import BEGIN, DAYS, Fact, Year

from memd.config.load import load as load_settings
from memd.indexer.context.assemble import ContextTask, assemble
from memd.indexer.indexing import ingest
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.reflect import Reflection
from memd.indexer.maintenance.rebuild import build_elsewhere
from memd.indexer.model.embedder import Embedder, load_embedder
from memd.indexer.query.search import search
from memd.indexer.record import actions
from memd.indexer.store import vector_table
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.vector_table import embedded_text
from memd.lifecycle.rule_book import BUILT_IN
from memd.lifecycle.rules import Rule
from memd.models import Answer, Ask, Workspace
from tests.hash_embedder import HashEmbedder

MOST_BYTES = 1_000_000
SHOWN = 5
OLD = DAYS - 90
"""Facts that were noted before this day are old at the end of the year."""
TASKS, BUDGET, SMALL = 24, 600, 200
EVERY = 3
"""Days between two reflections. Rules count by the clock, so more of them change next to nothing and take long."""
SAYS_SO = 0.3
"""The share of right answers of which the agent says that they were useful."""


class Remembering:
    """An embedder that runs once for each text, however often the year is replayed."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Any:
        import numpy as np

        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known |= dict(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


@dataclass(slots=True)
class Replay:
    """One year under one set of rules."""

    year: Year
    rules: Sequence[Rule] | None
    """None: nobody reflects, and nothing is counted or compared."""
    stores: OwnStores
    index: OwnIndex
    rng: random.Random

    def live(self) -> None:
        for day in range(DAYS):
            now = datetime.combine(BEGIN + timedelta(day), datetime.min.time(), UTC)
            self._note(day, now + timedelta(hours=9))
            for nth, fact in enumerate(self.year.questions.get(day, ())):
                self._ask(fact, now + timedelta(hours=9 + nth % 12, minutes=10 + nth))
            if self.rules is not None and day % EVERY == 0:
                later = now + timedelta(hours=23)
                Reflection(self.stores, self.index, self.rules, later, self._write).reflect()

    def _write(self, work: Callable[[Connection], Any]) -> Any:
        with self.stores.ledger.write() as connection:
            return work(connection)

    def _note(self, day: int, now: datetime) -> None:
        notes = self.year.notes.get(day, {})
        for path, text in notes.items():
            file = self.index.workspace.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        list(ingest.apply_in_pieces(self.stores, self.index, notes, MOST_BYTES, ingest.PLAIN, None, now=now))
        # As the daemon does when it rests.
        if day % 7 == 0:
            pieces = self.index.text.pieces(0)
            self.index.text.adopt(build_elsewhere(self.stores.folder, self.index.id, segments=pieces), pieces)
        model = self.stores.model
        assert model is not None
        reader = self.stores.ledger.reader
        rows = vector_table.unembedded(reader, model.id, vector_table.pending(reader, model.id, 10_000), "1")
        if rows:
            texts = [embedded_text(json.loads(row["heading"]), row["context"], row["text"]) for row in rows]
            ingest.save_vectors(self.stores, model, rows, model.embedder.embed(texts))

    def ask(self, question: str, now: datetime, limit: int = SHOWN) -> Answer:
        return search(self.stores, Ask(question, ("agent",), limit, today=now.date()), MOST_BYTES)

    def _ask(self, fact: Fact, now: datetime) -> None:
        """Ask as an agent does: see what is shown, and now and then say what was useful."""
        answer = self.ask(fact.asked, now)
        right = next((hit for hit in answer.hits if is_of(hit.path, hit.key, fact)), None)
        says_so = self.rng.random() < SAYS_SO

        def observe(connection: Connection) -> None:
            lives.record_accesses(
                connection, lives.holders(connection, [hit.id for hit in answer.hits]).values(), "agent", now
            )
            if right is not None and says_so:
                action = actions.add(connection, self.index.id, "agent", "useful", right.key, at=actions.in_utc(now))
                lives.found_useful(connection, action, 0, lives.holders(connection, [right.id])[right.id])

        self._write(observe)


def is_of(path: str, key: str, fact: Fact) -> bool:
    return path == fact.path and key.endswith(f"#{fact.slug}")


# --- the exam at the end of the year ------------------------------------------------------------------------

Figures = dict[str, float]


def exam(replay: Replay) -> Figures:
    now = datetime.combine(BEGIN + timedelta(DAYS), datetime.min.time(), UTC)
    return {
        **_old(replay, now),
        **_lasting(replay, now),
        **_replaced(replay, now),
        **_context(replay, now),
        **_tiers(replay),
    }


def _old(replay: Replay, now: datetime) -> Figures:
    """How many facts that were noted once, long ago, and never asked for, are among the first five hits."""
    facts = replay.year.unique(OLD)
    found = sum(any(is_of(hit.path, hit.key, fact) for hit in replay.ask(fact.exam, now).hits) for fact in facts)
    return {"old facts found": found / len(facts)}


def _lasting(replay: Replay, now: datetime) -> Figures:
    """How many of the files on what is known for good are among the first five hits; most were not asked for long."""
    asked = {subject: replay.ask(f"When was {subject} begun, and by whom?", now).hits for subject in replay.year.topics}
    found = sum(any(hit.path == replay.year.topics[subject] for hit in hits) for subject, hits in asked.items())
    return {"lasting facts found": found / len(asked)}


def _replaced(replay: Replay, now: datetime) -> Figures:
    """How often a fact that is no longer true stands above the one that took its place."""
    pairs = replay.year.replaced()
    wrong = both = 0
    for old, new in pairs:
        hits = replay.ask(old.exam, now, 10).hits
        places = [next((nth for nth, hit in enumerate(hits) if is_of(hit.path, hit.key, one)), 99)
                  for one in (old, new)]  # fmt: skip
        wrong += places[0] < places[1]
        both += 1
    return {"replaced fact first": wrong / both}


def _context(replay: Replay, now: datetime) -> Figures:
    """The parts of a context: the share of its tokens that tell what is true of the task's subject."""
    subjects = sorted({fact.subject for fact in replay.year.facts if len(replay.year.current(fact.subject)) >= 4})
    chosen = random.Random(7).sample(subjects, min(TASKS, len(subjects)))
    good = stale = tokens = known = wanted = 0
    for subject in chosen:
        current = replay.year.current(subject)
        gone = [old for old, _ in replay.year.replaced() if old.subject == subject]
        ask = Ask(f"prepare the maintenance of {subject}", ("agent",), today=now.date())
        packed = assemble(replay.stores, ContextTask(ask, BUDGET)).result["memories"]
        for memory in packed:
            tokens += memory["tokens"]
            lasting = memory["path"] == replay.year.topics.get(subject)
            good += memory["tokens"] * (lasting or any(_says(replay.year, memory, fact) for fact in current))
            known += lasting
            stale += memory["tokens"] * any(is_of(memory["path"], memory["key"], fact) for fact in gone)
        wanted += len(current) + (subject in replay.year.topics)
        known += sum(any(_says(replay.year, memory, fact) for memory in packed) for fact in current)
    return {
        **_used(replay, now),
        "context precision": good / tokens,
        "context stale": stale / tokens,
        "context coverage": known / wanted,
    }


def _used(replay: Replay, now: datetime) -> Figures:
    """How many of the facts that were asked for lately are in a context so small that only a few memories fit."""
    lately = {fact.number: fact for day in range(DAYS - 60, DAYS) for fact in replay.year.questions.get(day, ())}
    facts = random.Random(8).sample(sorted(lately.values(), key=lambda fact: fact.number), min(TASKS, len(lately)))
    known = 0
    for fact in facts:
        ask = Ask(f"work on {fact.subject}", ("agent",), today=now.date())
        packed = assemble(replay.stores, ContextTask(ask, SMALL)).result["memories"]
        known += any(_says(replay.year, memory, fact) for memory in packed)
    return {"used facts in a small context": known / len(facts)}


def _says(year: Year, memory: dict[str, Any], fact: Fact) -> bool:
    """Whether a memory tells a fact: the note of the day it was noted on, or of one on which it was repeated."""
    same = [one for one in year.facts if one.number == fact.number or one.repeats == fact.number]
    return any(is_of(memory["path"], memory["key"], one) for one in same)


def _tiers(replay: Replay) -> Figures:
    rows = replay.stores.ledger.reader.execute("SELECT tier, COUNT(*) FROM memories WHERE gone IS NULL GROUP BY tier")
    return {f"in {tier}": float(count) for tier, count in rows}


# --- one run for each set of rules --------------------------------------------------------------------------


def sets() -> Iterator[tuple[str, tuple[Rule, ...] | None]]:
    """No reflection, one without rules, those that are on by default, every one that is there, and each alone."""
    yield "no reflection", None
    yield "no rules", ()
    yield "defaults", BUILT_IN
    yield "all", tuple(replace(rule, enabled=True) for rule in BUILT_IN)
    for rule in BUILT_IN:
        # Nothing in the year is captured raw, and `wake` is with all of them.
        if rule.name not in ("wake", "promote-sensory", "decay-sensory"):
            yield f"only {rule.name}", tuple(replace(one, enabled=one.name in (rule.name, "wake")) for one in BUILT_IN)


def run(year: Year, rules: Sequence[Rule] | None, embedder: Any, seed: int) -> Figures:
    folder = Path(tempfile.mkdtemp(prefix="memd-year-"))
    stores = OwnStores(folder)
    try:
        stores.use_model(embedder, "benchmark")
        index = stores.open_index(Workspace("agent", folder / "notes"))
        replay = Replay(year, rules, stores, index, random.Random(seed))
        replay.live()
        return exam(replay)
    finally:
        stores.close()
        shutil.rmtree(folder)


def _mean(figures: Sequence[Figures]) -> Figures:
    return {name: sum(one.get(name, 0.0) for one in figures) / len(figures) for name in figures[0]}


NAMES = (
    "old facts found", "lasting facts found", "replaced fact first", "context precision", "context stale",
    "context coverage", "used facts in a small context", "in stm", "in ltm", "in dormant",
)  # fmt: skip


def table(found: dict[str, Figures]) -> str:
    head = f"| rules | {' | '.join(NAMES)} |\n|---|{'---:|' * len(NAMES)}"
    return "\n".join([head, *(_row(name, figures) for name, figures in found.items())])


def _row(name: str, figures: Figures) -> str:
    return f"| {name} | {' | '.join(_cell(title, figures.get(title, 0.0)) for title in NAMES)} |"


def _cell(name: str, value: float) -> str:
    return f"{value:.0f}" if name.startswith("in ") else f"{value:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--only", type=lambda text: text.split(","), help="only these sets of rules")
    parser.add_argument("--hash", action="store_true", help="with an embedder that knows no meaning, to try it quickly")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="memd-model-"))
    embedder = HashEmbedder() if options.hash else load_embedder(load_settings().embedding, folder)
    assert embedder is not None
    remembering, years = Remembering(embedder), {seed: a_year.make(seed) for seed in options.seeds}
    found: dict[str, Figures] = {}
    for name, rules in sets():
        if not options.only or name in options.only:
            began = time.monotonic()
            found[name] = _mean([run(year, rules, remembering, seed) for seed, year in years.items()])
            say(f"{name}: {time.monotonic() - began:.0f} s; {_row(name, found[name])}")
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps({"seeds": options.seeds, "figures": found}, indent=1))
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
