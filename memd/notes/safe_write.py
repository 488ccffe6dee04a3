"""Writes a user's file so that nothing is lost: appends, and rewrites that notice every other writer.

An append is one write at the file's end. A rewrite makes the new file beside the old one and exchanges the two; what
was exchanged is looked at again when nobody has it open any more, so that a line which someone wrote in the last moment
is never thrown away.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memd.errors import Conflict, DiskFull, MemdError, Refused
from memd.failpoints import failpoint
from memd.notes.read import digest_of

ATTEMPTS = 5
HEAD = 65_536
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EXCHANGE = 2
AT_FDCWD = -100
PATIENCE = 0.5
"""Seconds that a rewrite waits for others to close the file it replaced."""
ASIDE = ".memd-aside"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Edit = Callable[[bytes | None], bytes | None]
"""From what the file has (None: there is none) to what it shall have (None: no file)."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did: the bytes before and after it, and where a copy was put that could not be joined."""

    before: bytes | None
    after: bytes | None
    conflict: str = ""


# --- places -------------------------------------------------------------------------------------------------


def place_of(root: Path, path: str) -> Path:
    """The file that is written for a path of a workspace: a link is followed where it stays inside."""
    named = root / path
    target = named.resolve()
    if not target.is_relative_to(root.resolve()):
        raise Refused(f"{path} leads out of the workspace", "memd writes only inside it")
    if target.exists():
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{path} is no regular file")
        if found.st_nlink > 1:
            raise Refused(f"{path} has {found.st_nlink} names (hard links)", "copy it, so that it has one")
    return target


