"""Paths and headings: what they mean (slugs, roles, dates, kinds, titles), and where a workspace keeps its notes."""

import re
import tomllib
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PurePosixPath

from memd.models import TEAM
from memd.prose import composed

DATE = re.compile(r"(?<!\d)(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
STAMP = re.compile(r"_(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2})(?::\d{2})?)?_")
"""When an entry was written: the day, and the time if it has one."""
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""Characters that no name may have: control codes, marks that turn the direction, halves of a character."""
COMMENT = re.compile(r"<!--\s*memd:(.*?)-->", re.DOTALL)
HEAD = 300
"""Characters of a memory in which its timestamp line is looked for; memd's own comment does not count."""
MAX_SLUG = 80


@lru_cache(maxsize=4_096)
def slug(heading: str) -> str:
    """A heading as part of a key: letters and digits of any script, everything else is a dash."""
    # Cached: a busy day has hundreds of headings, and every added entry needs all of their slugs.
    dashed = re.sub(r"[^\w]+|_+", _dash, composed(heading.casefold())).strip("-")
    return dashed[:MAX_SLUG].rstrip("-") or "section"


def _dash(run: re.Match[str]) -> str:
    """A dash for what stands between words, behind the marks of the letter before it: vowels in many scripts."""
    marks = "".join(takewhile(_is_mark, run.group()))
    return marks + "-" * (len(marks) < len(run.group()))


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Mc") and not unicodedata.name(char, "").startswith("VARIATION")


class Slugs:
    """The slugs of one file, heading by heading, made unique: a second `Garden` is `garden-2`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, heading: str) -> str:
        plain = unique = slug(heading)
        count = self._counts.get(plain, 0)
        while unique in self._counts:
            count += 1
            unique = f"{plain}-{count}"
        self._counts[unique] = 1
        self._counts[plain] = max(count, 1)
        return unique


def is_topic(path: str) -> bool:
    pure = PurePosixPath(path)
    return "topics" in pure.parts[:-1] or pure.suffix == ".mdk"


def is_long_term(path: str) -> bool:
    return PurePosixPath(path).name == "MEMORY.md"


def role_of(path: str) -> str:
    pure = PurePosixPath(path)
    if is_long_term(path):
        return "memory"
    if is_topic(path):
        return "topic"
    return "daily" if DATE.search(pure.stem) else composed(pure.stem)


def head(text: str) -> str:
    """The beginning of a memory's text, in which its timestamp line stands; a long comment does not push it out."""
    comment = COMMENT.search(text)
    return text[: HEAD + (len(comment[0]) if comment and comment.start() < HEAD else 0)]


def date_of(path: str) -> str:
    """The date in a file's name, or an empty string."""
    match = DATE.search(PurePosixPath(path).stem)
    return match.group(0) if match else ""


def kind_of(role: str, dated: bool) -> str:
    """Daily notes and dated entries are episodes; everything else is knowledge."""
    return "episodic" if role == "daily" or (dated and role not in ("memory", "topic")) else "semantic"


# --- titles of memories: the most telling of front matter, `#` heading, file name and `##` heading ---------------


WITHIN = " › "
"""Stands between the title of a file and a heading in it."""
WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=4_096)
def is_telling(title: str) -> bool:
    """Whether a title says what stands below it: "Conversation Summary", a date and a time do not."""
    return not _generic().issuperset(WORD.findall(title.casefold()))


@lru_cache(maxsize=1)
def _generic() -> frozenset[str]:
    """The words of titles.toml; read with the first note."""
    table = tomllib.loads(Path(__file__).with_name("titles.toml").read_text(encoding="utf-8"))
    return frozenset(word for words in table.values() for word in words.split())


def file_title(path: str, declared: str, heading: str) -> str:
    """The first telling title of a file: of its front matter, its `#` heading, its name without the date; or empty."""
    name = re.sub(r"[-_\s]+", " ", DATE.sub("", PurePosixPath(path).stem)).strip()
    return next(filter(is_telling, (declared, heading, name)), "")


def memory_title(of_file: str, heading: str, path: str, *others: str) -> str:
    """The title of a memory: its heading, below that of the file where it says nothing by itself."""
    if not heading:
        return of_file or next(filter(None, others), "") or PurePosixPath(path).stem
    return heading if is_telling(heading) or not of_file else f"{of_file}{WITHIN}{heading}"


