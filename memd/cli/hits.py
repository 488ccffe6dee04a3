"""Shows hits: where, under which heading, how old, how good, and the text with its matches marked.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os

from memd.protocol.safe_text import neutralise, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BOLD, DIM, MATCH, PLACE, END = "\x1b[1m", "\x1b[2m", "\x1b[1;33m", "\x1b[36m", "\x1b[0m"
MAX_LINES = 14
"""A hit's text is shown up to here; a long table or code block would push the others off the screen."""
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def render(result: dict[str, Any], colour: bool) -> str:
    """All hits of an answer, for a terminal or, without `colour`, for a pipe."""
    several = len(result.get("ns", ())) > 1
    return "\n\n".join(_hit(hit, several, colour) for hit in result["hits"])


def remarks(query: str, result: dict[str, Any]) -> list[str]:
    """What to say beside the hits: that there are none, that they are weak, that memd is not at its best."""
    lines = []
    if not result["hits"] or result.get("verdict") == "none":
        asked = ", ".join(one_line(name) for name in result.get("ns", ()))
        lines.append(f"nothing found for “{one_line(query)}”" + (f" in {asked}" if asked else ""))
        if result.get("pending"):
            lines.append(f"{result['pending']} pieces are still being indexed; ask again in a moment")
    elif result.get("verdict") == "weak":
        lines.append("these match weakly")
    if result["degraded"]:
        what = ", ".join(one_line(str(name)) for name in result["degraded"])
        lines.append(f"degraded: {what}; how to mend it: memd status")
    return lines


def memory(told: dict[str, Any]) -> str:
    """One memory with its place, for a terminal."""
    facts = [f"{told['path']}:{told['start_line']}", told.get("heading") or "", told.get("date") or ""]
    return (
        _dim("  ".join(one_line(fact) for fact in facts if fact), True) + "\n" + neutralise(told["text"]).rstrip("\n")
    )


def _hit(hit: dict[str, Any], several: bool, colour: bool) -> str:
    lines = [_headline(hit, several, colour), *_text(hit, colour)]
    for other in hit.get("also") or ():
        lines.append(_dim(f"  also {one_line(other['path'])}:{other['start_line']}", colour))
    if hit.get("explain"):
        facts = {"ranks": hit.get("ranks"), **hit["explain"]}
        lines += [_dim(f"  {one_line(str(name))}: {one_line(str(value))}", colour) for name, value in facts.items()]
    return "\n".join(lines)


def _headline(hit: dict[str, Any], several: bool, colour: bool) -> str:
    """`path:line  heading  date  score`, with the workspace in front where several were asked."""
    place = f"{one_line(hit['path'])}:{hit['start_line']}"
    heading, date = one_line(hit.get("heading") or ""), one_line(hit.get("date") or "")
    score = f"{hit['score']:.3f}"
    workspace = one_line(hit["ns"])
    if colour:
        place = _link(f"{PLACE}{place}{END}", os.path.join(hit.get("root") or "", hit["path"]))  # noqa: PTH118
        heading = heading and f"{BOLD}{heading}{END}"
        date, score, workspace = (text and f"{DIM}{text}{END}" for text in (date, score, workspace))
    parts = [workspace if several else "", place, heading, date, score]
    return "  ".join(part for part in parts if part)


def _dim(text: str, colour: bool) -> str:
    return f"{DIM}{text}{END}" if colour else text


def _link(text: str, file: str) -> str:
    """An OSC 8 link: the terminal opens the file on a click."""
    if not file.startswith("/"):
        return text
    quoted = "".join(chr(byte) if byte in UNRESERVED else f"%{byte:02X}" for byte in os.fsencode(file))
    return f"\x1b]8;;file://{os.uname().nodename}{quoted}\x1b\\{text}\x1b]8;;\x1b\\"


def _text(hit: dict[str, Any], colour: bool) -> list[str]:
    """The lines of the text, indented, around the first match where there are too many."""
    text, spans = hit["text"], _spans(hit.get("marks"), len(hit["text"]))
    marked = _mark(text, spans) if colour else neutralise(text)
    lines = marked.rstrip("\n").split("\n")
    first = 0
    if len(lines) > MAX_LINES and spans:
        match = neutralise(text[: spans[0][0]]).count("\n")
        first = max(0, min(match - 2, len(lines) - MAX_LINES))
    shown = [f"  {line}".rstrip() for line in lines[first : first + MAX_LINES]]
    left = len(lines) - len(shown)
    return [*shown, _dim(f"  … {left} more lines: memd get {one_line(hit['key'])}", colour)] if left else shown


def _spans(marks: Any, length: int) -> list[tuple[int, int]]:
    """The marks in order, without overlaps and inside the text."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((int(start), int(end)) for start, end in marks or ()):
        start, end = max(start, spans[-1][1] if spans else 0), min(end, length)
        if start < end:
            spans.append((start, end))
    return spans


def _mark(text: str, spans: list[tuple[int, int]]) -> str:
    """Made safe piece by piece, so that the marks still fit when characters go."""
    pieces, at = [], 0
    for start, end in spans:
        # Colour ends with the line: what follows is cut and indented by lines.
        match = neutralise(text[start:end]).replace("\n", f"{END}\n{MATCH}")
        pieces += [neutralise(text[at:start]), f"{MATCH}{match}{END}"]
        at = end
    return "".join([*pieces, neutralise(text[at:])])
