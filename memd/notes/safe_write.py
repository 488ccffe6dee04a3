"""Writes a user's file without losing anything: appends, and rewrites that notice every other writer.

An append is one write at the end of the file. A rewrite creates the new file beside the old one and exchanges the two.
The old one is read again once nobody has it open, so a line that someone wrote at the last moment is never lost.
"""

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from memd.config.paths import bytes_of
from memd.errors import Conflict, DiskFull, MemdError, Refused, in_shell
from memd.failpoints import failpoint
from memd.models import digest_of
from memd.notes.blocks import with_line_ends
from memd.notes.read import UTF_16

ATTEMPTS, PATIENT_SECONDS = 5, 1.0
"""How often a rewrite is tried while others write, and for how long: all other writes wait for it."""
HEAD = 65_536
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EXCHANGE = 2
AT_FDCWD = -100
PATIENCE = 0.5
"""Seconds to wait until others close the file that was replaced."""
ASIDE = ".memd-aside"
SHOWN = "\N{REPLACEMENT CHARACTER}".encode()
"""The character in place of bytes that are not UTF-8."""
SAVE_IT = "save it as UTF-8 in your editor first"
NEIGHBOURS = 100
"""Files beside a new one whose mode is looked at."""

Edit = Callable[[bytes | None], bytes | None]
"""From a file's bytes (None: no file) to its new bytes (None: remove the file)."""
Intend = Callable[[bytes | None, bytes | None], None]
"""Called with the bytes before and after, before anything is written."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The bytes before and after a write, and the name of the conflict copy, if there is one."""

    before: bytes | None
    after: bytes | None
    conflict: str = ""


# --- places -------------------------------------------------------------------------------------------------


def place_of(root: Path, path: str) -> Path:
    """The file to write for a path of a workspace; a link is followed if it stays inside."""
    target = (root / path).resolve()
    if not target.is_relative_to(root.resolve()):
        raise Refused(f"{path} leads out of the workspace", "memd writes only inside it")
    if target.exists():
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path} is not a regular file")
        if status.st_nlink > 1:
            why = f"{path} has {status.st_nlink} names (hard links)"
            raise Refused(why, "replace it with a copy, so that it has one name")
    return target


