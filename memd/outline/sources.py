"""Finds the sources of a workspace: by their endings, without what git ignores and what builds leave behind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from memd.outline import languages

NEVER = frozenset("node_modules bower_components site-packages __pycache__ jspm_packages Pods".split())
BUILDS = frozenset("build dist target out obj vendor third_party coverage htmlcov venv env _build".split())
"""Left out unless they are packages themselves."""
PACKAGE = "__init__.py"
MARKS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
"""A folder that has one of these was made by a tool."""
MACHINE_MADE = re.compile(
    r"\.min\.[cm]?js$|\.(?:bundle|generated)\.[cm]?[jt]sx?$|_pb2(?:_grpc)?\.pyi?$|\.pb\.(?:go|cc|h)$"
)
MOST = 50_000
"""Files that are taken in; a workspace with more is a whole disk rather than a project."""


class Stamp(NamedTuple):
    """A file's stat: when none of it changed, its bytes did not."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(slots=True)
class Found:
    """One look at a workspace's sources."""

    files: dict[str, Stamp] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """Every folder that was looked into, with the time of its last change."""
    rules: dict[str, Stamp] = field(default_factory=dict)
    """The `.gitignore` files that were heeded."""
    skipped: dict[str, str] = field(default_factory=dict)


Rules = tuple[tuple[str, GitIgnoreSpec], ...]


def look(root: Path) -> Found:
    """Walk a workspace."""
    found = Found()
    _walk(root, "", (), found)
    return found


def _walk(root: Path, folder: str, rules: Rules, found: Found) -> None:
    place = root / folder
    try:
        changed = place.stat().st_mtime_ns
        with os.scandir(place) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        found.skipped[folder or "."] = f"it cannot be read: {error.strerror}"
        return
    names = {entry.name for entry in entries}
    if folder and not names.isdisjoint(MARKS):
        return
    found.folders[folder] = changed
    rules = (*rules, *_rules(root, folder, ".gitignore" in names, found))
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        _enter(root, entry, path, rules, found)


def _enter(root: Path, entry: os.DirEntry[str], path: str, rules: Rules, found: Found) -> None:
    if entry.name.startswith(".") or not _speakable(entry.name):
        return
    if entry.is_dir(follow_symlinks=False):
        if not _is_build(entry) and not _ignored(path + "/", rules):
            _walk(root, path, rules, found)
    elif languages.of_path(path) and entry.is_file(follow_symlinks=False) and not _ignored(path, rules):
        _take(entry, path, found)


def _take(entry: os.DirEntry[str], path: str, found: Found) -> None:
    if MACHINE_MADE.search(path):
        found.skipped[path] = "it was made by a machine"
    elif len(found.files) >= MOST:
        found.skipped.setdefault("", f"there are more than {MOST:,} sources; the rest is left out")
    else:
        try:
            found.files[path] = stamp(entry.stat(follow_symlinks=False))
        except OSError as error:
            found.skipped[path] = f"it cannot be read: {error.strerror}"


def stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _is_build(entry: os.DirEntry[str]) -> bool:
    if entry.name in NEVER or entry.name.endswith(".egg-info"):
        return True
    return entry.name in BUILDS and not Path(entry.path, PACKAGE).exists()


def _rules(root: Path, folder: str, there: bool, found: Found) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """What the `.gitignore` of a folder says; at the root also what the clone keeps to itself."""
    names = [".gitignore"] if there else []
    names += [".git/info/exclude"] if not folder else []
    for name in names:
        place = root / folder / name
        try:
            lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
            found.rules[f"{folder}/{name}" if folder else name] = stamp(place.stat())
            yield (f"{folder}/" if folder else ""), GitIgnoreSpec.from_lines(lines)
        except (OSError, ValueError):
            continue


def _ignored(path: str, rules: Rules) -> bool:
    """The innermost `.gitignore` that says anything of a path decides."""
    for prefix, spec in reversed(rules):
        said = spec.check_file(path.removeprefix(prefix)).include
        if said is not None:
            return said
    return False


def _speakable(name: str) -> bool:
    """A name that is no text cannot be told."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def changed(root: Path, before: Found) -> set[str] | None:
    """Files whose stat differs from the last look; None when folders or rules changed, which takes a look at all.

    No folder is listed for it: that a file came or went shows in its folder's own time.
    """
    base = os.fspath(root)
    for folder, when in before.folders.items():
        if _mtime(f"{base}/{folder}") != when:
            return None
    for path, known in before.rules.items():
        if _stamp_at(f"{base}/{path}") != known:
            return None
    stale = set()
    for path, known in before.files.items():
        try:
            now = os.lstat(f"{base}/{path}")
        except OSError:
            return None
        # Field by field: this is asked for every file before every answer.
        same = now.st_mtime_ns == known.mtime_ns and now.st_size == known.size and now.st_ino == known.inode
        if not same or now.st_ctime_ns != known.ctime_ns:
            stale.add(path)
    return stale


def _mtime(place: str) -> int:
    try:
        return os.stat(place).st_mtime_ns  # noqa: PTH116 (a thousand of these are asked for at once)
    except OSError:
        return -1


def _stamp_at(place: str) -> Stamp | None:
    try:
        return stamp(os.lstat(place))
    except OSError:
        return None
