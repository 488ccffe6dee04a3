"""The outline of one workspace: its sources, read once and kept in step with the files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from memd.errors import NotFound, UsageError
from memd.outline import facts as forms
from memd.outline import languages, sources
from memd.outline.cache import Cache, Kept, batches
from memd.outline.child import Parsed, digest_of, parsed
from memd.outline.facts import Facts
from memd.outline.language import Language
from memd.outline.linking import Linker
from memd.outline.project import Project
from memd.outline.ranking import Ranked, ranked
from memd.outline.reading import bytes_at
from memd.outline.sources import Found, Stamp

RACY_NS = 100_000_000
"""A file that changed this shortly before it was read may change again under the same stamp."""
UNSURE = Stamp(-1, -1, -1, -1)
LOT = 50
Told = Callable[[int, int], None]


@dataclass(slots=True)
class Report:
    """What a refresh did."""

    parsed: int = 0
    removed: int = 0
    looked: bool = False
    """Whether the folders were listed anew."""
    took_ms: float = 0.0


@dataclass(slots=True, eq=False)
class Family:
    """The languages that see each other's symbols."""

    project: Project = field(default_factory=Project)
    linker: Linker = field(init=False)
    _ranked: dict[str, tuple[int, list[Ranked]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.linker = Linker(self.project)

    def ranked(self, language: Language, within: Callable[[str, Language], bool]) -> list[Ranked]:
        """The symbols of a language by importance; found once and kept until a file changes."""
        known = self._ranked.get(language.name)
        if known is None or known[0] != self.project.changes:
            every = ranked(self.linker, lambda path: within(path, language))
            known = self._ranked[language.name] = self.project.changes, every
        return known[1]


class Outline:
    """One workspace's sources. Used by one thread at a time; `refresh` makes it agree with the disk."""

    def __init__(self, root: Path, cache: Path, max_bytes: int) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self.families: dict[str, Family] = {}
        self.problems: dict[str, str] = {}
        """Files that could not be read, or not all of them, and why."""
        self._cache = Cache(cache)
        self._rows: dict[str, tuple[Stamp, str]] = {}
        self._found: Found | None = None
        self._of: dict[str, str] = {}
        """The family that a file is in."""

    def close(self) -> None:
        self._cache.close()

    @property
    def folders(self) -> list[str]:
        """The folders whose changes matter."""
        return list(self._found.folders) if self._found else [""]

    def refresh(self, told: Told | None = None) -> Report:
        """Read what changed since the last time: all sources at first, usually none."""
        started = time.monotonic()
        report = Report()
        looked = False
        stale = sources.changed(self.root, self._found) if self._found else None
        if stale is None:
            found = sources.look(self.root)
            if self._found is None:
                self._remember(found)
            gone = [path for path in self._rows if path not in found.files]
            stale = {path for path, stamp in found.files.items() if self._stamp(path) != stamp}
            self._found, looked = found, True
        else:
            gone = []
            stale |= {path for path, (stamp, _) in self._rows.items() if stamp is UNSURE}
        if stale or gone:
            try:
                report = Report(self._take(sorted(stale), told), self._drop(gone))
            except BaseException:
                # What was not read yet must be found again the next time.
                self._found = None
                raise
        report.looked = looked
        report.took_ms = round((time.monotonic() - started) * 1000, 2)
        return report

    def _stamp(self, path: str) -> Stamp | None:
        known = self._rows.get(path)
        return known[0] if known else None

    def _remember(self, found: Found) -> None:
        """At the start: what the cache has of files that did not change since."""
        for path, (stamp, digest) in self._cache.files().items():
            if found.files.get(path) == stamp:
                facts = self._cache.facts(digest, _suffix(path))
                if facts is not None:
                    self._put(path, stamp, digest, facts)
            else:
                # So that it is forgotten there too, if it is gone.
                self._rows[path] = UNSURE, digest
        self._cache.tidy()

    def _take(self, paths: list[str], told: Told | None) -> int:
        """Read files and keep what they say; how many had to be parsed."""
        count = 0
        stats = {path: self._now(path) for path in paths}
        for lot in batches(_counted(self._read(stats), len(paths), told), LOT):
            self._cache.save(lot)
            count += sum(body is not None for _, _, body in lot)
        return count

    def _now(self, path: str) -> Stamp:
        """A file's stat before it is read; one that changed just now is read again next time."""
        try:
            stamp = sources.stamp((self.root / path).lstat())
        except OSError:
            return UNSURE
        assert self._found is not None
        self._found.files[path] = stamp
        return UNSURE if time.time_ns() - stamp.mtime_ns < RACY_NS else stamp

    def _read(self, stats: dict[str, Stamp]) -> Iterator[Kept]:
        """What files say: from the cache where it knows their bytes, as after a change of branches, else parsed."""
        unknown: dict[str, int] = {}
        for path, stamp in stats.items():
            digest = self._digest(path)
            facts = self._cache.facts(digest, _suffix(path)) if digest else None
            if facts is None:
                unknown[path] = max(stamp.size, 0)
                continue
            if digest != self._rows.get(path, (None, ""))[1] or path not in self._of:
                self._put(path, stamp, digest, facts)
            self._rows[path] = stamp, digest
            yield (path, stamp, digest), _suffix(path), None
        for one in parsed(self.root, unknown, self.max_bytes):
            yield self._taken(one, stats[one.path])

    def _digest(self, path: str) -> str:
        """The hash of a file's bytes; empty for what is not worth a look."""
        try:
            data = bytes_at(self.root / path, self.max_bytes)
        except OSError:
            return ""
        return digest_of(data) if len(data) <= self.max_bytes else ""

    def _taken(self, one: Parsed, stamp: Stamp) -> Kept:
        usual = languages.of_path(one.path)[-1].name
        facts = forms.decode(one.body) if one.body else forms.nothing(usual, one.gone)
        self._put(one.path, stamp, one.digest, facts)
        return (one.path, stamp, one.digest), _suffix(one.path), one.body if one.digest else None

    def _put(self, path: str, stamp: Stamp, digest: str, facts: Facts) -> None:
        family = languages.known()[facts.language].kin
        if self._of.get(path, family) != family:
            self.families[self._of[path]].project.drop(path)
        self.families.setdefault(family, Family()).project.put(path, facts)
        self._rows[path] = stamp, digest
        self._of[path] = family
        self.problems.pop(path, None)
        if facts.problem:
            self.problems[path] = facts.problem

    def _drop(self, gone: list[str]) -> int:
        for path in gone:
            self._rows.pop(path, None)
            self.problems.pop(path, None)
            if family := self._of.pop(path, ""):
                self.families[family].project.drop(path)
        self._cache.save((), gone)
        return len(gone)

    # --- what is there --------------------------------------------------------------------------------------

    @property
    def skipped(self) -> dict[str, str]:
        """Everything that is not in the outline, or not wholly, and why."""
        return {**(self._found.skipped if self._found else {}), **self.problems}

    def counts(self) -> Counter[str]:
        """How many files of each language there are."""
        return Counter(facts.language for one in self.families.values() for facts in one.project.files.values())

    def family(self, language: Language) -> Family:
        found = self.families.get(language.kin)
        if found is None or not any(self.in_language(path, language) for path in found.project.files):
            there = ", ".join(f"{name} ({count})" for name, count in self.counts().most_common())
            raise NotFound(f"there are no {language.name} sources in this workspace", f"there are: {there or 'none'}")
        found.linker.fresh()
        return found

    def in_language(self, path: str, language: Language) -> bool:
        """Whether a file counts as one of a language: it is, or its ending could be."""
        return language in languages.of_path(path)

    def language_meant(self, name: str, file: str = "") -> Language:
        """The language that was named, or the only one that it can be."""
        if name:
            return languages.named(name)
        if file and languages.of_path(file):
            known = self.families[self._of[file]].project.files[file].language if file in self._of else ""
            return languages.known()[known] if known else languages.of_path(file)[-1]
        counts = self.counts()
        if len(counts) == 1:
            return languages.known()[next(iter(counts))]
        there = ", ".join(f"{one} ({count})" for one, count in counts.most_common())
        raise UsageError("which language is meant?", f"there are: {there or 'no sources'}")


def _counted(rows: Iterator[Kept], total: int, told: Told | None) -> Iterator[Kept]:
    """Rows as they come, each told of, so that whoever is told can also end it."""
    for done, row in enumerate(rows, 1):
        yield row
        if told:
            told(done, total)


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()
