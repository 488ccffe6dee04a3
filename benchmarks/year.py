"""A year in the life of an agent, made from a seed: what it notes each day, and what it asks."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta

BEGIN = date(2025, 1, 1)
DAYS = 365
SUBJECTS, FACTS, TOPICS = 24, 120, 12
ROUND, RAW = 7, 9
"""Every so many days someone notes a round through some services that tells nothing, and overhears a rumour."""

FIRST = "Amber Birch Cobalt Dune Ember Fjord Garnet Harbor Indigo Juniper Krill Lantern Marble Nimbus Opal".split()
SECOND = "Relay Ledger Kiln Beacon Loom Orchard Archive Turbine Pantry Compass".split()
PEOPLE = "Ada Boris Chiara Dmitri Esra Fatou Goran Hanna Imre Jonas Katya Lotte Mehmet Nadia Otto".split()
CAUSES = (
    "a full disk", "an expired certificate", "a wrong time zone", "a loose cable", "a leaking pipe", "two writers",
    "a stale cache", "a broken fan", "an old kernel", "a typo in the config",
)  # fmt: skip
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
CHATTER = (
    "Took longer than planned.", "Talked about it over lunch.", "Nothing else came up today.", "Wrote it down at once.",
    "To be looked at again some day.", "The mood was good.", "It rained all afternoon.", "Coffee was short again.",
)  # fmt: skip

ATTRIBUTES = {
    # heading, statement, the question while it is used, the question of the exam
    "port": ("{s} port", "{s} listens on port {v}.", "{s} port", "On which port can {s} be reached?"),
    "owner": ("{s} owner", "{s} is looked after by {v}.", "who looks after {s}", "Who is responsible for {s}?"),
    "host": ("{s} host", "{s} runs on the machine {v}.", "where does {s} run", "Which machine is {s} on?"),
    "backup": ("{s} backup", "{s} is backed up every {v}.", "{s} backup day", "On which day is {s} saved?"),
    "version": ("{s} upgrade", "{s} was upgraded to version {v}.", "{s} version", "Which release of {s} do we use?"),
    "outage": ("{s} outage", "The outage of {s} was caused by {v}.", "{s} outage cause", "Why did {s} break down?"),
    "price": ("{s} bill", "{s} costs {v} euros a month.", "{s} cost", "How much do we pay for {s}?"),
    "limit": ("{s} limit", "{s} takes at most {v} requests a second.", "{s} limit", "How fast may one call {s}?"),
    "colour": ("{s} label", "The label of {s} is {v}.", "{s} label colour", "What does the label of {s} look like?"),
    "key": ("{s} drawer", "The spare key of {s} is in drawer {v}.", "{s} spare key", "Where is the key for {s}?"),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was noted on a day; `replaces` is the number of the fact that it makes wrong."""

    number: int
    subject: str
    attribute: str
    value: str
    day: int
    use: str
    """often, once, never."""
    replaces: int | None = None
    repeats: int | None = None

    @property
    def heading(self) -> str:
        return ATTRIBUTES[self.attribute][0].format(s=self.subject)

    @property
    def statement(self) -> str:
        return ATTRIBUTES[self.attribute][1].format(s=self.subject, v=self.value)

    @property
    def asked(self) -> str:
        return ATTRIBUTES[self.attribute][2].format(s=self.subject)

    @property
    def exam(self) -> str:
        return ATTRIBUTES[self.attribute][3].format(s=self.subject)

    @property
    def path(self) -> str:
        return f"memory/{BEGIN + timedelta(self.day)}.md"

    @property
    def slug(self) -> str:
        return self.heading.lower().replace(" ", "-")


