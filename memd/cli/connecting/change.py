"""Changes one file of an agent's: planned first, shown, and only then written.

memd keeps a trace of what it added and where, so that `disconnect` restores the bytes of before.
"""

import difflib
import hashlib
import json
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memd.cli.connecting.agents import Place
from memd.cli.connecting.json_file import SERVER_NAME, Span, Unreadable, without
from memd.config import paths
from memd.errors import Refused

TRACES = "connections.json"
CONTEXT = 1
"""Lines around a change: next to it may stand other servers' keys."""
NEW = 0o644
"""The rights of a new file."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The change that `connect` made to one file. Nothing of the file's own text is kept."""

    digest: str
    """The digest of the file as `connect` left it."""
    added: list[Span]
    made_file: bool = False
    made_dirs: list[str] = field(default_factory=list)
    made: list[list[str]] = field(default_factory=list)
    """Containers in it that were not there."""
    backup: str = ""
    """The copy of what had to be replaced."""


NO_TRACE = Trace("", [])


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after; None means that there is none."""

    path: Path
    before: bytes | None
    after: bytes | None
    trace: Trace | None = None
    backup: Path | None = None
    """Where a copy of what was there goes."""
    spent: Path | None = None
    """A copy that is put back, and then is not needed any more."""
    note: str = ""
    """Remarks for a person, beside the diff."""

    @property
    def kind(self) -> str:
        if self.before == self.after:
            return "none"
        return "created" if self.before is None else "removed" if self.after is None else "changed"

    def diff(self) -> str:
        """As `diff -u` has it."""
        sides = (self.before, self.after)
        names = [str(self.path) if data is not None else "/dev/null" for data in sides]
        old, new = ((data or b"").decode("utf-8", "replace").splitlines(keepends=True) for data in sides)
        lines = difflib.unified_diff(old, new, names[0], names[1], n=CONTEXT)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# --- planning -----------------------------------------------------------------------------------------------------


def state(place: Place) -> str:
    """`connected`, `differs`, `taken`, `none` or `unreadable`."""
    try:
        return str(place.format.state(_text(place, paths.bytes_of(place.path)), place.pieces))
    except Unreadable:
        return "unreadable"


def connected(place: Place, force: bool = False) -> Change:
    """The file with memd in it."""
    before = paths.bytes_of(place.path)
    try:
        text = _text(place, before)
        known = place.format.state(text, place.pieces) if before is not None else "none"
        if known == "connected":
            return Change(place.path, before, before)
        if known == "taken" and not force:
            taken = f"{place.path} has an entry called {SERVER_NAME} that does not start memd"
            hint = "give it another name, or have it replaced with --force; a copy of the file is kept"
            raise Refused(taken, hint)
        backup = _backup_name(place.path) if known == "taken" else None
        text, old = _pristine(place, before, text)
        draft = place.format.add(text, place.pieces)
    except Unreadable as error:
        if not force:
            raise _refused(place, error) from None
        backup, old = _backup_name(place.path), NO_TRACE
        text, draft = "", place.format.add("", place.pieces)
    after = draft.text.encode("utf-8")
    dirs = [*old.made_dirs, *(str(one) for one in place.path.parents if not one.exists())]
    made = [*old.made, *place.format.containers(text, place.pieces)]
    # In a file that was changed since, the copy would undo the changes too: it is named now, and not put back later.
    whole = _untouched(old, before)
    kept = str(backup) if backup else old.backup if whole else ""
    trace = Trace(_digest(after), draft.added, before is None or old.made_file, dirs, made, kept)
    return Change(place.path, before, after, trace, backup, note="" if whole else _note(_copy(_trace_of(place.path))))


def disconnected(place: Place) -> Change:
    """The file without memd; a file that `connect` made is removed if it has nothing else."""
    before, old = paths.bytes_of(place.path), _trace_of(place.path)
    copy = _copy(old)
    if before is None:
        return Change(place.path, None, None, note=_note(copy))
    if copy is not None and _untouched(old, before):
        return Change(place.path, before, paths.bytes_of(copy), old, spent=copy)
    try:
        text = _text(place, before)
        if place.format.state(text, place.pieces) == "taken":
            stays = f"its entry {SERVER_NAME} does not start memd, so it stays"
            return Change(place.path, before, before, note="; ".join(filter(None, (stays, _note(copy)))))
        clean, old = _pristine(place, before, text)
        gone = old.made_file and place.format.is_empty(clean)
    except Unreadable as error:
        raise _refused(place, error, f"take memd out of it by hand\n{_note(copy)}") from None
    return Change(place.path, before, None if gone else clean.encode("utf-8"), old, note=_note(copy))


def _pristine(place: Place, before: bytes | None, text: str) -> tuple[str, Trace]:
    """The text as it was before memd: to the byte where nobody changed the file since, else without memd's pieces."""
    trace = _trace_of(place.path)
    # A file that was replaced as a whole would be left empty without the spans.
    if _untouched(trace, before) and not trace.backup:
        return without(text, trace.added), trace
    if place.format.state(text, place.pieces) == "none":
        return text, trace
    clean = place.format.remove(text, place.pieces, trace.made)
    place.format.read(clean)
    return clean, trace