@contextmanager
def _locked(file: Path, flags: int) -> Iterator[int]:
    """Open and lock the file; one that was exchanged while we waited is opened again."""
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
    file: Path, text: str, head: str = "", intend: Intend = lambda old, new: None,
    closing: Callable[[bytes], str] = lambda old: "",
) -> WriteResult:  # fmt: skip
    """Add text at the end, on a line of its own; a new file begins with `head`, and `closing` says what ends a block
    that an old one leaves open."""
    with _memd_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        new = not file.exists()
        with _locked(file, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
            size = os.fstat(descriptor).st_size
            before = os.pread(descriptor, size, 0) if size else None
            _refuse_utf16(file, before or b"")
            data = _fitting(before, closing(before) + text) if before else (head + text).encode()
            after = (before or b"") + data
            try:
                intend(before, after)
                if new:
                    _take_mode(descriptor, file)
                _write_all(descriptor, data)
            except (OSError, MemdError):
                if new and not os.fstat(descriptor).st_size:
                    file.unlink(missing_ok=True)
                raise
            failpoint("safe-write-appended")
            os.fsync(descriptor)
        if new:
            _fsync(file.parent)
    return WriteResult(before, after)


def sync(file: Path) -> None:
    """Make sure that the file is on the disk."""
    with _memd_errors(file):
        _fsync(file)
        _fsync(file.parent)


def _fitting(before: bytes, text: str) -> bytes:
    """The bytes to add: with the file's line ends, and a line end before them if one is missing."""
    gap = "" if before.endswith(b"\n") else "\n"
    return with_line_ends(gap + text, before[:HEAD].decode("utf-8", "replace")).encode()


def _refuse_utf16(file: Path, start: bytes) -> None:
    if start.startswith(UTF_16):
        raise Refused(f"{file.name} is UTF-16", SAVE_IT)


def _refuse_loss(before: bytes, after: bytes) -> None:
    """Nobody may write back what they were shown in place of bytes that are not UTF-8."""
    if after.count(SHOWN) > before.count(SHOWN):
        left, known = (len(data) - len(data.decode(errors="ignore").encode()) for data in (after, before))
        if left < known:
            raise Refused("the text has \ufffd in place of bytes that are not UTF-8: they would be lost", SAVE_IT)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write in one call; a partial write to a full disk is taken back, unless someone has written behind it."""
    written = os.write(descriptor, data)
    if written < len(data):
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        if os.fstat(descriptor).st_size == end:
            os.ftruncate(descriptor, end - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- rewriting ----------------------------------------------------------------------------------------------


def rewrite(file: Path, edit: Edit, intend: Intend = lambda old, new: None, keeps_day: bool = False) -> WriteResult:
    """Edit a whole file; retried if someone else writes meanwhile. `keeps_day`: it stays a file of the day it is of."""
    with _memd_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        for nth in range(ATTEMPTS):
            if nth and time.monotonic() - began > PATIENT_SECONDS:
                break
            before = bytes_of(file)
            if (after := edit(before)) is not None:
                _refuse_utf16(file, before or b"")
                _refuse_loss(before or b"", after)
            if after == before:
                return WriteResult(before, after)
            intend(before, after)
            if (result := _replace(file, before, after, keeps_day)) is not None:
                return result
    raise Conflict(f"{file.name} is being changed by someone else", "try again in a moment")


def _replace(file: Path, before: bytes | None, after: bytes | None, keeps_day: bool) -> WriteResult | None:
    """Put the new bytes in place of the old ones; None if someone else was faster."""
    if after is None:
        return _remove(file, before)
    fresh = _beside(file, before)
    ours = True
    try:
        _make(fresh, file, after, keeps_day)
        if bytes_of(file) != before:
            return None
        failpoint("safe-write-before-exchange")
        if before is None:
            return _put_first(fresh, file, after)
        _exchange(fresh, file)
        ours = False
        failpoint("safe-write-exchanged")
        return _merge_late_lines(fresh, file, before, after)
    finally:
        if ours:
            fresh.unlink(missing_ok=True)


def _beside(file: Path, before: bytes | None) -> Path:
    """A temporary name beside the file; it has the digest of the old bytes, so that `sweep` can recognise them."""
    return file.with_name(f".{file.name}.{digest_of(before or b'')}.{secrets.token_hex(2)}{ASIDE}")


def in_use(file: Path) -> bool:
    """Whether another process has the file open: the kernel refuses a lease only then."""
    until = time.monotonic() + PATIENCE
    with file.open("r+b") as opened:
        while True:
            try:
                fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except BlockingIOError:
                if time.monotonic() > until:
                    return True
                time.sleep(0.002)
            except (OSError, AttributeError):
                # A system, or a file system, without leases: all we can do is wait a moment.
                time.sleep(0.02)
                return False
            else:
                fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                return False


def _put_first(fresh: Path, file: Path, after: bytes) -> WriteResult | None:
    try:
        _link(fresh, file)
    except FileExistsError:
        return None
    fresh.unlink()
    _fsync(file.parent)
    return WriteResult(None, after)


def _merge_late_lines(fresh: Path, file: Path, before: bytes, after: bytes) -> WriteResult:
    """Read the old file again: a line written at the last moment is added, another text becomes a conflict copy."""
    # Whoever had the old file open may still be writing to it.
    open_still = in_use(fresh)
    late = bytes_of(fresh) or b""
    if not late.startswith(before):
        conflict = conflict_copy(fresh, file)
        fresh.unlink()
        return WriteResult(before, after, conflict)
    with _locked(file, os.O_WRONLY | os.O_APPEND) as descriptor:
        os.write(descriptor, late[len(before) :])
        os.fsync(descriptor)
    _fsync(file.parent)
    if not open_still:
        # Nobody has it open or knows its name: nothing can be added any more.
        fresh.unlink()
    return WriteResult(before, after)


def conflict_copy(fresh: Path, file: Path) -> str:
    """Keep the second of two texts beside the file, under a name that is not indexed."""
    copy = file.with_name(f"{file.stem}.conflict-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(2)}{file.suffix}")
    _link(fresh, copy)
    _fsync(file.parent)
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
        _fsync(file.parent)
        return WriteResult(before, None)
    if not file.exists():
        aside.rename(file)
        return None
    return WriteResult(before or b"", b"", conflict_copy(aside, file))


def _make(fresh: Path, like: Path, data: bytes, keeps_day: bool) -> None:
    """Write the new file to disk, with the mode, owner and attributes of the old one."""
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if like.exists():
            shutil.copystat(like, fresh)
            status = like.stat()
            with suppress(PermissionError):
                os.chown(fresh, status.st_uid, status.st_gid)
            os.utime(fresh, (status.st_atime, _soon_after(status.st_mtime)) if keeps_day else None)
        else:
            _take_mode(descriptor, like)
        os.fsync(descriptor)


def _soon_after(moment: float) -> float:
    """A time of the same day that differs by a second: programs that compare times see that a file has changed."""
    same_day = datetime.fromtimestamp(moment + 1).date() == datetime.fromtimestamp(moment).date()
    return moment + 1 if same_day else moment - 1


def _take_mode(descriptor: int, file: Path) -> None:
    """Give a new file the mode that most of its neighbours have: a service's umask would hide it from others."""
    with os.scandir(file.parent) as entries:
        visible = (one for one in entries if one.is_file(follow_symlinks=False) and one.name[0] != ".")
        beside = (one for one in islice(visible, NEIGHBOURS) if one.name != file.name)
        modes = Counter(stat.S_IMODE(one.stat().st_mode) & 0o666 for one in beside)
    if modes:
        os.fchmod(descriptor, modes.most_common(1)[0][0] | 0o600)


_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two names in one step; where that is not possible, replace one and keep the old file."""
    if _renameat2 and _renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE) == 0:
        return
    number = ctypes.get_errno() if _renameat2 else errno.ENOSYS
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(number, os.strerror(number), str(other))
    kept = one.with_name(f"{one.name}.kept")
    _link(other, kept)
    one.replace(other)
    kept.replace(one)


def _link(file: Path, name: Path) -> None:
    """A second name for a file; on file systems without hard links, as of memory cards, a copy."""
    try:
        os.link(file, name)
    except PermissionError:
        with name.open("xb") as copy:
            copy.write(file.read_bytes())
            copy.flush()
            os.fsync(copy.fileno())


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _memd_errors(file: Path) -> Iterator[None]:
    """Translate the system's errors."""
    try:
        yield
    except OSError as error:
        why = f"{file.name} could not be written: {error.strerror}"
        if error.errno in FULL:
            raise DiskFull(why, "free some space; the file is as it was") from error
        raise MemdError(why, f"look at it: ls -la {in_shell(file.parent)}") from error


# --- leftovers of rewrites ---------------------------------------------------------------------------------


def sweep(folder: Path, ours: Callable[[bytes], bool] = lambda data: False) -> list[str]:
    """Clean up after rewrites that were killed, or whose old file stayed open; the names of new conflict copies.

    Old bytes that nobody changed are removed, and so are new ones (`ours` recognises them) that a killed process did
    not put in place. If a line was added to the old bytes at the last moment, they become a conflict copy.
    """
    copies = []
    for aside in folder.glob(f".*{ASIDE}"):
        name, digest = aside.name.removesuffix(ASIDE).rsplit(".", 2)[:2]
        data = bytes_of(aside)
        if data is None or in_use(aside):
            continue
        file = aside.with_name(name[1:])
        if digest_of(data) != digest and data != bytes_of(file) and not ours(data):
            copies.append(conflict_copy(aside, file))
        aside.unlink(missing_ok=True)
    return copies
