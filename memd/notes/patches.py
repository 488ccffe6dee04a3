"""Parses unified diffs and applies them exactly or not at all. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memd.errors import ContextMismatch, MalformedPatch

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(?: .*)?")
PREFACE = ("diff ", "index ", "--- ", "+++ ")
NO_END = "\\"
SHOWN = 80
UNIFIED = "a unified diff is needed, as `diff -u` writes it"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk of a diff: the lines that must be there, and those that replace them."""

    start: int
    """The first old line, counted from 0."""
    old: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    """Each line with its sign: a blank (kept), `-` (removed) or `+` (added)."""
    ends: bool | None = None
    """Whether the new text ends with a line end, if the patch says so."""


def apply(text: str, patch: str) -> str:
    """The text with the patch applied; every old line must match exactly, at the given line number."""
    if "\r" not in patch and "\n" in text and text.count("\r\n") == text.count("\n"):
        # A patch made elsewhere does not know that this file has carriage returns.
        return apply(text.replace("\r\n", "\n"), patch).replace("\n", "\r\n")
    hunks = parse(patch)
    lines, ended = _lines(text)
    result: list[str] = []
    at = 0
    for hunk in hunks:
        _verify(hunk, lines)
        result += lines[at : hunk.start]
        result += [line for sign, line in hunk.lines if sign != "-"]
        at = hunk.start + len(hunk.old)
    result += lines[at:]
    if at == len(lines) and hunks[-1].ends is not None:
        ended = hunks[-1].ends
    return "\n".join(result) + ("\n" if ended and result else "")


def added_text(patch: str) -> str:
    """The lines that a patch adds."""
    return "\n".join(line for hunk in parse(patch) for sign, line in hunk.lines if sign == "+")


def _lines(text: str) -> tuple[list[str], bool]:
    """The lines of a text, and whether the last one has a line end; only a line feed ends a line."""
    if not text:
        return [], True
    lines = text.split("\n")
    return (lines[:-1], True) if lines[-1] == "" else (lines, False)


# --- parsing ------------------------------------------------------------------------------------------------


def parse(patch: str) -> list[Hunk]:
    """The hunks of a diff of one file; MalformedPatch says what is wrong with it."""
    lines, _ = _lines(patch)
    at = _preface(lines)
    hunks: list[Hunk] = []
    while at < len(lines):
        if not lines[at].strip() and not any(line.strip() for line in lines[at:]):
            break
        hunk, at = _hunk(lines, at)
        if hunks and hunk.start < hunks[-1].start + len(hunks[-1].old):
            raise MalformedPatch(f"line {at} of the patch: two hunks overlap")
        hunks.append(hunk)
    if not hunks:
        raise MalformedPatch("the patch changes nothing", UNIFIED)
    return hunks


def _preface(lines: Sequence[str]) -> int:
    """Index of the first hunk; file names may stand before it."""
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            return at
        if line.strip() and not line.startswith(PREFACE):
            raise MalformedPatch(f"line {at + 1} of the patch is not part of a diff: {line[:SHOWN]}", UNIFIED)
    return len(lines)


def _hunk(lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    header = HUNK.fullmatch(lines[at].rstrip("\r"))
    if not header:
        why = f"line {at + 1} of the patch should begin a hunk, such as @@ -1,3 +1,4 @@: {lines[at][:SHOWN]}"
        raise MalformedPatch(why, "one memory per patch; the line numbers are those of the memory")
    first, had, _, has = (1 if group is None else int(group) for group in header.groups())
    body, end, ends = _body(lines, at + 1, had, has)
    old = tuple(line for sign, line in body if sign != "+")
    # Without old lines, the number is that of the line before.
    return Hunk(first if had == 0 else first - 1, old, tuple(body), ends), end


def _body(lines: Sequence[str], at: int, had: int, has: int) -> tuple[list[tuple[str, str]], int, bool | None]:
    """As many lines as the numbers in the hunk's header say."""
    body: list[tuple[str, str]] = []
    ends: bool | None = None
    while had or has or (at < len(lines) and lines[at].startswith(NO_END)):
        if at >= len(lines):
            raise MalformedPatch("the patch ends in the middle of a hunk", "the numbers after @@ count its lines")
        # Editors strip the blank of an empty context line.
        sign, line = (lines[at][:1], lines[at][1:]) if lines[at] else (" ", "")
        if sign == NO_END:
            ends = bool(body) and body[-1][0] == "-" and ends is not False
        elif sign not in (" ", "-", "+") or (sign != "+" and not had) or (sign != "-" and not has):
            why = f"line {at + 1} of the patch does not fit the numbers after @@: {lines[at][:SHOWN]}"
            raise MalformedPatch(why, "each line begins with a blank, - or +")
        else:
            had, has = had - (sign != "+"), has - (sign != "-")
            body.append((sign, line))
        at += 1
    return body, at, ends


# --- checking -----------------------------------------------------------------------------------------------


def _verify(hunk: Hunk, lines: Sequence[str]) -> None:
    last = hunk.start + len(hunk.old)
    if hunk.start < 0 or last > len(lines):
        why = f"the patch changes line {last}, but the memory has {len(lines)} lines"
        raise ContextMismatch(why, _hint(hunk, lines))
    for number, (expected, actual) in enumerate(zip(hunk.old, lines[hunk.start :], strict=False), hunk.start + 1):
        if expected != actual:
            why = f"line {number} of the memory is {actual[:SHOWN]!r}, but the patch expects {expected[:SHOWN]!r}"
            raise ContextMismatch(why, _hint(hunk, lines))


def _hint(hunk: Hunk, lines: Sequence[str]) -> str:
    """Where the old lines are instead, for whoever made the patch."""
    size = len(hunk.old)
    places = [at + 1 for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.old] if size else []
    if places:
        return f"these lines are at {', '.join(map(str, places[:3]))}; nothing was changed"
    return "nothing was changed; read it again (memd get KEY) and make a new patch"
