"""The titles of memories: the most telling of front matter, `#` heading, file name and `##` heading. Pure."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path, PurePosixPath

from memd.notes.names import DATE

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
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
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
