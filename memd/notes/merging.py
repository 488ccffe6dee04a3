"""Merges texts of one file: an import into a note, and the two versions of a note that a conflict leaves;
also as git's merge driver."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath

from memd.models import Memory, digest_of
from memd.notes import names, read, sections
from memd.notes.blocks import LineOffsets, with_line_ends
from memd.notes.parse import parse
from memd.prose import CODE_BLOCK

DIFFERENT = "there is another text"
NO_PLACE = "it would not be a memory of its own there"
FOREIGN = "the file is UTF-16"


@dataclass(frozen=True, slots=True)
class IncomingMemory:
    """One memory, with the text between it and the next one."""

    slug: str
    text: str
    after: str = "\n"
    place: str = ""
    """Its origin, as shown to people."""
    line: int = 1
    """Its first line there."""

    @property
    def digest(self) -> str:
        return digest_of(self.text)


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file: the text before its first memory, and its memories."""

    path: str
    head: str
    items: tuple[IncomingMemory, ...]
    exact: bytes | None = None
    """The exact bytes, if they are not plain UTF-8."""
    modified: float = 0.0
    title: str = ""
    """The heading for a text without one, when it goes into an existing file."""

    @property
    def data(self) -> bytes:
        if self.exact is not None:
            return self.exact
        text = self.head + "".join(item.text + item.after for item in self.items)
        return text.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The merged bytes (None: no file), and what happened to each memory."""

    data: bytes | None
    added: tuple[IncomingMemory, ...] = ()
    replaced: tuple[IncomingMemory, ...] = ()
    same: int = 0
    rejected: tuple[tuple[IncomingMemory, str], ...] = ()
    """Memories that were not merged, and why."""


# --- reading ------------------------------------------------------------------------------------------------


def split(path: str, text: str, day: str = "") -> tuple[str, list[tuple[Memory, str]]]:
    """The text before the first memory, and each memory with the text behind it: together the whole text."""
    memories = parse(path, text, day).memories
    if not memories:
        return text, []
    lines = LineOffsets(text)
    starts = [lines.offset(memory.start_line - 1) for memory in memories]
    ends = [*starts[1:], len(text)]
    places = zip(memories, starts, ends, strict=True)
    pairs = [(memory, text[start + len(memory.text) : end]) for memory, start, end in places]
    return text[: starts[0]], pairs


def read_incoming(path: str, data: bytes, place: str = "", modified: float = 0.0) -> IncomingFile:
    """A file's bytes as an incoming file for `path`."""
    text = read.decode(data)
    head, pairs = split(path, text)
    items = tuple(IncomingMemory(memory.slug, memory.text, after, place, memory.start_line) for memory, after in pairs)
    return IncomingFile(path, head, items, None if text.encode("utf-8", "replace") == data else data, modified)


def without_known(incoming: IncomingFile, known: Container[str]) -> IncomingFile:
    """The incoming file without the memories whose digest is known."""
    left = tuple(item for item in incoming.items if item.digest not in known)
    return incoming if len(left) == len(incoming.items) else replace(incoming, items=left, exact=None)


def sectioned(incoming: IncomingFile) -> IncomingFile:
    """The incoming file with its preamble as a section of its own, if it has a title for that."""
    if not incoming.title or names.is_topic(incoming.path) or all(item.slug for item in incoming.items):
        return incoming
    items = (item if item.slug else _as_section(item, incoming.title) for item in incoming.items)
    return replace(incoming, items=tuple(items), exact=None)


def _as_section(item: IncomingMemory, title: str) -> IncomingMemory:
    body = re.sub(r"\A\s*#[ \t][^\n]*\n+", "", item.text)
    return replace(item, slug=names.slug(title), text=f"## {title}\n\n{body}")


# --- merging an import ---------------------------------------------------------------------------------------


def merge_incoming(incoming: IncomingFile, data: bytes | None, overwrite: bool = False) -> MergeResult:
    """Merge into a file's bytes: new memories are added, different ones rejected or overwritten."""
    if data is None:
        return MergeResult(incoming.data, added=incoming.items)
    first = _merge_once(incoming, data, overwrite)
    if first.data in (data, None) or _merge_once(incoming, first.data, overwrite).data == first.data:
        return first
    # An addition can change the meaning of the rest: a file that was one memory gets sections, for example.
    return _rejected(data, incoming.items, NO_PLACE)


