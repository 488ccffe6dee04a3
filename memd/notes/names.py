"""What paths and headings mean: slugs, roles, dates, kinds."""

import re
from functools import lru_cache
from pathlib import PurePosixPath

DATE = re.compile(r"(?<!\d)(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
STAMP = re.compile(r"_(\d{4}-\d{2}-\d{2})(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?_")
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""What no name has that memd makes or takes in: control codes, marks that turn the direction, halves of a character."""
COMMENT = re.compile(r"<!--\s*memd:(.*?)-->", re.DOTALL)
HEAD = 300
"""Characters of a memory in which its timestamp line is looked for; memd's own comment does not count."""
MAX_SLUG = 80


@lru_cache(maxsize=4_096)
def slug(heading: str) -> str:
    """A heading as part of a key: letters and digits of any script, everything else is a dash."""
    # Cached: a busy day has hundreds of headings, and every added entry needs all of their slugs.
    dashed = re.sub(r"[^\w]+|_+", "-", heading.casefold()).strip("-")
    return dashed[:MAX_SLUG].rstrip("-") or "section"


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
    return "daily" if DATE.search(pure.stem) else pure.stem


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
    if role in ("memory", "topic"):
        return "semantic"
    return "episodic" if role == "daily" or dated else "semantic"
