"""The doctor: looks at every store, names what is broken, and mends it when asked to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memd.config.schema import Settings
from memd.errors import MemdError, ModelUnavailable, StoreBroken
from memd.indexer.intake import ingest
from memd.indexer.intake.look import changed_paths
from memd.indexer.intake.scan import scan
from memd.indexer.store import bank, catalog
from memd.indexer.store.ledger import Ledger, newest_backup
from memd.indexer.store.stores import CACHES_OF, Shelf, Stores, quarantine
from memd.indexer.upkeep.reconcile import reconcile_text, reconcile_vectors

ROOM_MB = 200
"""Less free space than this is worth a word before it is too late."""

KEEP_ASIDE = 7 * 86_400
"""What was put aside stays this many seconds, for a person to look at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: ok, warn, broken or mended."""

    name: str
    state: str
    detail: str
    fix: str = ""


def sound(findings: list[Finding]) -> bool:
    return all(finding.state != "broken" for finding in findings)


def examine(stores: Stores, settings: Settings, fix: bool, running: bool) -> list[Finding]:
    """Look at everything. `running`: the daemon itself asks, with its stores open."""
    findings = [_ledger(stores.ledger), _room(stores.folder)]
    findings += _model(stores, settings)
    if not running:
        findings += _chroma_folder(stores, settings, fix)
    for shelf in stores.shelves.values():
        findings += _shelf(stores, shelf, settings, fix)
    findings += _leftovers(stores, fix)
    return findings


# --- the ledger ---------------------------------------------------------------------------------------------


def _ledger(ledger: Ledger) -> Finding:
    problem = ledger.check()
    if problem:
        return Finding("state.db", "broken", problem, "memd stop && memd doctor --fix")
    return Finding("state.db", "ok", f"sound, clock {ledger.clock}")


def open_ledger(folder: Path, fix: bool) -> list[Finding]:
    """Whether the ledger opens at all; with `fix` a broken one is replaced by the newest backup, or by nothing.

    Nothing that a person wrote is in it: the notes are read again. What is lost is what memd observed.
    """
    file = folder / "state.db"
    try:
        ledger = Ledger(file)
    except StoreBroken as error:
        if not fix or "newer memd" in error.message:
            return [Finding("state.db", "broken", error.message, error.hint)]
        return [_replace_ledger(folder, error.message)]
    problem = ledger.check()
    ledger.close()
    if problem and fix:
        return [_replace_ledger(folder, problem)]
    return [Finding("state.db", "broken", problem, "memd doctor --fix")] if problem else []


def _replace_ledger(folder: Path, why: str) -> Finding:
    aside = quarantine(folder, folder / "state.db")
    for companion in ("state.db-wal", "state.db-shm", CACHES_OF):
        (folder / companion).unlink(missing_ok=True)
    backup = newest_backup(folder)
    if backup is not None:
        shutil.copy2(backup, folder / "state.db")
        detail = f"{why}; put aside as {aside}; the backup {backup.name} took its place"
    else:
        detail = f"{why}; put aside as {aside}; the notes are read again into a new one"
    return Finding("state.db", "mended", detail)


# --- around the stores --------------------------------------------------------------------------------------


def _room(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < ROOM_MB:
        return Finding("disk", "warn", f"{free} MB free at {folder}", "make room")
    return Finding("disk", "ok", f"{free:,} MB free at {folder}")


def _model(stores: Stores, settings: Settings) -> Iterator[Finding]:
    if settings.embedding.provider == "none":
        yield Finding("model", "ok", "off by choice (embedding.provider = none): text search only")
        return
    if stores.model is not None:
        yield Finding("model", "ok", f"{stores.model.embedder.name}, {stores.model.embedder.dims} dimensions")
        return
    from memd.indexer.model.embedder import load_embedder, source_of

    try:
        embedder = load_embedder(settings.embedding, stores.folder / "model")
        if embedder is not None:
            embedder.embed(["one real run"])
            stores.use_model(embedder, source_of(settings.embedding))
            yield Finding("model", "ok", f"{embedder.name}, {embedder.dims} dimensions")
    except ModelUnavailable as error:
        yield Finding("model", "broken", error.message, error.hint)


def _chroma_folder(stores: Stores, settings: Settings, fix: bool) -> Iterator[Finding]:
    """Open the collections from a child first: broken files can take the process with them."""
    from memd.indexer.store.vectors import VectorStore, damage

    folder = stores.folder / "chroma"
    problem = damage(folder, suspect=True)
    if problem and not fix:
        yield Finding("chroma", "broken", problem, "memd doctor --fix")
        return
    if problem:
        quarantine(stores.folder, folder)
        yield Finding("chroma", "mended", f"{problem}; put aside and made again")
    if stores.model is not None:
        stores.use_vectors(VectorStore(folder))


def _leftovers(stores: Stores, fix: bool) -> Iterator[Finding]:
    """Folders of workspaces that are gone, and what was put aside long ago."""
    known = {str(shelf.id) for shelf in stores.shelves.values()}
    texts = stores.folder / "text"
    strays = [folder for folder in (texts.iterdir() if texts.exists() else ()) if folder.name not in known]
    aside = stores.folder / "quarantine"
    strays += [found for found in (aside.iterdir() if aside.exists() else ()) if _age(found) > KEEP_ASIDE]
    for stray in strays:
        name = str(stray.relative_to(stores.folder))
        if fix:
            shutil.rmtree(stray, ignore_errors=True) if stray.is_dir() else stray.unlink(missing_ok=True)
            yield Finding(name, "mended", "a leftover, removed")
        else:
            yield Finding(name, "warn", "a leftover that nothing uses", "memd doctor --fix")


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


# --- one workspace ------------------------------------------------------------------------------------------


def _shelf(stores: Stores, shelf: Shelf, settings: Settings, fix: bool) -> Iterator[Finding]:
    ns = shelf.workspace.ns
    if not shelf.workspace.root.is_dir():
        yield Finding(
            f"{ns}: files", "warn", f"{shelf.workspace.root} is not there", f"memd remove {ns}, or bring it back"
        )
    else:
        yield _files(stores, shelf, settings, fix)
    yield _compare(f"{ns}: text index", lambda: _text_differs(stores, shelf), lambda: _mend_text(stores, shelf), fix)
    if shelf.collection is not None:
        yield _compare(
            f"{ns}: vectors",
            lambda: _vectors_differ(stores, shelf),
            lambda: reconcile_vectors(stores, shelf),
            fix,
        )


def _files(stores: Stores, shelf: Shelf, settings: Settings, fix: bool) -> Finding:
    """Whether the ledger has every file as it is on the disk now."""
    changed = changed_paths(shelf, scan(shelf.workspace))
    stale = {path for path in changed if not _same_text(shelf, path, settings)}
    name = f"{shelf.workspace.ns}: files"
    if not stale:
        return Finding(name, "ok", f"{len(shelf.files):,} files, all as indexed")
    some = ", ".join(sorted(stale)[:3])
    if not fix:
        return Finding(name, "warn", f"{len(stale)} differ from the index ({some})", "memd sync")
    ingest.apply(stores, shelf, stale, settings.index.max_file_kb * 1024)
    return Finding(name, "mended", f"{len(stale)} were read again ({some})")


def _same_text(shelf: Shelf, path: str, settings: Settings) -> bool:
    from memd.notes.read import Skipped, Unreadable, read

    known = shelf.files.get(path)
    try:
        reading = read(shelf.workspace.root / path, settings.index.max_file_kb * 1024)
    except (OSError, Skipped, Unreadable):
        return known is not None and bool(known.problem)
    return known is not None and known.digest == reading.digest


def _compare(name: str, differs: Callable[[], str], mend: Callable[[], object], fix: bool) -> Finding:
    try:
        problem = differs()
    except MemdError as error:
        problem = error.message
    if not problem:
        return Finding(name, "ok", "in step with the ledger")
    if not fix:
        return Finding(name, "broken", problem, "memd doctor --fix")
    mend()
    return Finding(name, "mended", problem)


def _text_differs(stores: Stores, shelf: Shelf) -> str:
    wanted, held = catalog.chunk_ids(stores.ledger.reader, shelf.id), shelf.text.ids()
    shelf.text.verify()
    return _difference(len(wanted - held), len(held - wanted))


def _mend_text(stores: Stores, shelf: Shelf) -> None:
    """Compare; where the index cannot even be read, begin an empty one."""
    try:
        shelf.text.verify()
        reconcile_text(stores, shelf)
    except StoreBroken:
        stores.renew_text(shelf)
        reconcile_text(stores, shelf)


def _vectors_differ(stores: Stores, shelf: Shelf) -> str:
    assert stores.model is not None and shelf.collection is not None
    ids, _ = bank.of_workspace(stores.ledger.reader, stores.model.id, shelf.id, stores.model.embedder.dims)
    held = shelf.collection.ids()
    return _difference(len(set(ids) - held), len(held - set(ids)))


def _difference(missing: int, extra: int) -> str:
    parts = [f"{missing:,} chunks are missing"] if missing else []
    parts += [f"{extra:,} are left from before"] if extra else []
    return ", ".join(parts)
