"""Patterns for `grep`: a literal text, or a regular expression with a time limit that works.

regex is loaded with the first pattern: it takes 35 ms, a twentieth of a start.
"""

from __future__ import annotations

import re
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from memd.errors import MemdError, TooLarge, UsageError
from memd.notes.blocks import LineOffsets

if TYPE_CHECKING:
    import regex

SECONDS = 2.0
"""The time limit of a regular expression in one call: a careless one takes for ever (`(a+)+$`)."""
MAX_PATTERN = 1_000
MAX_LINE = 100_000
"""Characters of a line that are searched: the memory that a regular expression takes grows with the line."""
CALLS_ITSELF = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:R|[-+]?\d|&|P>)")
"""`(?R)` and the like can take a gigabyte before the time limit stops them."""

Spans = list[tuple[int, int]]
Matches = dict[int, Spans]
"""The lines that match, counted from 1, and where in them."""


class Pattern:
    """A compiled pattern for one text after another; the time that it takes adds up."""

    def __init__(self, wanted: str, regular: bool = False, case: bool = False) -> None:
        self.seconds_left = SECONDS
        self.cut = False
        """Whether a line was too long to be searched to its end."""
        self.matches: Callable[[str], Matches]
        if regular:
            self._compiled = _compiled(wanted, case)
            self.matches = self._line_by_line
        else:
            # In either encoding of its accents.
            forms = dict.fromkeys((wanted, *(unicodedata.normalize(form, wanted) for form in ("NFC", "NFD"))))
            self._literals = list(forms) if case else list(dict.fromkeys(_undotted(form).casefold() for form in forms))
            self._folds = not case
            self.matches = self._anywhere

    def _anywhere(self, text: str) -> Matches:
        searched = SearchedText(text, self._folds)
        found = sorted(span for literal in self._literals for span in searched.spans(literal))
        if not found:
            return {}
        lines, matches = LineOffsets(text), Matches()
        for start, end in found:
            for number in range(lines.number(start), lines.number(end - 1) + 1):
                first = lines.offset(number - 1)
                past = lines.offset(number) - (number < len(lines.starts))
                within = max(start, first) - first, min(end, past) - first
                matches.setdefault(number, []).append(within)
        return matches

    def _line_by_line(self, text: str) -> Matches:
        matches = Matches()
        began = time.monotonic()
        until = began + self.seconds_left
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MAX_LINE:
                self.cut, line = True, line[:MAX_LINE]
            spans = self._in_line(line.removesuffix("\r"), until)
            if spans is not None:
                matches[number] = spans
        self.seconds_left -= time.monotonic() - began
        return matches

    def _in_line(self, line: str, until: float) -> Spans | None:
        """Where it matches; None if it does not. An empty match is a match, as in any grep."""
        left = until - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            found = [match.span() for match in self._compiled.finditer(line, timeout=left)]
            return [span for span in found if span[1] > span[0]] if found else None
        except (TimeoutError, MemoryError):
            raise MemdError(
                f"the regular expression was stopped after {SECONDS:g} seconds",
                "nested repeats, such as (a+)+, take for ever; simplify it, or narrow it with --path",
            ) from None


class SearchedText:
    """A text, which may be without its capitals: to search it takes linear time, whatever repeats itself there."""

    def __init__(self, text: str, folds: bool) -> None:
        text = _undotted(text) if folds else text
        self._text = text.casefold() if folds else text
        self._longer: list[tuple[int, int, int]] = []
        """Where a letter that became several begins in it, how many more they are, and where it stands in the text."""
        more = 0
        for match in _growing().finditer(text) if len(self._text) != len(text) else ():
            self._longer.append((match.start() + more, len(match[0].casefold()) - 1, match.start()))
            more += self._longer[-1][1]

    def spans(self, literal: str) -> Spans:
        """Where a text stands, one behind the other, by the places of the text as it was; not within a letter."""
        found, at = Spans(), self._text.find(literal)
        while at >= 0:
            start, end, after = self._place(at), self._place(at + len(literal)), at + 1
            if start is not None and end is not None:
                found.append((start, end))
                after = at + len(literal)
            at = self._text.find(literal, after)
        return found

    def _place(self, at: int) -> int | None:
        """Where a place of the folded text is in the text; None within a letter."""
        nth = bisect_right(self._longer, (at, len(self._text), 0)) - 1
        if nth < 0:
            return at
        begins, more, place = self._longer[nth]
        return place + max(0, at - begins - more) if at == begins or at > begins + more else None


def _undotted(text: str) -> str:
    """A text in which a capital I with a dot, and a small one without, are that letter; as long as before."""
    return text.replace("İ", "i").replace("ı", "i")


@cache
def _growing() -> re.Pattern[str]:
    """The letters that are several in small ones: ß."""
    return re.compile(f"[{''.join(filter(lambda one: len(one.casefold()) > 1, map(chr, range(0x10000))))}]")


def _compiled(wanted: str, case: bool) -> regex.Pattern[str]:
    """The regular expression."""
    import regex

    if len(wanted) > MAX_PATTERN:
        raise TooLarge(f"a regular expression may have {MAX_PATTERN:,} characters, this one has {len(wanted):,}")
    if calls := CALLS_ITSELF.search(wanted):
        raise _wrong(wanted, "a pattern may not call itself", calls.end() - 1)
    try:
        return regex.compile(wanted, 0 if case else regex.IGNORECASE | regex.FULLCASE)
    except regex.error as error:
        raise _wrong(wanted, error.msg, error.pos) from error
    except (RecursionError, OverflowError) as error:
        raise UsageError("the regular expression is nested too deeply or repeats too often") from error


def _wrong(wanted: str, what: str, at: int | None) -> UsageError:
    where = "" if at is None else f" at character {at + 1}"
    shown = "" if at is None or "\n" in wanted else f"{wanted}\n{' ' * at}^\n"
    return UsageError(f"this is not a regular expression: {what}{where}", f"{shown}without -E it is taken literally")
