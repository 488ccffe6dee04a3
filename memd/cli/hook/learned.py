"""Reads the end of an agent's transcript, and finds the sentences worth keeping: wishes, decisions, causes and facts.

The rules rather miss something than fill the notes: a sentence is kept if it says that it matters, or if it states
a fact that can be looked up again. Plans, politeness, questions and anything that looks like a secret are skipped.
"""

import os
import re
import stat
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from memd.errors import BadJson
from memd.prose import ASIDE, CODE_BLOCK, said
from memd.protocol import wire

MIN_LENGTH, MAX_LENGTH = 20, 400
MAX_SENTENCES = 12
"""The most sentences that are kept; the last ones win, since they are the newest."""

MAX_BYTES = 1 << 24
"""The most that is read: a transcript can have hundreds of megabytes, and the output of a tool is one line."""
NOT_PROSE = re.compile(r"^\s*(?:[#>|]|[-=*_]{3,}\s*$)")
MARKER = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
BORDER = re.compile(r"(?<=[.!?])\s+(?=[^\Wa-z_]|[\"'“(`*])|(?<=[。！？])\s*(?!$)")
HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
STRESS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")


def _pattern(name: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """The words and patterns of one kind in phrases.toml, any of which may stand in a sentence."""
    kind = PHRASES[name]
    words = "|".join(kind.get("words", ()))
    # An agent begins with a few words that say nothing before it announces something.
    before = rf"^(?:(?:{'|'.join(kind['openings'])})[,.!:]?\s+)*" if "openings" in kind else r"\b"
    ways = [rf"{before}(?:{words})\b"] if words else []
    return re.compile("|".join([*ways, *kind["patterns"]]), flags)


PHRASES = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))
WISH, DECISION, CAUSE, STATES, PLAN, SECRET = map(_pattern, ("wish", "decision", "cause", "states", "plan", "secret"))
CONCRETE = _pattern("concrete", re.NOFLAG)
LONG = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
"""A word as long as a key; `_looks_generated` excludes paths and hyphenated names."""


# --- the transcript: JSON lines, of which only the words of person and agent count ---------------------------------


class Utterance(NamedTuple):
    """One message of one side."""

    who: str
    """`user` or `assistant`."""
    text: str


def tail(path: str, count: int) -> list[bytes]:
    """The last `count` lines of a file that say something, from the last `MAX_BYTES` of it."""
    with open(os.path.expanduser(path), "rb", opener=_regular) as file:  # noqa: PTH111
        begin = max(file.seek(0, os.SEEK_END) - MAX_BYTES, 0)
        file.seek(begin)
        if begin:
            # It may be half of a line.
            file.readline()
        return list(deque((line.rstrip(b"\n") for line in file if line.strip()), maxlen=count))


def _regular(path: str, flags: int) -> int:
    """Open a regular file; opening a pipe could wait for ever."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is not a file")
    return handle


def utterances(lines: list[bytes]) -> list[Utterance]:
    """The messages of person and agent, in order; other lines, and unreadable ones, are skipped."""
    return [one for line in lines if (one := _utterance(line)) is not None]


def _utterance(line: bytes) -> Utterance | None:
    try:
        record = wire.decode(line)
    except BadJson:
        return None
    if not isinstance(record, dict) or any(record.get(mark) for mark in ASIDE):
        return None
    message = record.get("message")
    message = message if isinstance(message, dict) else record
    who = message.get("role") or record.get("type")
    text = said(message.get("content"))
    return Utterance(who, text) if who in ("user", "assistant") and text else None


# --- the sentences --------------------------------------------------------------------------------------------------


def worth_keeping(conversation: Iterable[Utterance]) -> list[str]:
    """The sentences worth keeping, each once, in order."""
    found = {folded(text): text for one in conversation for text in _kept_sentences(one)}
    return list(found.values())[-MAX_SENTENCES:]


def tidy(lines: Iterable[str]) -> list[str]:
    """Lines from the user's own command: trimmed, each once, without secrets."""
    flat = (" ".join(MARKER.sub("", line).split()) for line in lines)
    found = {folded(text): text[:MAX_LENGTH] for text in flat if folded(text) and not looks_secret(text)}
    return list(found.values())[-MAX_SENTENCES:]


def folded(text: str) -> str:
    """A sentence without case, punctuation and spaces, for comparison."""
    return "".join(char for char in text.casefold() if char.isalnum())


def looks_secret(text: str) -> bool:
    """Stricter than the daemon's check, which follows: nobody is asked before a hook saves."""
    return bool(SECRET.search(text)) or any(map(_looks_generated, LONG.findall(text)))


def _looks_generated(word: str) -> bool:
    """Whether a part of the word mixes letters and digits and is long."""
    parts = re.split(r"[/_=+-]", word)
    return any(len(part) >= 12 and re.search(r"\d", part) and re.search(r"[A-Za-z]", part) for part in parts)


def _kept_sentences(one: Utterance) -> Iterator[str]:
    for sentence in sentences(one.text):
        asks = sentence.endswith(("?", "？", ":", "：", "吗。", "嗎。", "か。"))
        # A character of these scripts says as much as two or three letters.
        weight = len(sentence) + 2 * len(HAN_OR_KANA.findall(sentence))
        fits = weight >= MIN_LENGTH and len(sentence) <= MAX_LENGTH and not asks
        if fits and _is_worth_keeping(one.who, sentence) and not looks_secret(sentence):
            yield sentence


def _is_worth_keeping(who: str, sentence: str) -> bool:
    """A person's wishes, decisions and causes always count; anything else only if it is no plan."""
    decides = DECISION.search(sentence) or CAUSE.search(sentence)
    if who == "user" and (decides or WISH.search(sentence)):
        return True
    # A decision, a cause, or a fact with something concrete in it.
    informs = decides or (STATES.search(sentence) and CONCRETE.search(sentence))
    return bool(informs) and not PLAN.match(sentence)


def sentences(text: str) -> Iterator[str]:
    """The sentences of the prose, without code, tables, headings and quotations."""
    for line in CODE_BLOCK.sub("\n", text).splitlines():
        if NOT_PROSE.match(line):
            continue
        for sentence in BORDER.split(STRESS.sub(r"\2", MARKER.sub("", line)).strip()):
            flat = " ".join(sentence.split())
            if flat:
                yield flat
