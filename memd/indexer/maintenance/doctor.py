"""The doctor: looks at every store, names what is broken, and mends it when asked to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memd.config.schema import Settings
from memd.errors import MemdError, ModelUnavailable, StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import scan
from memd.indexer.maintenance.reconcile import reconcile_text, reconcile_vectors
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.ledger import Ledger, newest_backup
from memd.indexer.store.stores import CACHES_OF, Stores, WorkspaceIndex, quarantine

ROOM_MB = 200
"""Less free space than this is worth a word before it is too late."""

KEEP_ASIDE = 7 * 86_400
"""What was put aside stays this many seconds, for a person to look at."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was looked at: ok, warn, broken or mended."""

    name: str
    state: str
    detail: str
    fix: str = ""


def sound(findings: list[DoctorFinding]) -> bool:
    return all(finding.state != "broken" for finding in findings)


def examine(stores: Stores, settings: Settings, fix: bool, running: bool) -> list[DoctorFinding]:
    """Look at everything. `running`: the daemon itself asks, with its stores open."""
    findings = [_ledger(stores.ledger), _room(stores.folder)]
    findings += _model(stores, settings)
    if not running:
        findings += _chroma_folder(stores, settings, fix)
    for index in stores.indexes.values():
        findings += _index(stores, index, settings, fix)
    findings += _leftovers(stores, fix)
    return findings


# --- the ledger ---------------------------------------------------------------------------------------------


def _ledger(ledger: Ledger) -> DoctorFinding:
    problem = ledger.check()
    if problem:
        return DoctorFinding("state.db", "broken", problem, "memd stop && memd doctor --fix")
    return DoctorFinding("state.db", "ok", f"sound, clock {ledger.clock}")


def open_ledger(folder: Path, fix: bool) -> list[DoctorFinding]:
    """Whether the ledger opens at all; with `fix` a broken one is replaced by the newest backup, or by nothing.

    Nothing that a person wrote is in it: the notes are read again. What is lost is what memd observed.
    """
    file = folder / "state.db"
    try:
        ledger = Ledger(file)
    except StoreBroken as error:
        if not fix or "newer memd" in error.message:
            return [DoctorFinding("state.db", "broken", error.message, error.hint)]
        return [_replace_ledger(folder, error.message)]
    problem = ledger.check()
    ledger.close()
    if problem and fix:
        return [_replace_ledger(folder, problem)]
    return [DoctorFinding("state.db", "broken", problem, "memd doctor --fix")] if problem else []


def _replace_ledger(folder: Path, why: str) -> DoctorFinding:
    aside = quarantine(folder, folder / "state.db")
    for companion in ("state.db-wal", "state.db-shm", CACHES_OF):
        (folder / companion).unlink(missing_ok=True)
    backup = newest_backup(folder)
    if backup is not None:
        shutil.copy2(backup, folder / "state.db")
        detail = f"{why}; put aside as {aside}; the backup {backup.name} took its place"
    else:
        detail = f"{why}; put aside as {aside}; the notes are read again into a new one"
    return DoctorFinding("state.db", "mended", detail)


# --- around the stores --------------------------------------------------------------------------------------


def _room(folder: Path) -> DoctorFinding:
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < ROOM_MB:
        return DoctorFinding("disk", "warn", f"{free} MB free at {folder}", "make room")
    return DoctorFinding("disk", "ok", f"{free:,} MB free at {folder}")


def _model(stores: Stores, settings: Settings) -> Iterator[DoctorFinding]:
    if settings.embedding.provider == "none":
        yield DoctorFinding("model", "ok", "off by choice (embedding.provider = none): text search only")
        return
    if stores.model is not None:
        yield DoctorFinding("model", "ok", f"{stores.model.embedder.name}, {stores.model.embedder.dims} dimensions")
        return
    from memd.indexer.model.embedder import load_embedder, source_of

    try:
        embedder = load_embedder(settings.embedding, stores.folder / "model")
        if embedder is not None:
            embedder.embed(["one real run"])
            stores.use_model(embedder, source_of(settings.embedding))
            yield DoctorFinding("model", "ok", f"{embedder.name}, {embedder.dims} dimensions")
    except ModelUnavailable as error:
        yield DoctorFinding("model", "broken", error.message, error.hint)


def _chroma_folder(stores: Stores, settings: Settings, fix: bool) -> Iterator[DoctorFinding]:
    """Open the collections from a child first: broken files can take the process with them."""
    from memd.indexer.store.vectors import VectorStore, damage

    folder = stores.folder / "chroma"
    problem = damage(folder, suspect=True)
    if problem and not fix:
        yield DoctorFinding("chroma", "broken", problem, "memd doctor --fix")
        return
    if problem:
        quarantine(stores.folder, folder)
        yield DoctorFinding("chroma", "mended", f"{problem}; put aside and made again")
    if stores.model is not None:
        stores.use_vectors(VectorStore(folder))


