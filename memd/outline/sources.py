"""The sources of a workspace: lists them, without what git ignores and what builds make, and reads them into facts.

Files are parsed in child processes, which run this file: a parser that crashes or hangs harms nobody.
"""

import codecs
import io
import os
import queue
import re
import signal
import socket
import threading
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memd.child import Child, ChildGone, serve
from memd.config.ignore_rules import GITIGNORE, IgnoreRules, ignored_by, rules_in
from memd.config.paths import bytes_at, is_utf8
from memd.errors import Refused
from memd.failpoints import failpoint
from memd.models import FileStat, digest_of
from memd.outline import facts, languages
from memd.outline.extract import extract

NEVER = frozenset("node_modules bower_components site-packages __pycache__ jspm_packages Pods".split())
BUILDS = frozenset("build dist target out obj vendor third_party coverage htmlcov venv env _build".split())
"""Skipped unless they are Python packages."""
PACKAGE = "__init__.py"
MARKS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
"""A folder with one of these was made by a tool."""
MACHINE_MADE = re.compile(
    r"\.min\.[cm]?js$|\.(?:bundle|generated)\.[cm]?[jt]sx?$|_pb2(?:_grpc)?\.pyi?$|\.pb\.(?:go|cc|h)$"
)
MOST_FILES = 50_000
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


def list_sources(root: Path) -> SourceListing:
    """Walk a workspace."""
    listing = SourceListing()
    _walk(root, "", (), listing)
    return listing


