"""Two versions of one note, as git and synchronisers leave them: which file is a copy, and how they merge. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePosixPath

from memd.notes import markers
from memd.notes.blocks import with_line_ends
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
class Clash:
    """A section that both sides changed at the same place, each in its own way."""

    heading: str
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Merged:
    """Two versions of a note as one."""

    text: str
    clashes: tuple[Clash, ...] = ()
    taken: tuple[str, ...] = ()
    """Headings of the sections whose text has something of the other side."""


@dataclass(frozen=True, slots=True)
class Base:
    """What both sides of a note began with; empty: nobody knows, so what only one side has was added there."""

    text: str = ""
    certain: bool = True
    """Else it is only likely, and nothing that it has may be taken for removed by one side."""


def merge(path: str, ours: str, theirs: str, base: Base, both: Callable[[str, str], str] | None = None) -> Merged:
    """Merge two versions section by section, and within a section line by line; no line is lost that one side added.

    `both` writes a section down that cannot be merged; without it, its versions stand one after the other.
    """
    mine, others, before = (_sections(path, text.replace("\r\n", "\n")) for text in (ours, theirs, base.text))
    parts, clashes, taken = dict[str, str](), list[Clash](), list[str]()
    for slug in _order(list(mine), list(others), before):
        one, other, was = (side.get(slug, _NOTHING) for side in (mine, others, before))
        kept = _merge_texts(one.text, other.text, Base(was.text, base.certain))
        if kept is None:
            clashes.append(Clash(one.heading or other.heading, one.text.strip("\n"), other.text.strip("\n")))
            kept = (both or _one_after_the_other)(one.text, other.text)
        elif kept != one.text:
            taken.append(one.heading or other.heading)
        parts[slug] = kept
    text = _joined(parts, {slug: section.text for slug, section in mine.items()})
    return Merged(with_line_ends(text, ours or theirs), tuple(clashes), tuple(taken))


def in_markers(ours: str, theirs: str) -> str:
    """Two versions of a section as git writes them down."""
    lines = (f"{markers.OURS} ours", ours.strip("\n"), markers.MIDDLE, theirs.strip("\n"), f"{markers.THEIRS} theirs")
    return "\n".join(lines) + "\n\n"


@dataclass(frozen=True, slots=True)
class _Part:
    """A section with the blank lines behind it."""

    heading: str = ""
    text: str = ""


_NOTHING = _Part()
_HEAD = "\n"
"""Where a slug would be: what stands before the first section. No slug is a line end."""


def _sections(path: str, text: str) -> dict[str, _Part]:
    head, pairs = split(path, text)
    found = {_HEAD: _Part(text=head)} if head else {}
    return found | {memory.slug: _Part(memory.heading, memory.text + after) for memory, after in pairs}


def _order(mine: Sequence[str], others: Sequence[str], before: Collection[str]) -> list[str]:
    """Our order; what only they have comes where they have it, after what we added at the same place."""
    order, at = list(mine), 0
    for slug in others:
        if slug in mine:
            at = order.index(slug) + 1
            continue
        while at < len(order) and order[at] not in others and order[at] not in before:
            at += 1
        order.insert(at, slug)
        at += 1
    return order


def _merge_texts(ours: str, theirs: str, base: Base) -> str | None:
    """One text of two; None where both changed the same lines.

    Empty means that there is none: both removed it, or one did and the other left it as it was.
    """
    one, other, was = ours.rstrip(), theirs.rstrip(), base.text.rstrip()
    if one == other or other == was:
        return ours
    if one == was:
        return theirs
    if not one or not other:
        # Changed here and removed there: what someone still worked on stays.
        return ours or theirs
    mine, others = one.split("\n"), other.split("\n")
    start = was.split("\n") if was else list(_common(mine, others))
    edits = _edits(start, mine), _edits(start, others)
    if not base.certain and any(begin < end for side in edits for begin, end, _ in side):
        return None
    lines = _with_edits(start, *edits)
    return None if lines is None else "\n".join(lines) + (ours[len(one) :] or "\n")


Edit = tuple[int, int, list[str]]
"""Lines of the base, from and to, and what stands there now."""


def _with_edits(base: Sequence[str], ours: Sequence[Edit], theirs: Sequence[Edit]) -> list[str] | None:
    """The base with the edits of both sides; None where two of them overlap."""
    others = [edit for edit in theirs if edit not in ours]
    if any(one[0] < other[1] and other[0] < one[1] for one in ours for other in others):
        return None
    merged, at = list[str](), 0
    # What is put before a line goes before what replaces it; where both put something, ours is first.
    for start, end, lines in sorted([*ours, *others], key=lambda edit: edit[:2]):
        merged += [*base[at:start], *lines]
        at = end
    return [*merged, *base[at:]]


def _edits(base: Sequence[str], side: Sequence[str]) -> list[Edit]:
    changes = SequenceMatcher(None, base, side, autojunk=False).get_opcodes()
    return [(start, end, list(side[a:b])) for kind, start, end, a, b in changes if kind != "equal"]


def _common(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[str]:
    """The lines that both have, in order."""
    for match in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        yield from ours[match.a : match.a + match.size]


def likely_base(versions: Sequence[str], ours: str, theirs: str, older: bool = False) -> str:
    """What a section likely began with, of the texts that it had here, oldest first; empty: nobody knows.

    A synchroniser may have put our own last text into the copy, and the other machine's in its place: then the base is
    what came before it. `older`: the copy is known to hold what was there before, and nothing new.
    """
    texts = [version.rstrip() for version in versions[:-1]]
    if theirs.rstrip() in texts:
        at = texts.index(theirs.rstrip())
        base = texts[at] if older else texts[at - 1] if at else ""
    else:
        # Only how many lines are the same counts, not their order: a section may have had hundreds of texts.
        matcher = SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(theirs.rstrip().split("\n"))
        base = max(texts, key=lambda text: _likeness(matcher, text), default="")
    return "" if base == ours.rstrip() else base


def _likeness(matcher: SequenceMatcher[str], text: str) -> float:
    matcher.set_seq1(text.split("\n"))
    return matcher.quick_ratio()


def _one_after_the_other(ours: str, theirs: str) -> str:
    heading, newline, body = theirs.partition("\n")
    titled = f"{heading.rstrip()} ({OTHER}){newline}{body}" if heading.startswith("#") else f"## ({OTHER})\n\n{theirs}"
    return ours.rstrip("\n") + "\n\n" + titled


def _joined(parts: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """The sections as one text; between two that stood like this before, nothing changes."""
    text, last, follows = "", "", dict(zip(ours, list(ours)[1:], strict=False))
    for slug, part in parts.items():
        if not part:
            continue
        as_before = follows.get(last) == slug and parts[last] == ours[last]
        if text and not as_before and last != _HEAD:
            text = text.rstrip("\n") + "\n\n"
        text, last = text + part, slug
    ends_as_before = not text or ([last] == list(ours)[-1:] and parts[last] == ours[last])
    return text if ends_as_before else text.rstrip("\n") + "\n"
