"""The outline of one workspace: its sources, parsed once and kept in step with the files."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from memd.config.paths import bytes_at
from memd.errors import NotFound, UsageError
from memd.models import FileStat, digest_of
from memd.outline import languages, sources
from memd.outline.facts import CacheRow, Facts, FactsCache, decode
from memd.outline.project import Project
from memd.outline.resolve import Resolver

RACY_NS = 100_000_000
"""A file that changed this recently before it was read may change again with the same stamp."""
UNSURE = FileStat(-1, -1, -1, -1)
BATCH = 50
"""Files per transaction, so that a first run that is stopped keeps most of its work."""
Progress = Callable[[int, int], None]
"""Called with the number of files done and the total; it may raise to stop."""


class RefreshResult(NamedTuple):
    """The result of a refresh."""

    parsed: int
    removed: int
    listed: bool
    """Whether the folders were listed again."""
    took_ms: float


class Outline:
    """One workspace's sources. Used by one thread at a time; `refresh` makes it agree with the disk."""

    def __init__(self, root: Path, cache: Path, max_bytes: int) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self.families: dict[str, Resolver] = {}
        """The sources of languages that see each other's symbols, by the family's name."""
        self._cache = FactsCache(cache)
        self._rows: dict[str, tuple[FileStat, str]] = {}
        self._listing: sources.SourceListing | None = None

    def close(self) -> None:
        self._cache.close()

    @property
    def folders(self) -> list[str]:
        """The folders to watch."""
        return list(self._listing.folders) if self._listing else [""]

    def refresh(self, progress: Progress = lambda done, total: None) -> RefreshResult:
        """Read what changed since the last time: at first all sources, usually none."""
        started, parsed, removed = time.monotonic(), 0, 0
        stale, gone = self._changes()
        if stale or gone:
            try:
                parsed, removed = self._read(sorted(stale), progress), self._drop(gone or [])
            except BaseException:
                # What was not read yet must be found again next time.
                self._listing = None
                raise
            finally:
                # Without what was resolved and ranked before.
                self.families = {name: Resolver(family.project) for name, family in self.families.items()}
        return RefreshResult(parsed, removed, gone is not None, round((time.monotonic() - started) * 1000, 2))

    def _changes(self) -> tuple[set[str], list[str] | None]:
        """Files to read, and files that are gone; None for these if the folders did not have to be listed."""
        stale = sources.changed(self.root, self._listing) if self._listing else None
        if stale is not None:
            return stale | {path for path, (stamp, _) in self._rows.items() if stamp is UNSURE}, None
        listing = sources.list_sources(self.root)
        if self._listing is None:
            self._load_cached(listing)
        self._listing = listing
        unknown = (None, "")
        stale = {path for path, stamp in listing.files.items() if self._rows.get(path, unknown)[0] != stamp}
        return stale, [path for path in self._rows if path not in listing.files]

    def _load_cached(self, listing: sources.SourceListing) -> None:
        """At the start: load the cached facts of files that have not changed since."""
        for path, (stamp, digest) in self._cache.files().items():
            if listing.files.get(path) == stamp:
                if (facts := self._cache.facts(digest, path)) is not None:
                    self._put(path, stamp, digest, facts)
            else:
                # So that it is removed from the cache too, if it is gone.
                self._rows[path] = UNSURE, digest
        self._cache.tidy()

    def _read(self, paths: list[str], progress: Progress) -> int:
        """Read files and cache their facts; how many had to be parsed."""
        parsed, batch, stats = 0, list[CacheRow](), {path: self._stamp_now(path) for path in paths}
        for done, row in enumerate(self._read_rows(stats), 1):
            batch.append(row)
            parsed += row.body is not None
            if len(batch) == BATCH or done == len(paths):
                self._cache.save(batch)
                batch = []
            progress(done, len(paths))
        return parsed

    def _stamp_now(self, path: str) -> FileStat:
        """A file's stat before it is read; UNSURE, so that it is read again next time, if it changed just now."""
        try:
            stamp = FileStat.of((self.root / path).lstat())
        except OSError:
            return UNSURE
        assert self._listing is not None
        self._listing.files[path] = stamp
        return UNSURE if time.time_ns() - stamp.mtime_ns < RACY_NS else stamp

    def _read_rows(self, stats: dict[str, FileStat]) -> Iterator[CacheRow]:
        """The facts of files: from the cache if it knows their bytes, as after a change of branches, else parsed."""
        unknown: dict[str, int] = {}
        for path, stamp in stats.items():
            digest = self._digest(path)
            facts = self._cache.facts(digest, path) if digest else None
            if facts is None:
                unknown[path] = max(stamp.size, 0)
                continue
            if digest != self._rows.get(path, (None, ""))[1] or self.project_of(path) is None:
                self._put(path, stamp, digest, facts)
            self._rows[path] = stamp, digest
            yield CacheRow(path, stamp, digest, None)
        for path, digest, body in sources.parse_files(self.root, unknown, self.max_bytes):
            self._put(path, stats[path], digest, decode(body))
            yield CacheRow(path, stats[path], digest, body if digest else None)

    def _digest(self, path: str) -> str:
        """The digest of a file's bytes; empty if it is unreadable or too large."""
        try:
            data = bytes_at(self.root / path, self.max_bytes)
        except OSError:
            return ""
        return digest_of(data) if len(data) <= self.max_bytes else ""

    def _put(self, path: str, stamp: FileStat, digest: str, facts: Facts) -> None:
        # A suffix is of one family, so what is known of the file before is in the same project, which replaces it.
        family = languages.known()[facts.language].family
        self.families.setdefault(family, Resolver(Project())).project.put(path, facts)
        self._rows[path] = stamp, digest

    def _drop(self, gone: list[str]) -> int:
        for path in gone:
            self._rows.pop(path, None)
            if project := self.project_of(path):
                project.drop(path)
        self._cache.save((), gone)
        return len(gone)

    # --- contents -------------------------------------------------------------------------------------------

    def project_of(self, path: str) -> Project | None:
        """The family's files among which a file is."""
        return next((family.project for family in self.families.values() if path in family.project.files), None)

    @property
    def problems(self) -> dict[str, str]:
        """Files that could not be read, or not completely, and why."""
        files = (item for family in self.families.values() for item in family.project.files.items())
        return {path: facts.problem for path, facts in files if facts.problem}

    @property
    def skipped(self) -> dict[str, str]:
        """Every file that is not in the outline, or not completely, and why."""
        return {**(self._listing.skipped if self._listing else {}), **self.problems}

    def counts(self) -> Counter[str]:
        """The number of files per language."""
        families = self.families.values()
        return Counter(facts.language for family in families for facts in family.project.files.values())

    def family(self, language: languages.Language) -> Resolver:
        family = self.families.get(language.family)
        if family is None or not any(map(language.takes, family.project.files)):
            hint = f"there are: {self._languages() or 'none'}"
            raise NotFound(f"there are no {language.name} sources in this workspace", hint)
        return family

    def _languages(self) -> str:
        return ", ".join(f"{name} ({count})" for name, count in self.counts().most_common())

    def language_of(self, name: str, file: str = "") -> languages.Language:
        """The language with a name; without a name that of a file, or the only one of the workspace."""
        if name:
            return languages.named(name)
        if project := self.project_of(file):
            return project.language(file)
        if file and languages.of_path(file):
            return languages.of_path(file)[-1]
        counts = self.counts()
        if len(counts) == 1:
            return languages.known()[next(iter(counts))]
        raise UsageError("which language is meant?", f"there are: {self._languages() or 'no sources'}")
