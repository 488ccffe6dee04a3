"""Reads a file as it is at one moment, or says why it cannot be a note."""

import errno
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import AnyStr

from memd.notes.markers import without_markers

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
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: str

    @property
    def day(self) -> str:
        """The day it was last written: the date of a note without one."""
        return datetime.fromtimestamp(self.mtime_ns / 1e9).date().isoformat()

    @property
    def text(self) -> str:
        """With both sides of a conflict, and without its markers."""
        return without_markers(decode(self.data))


def read(path: Path, max_bytes: int) -> FileContent:
    """Read bytes and stat that belong together; a file that is being written is tried again."""
    for _ in range(ATTEMPTS):
        if (content := _read_once(path, max_bytes)) is not None:
            return content
    raise UnreadableFile("it is being written")


def _read_once(path: Path, max_bytes: int) -> FileContent | None:
    # O_NONBLOCK: a FIFO in place of the file must not block the daemon.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise SkippedFile("it is not a regular file") from error
        raise UnreadableFile(error.strerror or str(error)) from error
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        _check_stat(before, max_bytes)
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise UnreadableFile(error.strerror or str(error)) from error
        after = os.fstat(descriptor)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(data) != after.st_size:
        return None
    if is_binary(data):
        raise SkippedFile("it is binary")
    return FileContent(data, after.st_size, after.st_mtime_ns, after.st_ctime_ns, after.st_ino, digest_of(data))


def _check_stat(status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SkippedFile("it is not a regular file")
    if status.st_size > max_bytes:
        raise SkippedFile(f"{status.st_size // 1024:,} KB is over index.max_file_kb = {max_bytes // 1024:,}")


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


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


def decode(data: bytes) -> str:
    """The file's text: bytes that are not UTF-8 become U+FFFD, a byte order mark is dropped."""
    if data.startswith(UTF_16):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")
