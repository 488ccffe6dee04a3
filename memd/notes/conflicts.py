"""Two versions of one note, as git and synchronisers leave them: which file is a copy, and how they merge. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

    `both` writes a section down that cannot be merged; without it, what both sides changed stands there twice, ours
    first.
    """
    mine, others, before = (_sections(path, text.replace("\r\n", "\n")) for text in (ours, theirs, base.text))
    parts, clashes, taken = dict[str, str](), list[Clash](), list[str]()
    for slug in _order(list(mine), list(others), before):
        one, other, was = (side.get(slug, _NOTHING) for side in (mine, others, before))
        kept, clash = _merge_texts(one.text, other.text, Base(was.text, base.certain))
        if clash:
            clashes.append(Clash(one.heading or other.heading, one.text.strip("\n"), other.text.strip("\n")))
            kept = both(one.text, other.text) if both else kept
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


def _merge_texts(ours: str, theirs: str, base: Base) -> tuple[str, bool]:
    """One text of two, and whether both changed the same lines.

    Empty means that there is none: both removed it, or one did and the other left it as it was.
    """
    one, other, was = ours.rstrip(), theirs.rstrip(), base.text.rstrip()
    if one == other or other == was:
        return ours, False
    if one == was:
        return theirs, False
    if not one or not other:
        # Changed here and removed there: what someone still worked on stays.
        return ours or theirs, False
    mine, others = one.split("\n"), other.split("\n")
    common = list(_common(mine, others))
    start = was.split("\n") if was else common
    removed = any(begin < end for side in (mine, others) for begin, end, _ in _edits(start, side))
    unsure = removed and not base.certain
    lines, clash = _merge_lines(common if unsure else start, mine, others, unsure)
    return "\n".join(lines) + (ours[len(one) :] or "\n"), clash or unsure


def _merge_lines(base: list[str], ours: list[str], theirs: list[str], unsure: bool) -> tuple[list[str], bool]:
    """The base with the changes of both sides, ours first where both changed the same, and whether they did.

    There, and where one is unsure of the base, lines of theirs that ours has too are not repeated: a note would grow
    and grow while two machines disagree about it.
    """
    merged, at, clash = list[str](), 0, False
    for region in _regions(_edits(base, ours), _edits(base, theirs)):
        before = base[region.begin : region.end]
        own, their = (_changed(before, side, region.begin) for side in (region.ours, region.theirs))
        merged += base[at : region.begin]
        if their in (own, before):
            merged += own
        elif own == before != []:
            merged += their
        else:
            clash = clash or before != []
            merged += own + (_new_lines(their, ours) if unsure or before else their)
        at = region.end
    return merged + base[at:], clash


def _new_lines(lines: list[str], known: Collection[str]) -> list[str]:
    """The lines that are not known yet; a code block stays whole."""
    has_code = any(line.lstrip().startswith(("```", "~~~")) for line in lines)
    return lines if has_code else [line for line in lines if line not in known]


Edit = tuple[int, int, list[str]]
"""Lines of the base, from and to, and what stands there now."""


@dataclass(slots=True)
class _Region:
    """Lines of the base that one side changed, or both did."""

    begin: int
    end: int
    ours: list[Edit] = field(default_factory=list)
    theirs: list[Edit] = field(default_factory=list)


def _regions(ours: Sequence[Edit], theirs: Sequence[Edit]) -> list[_Region]:
    """The edits of both sides, those together that overlap. What is put before a line does not touch that line."""
    regions = list[_Region]()
    edits = [(edit, True) for edit in ours] + [(edit, False) for edit in theirs]
    for edit, own in sorted(edits, key=lambda one: one[0][:2]):
        begin, end, _ = edit
        last = regions[-1] if regions else None
        if last is None or (begin >= last.end and (begin, end) != (last.begin, last.end)):
            last = _Region(begin, end)
            regions.append(last)
        last.end = max(last.end, end)
        (last.ours if own else last.theirs).append(edit)
    return regions


def _changed(lines: list[str], edits: Sequence[Edit], first: int) -> list[str]:
    """Lines of the base, of which the first has this number, with the edits of one side."""
    changed, at = list[str](), 0
    for begin, end, now in edits:
        changed += [*lines[at : begin - first], *now]
        at = end - first
    return changed + lines[at:]


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