def _untouched(trace: Trace, before: bytes | None) -> bool:
    return before is not None and _digest(before) == trace.digest


def _copy(trace: Trace) -> Path | None:
    """The copy that `connect` made, if it is still there."""
    return Path(trace.backup) if trace.backup and Path(trace.backup).is_file() else None


def _note(copy: Path | None) -> str:
    return f"what was there before memd is in {copy}" if copy is not None else ""


def _text(place: Place, data: bytes | None) -> str:
    try:
        text = (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"byte {error.start} is not UTF-8") from None
    place.format.read(text)
    return text


def _refused(place: Place, error: Unreadable, do: str = "") -> Refused:
    wanted = place.format.add("", place.pieces).text
    do = do or f"put this in by hand, or have the file replaced with --force:\n{wanted}"
    return Refused(f"{place.path} cannot be edited safely: {error}", do.rstrip())


def _backup_name(path: Path) -> Path:
    return path.with_name(f"{path.name}.before-memd-{time.strftime('%Y%m%d-%H%M%S')}")


# --- writing ------------------------------------------------------------------------------------------------------


def apply(change: Change, forget: bool = False) -> None:
    """Carry out a change; with `forget`, its trace is dropped."""
    if change.kind == "none":
        if forget and str(change.path) in traces():
            _keep_trace(change.path, None)
        return
    rights = stat.S_IMODE(change.path.stat().st_mode) if change.path.exists() else NEW
    if change.backup is not None and change.before is not None:
        paths.replace_file(change.backup, change.before, rights)
    if change.after is None:
        change.path.unlink(missing_ok=True)
        with suppress(OSError):
            # The innermost first; one that has something else in it by now stays.
            for made in sorted(change.trace.made_dirs if change.trace else (), key=len, reverse=True):
                Path(made).rmdir()
    else:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        paths.replace_file(change.path, change.after, rights)
    _keep_trace(change.path, None if forget else change.trace)
    if change.spent is not None:
        change.spent.unlink(missing_ok=True)


# --- traces -------------------------------------------------------------------------------------------------------


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _trace_of(path: Path) -> Trace:
    """The change that `connect` made to a file, if it did."""
    try:
        return Trace(**traces()[str(path)])
    except (KeyError, TypeError):
        return NO_TRACE


def _keep_trace(path: Path, trace: Trace | None) -> None:
    """Keep the trace of a file, or with None drop it."""
    known = traces()
    known.pop(str(path), None)
    if trace is not None:
        known[str(path)] = asdict(trace)
    file = paths.private_dir(paths.state_dir()) / TRACES
    paths.replace_file(file, f"{json.dumps(known, indent=1)}\n".encode(), 0o600)


def traces() -> dict[str, Any]:
    """Those of all files, by their paths."""
    try:
        known = json.loads((paths.state_dir() / TRACES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
