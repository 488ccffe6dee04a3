"""Shows what a search found: for people, and in the forms that other tools and scripts read.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os
import sys
import time

from memd.cli import console
from memd.errors import in_shell
from memd.protocol import wire
from memd.protocol.safe_text import neutralise, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    Span = tuple[int, int]
    """Where something begins and ends in a text."""

FORMAT_ALIASES = {"bus": "entries"}
"""Names that others know the formats by."""
BOLD, DIM, MATCH, PLACE, END = "\x1b[1m", "\x1b[2m", "\x1b[1;33m", "\x1b[36m", "\x1b[0m"
INDENT = "  "
LEAST_CUT = 8
MAX_LINES = 14
"""A hit's text is shown up to here; a long table or code block would push the others off the screen."""
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


# --- hits for people ----------------------------------------------------------------------------------------------


def remarks(query: str, result: Mapping[str, Any], shown: bool = False) -> list[str]:
    """Remarks beside the hits: that there are none, that they are weak, that memd is not at its best.

    `shown` says that what is only close was shown with them.
    """
    # As it was typed: an answer has words in small letters, and "heiß" as "heiss".
    typed = {word.casefold(): word for word in (part.strip("?!.,:;\"'()„“”") for part in query.split())}
    lines = [_correction(typed.get(word, word), also) for word, also in result.get("corrected", {}).items()]
    if not result["hits"]:
        asked = ", ".join(one_line(name) for name in result.get("ns", ()))
        lines.append(f"nothing found for “{one_line(query)}”" + (f" in {asked}" if asked else ""))
        near = len(result.get("near", ()))
        if near and shown:
            lines[-1] += "; these are the closest passages"
        elif near:
            lines.append(f"to see the closest {f'{near} passages' if near > 1 else 'passage'} all the same, add --all")
        if result.get("pending"):
            lines.append(still_indexing(result["pending"]))
    elif result.get("verdict") == "weak":
        missing = [word for word in result.get("missing", ()) if word not in result.get("corrected", ())]
        unknown = [f"“{one_line(typed.get(word, word))}”" for word in missing]
        lines.append("these match weakly" + (f": no note has {', '.join(unknown)}" if unknown else ""))
    if result.get("unchecked"):
        lines.append(f"not compared with the files: {one_line(str(result['unchecked']))}")
    if result.get("expired"):
        lines.append("what expired or was deleted would answer: memd gc lists it")
    if many := result.get("resting"):
        more = "1 more passage rests" if many == 1 else f"{many} more passages rest"
        lines.append(f"{more} (dormant or raw); to see {'it' if many == 1 else 'them'}, add --all")
    return [*lines, *degraded(result)]


def degraded(result: Mapping[str, Any]) -> list[str]:
    """A remark on what an answer lacks, and whether that comes by itself."""
    why, names = result.get("unheard"), result["degraded"]
    what = ", ".join(f"{name} ({why})" if why and name == "vectors" else str(name) for name in names)
    then = "memd goes on by itself" if why and len(names) == 1 else "how to repair it: memd status"
    return [f"degraded: {one_line(what)}; {then}"] if names else []


def still_indexing(pending: int) -> str:
    what = "1 piece is" if pending == 1 else f"{pending} pieces are"
    return f"{what} still being indexed; ask again in a moment"


def _correction(word: str, near: list[str]) -> str:
    also = " and ".join(f"“{one_line(spelling)}”" for spelling in near)
    return f"no note has “{one_line(word)}”; searched also for {also}"


def memory(row: Mapping[str, Any]) -> str:
    """One memory with its place, for a terminal."""
    place = f"{row['path']}:{row['start_line']}" if "start_line" in row else row["path"]
    facts = [place, row.get("heading") or "", row.get("date") or row.get("at") or "", _aside(row),
             by(row), *_life(row)]  # fmt: skip
    return _dim("  ".join(one_line(fact) for fact in facts if fact), True) + "\n" + neutralise(row["text"]).rstrip("\n")


def _life(row: Mapping[str, Any]) -> list[str]:
    """Which version it is, and how much it is to read."""
    if not row.get("version"):
        return []
    before = f", supersedes {row['supersedes']}" if row.get("supersedes") else ""
    return [f"version {row['version']}{before}", f"~{row['estimated_tokens']} tokens", *expiry(row)]


def expiry(row: Mapping[str, Any]) -> list[str]:
    """When its time to live runs out, or ran out."""
    until = row.get("expires") or ""
    ahead = until > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    return [f"{'expires' if ahead else 'expired'} {until[:16]}"] if until else []