def _merge_once(incoming: IncomingFile, data: bytes, overwrite: bool) -> MergeResult:
    if data == incoming.data:
        return MergeResult(data, same=len(incoming.items))
    if data.startswith(read.UTF_16):
        return _rejected(data, incoming.items, FOREIGN)
    existing = parse(incoming.path, read.decode(data)).memories
    texts, slugs = {_plain(memory.text) for memory in existing}, {memory.slug for memory in existing}
    missing = [item for item in incoming.items if _plain(item.text) not in texts]
    same = len(incoming.items) - len(missing)
    clashing = tuple(item for item in missing if item.slug in slugs or not item.slug)
    new = tuple(item for item in missing if item not in clashing)
    if clashing and overwrite and names.is_topic(incoming.path):
        return MergeResult(incoming.data, replaced=clashing, same=same)
    result = _combined(incoming.path, data, new, clashing if overwrite else (), slugs)
    rejected = () if overwrite else tuple((item, DIFFERENT) for item in clashing)
    return replace(result, same=same, rejected=(*rejected, *result.rejected))


Items = tuple[IncomingMemory, ...]


def _combined(path: str, data: bytes, new: Items, replaced: Items, slugs: Container[str]) -> MergeResult:
    def edit(text: str | None) -> str:
        text = text or ""
        for item in replaced:
            body = _text_for(text, item)
            if item.slug in slugs:
                text = sections.with_section(path, text, item.slug, body)
            else:
                text = sections.with_preamble(path, text, body)
        for item in new:
            text = sections.with_new_section(text, _text_for(text, item))
        return text

    try:
        merged = sections.in_bytes(edit)(data) or b""
    except KeyError:
        # Replacing one memory made something else of the next: front matter, for example.
        return _rejected(data, (*new, *replaced), NO_PLACE)
    # A file that ends within a code block, for example, swallows what is added to it.
    texts = {_plain(memory.text) for memory in parse(path, read.decode(merged)).memories}
    if any(_plain(item.text) not in texts for item in (*new, *replaced)):
        return _rejected(data, (*new, *replaced), NO_PLACE)
    return MergeResult(merged, new, replaced)


def _rejected(data: bytes, items: Items, why: str) -> MergeResult:
    return MergeResult(data, rejected=tuple((item, why) for item in items))


def _plain(text: str) -> str:
    """A text regardless of its line ends."""
    return text.replace("\r\n", "\n").rstrip()


def _text_for(text: str, item: IncomingMemory) -> str:
    """A memory's text with the line ends of the file it goes to, encodable as UTF-8."""
    return with_line_ends(_plain(item.text).encode("utf-8", "replace").decode(), text)


# --- two versions of one note -------------------------------------------------------------------------------


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
    """The common base of both sides of a note; empty: nobody knows, so text of only one side was added there."""

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
        (heading, one), (elsewhere, other), (_, was) = (side.get(slug, ("", "")) for side in (mine, others, before))
        kept, clash = _merge_texts(one, other, Base(was, base.certain))
        if clash:
            clashes.append(Clash(heading or elsewhere, one.strip("\n"), other.strip("\n")))
            kept = both(one, other) if both else kept
        elif kept != one:
            taken.append(heading or elsewhere)
        parts[slug] = kept
    text = _joined(parts, {slug: section for slug, (_, section) in mine.items()})
    return Merged(with_line_ends(text, ours or theirs), tuple(clashes), tuple(taken))


def in_markers(ours: str, theirs: str) -> str:
    """Two versions of a section as git writes them down."""
    lines = (f"{read.OURS} ours", ours.strip("\n"), read.MIDDLE, theirs.strip("\n"), f"{read.THEIRS} theirs")
    return "\n".join(lines) + "\n\n"


def _sections(path: str, text: str) -> dict[str, tuple[str, str]]:
    """Heading and text, with the blank lines behind it, of each section; what stands before the first has no slug."""
    head, pairs = split(path, text)
    parts = {memory.slug: (memory.heading, memory.text + after) for memory, after in pairs}
    heading, first = parts.pop("", ("", ""))
    return ({"": (heading, head + first)} if head or first else {}) | parts


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
    lines, clash = _merge_lines(common if unsure else start, mine, others, base.certain)
    return "\n".join(lines) + (ours[len(one) :] or "\n"), clash or unsure


def _merge_lines(base: list[str], ours: list[str], theirs: list[str], certain: bool) -> tuple[list[str], bool]:
    """The base with the changes of both sides, ours first where both changed the same, and whether they did.

    There, and where the base is only likely, lines of theirs that ours has too are not repeated: both may have them
    from a third machine, and a note would grow and grow while two disagree about it.
    """
    merged, at, clash, new_lines = list[str](), 0, False, _NewLines(ours, theirs)
    ahead = behind = 0
    for region in _regions(_edits(base, ours), _edits(base, theirs)):
        before = base[region.begin : region.end]
        own = ours[region.begin + ahead : region.end + (ahead := ahead + region.ours)]
        part = range(region.begin + behind, region.end + (behind := behind + region.theirs))
        their = theirs[part.start : part.stop]
        merged += base[at : region.begin]
        if their in (own, before):
            merged += own
        elif own == before != []:
            merged += their
        else:
            clash = clash or before != []
            merged += own + (new_lines.of(part) if before or not certain else their)
        at = region.end
    return merged + base[at:], clash


