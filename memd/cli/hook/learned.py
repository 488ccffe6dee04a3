"""Saves what was learned in a session to the note of the day: the sentences of its transcript that are worth keeping,
wishes, decisions, causes and facts, once each, with their source.

The rules rather miss something than fill the notes: a sentence is kept if it says that it matters, or if it states
a fact that can be looked up again. Plans, politeness, questions and anything that looks like a secret are skipped.
"""

import fcntl
import hashlib
import os
import re
import signal
import stat
import subprocess
import time
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from memd.cli.hook import INSIDE, LINES
from memd.config import paths
from memd.errors import BadJson, Proposed, SecretFound
from memd.prose import ASIDE, CODE_BLOCK, said
from memd.protocol import wire
from memd.protocol.client import Client

KEPT_SECONDS = 60 * 86_400
"""How long it is remembered what a session has saved; one that is resumed later may save it again."""
TAG = "captured"
Settings = dict[str, Any]

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


def save(client: Client, event: str, payload: dict[str, Any], ns: str, settings: Settings) -> int:
    """Save what is new since the last time in this session; how many things."""
    session, path = str(payload.get("session_id") or ""), payload.get("transcript_path")
    if not session or not isinstance(path, str) or not path:
        raise ValueError("the hook does not say which session and which transcript")
    lines = tail(path, LINES[event])
    own = settings["extract"]
    texts = _extracted(lines, event, session, payload, settings) if own else worth_keeping(utterances(lines))
    with _remembered(session) as kept:
        known = set(kept.read().split())
        new = [text for text in texts if _digest(text) not in known]
        saved = _saved(client, event, payload, ns, new) if new else 0
        kept.writelines(f"{_digest(text)}\n" for text in new)
    return saved


def _extracted(lines: list[bytes], event: str, session: str, payload: dict[str, Any], settings: Settings) -> list[str]:
    """The answer of the user's own command to the lines; nothing when it fails."""
    place = payload.get("cwd")
    process = subprocess.Popen(
        settings["extract"], shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=place if isinstance(place, str) and Path(place).is_dir() else None, start_new_session=True,
        env={**os.environ, INSIDE: "1", "MEMD_HOOK_EVENT": event, "MEMD_HOOK_SESSION": session},
    )  # fmt: skip
    try:
        out, _ = process.communicate(b"\n".join(lines) + b"\n", timeout=settings["extract_s"])
    finally:
        if process.poll() is None:
            # With whatever it has started: nobody waits for it any more.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return [] if process.returncode else tidy(out.decode("utf-8", "replace").splitlines())


def _saved(client: Client, event: str, payload: dict[str, Any], ns: str, texts: list[str]) -> int:
    """Write things down as one section; where memd's own look finds a secret in it, each for itself and without that
    one. Tells how many were saved."""
    try:
        client.call("note", {**_note(event, payload, texts), "ns": ns})
    except Proposed:
        # A person decides about it; to propose it again would change nothing.
        return len(texts)
    except SecretFound:
        return sum(_saved(client, event, payload, ns, [text]) for text in texts) if len(texts) > 1 else 0
    return len(texts)


def _note(event: str, payload: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    session, place = str(payload["session_id"]), str(payload.get("cwd") or "")
    bullets = "\n".join(f"- {text}" for text in texts)
    source = f"Source: session {session}, {event}" + (f", in {place}" if place else "")
    name, request = Path(place).name, _digest(f"{session}\n{bullets}")
    return {
        "text": f"{bullets}\n\n{' '.join(source.split())}", "title": f"Learned in {name}" if name else "Learned",
        "tags": [TAG], "who": f"hook:{event}", "now": time.strftime("%Y-%m-%dT%H:%M"),
        "request_id": f"hook-{request}",
    }  # fmt: skip


# --- what was saved before ----------------------------------------------------------------------------------


def _remembered(session: str) -> TextIO:
    """The file that has what this session has saved, open to be added to; one hook of a session at a time."""
    directory = paths.private_dir(paths.private_dir(paths.state_dir()) / "hooks")
    paths.remove_old(directory, KEPT_SECONDS)
    kept = (directory / _digest(session)).open("a+", encoding="ascii")
    fcntl.flock(kept, fcntl.LOCK_EX)
    kept.seek(0)
    return kept


def _digest(text: str) -> str:
    plain = folded(text) or text
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]


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
