"""Reads a file as it is at one moment, without the markers of a conflict, or says why it cannot be a note."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import AnyStr

from memd.models import FileStat, digest_of
from memd.prose import LINE

ATTEMPTS = 3
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})
BINARY_SHARE, ALLOWED_CONTROL = 0.05, 8
"""A file with a larger share of control bytes, and more of them than allowed, is binary; random bytes have 0.1."""


class UnreadableFile(Exception):
    """The file cannot be read now; what is known of it stays."""


class SkippedFile(Exception):
    """The file is no note: too large, binary, not a regular file."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file and the stat that belongs to them."""

    data: bytes
    stat: FileStat
    digest: str

    @property
    def day(self) -> str:
        """The day it was last written: the date of a note without one."""
        return datetime.fromtimestamp(self.stat.mtime_ns / 1e9).date().isoformat()

    @property
    def text(self) -> str:
        """With both sides of a conflict, and without its markers."""
        return without_markers(decode(self.data))


def read_file(path: Path, max_bytes: int, binary: bool = False) -> FileContent:
    """Read bytes and stat that belong together; a file that is being written is tried again."""
    for _ in range(ATTEMPTS):
        if (content := _read_once(path, max_bytes, binary)) is not None:
            return content
    raise UnreadableFile("it is being written")


def _read_once(path: Path, max_bytes: int, binary: bool) -> FileContent | None:
    try:
        # O_NONBLOCK: a FIFO in place of the file must not block the daemon.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            before = os.fstat(file.fileno())
            _check_stat(before, max_bytes)
            data = file.read(max_bytes + 1)
            after = os.fstat(file.fileno())
    except (FileNotFoundError, NotADirectoryError) as error:
        # Nothing is below a folder that has become a file.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise SkippedFile("it is not a regular file") from error
        raise UnreadableFile(error.strerror or str(error)) from error
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(data) != after.st_size:
        return None
    if not binary and is_binary(data):
        raise SkippedFile("it is binary")
    return FileContent(data, FileStat.of(after), digest_of(data))


def _check_stat(status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SkippedFile("it is not a regular file")
    if status.st_size > max_bytes:
        raise SkippedFile(f"{status.st_size // 1024:,} KB is over index.max_file_kb = {max_bytes // 1024:,}")


def common_prefix(one: AnyStr, other: AnyStr) -> int:
    """The length of what two texts, or two files, begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def is_binary(data: bytes) -> bool:
    if data.startswith(UTF_16):
        return False
    head = data[:8192]
    return len(head) - len(head.translate(None, CONTROL)) > max(ALLOWED_CONTROL, BINARY_SHARE * len(head))


def decode(data: bytes, errors: str = "replace") -> str:
    """The file's text: bytes that are not UTF-8 become U+FFFD, a byte order mark is dropped.

    With `surrogateescape` such bytes can be written again.
    """
    if data.startswith(UTF_16):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors)


def undecoded(data: bytes, text: str) -> str:
    """The remark on a file that is not all text; empty where it is. The text shows it, and is at hand."""
    if "\N{REPLACEMENT CHARACTER}" not in text:
        return ""
    encoding = "UTF-16" if data.startswith(UTF_16) else "UTF-8"
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = decode(data[: error.start]).count("\n") + 1
        return f"line {line} is not {encoding}; it is indexed with \N{REPLACEMENT CHARACTER} in place of the bytes"
    return ""


# --- the markers of a conflict within a text ----------------------------------------------------------------


OURS, BASE, MIDDLE, THEIRS = "<<<<<<<", "|||||||", "=======", ">>>>>>>"
MARKED = "it has conflict markers, which are not shown: memd conflict list"
"""The remark on a note with markers: both sides can be found, the markers cannot."""


def has_markers(text: str) -> bool:
    return THEIRS in text and any(_conflicts(LINE.findall(text)))


def without_markers(text: str) -> str:
    """The text with both sides and without the markers; every line stays where it is."""
    if THEIRS not in text:
        return text
    lines = LINE.findall(text)
    for ours, base, middle, theirs in _conflicts(lines):
        # What both sides began with is in neither.
        for number in (ours, *range(base, middle + 1), theirs):
            lines[number] = "\n"
    return "".join(lines)


def sides(text: str) -> tuple[str, str, str | None]:
    """Both sides of a text with markers, and what they began with if it says so."""
    lines, one, other, began = LINE.findall(text), "", "", ""
    at, known = 0, True
    for ours, base, middle, theirs in _conflicts(lines):
        before = "".join(lines[at:ours])
        one += before + "".join(lines[ours + 1 : base])
        other += before + "".join(lines[middle + 1 : theirs])
        began += before + "".join(lines[base + 1 : middle])
        at, known = theirs + 1, known and base < middle
    rest = "".join(lines[at:])
    return one + rest, other + rest, began + rest if known else None


def _conflicts(lines: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """The lines of the markers of each conflict; that of the base is the middle one where git does not show it."""
    ours = base = middle = -1
    for number, line in enumerate(lines):
        mark = line[:7] if line.rstrip("\r\n")[7:8] in ("", " ") else ""
        if mark == OURS:
            ours, base, middle = number, -1, -1
        elif mark == BASE and ours >= 0 and middle < 0:
            base = number
        elif mark == MIDDLE and ours >= 0 and middle < 0:
            middle = number
        elif mark == THEIRS and middle >= 0:
            yield ours, base if base >= 0 else middle, middle, number
            ours = base = middle = -1