def render_one(hit: dict[str, Any], several: bool, colour: bool, full: bool = False) -> str:
    lines = [_headline(hit, several, colour), *(_text if full else _snippet)(hit, colour)]
    for other in hit.get("also") or ():
        lines.append(_dim(f"  also {one_line(other['path'])}:{other['start_line']}", colour))
    if hit.get("explain"):
        lines += [_dim(line, colour) for line in _facts({"ranks": hit.get("ranks"), **hit["explain"]}, "  ")]
    return "\n".join(lines)


def _facts(facts: dict[str, Any], indent: str) -> list[str]:
    """Names and values, the values below each other; a group of them stands indented under its name."""
    lines = []
    width = max((len(str(name)) for name, value in facts.items() if not isinstance(value, dict)), default=0)
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{one_line(str(name))}", *_facts(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{one_line(str(name)):<{width}}  {_value(value)}")
    return lines


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return ", ".join(_value(one) for one in value) if isinstance(value, list) else one_line(str(value))


def _headline(hit: dict[str, Any], several: bool, colour: bool) -> str:
    """`path:line  key  heading  date`, with the workspace in front where several were asked. What the key or the path
    says already is left out, and so is what a terminal has no room for."""
    place, key = f"{one_line(hit['path'])}:{hit['start_line']}", one_line(hit["key"])
    workspace = one_line(hit["ns"]) if several else ""
    date = "" if (hit.get("date") or "") in hit["path"] else one_line(hit["date"])
    team = "team" if hit.get("layer") == "team" else ""
    rest = [date, team, f"score {hit['score']:.3f}" if hit.get("explain") else "", _aside(hit), by(hit)]
    room = console.width() - sum(len(part) + 2 for part in (workspace, place, key, *rest) if part)
    heading = cut(_heading(hit), room)
    if colour:
        place = _link(f"{PLACE}{place}{END}", os.path.join(hit.get("root") or "", hit["path"]))  # noqa: PTH118
        key, workspace = f"{BOLD}{key}{END}", workspace and _dim(workspace, True)
        rest = [part and _dim(part, True) for part in rest]
    return "  ".join(part for part in (workspace, place, key, heading, *rest) if part)


def _heading(hit: dict[str, Any]) -> str:
    """The headings above a hit, without those that its key is made of."""
    known = {_letters(part) for part in (hit["key"], *hit["key"].split("#"), hit["path"])}
    headings = one_line(hit.get("heading") or "").split(" › ")
    return " › ".join(heading for heading in headings if _letters(heading) not in known)


def _letters(text: str) -> str:
    """The letters and digits of a name, to see whether two are the same."""
    return "".join(char for char in text.lower() if char.isalnum())


def cut(text: str, room: int) -> str:
    """A text within some columns; nothing where that would be no more than a few letters."""
    if columns(text) <= room:
        return text
    return f"{text[: _fitting(text, 0, len(text), room - 1)].rstrip()}…" if room >= LEAST_CUT else ""


def _aside(row: Mapping[str, Any]) -> str:
    """A mark for a memory that became dormant, or never became more than a capture."""
    return f"({row['tier']})" if row.get("tier") in ("dormant", "sensory") else ""


def by(row: Mapping[str, Any]) -> str:
    """Who wrote some of it, where that was not only a person."""
    return f"by {', '.join(map(one_line, row['written_by']))}" if row.get("written_by") else ""


def _with_author(place: str, row: Mapping[str, Any]) -> str:
    return f"{place}, {by(row)}" if row.get("written_by") else place


def _dim(text: str, colour: bool) -> str:
    return f"{DIM}{text}{END}" if colour else text


def _link(text: str, file: str) -> str:
    """An OSC 8 link: the terminal opens the file on a click."""
    if not file.startswith("/"):
        return text
    quoted = "".join(chr(byte) if byte in UNRESERVED else f"%{byte:02X}" for byte in os.fsencode(file))
    return f"\x1b]8;;file://{os.uname().nodename}{quoted}\x1b\\{text}\x1b]8;;\x1b\\"


def _snippet(hit: dict[str, Any], colour: bool) -> list[str]:
    """The few lines of the passage that have the words; an ellipsis where there is more."""
    text, spans = hit["text"], _spans(hit.get("marks"), len(hit["text"]))
    lines, before, after = snippet(text, spans, console.width() - len(INDENT) - 2)
    shown = []
    for start, end in lines:
        inside = [(max(mark[0], start) - start, min(mark[1], end) - start) for mark in spans if mark[1] > start]
        shown.append(marked(text[start:end], inside, colour))
    if before:
        shown[0] = f"…{shown[0]}"
    if after:
        shown[-1] += " …"
    return [f"{INDENT}{line}".rstrip() for line in shown]