class _NewLines:
    """The lines of theirs that ours has not, or less often; a code block stays whole."""

    def __init__(self, ours: list[str], theirs: list[str]) -> None:
        self._theirs = theirs
        self._more = Counter(theirs)
        self._more.subtract(ours)
        self._code, self._known = _code(theirs), set(_code(ours).values())

    def of(self, part: range) -> list[str]:
        """Those of a part of theirs, and the blank lines between them."""
        lines = [self._theirs[number] for number in part if self._is_new(number)]
        return lines if any(line.strip() for line in lines) else []

    def _is_new(self, number: int) -> bool:
        line = self._theirs[number]
        if number in self._code:
            return self._code[number] not in self._known
        self._more[line] -= 1
        return self._more[line] >= 0 or not line.strip()


def _code(lines: Sequence[str]) -> dict[int, str]:
    """The code blocks, by the numbers of their lines."""
    text, found = "\n".join(lines), dict[int, str]()
    offsets = LineOffsets(text)
    for block in CODE_BLOCK.finditer(text):
        found |= dict.fromkeys(range(offsets.number(block.start()) - 1, offsets.number(block.end())), block[0])
    return found


Edit = tuple[int, int, int]
"""Lines of the base, from and to, and how many more stand there now."""


@dataclass(slots=True)
class _Region:
    """Lines of the base that one side changed, or both did, and how many more each side has there."""

    begin: int
    end: int
    ours: int = 0
    theirs: int = 0


def _regions(ours: Sequence[Edit], theirs: Sequence[Edit]) -> list[_Region]:
    """The edits of both sides, those together that overlap. Text that is put before a line does not touch that line."""
    regions = list[_Region]()
    edits = [(*edit, 0) for edit in ours] + [(begin, end, 0, more) for begin, end, more in theirs]
    for begin, end, own, other in sorted(edits, key=lambda edit: edit[:2]):
        last = regions[-1] if regions else None
        if last is None or (begin >= last.end and (begin, end) != (last.begin, last.end)):
            last = _Region(begin, end)
            regions.append(last)
        last.end = max(last.end, end)
        last.ours += own
        last.theirs += other
    return regions


def _edits(base: Sequence[str], side: Sequence[str]) -> list[Edit]:
    changes = SequenceMatcher(None, base, side, autojunk=False).get_opcodes()
    return [(start, end, b - a - (end - start)) for kind, start, end, a, b in changes if kind != "equal"]


def _common(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[str]:
    """The lines that both have, in order."""
    for match in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        yield from ours[match.a : match.a + match.size]


def likely_base(versions: Sequence[str], ours: str, theirs: str, older: bool = False) -> str:
    """The likely base of a section, of the texts that it had here, oldest first; empty: nobody knows.

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
        if text and not as_before:
            text = text.rstrip("\n") + "\n\n"
        text, last = text + part, slug
    ends_as_before = not text or ([last] == list(ours)[-1:] and parts[last] == ours[last])
    return text if ends_as_before else text.rstrip("\n") + "\n"


# --- for git, `python -m memd.notes.merging BASE OURS THEIRS [PATH]`, without a daemon ------------------------


def main(arguments: list[str]) -> int:
    """git's merge driver for notes; the merged note replaces OURS, as git wants it.

    The exit code is 1 where both sides changed the same lines: these stand between markers, which memd shows to
    nobody.
    """
    base, ours, theirs = map(Path, arguments[:3])
    path = arguments[3] if len(arguments) > 3 else arguments[1]
    if missing := [file for file in (ours, theirs, base) if not file.is_file()]:
        sys.exit(f"memd: {missing[0]} is no file")
    if any(file.read_bytes().startswith(read.UTF_16) for file in (ours, theirs)):
        print(f"{path}: UTF-16 is not merged", file=sys.stderr)
        return 1
    mine, other, began = (read.decode(file.read_bytes(), "surrogateescape") for file in (ours, theirs, base))
    merged = merge(path, mine, other, Base(began), both=in_markers)
    ours.write_bytes(sections.in_bytes(lambda _: merged.text)(ours.read_bytes()) or b"")
    if merged.clashes:
        headings = ", ".join(clash.heading for clash in merged.clashes)
        print(f"{path}: both sides changed: {headings}; to settle it: memd conflict list", file=sys.stderr)
    return 1 if merged.clashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
