"""Reads a file as it is at one moment, or says why it cannot be memory."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

ATTEMPTS = 3
CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})
BINARY_SHARE, FORGIVEN = 0.05, 8
"""A file with a larger share of control bytes, and more than a few stray ones, is no text; random bytes have 0.1."""


class UnreadableFile(Exception):
    """The file cannot be read now; what was known of it stays."""


class SkippedFile(Exception):
    """The file is not memory: too large, binary, no regular file."""


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
        """When it was last written: the date of a note that has none of its own."""
        return datetime.fromtimestamp(self.mtime_ns / 1e9).date().isoformat()

    @property
    def text(self) -> str:
        return decode(self.data)


def read(path: Path, max_bytes: int) -> FileContent:
    """Read `path` so that bytes and stat belong together; a file that is being written is tried again."""
    for _ in range(ATTEMPTS):
        reading = _read_once(path, max_bytes)
        if reading is not None:
            return reading
    raise UnreadableFile("it is being written")


def _read_once(path: Path, max_bytes: int) -> FileContent | None:
    # O_NONBLOCK: a FIFO that took the file's place must not hold the daemon up.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise SkippedFile("it is no regular file") from error
        raise UnreadableFile(error.strerror or str(error)) from error
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        _refuse(before, max_bytes)
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


def _refuse(found: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SkippedFile("it is no regular file")
    if found.st_size > max_bytes:
        raise SkippedFile(f"{found.st_size // 1024:,} KB is over index.max_file_kb = {max_bytes // 1024:,}")


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def is_binary(data: bytes) -> bool:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    head = data[:8192]
    return len(head) - len(head.translate(None, CONTROL)) > max(FORGIVEN, BINARY_SHARE * len(head))


def decode(data: bytes) -> str:
    """The file's text. Bytes that are not UTF-8 become U+FFFD, a byte order mark goes."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")
