"""Two versions of one note, as git and synchronisers leave them: which file is a copy, and how they merge. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from memd.notes.incoming_file import split

COPIES = (
    re.compile(r"(?P<stem>.+)\.sync-conflict-\d{8}-\d{6}(?:-\w+)?(?P<suffix>\.[^.]+)?"),
    re.compile(r"(?P<stem>.+?) ?\((?:[^()]*)conflicted copy[^()]*\)(?P<suffix>\.[^.]+)?", re.IGNORECASE),
    re.compile(r"(?P<stem>.+)\.conflict-\d{8}T\d{6}-\w+(?P<suffix>\.[^.]+)?"),
    re.compile(r"(?P<stem>.+\.md)\.orig(?P<suffix>)"),
)
"""Names of copies: Syncthing's, Dropbox's and Nextcloud's, memd's own, and those of merge tools."""
OTHER = "other version"


def original_of(path: str) -> str | None:
    """The note that a path is a conflict copy of; None if it is none."""
    pure = PurePosixPath(path)
    for pattern in COPIES:
        if found := pattern.fullmatch(pure.name):
            return str(pure.with_name(found["stem"] + (found["suffix"] or "")))
    return None


# --- merging ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Merged:
    """Two versions of a note as one."""

    text: str
    clashes: tuple[str, ...] = ()
    """Headings of the sections that both changed, each in its own way."""
    taken: tuple[str, ...] = ()
    """Headings of the sections whose text is the other side's."""


def merge(path: str, ours: str, theirs: str, base: str | None) -> Merged:
    """Merge two versions section by section. Without `base`, what only one side has was added there.

    A section that both changed stays twice, unless both only added lines to it.
    """
    (head, mine), (_, others), (_, before) = (_sections(path, text) for text in (ours, theirs, base or ""))
    parts, clashes, taken = [head], list[str](), list[str]()
    for slug, (heading, text) in mine.items():
        there, was = others.get(slug, ("", ""))[1], before.get(slug, ("", ""))[1]
        kept = _kept(text, there, was)
        parts += kept
        clashes += [heading] if len(kept) > 1 else []
        taken += [heading] if len(kept) < 2 and kept != [text] else []
    for slug, (heading, text) in others.items():
        if slug not in mine and before.get(slug, ("", ""))[1] != text:
            parts.append(text)
            taken.append(heading)
    return Merged(_joined(parts), tuple(clashes), tuple(taken))


def _sections(path: str, text: str) -> tuple[str, dict[str, tuple[str, str]]]:
    head, pairs = split(path, text.replace("\r\n", "\n"))
    return head, {memory.slug: (memory.heading, memory.text) for memory, _ in pairs}


def _kept(ours: str, theirs: str, base: str) -> list[str]:
    """What stays of a section that our side has: nothing, one text, or both."""
    if ours == theirs or theirs == base:
        # Gone there and unchanged here means gone.
        return [] if not theirs and base == ours else [ours]
    if ours == base:
        return [theirs] if theirs else []
    if not theirs:
        return [ours]
    union = _union(ours, theirs, base)
    return [union] if union else [ours, _retitled(theirs)]


def _union(ours: str, theirs: str, base: str) -> str:
    """Both sides' lines where both only added some; empty where one changed a line or took one away."""
    mine, others, before = (text.rstrip().split("\n") for text in (ours, theirs, base))
    if not base:
        before = [line for line in mine if line in others]
    if not (_within(before, mine) and _within(before, others)):
        return ""
    return "\n".join([*mine, *(line for line in others if line and line not in mine)])


def _within(some: Sequence[str], lines: Sequence[str]) -> bool:
    rest: Iterator[str] = iter(lines)
    return all(line in rest for line in some)


def _retitled(text: str) -> str:
    heading, newline, body = text.partition("\n")
    return f"{heading.rstrip()} ({OTHER}){newline}{body}" if heading.startswith("#") else f"## ({OTHER})\n\n{text}"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