def _text(hit: dict[str, Any], colour: bool) -> list[str]:
    """The lines of the text, indented, around the first match where there are too many."""
    text = hit["text"]
    while text and not neutralise(text[-1]).strip("\n"):
        text = text[:-1]
    spans = _spans(hit.get("marks"), len(text))
    lines = marked(text, spans, colour).split("\n")
    first = 0
    if len(lines) > MAX_LINES and spans:
        match = neutralise(text[: spans[0][0]]).count("\n")
        first = max(0, min(match - 2, len(lines) - MAX_LINES))
    shown = [f"  {line}".rstrip() for line in lines[first : first + MAX_LINES]]
    left = len(lines) - len(shown)
    more = f"  … {left} more lines: memd get {in_shell(one_line(hit['key']))}"
    return [*shown, _dim(more, colour)] if left else shown


def marked(text: str, marks: Any, colour: bool) -> str:
    """The text made safe to show and, in colour, with its matches marked."""
    if not colour:
        return neutralise(text)
    pieces, at = [], 0
    for start, end in _spans(marks, len(text)):
        # Made safe piece by piece, so that the marks still fit when characters go. Colour ends with the line: what
        # follows is cut and indented by lines.
        match = neutralise(text[start:end]).replace("\n", f"{END}\n{MATCH}")
        pieces += [neutralise(text[at:start]), f"{MATCH}{match}{END}"]
        at = end
    return "".join([*pieces, neutralise(text[at:])])


def _spans(marks: Any, length: int) -> list[tuple[int, int]]:
    """The marks in order, without overlaps and inside the text."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((int(start), int(end)) for start, end in marks or ()):
        start, end = max(start, spans[-1][1] if spans else 0), min(end, length)
        if start < end:
            spans.append((start, end))
    return spans


# --- other formats ------------------------------------------------------------------------------------------------


def written(name: str, result: Mapping[str, Any], colour: bool, full: bool = False) -> str:
    """The hits of an answer in one of the formats, without the last newline; as `text`, `full` shows whole passages."""
    several = len(result.get("ns", ())) > 1
    if name == "memory-search":
        return "\n\n".join(_memory_result(nth, hit, several) for nth, hit in enumerate(result["hits"], 1))
    if name == "grep":
        return "\n".join(_hit_as_block(hit, several, colour) for hit in result["hits"])
    if name == "files":
        # Where several workspaces were asked, paths that lead there from anywhere.
        paths = (os.path.join(hit["root"] if several else "", hit["path"]) for hit in result["hits"])  # noqa: PTH118
        return "\n".join(dict.fromkeys(map(one_line, paths)))
    if name == "entries":
        return "\n\n".join(map(_entry, result["hits"]))
    if name == "jsonl":
        return b"".join(wire.encode(hit) for hit in result["hits"]).decode().rstrip("\n")
    return "\n\n".join(render_one(hit, several, colour, full) for hit in result["hits"])


def blocks(result: Mapping[str, Any], colour: bool) -> str:
    """The matches of `grep`: each block with its file and the line of its first match."""
    several = len(result["ns"]) > 1
    return "\n".join(
        _block(block, several, block["line"], _marked_lines(block, colour), colour) for block in result["blocks"]
    )


def listing(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each memory: role, title, time, key, behind the workspace where there are several; on a terminal the
    titles give way, as a key must be whole."""
    several = len({row["ns"] for row in rows}) > 1
    begins = [(one_line(row["ns"]) + "  " if several else "") + f"{one_line(row['role']):<10} " for row in rows]
    facts = [(row["key"], by(row), "expired" if row.get("expired") else "") for row in rows]
    keys = ["  ".join(one_line(one) for one in some if one) for some in facts]
    ends = [f" {one_line(row['time']):<16}  {key}" for row, key in zip(rows, keys, strict=True)]
    begin, end = (max(map(columns, parts)) for parts in (begins, ends))
    room = max(console.width() - begin - end, 16) if console.on_terminal(sys.stdout) else sys.maxsize
    titles = [padded(cut(one_line(row["title"]), room), min(room, 36)) for row in rows]
    return "\n".join(padded(one, begin) + title + end for one, title, end in zip(begins, titles, ends, strict=True))


