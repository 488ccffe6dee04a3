"""Lists the sources of a workspace by suffix, without what git ignores and what builds make."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from memd.models import FileStat
from memd.outline import languages

NEVER = frozenset("node_modules bower_components site-packages __pycache__ jspm_packages Pods".split())
BUILDS = frozenset("build dist target out obj vendor third_party coverage htmlcov venv env _build".split())
"""Skipped unless they are Python packages."""
PACKAGE = "__init__.py"
MARKS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
"""A folder with one of these was made by a tool."""
MACHINE_MADE = re.compile(
    r"\.min\.[cm]?js$|\.(?:bundle|generated)\.[cm]?[jt]sx?$|_pb2(?:_grpc)?\.pyi?$|\.pb\.(?:go|cc|h)$"
)
MOST = 50_000
"""Maximum number of files; a workspace with more is a disk rather than a project."""


@dataclass(slots=True)
class SourceListing:
    """The sources of a workspace at one moment."""

    files: dict[str, FileStat] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """Every listed folder, with its mtime."""
    rules: dict[str, FileStat] = field(default_factory=dict)
    """The `.gitignore` files that were applied."""
    skipped: dict[str, str] = field(default_factory=dict)


Rules = tuple[tuple[str, GitIgnoreSpec], ...]


def list_sources(root: Path) -> SourceListing:
    """Walk a workspace."""
    listing = SourceListing()
    _walk(root, "", (), listing)
    return listing


def _walk(root: Path, folder: str, rules: Rules, listing: SourceListing) -> None:
    place = root / folder
    try:
        changed = place.stat().st_mtime_ns
        with os.scandir(place) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        listing.skipped[folder or "."] = f"it cannot be read: {error.strerror}"
        return
    names = {entry.name for entry in entries}
    if folder and not names.isdisjoint(MARKS):
        return
    listing.folders[folder] = changed
    rules = (*rules, *_rules(root, folder, ".gitignore" in names, listing))
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        _enter(root, entry, path, rules, listing)


def _enter(root: Path, entry: os.DirEntry[str], path: str, rules: Rules, listing: SourceListing) -> None:
    if entry.name.startswith(".") or not _is_text(entry.name):
        return
    if entry.is_dir(follow_symlinks=False):
        if not _is_build(entry) and not _ignored(path + "/", rules):
            _walk(root, path, rules, listing)
    elif languages.of_path(path) and entry.is_file(follow_symlinks=False) and not _ignored(path, rules):
        _take(entry, path, listing)


def _take(entry: os.DirEntry[str], path: str, listing: SourceListing) -> None:
    if MACHINE_MADE.search(path):
        listing.skipped[path] = "it was made by a machine"
    elif len(listing.files) >= MOST:
        listing.skipped.setdefault("", f"there are more than {MOST:,} sources; the rest is left out")
    else:
        try:
            listing.files[path] = FileStat.of(entry.stat(follow_symlinks=False))
        except OSError as error:
            listing.skipped[path] = f"it cannot be read: {error.strerror}"


def _is_build(entry: os.DirEntry[str]) -> bool:
    if entry.name in NEVER or entry.name.endswith(".egg-info"):
        return True
    return entry.name in BUILDS and not Path(entry.path, PACKAGE).exists()


def _rules(root: Path, folder: str, there: bool, listing: SourceListing) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """The rules in a folder's `.gitignore`; at the root also those in `.git/info/exclude`."""
    names = [".gitignore"] if there else []
    names += [".git/info/exclude"] if not folder else []
    for name in names:
        place = root / folder / name
        try:
            lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
            listing.rules[f"{folder}/{name}" if folder else name] = FileStat.of(place.stat())
            yield (f"{folder}/" if folder else ""), GitIgnoreSpec.from_lines(lines)
        except (OSError, ValueError):
            continue


def _ignored(path: str, rules: Rules) -> bool:
    """Whether a path is ignored: the innermost `.gitignore` with a matching rule decides."""
    for prefix, spec in reversed(rules):
        ignored = spec.check_file(path.removeprefix(prefix)).include
        if ignored is not None:
            return ignored
    return False


def _is_text(name: str) -> bool:
    """Whether a name is valid UTF-8; others cannot be sent to clients."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def changed(root: Path, before: SourceListing) -> set[str] | None:
    """Files whose stat changed since a listing; None if folders or rules changed, so a new listing is needed.

    No folder is listed for it: a new or removed file changes the mtime of its folder.
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
        # Field by field: this runs for every file before every answer.
        same = now.st_mtime_ns == known.mtime_ns and now.st_size == known.size and now.st_ino == known.inode
        if not same or now.st_ctime_ns != known.ctime_ns:
            stale.add(path)
    return stale


def _mtime(place: str) -> int:
    try:
        return os.stat(place).st_mtime_ns  # noqa: PTH116 (called a thousand times in a row)
    except OSError:
        return -1


def _stamp_at(place: str) -> FileStat | None:
    try:
        return FileStat.of(os.lstat(place))
    except OSError:
        return None
