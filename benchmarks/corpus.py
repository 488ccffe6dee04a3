"""Writes a believable workspace of about as many chunks as asked: the same bytes for the same seed.

Daily notes with `##` sections (prose, lists, code, tables, some Chinese and Japanese), a few topics, role
files, one long handbook and a `MEMORY.md`. Words are drawn by rank as in real text (a few everywhere, most of
them rare), so that text search has posting lists of every length.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path

from memd.notes.parse import parse

HANDBOOK = "memory/topics/handbook.md"
LAST_DAY = date(2026, 2, 27)

THINGS = """backup server router disk kitchen garden schedule ticket build release cache token index dashboard printer
thermostat bicycle invoice recipe playlist camera sensor battery firmware container cluster pipeline database schema
migration query report meeting agenda customer contract budget holiday passport train hotel museum library guitar piano
lamp curtain shelf fridge oven bread starter tomato lemon basil compost fence gate roof window boiler pump filter valve
cable antenna switch gateway firewall certificate password keyboard monitor laptop charger headset microphone speaker
channel stream subtitle season episode podcast newsletter article chapter draft outline glossary diagram notebook ledger
parcel courier warehouse shipment receipt refund warranty insurance dentist vaccine prescription appointment school
homework teacher choir rehearsal concert stadium match league bridge harbour ferry island trail summit tent stove"""
DEEDS = """moved renamed checked restarted replaced measured rewrote cleaned ordered cancelled booked painted repaired
mounted archived restored compared merged reverted deployed profiled traced patched documented scheduled postponed
labelled sorted counted weighed calibrated tested reviewed approved rejected translated printed scanned uploaded
downloaded exported imported encrypted rotated pruned compressed indexed benchmarked planted watered harvested baked"""
KINDS = """old new spare broken quiet noisy slow fast weekly monthly nightly temporary shared private local remote
upstream northern wooden metal green blue narrow wide heavy light cheap fragile empty full stale fresh missing double
second third manual automatic experimental stable deprecated hidden public"""
PEOPLE = "Amrei Boris Chidi Dunya Esben Farida Goran Hilde Ines Jonas Katya Lorenz Mirela Nadeem Oona Pavel Quynh Rosa"
REASONS = (
    "because the {kind} {thing} was full",
    "after {name} reported a {kind} {thing}",
    "since the {thing} needs {number} minutes more than the {thing} of {invented}",
    "so that {invented} can use the {kind} {thing} again",
    "before the {thing} for {name} is due",
    "although the {invented} {thing} had been {deed} only last week",
)
SENTENCES = (
    "{name} {deed} the {kind} {thing} {reason}.",
    "The {thing} on {invented} is {kind} now; the {thing} was {deed} at {hour}.",
    "Decided to keep the {kind} {thing} for {invented} and drop the {thing}.",
    "Port {port} of {invented} answers again after the {thing} was {deed}.",
    "{name} asked whether the {invented} {thing} and the {kind} {thing} could be {deed} together.",
    "It took {number} tries until the {thing} was {deed}, {reason}.",
    "Remember that `{identifier}` expects a {kind} {thing}, not a {thing}.",
    "Costs for the {kind} {thing}: {number} euros, of which {invented} pays {number}.",
    "Next: look at the {thing} of {invented}, then tell {name}.",
)
ITEMS = (
    "{kind} {thing} {deed} ({name})",
    "ask {name} about the {invented} {thing}",
    "[ ] {thing}: version {number}.{number}, see `{identifier}`",
    "[x] {deed} the {kind} {thing} of {invented}",
    "http://{invented}.example:{port}/{thing}",
)
HEADINGS = (
    "{Thing} of {invented}",
    "{Thing}",
    "{name} and the {thing}",
    "{Invented}",
    "{Kind} {thing}",
    "{identifier}",
)
CJK = (
    "{name}さんが{inv}の{cjk}を確認した。{cjk}は来週{number}日までに交換する予定。",
    "今天把{inv}的{cjk}迁移到新的服务器，端口是{port}，备份需要{number}分钟。",
    "{cjk}的配置文件已经更新，{name}说{cjk}可以删除。",
    "会議の結果：{inv}の{cjk}を続けて、{cjk}は中止にする。",
)
CJK_THINGS = (
    "設定 日程 予算 会議 資料 写真 配置 备份 数据库 日志 脚本 计划 报告 网络 电视 音乐 庭園 料理 旅行 切符".split()
)
SYLLABLES = (
    "ba ke lo mi nu ra se ti vo zu bren dor fal gri hol kas lun mar nel pra quin ros stel tor ul ven wex yar".split()
)
INVENTED = 4_000
CODE = """```{language}
{identifier} = connect("{invented}", port={port})
for {thing} in {identifier}.{thing}s(limit={number}):
    {identifier}({thing}, retries={number})
```"""


class Ranked:
    """Words by rank: the first is drawn often, the last hardly ever."""

    def __init__(self, words: list[str], steepness: float) -> None:
        self.words = words
        self.sums = list(accumulate(1 / (rank + 3) ** steepness for rank in range(len(words))))

    def draw(self, rng: random.Random) -> str:
        return self.words[bisect(self.sums, rng.random() * self.sums[-1])]


BLOCKS = 4
"""The most paragraphs, lists and the like of a memory."""


class Writer:
    """Makes sentences, sections and notes from the word lists."""

    def __init__(self, seed: int, longest: int = BLOCKS) -> None:
        self.rng = random.Random(seed)
        self.longest = longest
        self.things = Ranked(THINGS.split(), 0.7)
        self.deeds = Ranked(DEEDS.split(), 0.7)
        self.kinds = Ranked(KINDS.split(), 0.7)
        self.invented = Ranked(_invented(self.rng), 0.9)
        self.people = PEOPLE.split()
        self.slots: dict[str, Callable[[], str]] = {
            "thing": lambda: self.things.draw(self.rng),
            "deed": lambda: self.deeds.draw(self.rng),
            "kind": lambda: self.kinds.draw(self.rng),
            "invented": lambda: self.invented.draw(self.rng),
            "name": lambda: self.rng.choice(self.people),
            "number": lambda: str(self.rng.randint(2, 90)),
            "port": lambda: str(self.rng.randint(1_024, 65_000)),
            "hour": lambda: f"{self.rng.randint(0, 23):02}:{self.rng.randint(0, 59):02}",
            "identifier": self.identifier,
            "language": lambda: self.rng.choice(("python", "bash", "yaml")),
            "cjk": lambda: self.rng.choice(CJK_THINGS),
            "inv": lambda: self.invented.draw(self.rng),
        }

    def fill(self, pattern: str) -> str:
        """The pattern with every slot drawn anew."""
        pattern = pattern.replace("{reason}", self.rng.choice(REASONS))
        parts = pattern.split("{")
        done = [parts[0]]
        for part in parts[1:]:
            slot, closing, rest = part.partition("}")
            draw = self.slots.get(slot.lower())
            if not closing or draw is None:
                done.append("{" + part)
            else:
                done.append((draw().capitalize() if slot[0].isupper() else draw()) + rest)
        return "".join(done)

    def identifier(self) -> str:
        first, second = self.deeds.draw(self.rng), self.things.draw(self.rng)
        word = self.invented.draw(self.rng)
        return self.rng.choice((f"{first}_{second}_{word}", f"{word.title()}{second.title()}", f"{word}.{second}"))

    def paragraph(self) -> str:
        return " ".join(self.fill(self.rng.choice(SENTENCES)) for _ in range(self.rng.randint(2, 6)))

    def items(self) -> str:
        return "\n".join(f"- {self.fill(self.rng.choice(ITEMS))}" for _ in range(self.rng.randint(3, 8)))

    def table(self) -> str:
        rows = [self.fill("| {thing} | {invented} | {number} |") for _ in range(self.rng.randint(2, 5))]
        return "\n".join(["| what | where | how many |", "|---|---|---|", *rows])

    def unspaced(self) -> str:
        return "".join(self.fill(self.rng.choice(CJK)) for _ in range(self.rng.randint(2, 5)))

    def block(self) -> str:
        kinds = (self.paragraph, self.items, self.table, self.unspaced, lambda: self.fill(CODE))
        (make,) = self.rng.choices(kinds, (60, 22, 4, 7, 7))
        return make()

    def section(self, level: str = "##") -> str:
        heading = self.fill(self.rng.choice(HEADINGS))
        blocks = [self.block() for _ in range(self.rng.randint(1, self.longest))]
        return "\n\n".join([f"{level} {heading}", *blocks])

    def note(self, title: str, sections: int) -> str:
        return "\n\n".join([f"# {title}", *(self.section() for _ in range(sections))]) + "\n"


def _invented(rng: random.Random) -> list[str]:
    """Names of hosts, projects and products that nobody has: the long tail of every real memory."""
    names: dict[str, None] = {}
    while len(names) < INVENTED:
        names["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4)))] = None
    return list(names)


def write(root: Path, chunks: int, seed: int = 1, longest: int = BLOCKS) -> int:
    """Fill `root` with memories of at most so many blocks; says how many chunks memd's own parser makes of it."""
    writer = Writer(seed, longest)
    made = 0
    for path, text in _standing(writer, chunks):
        made += _save(root, path, text)
    day = LAST_DAY
    while made < chunks:
        made += _save(root, f"memory/{day}.md", writer.note(day.isoformat(), writer.rng.randint(4, 14)))
        day -= timedelta(days=1)
    return made


