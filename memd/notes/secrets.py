"""Finds what looks like a key, a token or a password, without ever repeating it, and masks it. Pure.

It looks for three things: the formats of secrets.toml, a word such as `password` followed by something that is
hardly a word, and the parts of URLs and commands that hold credentials. It would rather miss a password that is a
plain word than report every sentence about passwords.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memd.errors import Refused, SecretFound
from memd.notes.blocks import LineOffsets
from memd.prose import with_texts

LEAST_BITS = 2.5
"""Bits per character; a repetitive value has less."""
ODD = frozenset("!@#$%^&*+=?~<>{}[]|§€£")
"""Characters that no word contains."""
FEW = 3
"""A key with no more different characters than this is a mask."""


MASK = "[masked: {}]"
MASKED = re.compile(r"\[masked: an? [\w ]{2,40}\]")
"""The mask in the place of a secret."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A line that seems to hold a secret, and what kind."""

    line: int
    kind: str


def secrets_in(text: str) -> list[Secret]:
    """Every line that seems to hold a secret, once."""
    kinds: dict[int, str] = {}
    lines = LineOffsets(text)
    for kind, start, _ in _found(text):
        kinds.setdefault(lines.number(start), kind)
    return [Secret(line, kind) for line, kind in sorted(kinds.items())]


Span = tuple[str, int, int]
"""The kind of a secret, where it begins, and where it is known to reach at least."""


def _found(text: str) -> Iterator[Span]:
    # A mask names a kind of secret, and what stands behind it would look like its value.
    text = MASKED.sub(lambda mask: "_" * len(mask[0]), text)
    for one, match in _matches(text, "shapes"):
        if len(set(match[0][-16:])) > FEW:
            yield one["kind"], *match.span()
    for one, match in _matches(text, "carried"):
        value, user = match["value"], match.groupdict().get("user")
        if value != user and not _pattern("placeholder").match(value) and (not one.get("made") or looks_made(value)):
            yield one["kind"], *match.span("value")
    for start, end in _lines_with_hints(text):
        for match in _pattern("named").finditer(text, start, end):
            if looks_made(match["value"]):
                yield "a password or token", *match.span("value")


@cache
def formats() -> dict[str, Any]:
    """The tables of secrets.toml; read with the first text."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """One of the expressions that are not formats, put together."""
    words = {label.upper(): "|".join(line.split()) for label, line in formats()["words"].items()}
    return re.compile(re.sub(r"UNSPACED|SPACED", lambda place: words[place[0]], "".join(formats()["patterns"][name])))


def _matches(text: str, table: str) -> Iterator[tuple[dict[str, Any], re.Match[str]]]:
    """The matches of a table's patterns, which `re` compiles with the first text and keeps."""
    for one in formats()[table]:
        if any(hint in text for hint in one["hints"].split()):
            yield from ((one, match) for match in re.finditer(one["pattern"], text))


def _lines_with_hints(text: str) -> set[tuple[int, int]]:
    """The spans of the lines that may contain a word for a secret."""
    low = text.lower()
    if len(low) != len(text):
        return {(0, len(text))}
    spans = set()
    for hint in " ".join(formats()["words"].values()).split():
        at = low.find(hint)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            spans.add((text.rfind("\n", 0, at) + 1, end))
            at = low.find(hint, end)
    return spans


def looks_made(value: str) -> bool:
    """Whether a value looks generated, or chosen as a password: letters with digits or odd characters."""
    bare = value.rstrip(".:!?)]}>*_")
    if len(bare) < 6 or not any(map(str.isalpha, bare)) or _bits(bare) < LEAST_BITS:
        return False
    if _pattern("placeholder").match(bare) or _pattern("method").fullmatch(bare):
        return False
    return not ODD.isdisjoint(bare) or (any(map(str.isdigit, bare)) and not _is_words(bare))


def _is_words(value: str) -> bool:
    """Plain words with a number: `web-app-2`, `project/2026`, `release_v3`."""
    parts = re.split(r"[-_./:]", value)
    return len(parts) > 1 and all(_pattern("word").fullmatch(part) for part in parts)


def _bits(value: str) -> float:
    counts = Counter(value)
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())


# --- masking ----------------------------------------------------------------------------------------------------

KEY_BITS = 4.5
"""The least entropy of a line of base64: a path that is as long has less."""
LONGEST_KEY = 8_000


def refuse(*texts: str) -> None:
    """Refuse to write what looks like a secret, and masks, each of which would replace one."""
    for text in texts:
        if mask := MASKED.search(text):
            why = f"the text has {mask[0]} where a note has a secret, which it would replace"
            raise Refused(why, "leave those lines as they are and change others (patch), or add to the note instead")
        if secrets := secrets_in(text):
            kinds = ", ".join(dict.fromkeys(f"{secret.kind} (line {secret.line})" for secret in secrets))
            raise SecretFound(f"the text seems to hold {kinds}", "leave it out, or say --allow-secret")


def masked(text: str) -> str:
    """The text with what looks like a secret masked; it has as many lines as before."""
    parts, at = [], 0
    for kind, start, end in _apart([*_whole(text), *_key_lines(text)]):
        parts += [text[at:start], MASK.format(kind), "\n" * text.count("\n", start, end)]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def masked_in(value: Any) -> Any:
    """Data with every text in it masked; looked through as one text first, since most answers hold no secret."""
    texts: list[str] = []

    def collected(text: str) -> str:
        texts.append(text)
        return text

    with_texts(value, collected)
    whole = "\n".join(texts)
    return value if masked(whole) == whole else with_texts(value, masked)


def _whole(text: str) -> Iterator[Span]:
    """Every secret to its end: the patterns match no more of it than is needed to recognise it."""
    for kind, start, end in _found(text):
        if kind == "a private key":
            following = text.find("BEGIN", end)
            limit = end + LONGEST_KEY if following < 0 else min(end + LONGEST_KEY, following)
            rest = _pattern("rest_of_key").match(text, end, limit)
        else:
            rest = None if kind == "a password in a URL" else _pattern("rest_of_value").match(text, end)
        yield kind, start, rest.end() if rest else end


def _key_lines(text: str) -> Iterator[Span]:
    """Lines of a key whose beginning is not in this text: an answer may show a part of it."""
    for match in _pattern("key_line").finditer(text):
        if _bits(match["line"]) > KEY_BITS:
            yield "a key", *match.span("line")


def _apart(spans: list[Span]) -> list[Span]:
    """The spans in order; those that overlap are one."""
    joined: list[Span] = []
    for kind, start, end in sorted(spans, key=lambda span: span[1:]):
        if joined and start < joined[-1][2]:
            kind, start, end = *joined[-1][:2], max(end, joined.pop()[2])
        joined.append((kind, start, end))
    return joined
