"""Reads the end of an agent's transcript: JSON lines, of which only the words of person and agent count."""

import os
import stat
from typing import NamedTuple

from memd.errors import BadJson
from memd.prose import ASIDE, said
from memd.protocol import wire

BLOCK = 1 << 16
MAX_BYTES = 1 << 24
"""The most that is read: a transcript can have hundreds of megabytes, and the output of a tool is one line."""


class Utterance(NamedTuple):
    """What one side said in one message."""

    who: str
    """`user` or `assistant`."""
    text: str


def tail(path: str, count: int) -> list[bytes]:
    """The last `count` lines of a file, reading no more of it than that."""
    with open(os.path.expanduser(path), "rb", opener=_regular) as file:  # noqa: PTH111
        end = file.seek(0, os.SEEK_END)
        at, lines, blocks = end, 0, list[bytes]()
        while at > 0 and lines <= count and end - at < MAX_BYTES:
            size = min(BLOCK, at)
            at -= size
            file.seek(at)
            blocks.append(file.read(size))
            lines += blocks[-1].count(b"\n")
    data = b"".join(reversed(blocks))
    found = data.split(b"\n")
    # The first line may be incomplete.
    whole = found[1:] if at > 0 else found
    return [line for line in whole if line.strip()][-count:]


def _regular(path: str, flags: int) -> int:
    """Open a regular file; opening a pipe could wait for ever."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is not a file")
    return handle


def utterances(lines: list[bytes]) -> list[Utterance]:
    """What person and agent said, in order; other lines, and unreadable ones, are skipped."""
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