def _standing(writer: Writer, chunks: int) -> list[tuple[str, str]]:
    """Files that are not daily notes: about a tenth of the whole."""
    size = max(2, chunks // 500)
    handbook = "\n\n".join(["# Handbook", *(writer.paragraph() for _ in range(max(20, chunks // 50)))]) + "\n"
    topics = [(f"memory/topics/topic-{nth:02}.md", writer.note(f"Topic {nth}", size)) for nth in range(8)]
    roles = [(f"memory/roles/{role}.md", writer.note(role, size)) for role in ("build", "edit", "review")]
    return [("MEMORY.md", writer.note("Memory", size)), (HANDBOOK, handbook), *topics, *roles]


def _save(root: Path, path: str, text: str) -> int:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return sum(len(memory.chunks) for memory in parse(path, text, LAST_DAY.isoformat()).memories)


def questions(count: int, seed: int = 7) -> list[str]:
    """Questions of one to five words that the corpus can answer; `seed` is not the corpus's.

    In English, as most of it is: the first in another language has memd embed the whole workspace once more, which
    takes minutes, and everything else would be measured beside that.
    """
    writer = Writer(1)
    writer.rng.seed(seed)
    patterns = ("{invented}", "{thing} {invented}", "{kind} {thing}", "{name} {deed} {thing}", "{thing} {deed}",
                "why was the {kind} {thing} of {invented} {deed}")  # fmt: skip
    return [writer.fill(patterns[nth % len(patterns)]) for nth in range(count)]