def _leftovers(stores: Stores, fix: bool) -> Iterator[DoctorFinding]:
    """Folders of workspaces that are gone, and what was put aside long ago."""
    known = {str(index.id) for index in stores.indexes.values()}
    texts = stores.folder / "text"
    strays = [folder for folder in (texts.iterdir() if texts.exists() else ()) if folder.name not in known]
    aside = stores.folder / "quarantine"
    strays += [found for found in (aside.iterdir() if aside.exists() else ()) if _age(found) > KEEP_ASIDE]
    for stray in strays:
        name = str(stray.relative_to(stores.folder))
        if fix:
            shutil.rmtree(stray, ignore_errors=True) if stray.is_dir() else stray.unlink(missing_ok=True)
            yield DoctorFinding(name, "mended", "a leftover, removed")
        else:
            yield DoctorFinding(name, "warn", "a leftover that nothing uses", "memd doctor --fix")


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


# --- one workspace ------------------------------------------------------------------------------------------


def _index(stores: Stores, index: WorkspaceIndex, settings: Settings, fix: bool) -> Iterator[DoctorFinding]:
    ns = index.workspace.ns
    if not index.workspace.root.is_dir():
        yield DoctorFinding(
            f"{ns}: files", "warn", f"{index.workspace.root} is not there", f"memd remove {ns}, or bring it back"
        )
    else:
        yield _files(stores, index, settings, fix)
    yield _compare(f"{ns}: text index", lambda: _text_differs(stores, index), lambda: _mend_text(stores, index), fix)
    if index.collection is not None:
        yield _compare(
            f"{ns}: vectors",
            lambda: _vectors_differ(stores, index),
            lambda: reconcile_vectors(stores, index),
            fix,
        )


def _files(stores: Stores, index: WorkspaceIndex, settings: Settings, fix: bool) -> DoctorFinding:
    """Whether the ledger has every file as it is on the disk now."""
    changed = changed_paths(index, scan(index.workspace))
    stale = {path for path in changed if not _same_text(index, path, settings)}
    name = f"{index.workspace.ns}: files"
    if not stale:
        return DoctorFinding(name, "ok", f"{len(index.files):,} files, all as indexed")
    some = ", ".join(sorted(stale)[:3])
    if not fix:
        return DoctorFinding(name, "warn", f"{len(stale)} differ from the index ({some})", "memd sync")
    ingest.apply(stores, index, stale, settings.index.max_file_kb * 1024)
    return DoctorFinding(name, "mended", f"{len(stale)} were read again ({some})")


def _same_text(index: WorkspaceIndex, path: str, settings: Settings) -> bool:
    from memd.notes.read import SkippedFile, UnreadableFile, read

    known = index.files.get(path)
    try:
        reading = read(index.workspace.root / path, settings.index.max_file_kb * 1024)
    except (OSError, SkippedFile, UnreadableFile):
        return known is not None and bool(known.problem)
    return known is not None and known.digest == reading.digest


def _compare(name: str, differs: Callable[[], str], mend: Callable[[], object], fix: bool) -> DoctorFinding:
    try:
        problem = differs()
    except MemdError as error:
        problem = error.message
    if not problem:
        return DoctorFinding(name, "ok", "in step with the ledger")
    if not fix:
        return DoctorFinding(name, "broken", problem, "memd doctor --fix")
    mend()
    return DoctorFinding(name, "mended", problem)


def _text_differs(stores: Stores, index: WorkspaceIndex) -> str:
    wanted, held = catalog.chunk_ids(stores.ledger.reader, index.id), index.text.ids()
    index.text.verify()
    return _difference(len(wanted - held), len(held - wanted))


def _mend_text(stores: Stores, index: WorkspaceIndex) -> None:
    """Compare; where the index cannot even be read, begin an empty one."""
    try:
        index.text.verify()
        reconcile_text(stores, index)
    except StoreBroken:
        stores.renew_text(index)
        reconcile_text(stores, index)


def _vectors_differ(stores: Stores, index: WorkspaceIndex) -> str:
    assert stores.model is not None and index.collection is not None
    ids, _ = vector_table.of_workspace(stores.ledger.reader, stores.model.id, index.id, stores.model.embedder.dims)
    held = index.collection.ids()
    return _difference(len(set(ids) - held), len(held - set(ids)))


def _difference(missing: int, extra: int) -> str:
    parts = [f"{missing:,} chunks are missing"] if missing else []
    parts += [f"{extra:,} are left from before"] if extra else []
    return ", ".join(parts)