def _walk(root: Path, folder: str, rules: tuple[IgnoreRules, ...], listing: SourceListing) -> None:
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
    rules = (*rules, *_rules(root, folder, GITIGNORE in names, listing))
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.name.startswith(".") or not is_utf8(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if not _is_build(entry) and not ignored_by(path + "/", rules):
                _walk(root, path, rules, listing)
        elif languages.of_path(path) and entry.is_file(follow_symlinks=False) and not ignored_by(path, rules):
            _take(entry, path, listing)


def _take(entry: os.DirEntry[str], path: str, listing: SourceListing) -> None:
    if MACHINE_MADE.search(path):
        listing.skipped[path] = "it is a generated file"
    elif len(listing.files) >= MOST_FILES:
        listing.skipped.setdefault("", f"there are more than {MOST_FILES:,} sources; the rest is left out")
    else:
        try:
            listing.files[path] = FileStat.of(entry.stat(follow_symlinks=False))
        except OSError as error:
            listing.skipped[path] = f"it cannot be read: {error.strerror}"


def _is_build(entry: os.DirEntry[str]) -> bool:
    if entry.name in NEVER or entry.name.endswith(".egg-info"):
        return True
    return entry.name in BUILDS and not Path(entry.path, PACKAGE).exists()


def _rules(root: Path, folder: str, there: bool, listing: SourceListing) -> Iterator[IgnoreRules]:
    """The rules in a folder's `.gitignore`; at the root also those in `.git/info/exclude`."""
    names, prefix = [GITIGNORE] if there else [], f"{folder}/" if folder else ""
    for name in names if folder else (".git/info/exclude", *names):
        try:
            if (rules := rules_in(root, prefix + name, prefix)) is not None:
                listing.rules[prefix + name] = FileStat.of((root / folder / name).stat())
                yield rules
        except OSError:
            continue


def changed(root: Path, before: SourceListing) -> set[str] | None:
    """Files whose stat changed since a listing; None if folders or rules changed, so a new listing is needed.

    No folder is listed for it: a new or removed file changes the mtime of its folder.
    """
    base, stale = os.fspath(root), set()
    try:
        for folder, when in before.folders.items():
            if os.stat(f"{base}/{folder}").st_mtime_ns != when:  # noqa: PTH116 (called a thousand times in a row)
                return None
        for path, known in before.rules.items():
            if FileStat.of(os.lstat(f"{base}/{path}")) != known:
                return None
        for path, known in before.files.items():
            now = os.lstat(f"{base}/{path}")
            # Field by field: this runs for every file before every answer.
            same = now.st_mtime_ns == known.mtime_ns and now.st_size == known.size and now.st_ino == known.inode
            if not same or now.st_ctime_ns != known.ctime_ns:
                stale.add(path)
    except OSError:
        # Something that was there is gone.
        return None
    return stale


# --- parsing ------------------------------------------------------------------------------------------------

MODULE = "memd.outline.sources"
CHILDREN = 2
NICENESS = 2
SECONDS = 20
"""Time limit per file."""
CRASHED = f"the parser crashed on it, or took more than {SECONDS} seconds"
FEW = 8
SMALL = 512 * 1024
"""No more files than this, and no more bytes, are parsed in this process."""
LONGEST_LINE = 20_000
"""A file with a longer line is generated: minified, or data."""


ParsedSource = tuple[str, str, bytes]
"""The path of a file, the digest of its bytes if these alone decide about the facts, and its encoded facts."""


def parse_files(root: Path, sizes: dict[str, int], max_bytes: int) -> Iterator[ParsedSource]:
    """Parse files, given with their sizes; the results come in any order."""
    if len(sizes) <= FEW and sum(sizes.values()) <= SMALL:
        yield from (_parse(root, path, max_bytes) for path in sizes)
        return
    # Large files first, so that no child is left with one at the end.
    ordered = sorted(sizes, key=lambda path: (-sizes[path], path))
    results: queue.Queue[ParsedSource | None] = queue.Queue()
    shares = [ordered[nth::CHILDREN] for nth in range(CHILDREN)]
    for share in shares:
        threading.Thread(target=_feed, args=(root, share, max_bytes, results), daemon=True).start()
    for _ in shares:
        yield from iter(results.get, None)


def _parse(root: Path, path: str, max_bytes: int) -> ParsedSource:
    try:
        data = bytes_at(root / path, max_bytes)
        found = facts_of(languages.suffix_of(path), data, max_bytes)
    except OSError as error:
        return _unread(path, f"it cannot be read: {error.strerror or error}")
    except RecursionError:
        return _unread(path, "it is nested too deep")
    except Refused as error:
        return _unread(path, error.message)
    # Facts that depend on a setting, not on the bytes alone, are not cached.
    return path, digest_of(data) if len(data) <= max_bytes else "", facts.encode(found)


def _unread(path: str, problem: str) -> ParsedSource:
    """Without a digest it is not cached, and is read again: once the grammar is installed, for example."""
    return path, "", facts.encode(facts.no_facts(languages.of_path(path)[-1].name, problem))


def _feed(root: Path, share: list[str], max_bytes: int, results: queue.Queue[ParsedSource | None]) -> None:
    """Parse a share of the files; after a file that kills its child, another child goes on with the next."""
    child: Child | None = None
    try:
        for path in share:
            child = child or Child("memd-outline-child", MODULE, os.fspath(root), str(max_bytes), nice=NICENESS)
            try:
                results.put(child.call(path).result())
            except ChildGone:
                results.put(_unread(path, CRASHED))
                child.close()
                child = None
    finally:
        if child is not None:
            child.close()
        results.put(None)


def main(link: socket.socket, root: str, max_bytes: str) -> None:
    """The child: parses each path that it is given; it ends with its parent, when the socket closes."""
    # The default action ends the process, even in the middle of the parser.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def answer(path: str) -> ParsedSource:
        signal.alarm(SECONDS)
        failpoint("outline-parse")
        source = _parse(Path(root), path, int(max_bytes))
        signal.alarm(0)
        return source

    serve(link, answer)


# --- one file -----------------------------------------------------------------------------------------------


def facts_of(suffix: str, data: bytes, max_bytes: int) -> facts.Facts:
    """The facts of a file's bytes."""
    language = languages.of_source(suffix, data)
    if len(data) > max_bytes:
        return facts.no_facts(language.name, f"it is larger than outline.max_file_kb = {max_bytes // 1024:,}")
    if b"\0" in data:
        return facts.no_facts(language.name, "it is binary")
    source, problem = _as_utf8(data, language.name)
    if any(len(line) > LONGEST_LINE for line in source.splitlines()):
        return facts.no_facts(language.name, f"it has a line of more than {LONGEST_LINE:,} bytes")
    extracted = extract(language, suffix, source)
    return extracted._replace(problem="; ".join(filter(None, (problem, extracted.problem))))


def _as_utf8(data: bytes, language: str) -> tuple[bytes, str]:
    """The source as UTF-8, and what was wrong with its encoding."""
    plain = data.removeprefix(codecs.BOM_UTF8)
    encoding = _declared_encoding(data) if language == "python" else "utf-8"
    try:
        text = plain.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return plain.decode("latin-1").encode(), "it is not UTF-8 and was read as Latin-1"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf-8-sig", "ascii"):
        return plain, ""
    return text.encode("utf-8", "replace"), f"it is not UTF-8, as it declares: {encoding}"


def _declared_encoding(data: bytes) -> str:
    """The encoding that a Python file declares."""
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError:
        return "utf-8"