@dataclass(slots=True)
class Year:
    """The notes and the questions, by day."""

    facts: list[Fact] = field(default_factory=list)
    notes: dict[int, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """By day: the files that are written, whole."""
    topics: dict[str, str] = field(default_factory=dict)
    """Lasting knowledge of some subjects: the file of each."""
    questions: dict[int, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    """By day: the facts that are asked for."""

    def current(self, subject: str) -> list[Fact]:
        """The facts of a subject that are still true, each as it was first noted."""
        gone = {fact.replaces for fact in self.facts}
        return [fact for fact in self.facts
                if fact.subject == subject and fact.number not in gone and fact.repeats is None]  # fmt: skip

    def replaced(self) -> list[tuple[Fact, Fact]]:
        """Facts that became wrong, with those that took their place."""
        return [(self.facts[fact.replaces], fact) for fact in self.facts if fact.replaces is not None]

    def unique(self, before: int) -> list[Fact]:
        """Facts that were noted once, long ago, and never asked for."""
        touched = {number for fact in self.facts for number in (fact.replaces, fact.repeats)}
        return [fact for fact in self.facts if fact.use == "never" and fact.day < before
                and fact.number not in touched and fact.replaces is None and fact.repeats is None]  # fmt: skip


def make(seed: int) -> Year:
    """The same seed makes the same year."""
    rng, year = random.Random(seed), Year()
    names = [f"{one} {other}" for one in FIRST for other in SECOND]
    subjects = rng.sample(names, SUBJECTS)
    pairs = rng.sample([(subject, what) for subject in subjects for what in ATTRIBUTES], FACTS)
    for subject, what in pairs:
        use = rng.choices(("often", "once", "never"), (0.12, 0.28, 0.6))[0]
        fact = _add(year, rng, subject, what, rng.randrange(DAYS - 30), use)
        fate = rng.random()
        later = fact.day + rng.randint(20, 200)
        if fate < 0.2 and later < DAYS:
            _add(year, rng, subject, what, later, use, replaces=fact.number)
        elif fate < 0.3 and later < DAYS:
            _add(year, rng, subject, what, later, use, repeats=fact.number)
    _write(year, rng)
    _topics(year, rng, subjects)
    _noise(year, rng, subjects)
    _ask(year, rng)
    return year


def _add(
    year: Year, rng: random.Random, subject: str, what: str, day: int, use: str, replaces: int | None = None,
    repeats: int | None = None,
) -> Fact:  # fmt: skip
    value = year.facts[repeats].value if repeats is not None else _value(rng, what)
    while replaces is not None and value == year.facts[replaces].value:
        value = _value(rng, what)
    fact = Fact(len(year.facts), subject, what, value, day, use, replaces, repeats)
    year.facts.append(fact)
    return fact


def _value(rng: random.Random, what: str) -> str:
    made = {
        "port": lambda: str(rng.randint(1024, 9999)), "owner": lambda: rng.choice(PEOPLE),
        "host": lambda: f"{rng.choice(FIRST).lower()}-{rng.randint(1, 40)}", "backup": lambda: rng.choice(WEEKDAYS),
        "version": lambda: f"{rng.randint(1, 9)}.{rng.randint(0, 30)}", "outage": lambda: rng.choice(CAUSES),
        "price": lambda: str(rng.randint(5, 900)), "limit": lambda: str(rng.randint(10, 990)),
        "colour": lambda: f"{rng.choice('red green blue white black yellow'.split())} with {rng.randint(2, 9)} dots",
        "key": lambda: str(rng.randint(1, 60)),
    }  # fmt: skip
    return made[what]()


def _write(year: Year, rng: random.Random) -> None:
    """The notes of each day; a fact that is repeated is noted in the same words."""
    chatter = {fact.number: " ".join(rng.sample(CHATTER, 2)) for fact in year.facts}
    days: dict[int, list[Fact]] = defaultdict(list)
    for fact in year.facts:
        days[fact.day].append(fact)
    for day, facts in days.items():
        sections = [
            f"## {fact.heading}\n\n{fact.statement} {chatter[fact.number if fact.repeats is None else fact.repeats]}\n"
            for fact in facts
        ]
        year.notes[day][facts[0].path] = f"# {BEGIN + timedelta(day)}\n\n" + "\n".join(sections)


def _topics(year: Year, rng: random.Random, subjects: list[str]) -> None:
    """Lasting knowledge of some subjects; nobody asks for most of it."""
    for subject in rng.sample(subjects, TOPICS):
        name = subject.lower().replace(" ", "-")
        text = f"{subject} is one of our services. It was begun in {rng.randint(1998, 2020)} by {rng.choice(PEOPLE)}.\n"
        year.topics[subject] = f"memory/topics/{name}.md"
        year.notes[rng.randrange(60)][year.topics[subject]] = f"---\ntitle: {subject}\n---\n\n{text}"
    year.notes[0]["MEMORY.md"] = "# Memory\n\n## Habits\n\nNote every change of a service on the day it happens.\n"


def _noise(year: Year, rng: random.Random, subjects: list[str]) -> None:
    """Notes that name services and tell nothing of them, and raw captures of what may not even be true."""
    for day in range(0, DAYS, ROUND):
        names = ", ".join(rng.sample(subjects, 5))
        _append(year, day, f"## Round\n\nWent through the port, the owner and the backup of {names}. All well.\n")
    for day in range(2, DAYS, RAW):
        subject, what = rng.choice(subjects), rng.choice(list(ATTRIBUTES))
        heading, statement = (text.format(s=subject, v=_value(rng, what)) for text in ATTRIBUTES[what][:2])
        _append(year, day, f"## Overheard about {heading}\n<!-- memd: tier=sensory -->\n\nMaybe: {statement}\n")


def _append(year: Year, day: int, section: str) -> None:
    path = f"memory/{BEGIN + timedelta(day)}.md"
    year.notes[day][path] = year.notes[day].get(path, f"# {BEGIN + timedelta(day)}\n") + "\n" + section


def _ask(year: Year, rng: random.Random) -> None:
    """The questions of each day: some facts every week, some once; after a change, for the new fact."""
    until = {fact.replaces: fact.day for fact in year.facts if fact.replaces is not None}
    for fact in year.facts:
        last = until.get(fact.number, DAYS) - 1
        if fact.use == "often":
            for day in range(fact.day + rng.randint(1, 7), last + 1, 7):
                year.questions[day].append(fact)
        elif fact.use == "once" and last > fact.day:
            year.questions[rng.randint(fact.day + 1, last)].append(fact)