def own_heading(title: str) -> str:
    """The heading of a memory as it stands in the file."""
    return title.rpartition(WITHIN)[2]


# --- where a workspace keeps its notes ----------------------------------------------------------------------


KNOWLEDGE = ".ai-knowledge"
INDEX = f"{KNOWLEDGE}/index.mdk"
BUS = ".muxcode/memory"
DATED = len("2026-02-07.md")
AROUND = 30
"""So many notes before a day, and after it, show where its own belongs."""
YEAR, MONTH = "{year}", "{month}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one workspace, relative to it."""

    daily: str = "memory"
    """The folder of the first daily note."""
    days: tuple[tuple[str, str], ...] = ()
    """Every day that has a note, in order, and the folder of it."""
    long_term: str = "MEMORY.md"
    topics: str = "memory/topics"
    topic_suffix: str = ".md"
    index: str = "MEMORY.md"
    """The file that lists the topics."""
    roles: str = "memory/roles"

    def daily_note(self, day: str) -> str:
        """The note of a day; a new one stands where most of those stand that are next to it in time."""
        at = bisect_left(self.days, (day, ""))
        near = self.days[max(0, at - AROUND) : at + AROUND]
        patterns = Counter(_pattern(folder, known) for known, folder in reversed(near))
        folder = _in_month(_most(patterns, self.daily), day)
        there = [one for known, one in near if known == day]
        folder = there[0] if there and folder not in there else folder
        return f"{folder}/{day}.md" if folder else f"{day}.md"

    def topic(self, name: str) -> str:
        return f"{self.topics}/{name}{self.topic_suffix}"

    def role(self, name: str) -> str:
        return f"{self.roles}/{name}.md"


def layout_of(paths: Iterable[str]) -> Layout:
    """The layout that a workspace's files show; the default for a new workspace."""
    return _layout(frozenset(paths))


@lru_cache(maxsize=8)
def _layout(paths: frozenset[str]) -> Layout:
    # Cached: every write needs it, and a workspace may have thousands of files.
    folders, tops, days = defaultdict[str, Counter[str]](Counter), set(), list[tuple[str, str]]()
    for path in sorted(path for path in paths if not path.startswith(f"{TEAM}/")):
        folder, _, name = path.rpartition("/")
        tops.add(path[: path.find("/") + 1] if not path.startswith(BUS) else BUS)
        if (kind := _kind(folder, name)) == "daily":
            days.append((name[:-3], folder))
        folders[kind][folder] += 1
    knowledge = f"{KNOWLEDGE}/" in tops
    kept = f"{min(folders['long_term'], key=len)}/MEMORY.md".lstrip("/") if folders["long_term"] else "MEMORY.md"
    return Layout(
        daily="daily" if "daily/" in tops else "memory",
        days=tuple(sorted(days)),
        long_term=kept,
        topics=KNOWLEDGE if knowledge else _most(folders["topics"], "memory/topics"),
        topic_suffix=".mdk" if knowledge else ".md",
        index=INDEX if knowledge else kept,
        roles=BUS if BUS in tops else _most(folders["shared"], "memory/roles"),
    )


def _kind(folder: str, name: str) -> str:
    """Which part of the layout a file shows: daily note, topic, long-term memory, the roles' shared file."""
    if not name.endswith(".md"):
        return ""
    if name == "MEMORY.md":
        return "long_term"
    if "topics" in folder and "topics" in folder.split("/"):
        return "topics"
    if len(name) == DATED and DATE.fullmatch(name[:-3]):
        return "daily"
    return "shared" if name == "shared.md" and folder else ""


def _pattern(folder: str, day: str) -> str:
    """A folder of daily notes without the year and the month that it is of: `2026/02`, `2026-02`."""
    names = {day[:4]: YEAR, day[:7]: f"{YEAR}-{MONTH}", day[5:7]: MONTH}
    return "/".join(names.get(part, part) for part in folder.split("/"))


def _in_month(pattern: str, day: str) -> str:
    return pattern.replace(YEAR, day[:4]).replace(MONTH, day[5:7])


def _most(found: Counter[str], default: str) -> str:
    return found.most_common(1)[0][0] if found else default