@contextmanager
def _locked(file: Path, flags: int) -> Iterator[int]:
    """The file, open and locked; one that was exchanged while we waited is opened again."""
    while True:
        descriptor = os.open(file, flags | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                same = os.fstat(descriptor).st_ino == file.stat().st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield descriptor
                return
        finally:
            os.close(descriptor)


# --- appending ----------------------------------------------------------------------------------------------


def append(
    file: Path, text: str, head: str = "", intend: Callable[[bytes | None, bytes | None], None] = lambda old, new: None
) -> WriteResult:
    """Add text at the end, on a line of its own; a file that is not there begins with `head`.

    `intend` is told the bytes before and after, before anything is written.
    """
    with _failing(file), _folder(file):
        new = not file.exists()
        with _locked(file, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
            size = os.fstat(descriptor).st_size
            data = _fitting(descriptor, size, text, head)
            before = os.pread(descriptor, size, 0) if size else None
            after = (before or b"") + data
            intend(before, after)
            _write_all(descriptor, data)
            failpoint("safe-write-appended")
            os.fsync(descriptor)
        if new:
            _sync_folder(file.parent)
    return WriteResult(before, after)


def sync(file: Path) -> None:
    """See to it that what the file has is on the disk."""
    with _failing(file):
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_folder(file.parent)


def _fitting(descriptor: int, size: int, text: str, head: str) -> bytes:
    """The bytes to add: with the file's own line ends, and a line end before them where one is missing."""
    if not size:
        return (head + text).encode()
    start = os.pread(descriptor, HEAD, 0)
    _refuse_utf16(start)
    ending = b"\r\n" if _has_crlf(start) else b"\n"
    data = text.encode().replace(b"\n", ending)
    return data if os.pread(descriptor, 1, size - 1) == b"\n" else ending + data


def _has_crlf(start: bytes) -> bool:
    first = start.find(b"\n")
    return first > 0 and start[first - 1 : first] == b"\r"


def _refuse_utf16(start: bytes) -> None:
    if start.startswith(UTF_16):
        raise Refused("the file is UTF-16", "save it as UTF-8 in your editor first")


def _write_all(descriptor: int, data: bytes) -> None:
    """One write; what a full disk took only in part is taken back, unless someone has written behind it."""
    written = os.write(descriptor, data)
    if written < len(data):
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        if os.fstat(descriptor).st_size == end:
            os.ftruncate(descriptor, end - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- rewriting ----------------------------------------------------------------------------------------------


def rewrite(
    file: Path, edit: Edit, intend: Callable[[bytes | None, bytes | None], None] = lambda old, new: None
) -> WriteResult:
    """Edit a whole file; `intend` is told the bytes before and after, before anything is changed."""
    with _failing(file), _folder(file):
        for _ in range(ATTEMPTS):
            before = bytes_of(file)
            if before is not None:
                _refuse_utf16(before)
            after = edit(before)
            if after == before:
                return WriteResult(before, after)
            intend(before, after)
            done = _replace(file, before, after)
            if done is not None:
                return done
    raise Conflict(f"{file.name} is being changed by someone else", "try again in a moment")


def bytes_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _replace(file: Path, before: bytes | None, after: bytes | None) -> WriteResult | None:
    """Put the new bytes in place of the old; None when someone else was faster."""
    if after is None:
        return _remove(file, before)
    fresh = _beside(file, before)
    ours = True
    try:
        _make(fresh, file, after)
        if bytes_of(file) != before:
            return None
        failpoint("safe-write-before-exchange")
        if before is None:
            return _put_first(fresh, file, after)
        _exchange(fresh, file)
        ours = False
        failpoint("safe-write-exchanged")
        return _settle(fresh, file, before, after)
    finally:
        if ours:
            fresh.unlink(missing_ok=True)


def _beside(file: Path, before: bytes | None) -> Path:
    """A name for the old bytes or the new that says what the old ones were, for whoever finds it."""
    return file.with_name(f".{file.name}.{digest_of(before or b'')}.{secrets.token_hex(2)}{ASIDE}")


def in_use(file: Path) -> bool:
    """Whether another process has the file open: only then is a lease on it refused."""
    until = time.monotonic() + PATIENCE
    with file.open("r+b") as opened:
        while True:
            try:
                fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except BlockingIOError:
                if time.monotonic() > until:
                    return True
                time.sleep(0.002)
            except OSError:
                # A file system without leases: a moment is all that can be given.
                time.sleep(0.02)
                return False
            else:
                fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                return False


def _put_first(fresh: Path, file: Path, after: bytes) -> WriteResult | None:
    try:
        os.link(fresh, file)
    except FileExistsError:
        return None
    fresh.unlink()
    _sync_folder(file.parent)
    return WriteResult(None, after)


def _settle(fresh: Path, file: Path, before: bytes, after: bytes) -> WriteResult:
    """Look at what was exchanged: a line written in the last moment is added, another text is kept beside."""
    # Whoever had the old file open may be writing to it just now.
    open_still = in_use(fresh)
    late = bytes_of(fresh) or b""
    if not late.startswith(before):
        kept = _keep(fresh, file, before, after)
        fresh.unlink()
        return kept
    with _locked(file, os.O_WRONLY | os.O_APPEND) as descriptor:
        os.write(descriptor, late[len(before) :])
        os.fsync(descriptor)
    _sync_folder(file.parent)
    if not open_still:
        # Nobody has it open, and its name is known to nobody: no line can come any more.
        fresh.unlink()
    return WriteResult(before, after)


def _keep(fresh: Path, file: Path, before: bytes, after: bytes) -> WriteResult:
    """Both were changed: the second text stays beside the first, under a name that is not indexed."""
    return WriteResult(before, after, conflict_copy(fresh, file))


def conflict_copy(fresh: Path, file: Path) -> str:
    copy = file.with_name(f"{file.stem}.conflict-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(2)}{file.suffix}")
    os.link(fresh, copy)
    _sync_folder(file.parent)
    return copy.name


def _remove(file: Path, before: bytes | None) -> WriteResult | None:
    aside = _beside(file, before)
    try:
        file.rename(aside)
    except FileNotFoundError:
        return WriteResult(before, None) if before is None else None
    in_use(aside)
    if bytes_of(aside) == before:
        aside.unlink()
        _sync_folder(file.parent)
        return WriteResult(before, None)
    if not file.exists():
        aside.rename(file)
        return None
    return _keep(aside, file, before or b"", b"")


def _make(fresh: Path, like: Path, data: bytes) -> None:
    """The new file, with the mode, the owner and the attributes of the old one, safe on the disk."""
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if like.exists():
            shutil.copystat(like, fresh)
            found = like.stat()
            with suppress(PermissionError):
                os.chown(fresh, found.st_uid, found.st_gid)
            os.utime(fresh)
        os.fsync(descriptor)


_libc = ctypes.CDLL(None, use_errno=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two names in one step; where the file system cannot, put one over the other and keep the old one."""
    done = _libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE)
    if done == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(number, os.strerror(number), str(other))
    kept = one.with_name(f"{one.name}.kept")
    os.link(other, kept)
    one.replace(other)
    kept.replace(one)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _folder(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    yield


@contextmanager
def _failing(file: Path) -> Iterator[None]:
    """The system's errors in memd's words."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"{file.name} could not be written: {error.strerror}", "make room; nothing was changed"
            ) from error
        raise MemdError(f"{file.name} could not be written: {error.strerror}", f"ls -la {file.parent}") from error


# --- what rewrites left behind -----------------------------------------------------------------------------


def sweep(folder: Path, ours: Callable[[bytes], bool] = lambda data: False) -> list[str]:
    """Look at what rewrites left behind, killed or with a file that stayed open; answers the copies that were kept.

    Old bytes that nobody changed go, and new ones (`ours` knows them) that a killed process did not put in their
    place; a line that was written to the old ones in the last moment stays in a conflict copy.
    """
    kept = []
    for aside in folder.glob(f".*{ASIDE}"):
        name, digest = aside.name.removesuffix(ASIDE).rsplit(".", 2)[:2]
        data = bytes_of(aside)
        if data is None or in_use(aside):
            continue
        file = aside.with_name(name[1:])
        if digest_of(data) == digest or data == bytes_of(file) or ours(data):
            aside.unlink(missing_ok=True)
        else:
            kept.append(conflict_copy(aside, file))
            aside.unlink(missing_ok=True)
    return kept
