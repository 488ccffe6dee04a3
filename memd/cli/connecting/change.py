"""One file of an agent's before and after: planned first, shown, and only then written."""

from __future__ import annotations

import difflib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from memd.cli.connecting import record
from memd.cli.connecting.agents import Place
from memd.cli.connecting.jsonish import Unreadable
from memd.cli.connecting.pieces import NAME, without
from memd.cli.connecting.record import Trace
from memd.errors import Refused

CONTEXT = 1
"""Lines around a change: next to it may stand other servers' keys."""
NEW = 0o644
"""The rights of a file that was not there."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a file; None means that there is none."""

    path: Path
    before: bytes | None
    after: bytes | None
    trace: Trace | None = None
    backup: Path | None = None
    """Where a copy of what was there goes."""
    spent: Path | None = None
    """A copy that is put back, and then is not needed any more."""
    note: str = ""
    """What a person should know beside the diff."""

    @property
    def kind(self) -> str:
        if self.before == self.after:
            return "none"
        if self.before is None or self.after is None:
            return "created" if self.before is None else "removed"
        return "changed"

    def diff(self) -> str:
        """As `diff -u` has it."""
        old, new = (self._lines(data) for data in (self.before, self.after))
        names = [str(self.path) if data is not None else "/dev/null" for data in (self.before, self.after)]
        lines = difflib.unified_diff(old, new, names[0], names[1], n=CONTEXT)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    @staticmethod
    def _lines(data: bytes | None) -> list[str]:
        return (data or b"").decode("utf-8", "replace").splitlines(keepends=True)


# --- planning -----------------------------------------------------------------------------------------------------


def state(place: Place) -> str:
    """`connected`, `differs`, `taken`, `none` or `unreadable`."""
    try:
        text = _text(place, _read(place.path))
        if place.format.taken(text, place.pieces):
            return "taken"
    except Unreadable:
        return "unreadable"
    return str(place.format.state(text, place.pieces))


def connected(place: Place, force: bool = False) -> Change:
    """The file with memd in it."""
    before = _read(place.path)
    try:
        text, backup = _text(place, before), None
        if before is not None and place.format.state(text, place.pieces) == "connected":
            return Change(place.path, before, before)
        if place.format.taken(text, place.pieces):
            backup = _backup_of_taken(place, force)
        text, old = _pristine(place, before, text)
        draft = place.format.add(text, place.pieces)
    except Unreadable as error:
        if not force:
            raise _refused(place, error) from None
        backup, old = _backup_name(place.path), None
        text, draft = "", place.format.add("", place.pieces)
    after = draft.text.encode("utf-8")
    made = [*(old.made if old else []), *place.format.containers(text, place.pieces)]
    # In a file that was changed since, the copy would undo the changes too: it is named now, and not put back later.
    whole = old is not None and _untouched(old, before)
    trace = Trace(
        record.digest(after), [list(span) for span in draft.added], before is None or bool(old and old.made_file),
        [*(old.made_dirs if old else []), *_missing_dirs(place.path)], made,
        str(backup) if backup else old.backup if old and whole else "",
    )  # fmt: skip
    return Change(place.path, before, after, trace, backup, note="" if whole else _note(_copy(record.of(place.path))))


def disconnected(place: Place) -> Change:
    """The file without memd; one that `connect` made and that has nothing else goes."""
    before, old = _read(place.path), record.of(place.path)
    copy = _copy(old)
    if before is None:
        return Change(place.path, None, None, note=_note(copy))
    if copy is not None and _untouched(old, before):
        return Change(place.path, before, _read(copy), old, spent=copy)
    try:
        text = _text(place, before)
        if place.format.taken(text, place.pieces):
            stays = f"its entry {NAME} does not start memd, so it stays"
            return Change(place.path, before, before, note="; ".join(filter(None, (stays, _note(copy)))))
        clean, old = _pristine(place, before, text)
        empty = place.format.is_empty(clean)
    except Unreadable as error:
        raise _refused(place, error, f"take memd out of it by hand\n{_note(copy)}") from None
    gone = empty and old is not None and old.made_file
    return Change(place.path, before, None if gone else clean.encode("utf-8"), old, note=_note(copy))


def _pristine(place: Place, before: bytes | None, text: str) -> tuple[str, Trace | None]:
    """The text as it was before memd: to the byte where nobody changed the file since, else without memd's pieces."""
    trace = record.of(place.path)
    # What a copy was made of is not in the text: without the spans nothing would be left, not even an object.
    if trace is not None and _untouched(trace, before) and not trace.backup:
        return without(text, [(first, last) for first, last in trace.added]), trace
    if place.format.state(text, place.pieces) == "none":
        return text, trace
    clean = place.format.remove(text, place.pieces, trace.made if trace else [])
    place.format.check(clean)
    return clean, trace


def _untouched(trace: Trace | None, before: bytes | None) -> bool:
    return trace is not None and before is not None and record.digest(before) == trace.digest


def _copy(trace: Trace | None) -> Path | None:
    """The copy that `connect` made, if it is still there."""
    copy = Path(trace.backup) if trace is not None and trace.backup else None
    return copy if copy is not None and copy.is_file() else None


def _note(copy: Path | None) -> str:
    return f"what was there before memd is in {copy}" if copy is not None else ""


def _backup_of_taken(place: Place, force: bool) -> Path:
    """Where the copy goes when another server's entry is replaced, which only a person can want."""
    if force:
        return _backup_name(place.path)
    raise Refused(
        f"{place.path} has an entry called {NAME} that does not start memd",
        "give it another name, or have it replaced with --force; a copy of the file is kept",
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _text(place: Place, data: bytes | None) -> str:
    try:
        text = (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"byte {error.start} is not UTF-8") from None
    place.format.check(text)
    return text


def _refused(place: Place, error: Unreadable, do: str = "") -> Refused:
    do = do or f"put this in by hand, or have the file replaced with --force:\n{place.format.snippet(place.pieces)}"
    return Refused(f"{place.path} cannot be edited safely: {error}", do.rstrip())


def _missing_dirs(path: Path) -> list[str]:
    return [str(parent) for parent in path.parents if not parent.exists()]


def _backup_name(path: Path) -> Path:
    return path.with_name(f"{path.name}.before-memd-{time.strftime('%Y%m%d-%H%M%S')}")


# --- writing ------------------------------------------------------------------------------------------------------


def apply(change: Change, forget: bool = False) -> None:
    """Make it so, in one step; a reader sees the old file or the new one."""
    if change.kind == "none":
        return
    if change.backup is not None and change.before is not None:
        _replace(change.backup, change.before, change.path)
    if change.after is None:
        change.path.unlink(missing_ok=True)
        _remove_dirs(change.trace.made_dirs if change.trace else [])
    else:
        _replace(change.path, change.after, change.path)
    record.keep(change.path, None if forget else change.trace)
    if change.spent is not None:
        change.spent.unlink(missing_ok=True)


def _replace(path: Path, data: bytes, like: Path) -> None:
    """Write a file with the rights of another; through a link, what it leads to."""
    target = path.resolve() if path.is_symlink() else path
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out:
            # Closed to others until it is known how open it shall be.
            os.fchmod(out.fileno(), stat.S_IMODE(like.stat().st_mode) if like.exists() else NEW)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_dirs(made: list[str]) -> None:
    """The innermost first; one that has something else in it by now stays."""
    for name in sorted(made, key=len, reverse=True):
        try:
            Path(name).rmdir()
        except OSError:
            return