def _memory_result(nth: int, hit: Mapping[str, Any], several: bool) -> str:
    source = _with_author(_place(hit, several), hit)
    return f"Memory Result {nth}: [source: {source}]\n{neutralise(hit['text']).rstrip()}"


def _entry(entry: Mapping[str, Any]) -> str:
    """One that was ranked by counting words: whole, under its role, title, time and score."""
    time = _with_author(one_line(entry["time"]), entry)
    title = f"[{one_line(entry['role'])}] {one_line(entry['title'])} ({time})"
    body = neutralise(entry["text"])
    return f"--- {title} score:{entry['score']:.1f} ---" + (f"\n{body}" if body else "")


def _hit_as_block(hit: Mapping[str, Any], several: bool, colour: bool) -> str:
    text, marks = hit["text"], hit.get("marks") or []
    line = hit["start_line"] + (text.count("\n", 0, min(mark[0] for mark in marks)) if marks else 0)
    return _block(hit, several, line, marked(text, marks, colour).rstrip("\n"), colour)


def _marked_lines(block: Mapping[str, Any], colour: bool) -> str:
    spans = {match["line"]: match["spans"] for match in block["matches"]}
    numbered = enumerate(block["lines"], block["start_line"])
    return "\n".join(marked(line, spans.get(number), colour) for number, line in numbered)


def _block(found: Mapping[str, Any], several: bool, line: int, text: str, colour: bool) -> str:
    head = f"--- {_place(found, several)} ({_with_author(f'line {line}', found)}) ---"
    return f"{PLACE}{head}{END}\n{text}\n---" if colour else f"{head}\n{text}\n---"


def _place(found: Mapping[str, Any], several: bool) -> str:
    return one_line(f"{found['ns']}:{found['path']}" if several else found["path"])


# --- snippets: the part of a passage that answers -----------------------------------------------------------------

LINES = 3
RULE = "|-:= "
"""A line of nothing else divides a table, or a text."""
WIDE = "\u1100"
"""Characters from here on may take two columns; most of the scripts that do come after it."""


def snippet(text: str, marks: Sequence[Span], width: int) -> tuple[list[Span], bool, bool]:
    """The wrapped lines that have most of the marks, the first of them where several have as many; and whether there
    is text before them and after them."""
    lines = list(_wrapped(text, width))
    if len(lines) <= LINES:
        return lines, False, False
    last = len(lines) - LINES
    best = max(range(last + 1), key=lambda first: _worth(text, marks, lines[first : first + LINES]))
    return lines[best : best + LINES], best > 0, best < last


def _worth(text: str, marks: Sequence[Span], lines: Sequence[Span]) -> tuple[int, int, bool, int]:
    """How many different words are marked in some lines, how many marks there are, whether they begin where a line of
    the text begins; at last, the earlier the better."""
    first, end = lines[0][0], lines[-1][1]
    inside = [text[mark[0] : mark[1]].lower() for mark in marks if first <= mark[0] < end]
    return len(set(inside)), len(inside), not text[text.rfind("\n", 0, first) + 1 : first].strip(), -first


def _wrapped(text: str, width: int) -> Iterator[Span]:
    """The lines of a text, wrapped; without those that are blank and without headings at its beginning, which the line
    above a hit tells."""
    at, begun = 0, False
    for line in text.split("\n"):
        bare = line.strip()
        if bare.strip(RULE) and (begun or not bare.startswith("#")):
            begun = True
            yield from _wrapped_line(text, at, at + len(line.rstrip()), width)
        at += len(line) + 1
    if not begun and text.strip():
        yield from _wrapped_line(text, 0, len(text.rstrip()), width)


def _wrapped_line(text: str, start: int, end: int, width: int) -> Iterator[Span]:
    while start < end:
        cut = _fitting(text, start, end, width)
        if cut < end and not text[cut].isspace():
            space = max(text.rfind(" ", start, cut), text.rfind("\t", start, cut))
            cut = space if space > start else cut
        yield start, cut
        start = cut
        while start < end and text[start].isspace():
            start += 1


def _fitting(text: str, start: int, end: int, width: int) -> int:
    """How far a text fits into some columns; one character at least."""
    taken = 0
    for at, char in enumerate(text[start : min(end, start + width + 1)], start):
        taken += columns(char)
        if taken > width:
            return max(at, start + 1)
    return end


def columns(text: str) -> int:
    """How many columns a text takes."""
    return len(text) + sum(char >= WIDE and not "\u1d00" <= char <= "\u2e7f" for char in text)


def padded(text: str, width: int) -> str:
    """A text with blanks up to some columns."""
    return text + " " * (width - columns(text))
