"""The doctor: checks every store, names what is broken, and repairs it with `--fix`."""

import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence, Set as AbstractSet
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from memd import installation
from memd.config.schema import Settings
from memd.errors import LedgerDamaged, MemdError, ModelUnavailable, StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.indexing.read_files import changed_paths, read_or_none
from memd.indexer.indexing.scan import left_out, linked_note, matcher, newest_first, refusal, scan
from memd.indexer.maintenance import backups, rebuild
from memd.indexer.model.embedder import load_embedder
from memd.indexer.record import actions
from memd.indexer.store import catalog
from memd.indexer.store.chroma_server import chroma_place
from memd.indexer.store.ledger import FIX, Ledger, LedgerPlace, translated
from memd.indexer.store.ledger_check import VERSION
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.vectors import VectorStore
from memd.models import JsonObject, Workspace
from memd.notes.documents import read_note
from memd.notes.parse import parse
from memd.notes.read import SkippedFile, UnreadableFile
from memd.notes.secrets import secrets_in

ROOM_MB, ROOM_FILES = 200, 1_000
"""With less free space than this the doctor warns."""

FOLLOW_SECONDS = 20.0
"""How long the doctor waits for collections that are being brought in step."""

KEEP_ASIDE = 7 * 86_400
"""Seconds that the quarantine is kept, for a person to look at."""

PARSER = "tree_sitter"
"""The package that the extra `outline` installs."""

SECRET_SECONDS = 30.0
"""A scan of a very large workspace for secrets stops after this; the newest files come first."""
MOST_SECRETS = 1_000
MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The outcome of one check: ok, warn, broken or mended."""

    name: str
    state: str
    detail: str
    fix: str = ""


def sound(findings: list[DoctorFinding]) -> bool:
    return all(finding.state != "broken" for finding in findings)


FoundSecrets = tuple[list[DoctorFinding], list[JsonObject]]
"""What is said of the secrets in each workspace, and where each of them is."""


def report(findings: list[DoctorFinding], secrets: FoundSecrets | None = None) -> JsonObject:
    """The answer of the doctor, with what `find_secrets` found, if that was asked for."""
    more, places = secrets or ([], [])
    found = {"secrets": places} if secrets else {}
    return {"ok": sound(findings), **found, "findings": [asdict(finding) for finding in (*findings, *more)]}


def examine(
    stores: OwnStores, settings: Settings, ledger: DoctorFinding, fix: bool, running: bool
) -> list[DoctorFinding]:
    """Run every check. `running`: on the writer's thread of a daemon, which leaves the collections to another.

    `ledger`: what `examine_ledger` found. With a broken one nothing can be compared: then it is the only finding.
    """
    if ledger.state == "broken":
        return [ledger]
    try:
        with translated():
            return [ledger, *_examine_rest(stores, settings, fix, running)]
    except LedgerDamaged as error:
        return [_broken(error.message)]


def _examine_rest(stores: OwnStores, settings: Settings, fix: bool, running: bool) -> list[DoctorFinding]:
    findings = [_room(stores.folder), *_model(stores, settings), *_outline(settings)]
    if not running:
        findings += _chroma_folder(stores, settings, fix)
    for index in stores.indexes.values():
        findings += _index(stores, index, settings, fix)
    findings += _leftovers(stores, fix)
    if not running:
        waiting = catalog.numbers_of(stores.reader, "SELECT DISTINCT workspace FROM unsent")
        findings += examine_collections(stores, fix, waiting)
    return findings


def examine_collections(stores: OwnStores, fix: bool, waiting: AbstractSet[int] = frozenset()) -> list[DoctorFinding]:
    """Compare the collections with the ledger. It waits for Chroma, so the writer's thread must not do it.

    `waiting`: workspaces whose collection had not followed yet when the daemon stopped.
    """
    indexes = [index for index in stores.indexes.values() if index.collection is not None]
    return [_collection(stores, index, fix, index.id in waiting) for index in indexes]


# --- the ledger ---------------------------------------------------------------------------------------------


def examine_ledger(ledger: Ledger) -> DoctorFinding:
    """Read all of the ledger. It takes seconds, so the writer's thread must not do it."""
    if (place := ledger.place) is not LedgerPlace.HERE:
        return DoctorFinding("state.db", "broken", place.value, "memd status")
    problem = ledger.damage.message if ledger.damage is not None else ledger.problem()
    return _broken(problem) if problem else DoctorFinding("state.db", "ok", f"sound, clock {ledger.clock}")


def _broken(problem: str, fix: str = FIX) -> DoctorFinding:
    return DoctorFinding("state.db", "broken", problem, fix)


def open_ledger(folder: Path, fix: bool) -> list[DoctorFinding]:
    """Whether the ledger opens; with `fix` another takes the place of a damaged one. Notes are not in it.

    Without `fix` that of an older memd is not opened, which would upgrade it.
    """
    if not fix and 0 < (found := backups.schema_of(folder / "state.db")) < VERSION:
        older = f"an older memd wrote it (schema {found}, this one knows {VERSION}): the next start upgrades it"
        return [DoctorFinding("state.db", "warn", f"{older}, and keeps a copy of it", "memd start")]
    try:
        Ledger(folder / "state.db").close()
    except StoreBroken as error:
        mends = fix and isinstance(error, LedgerDamaged)
        return [mend_ledger(folder, error.message) if mends else _broken(error.message, error.hint)]
    return []


def mend_ledger(folder: Path, why: str) -> DoctorFinding:
    """Let another ledger take the place of a damaged one."""
    return DoctorFinding("state.db", "mended", backups.mend(folder, why))


# --- around the stores --------------------------------------------------------------------------------------


def _room(folder: Path) -> DoctorFinding:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize // 1_000_000
    if free < ROOM_MB:
        return DoctorFinding("disk", "warn", f"{free} MB free at {folder}", "make room")
    if disk.f_files and disk.f_favail < ROOM_FILES:
        return DoctorFinding("disk", "warn", f"room for {disk.f_favail} more files at {folder} (inodes)", "make room")
    return DoctorFinding("disk", "ok", f"{free:,} MB free at {folder}")


def _model(stores: OwnStores, settings: Settings) -> Iterator[DoctorFinding]:
    if settings.embedding.provider == "none":
        yield DoctorFinding("model", "ok", "off by choice (embedding.provider = none): text search only")
        return
    try:
        if stores.model is None:
            embedder = load_embedder(settings.embedding, stores.folder / "model")
            embedder.embed(["one real run"])
            stores.use_model(embedder, settings.embedding.source)
    except ModelUnavailable as error:
        yield DoctorFinding("model", "broken", error.message, error.hint)
    if stores.model is not None:
        yield DoctorFinding("model", "ok", f"{stores.model.embedder.name}, {stores.model.embedder.dims} dimensions")


def _outline(settings: Settings) -> Iterator[DoctorFinding]:
    if settings.outline.enabled and find_spec(PARSER) is None:
        how = f"{installation.extra('outline')}; then: memd restart"
        yield DoctorFinding("outline", "warn", "it is on, but its parsers are not installed", how)


def _chroma_folder(stores: OwnStores, settings: Settings, fix: bool) -> Iterator[DoctorFinding]:
    """Open the collections, and leave them as they are if they are broken and not to be mended."""
    place = chroma_place(settings.vectors, stores.folder, stores.ledger.id, take_over=fix)
    problem = place.damage()
    if problem and not fix:
        yield DoctorFinding("chroma", "broken", problem, "memd doctor --fix")
        return
    if problem:
        place.put_aside(problem)
        yield DoctorFinding("chroma", "mended", f"{problem}; put aside and made again")
    if stores.model is not None:
        stores.use_vectors(VectorStore(stores.ledger, place, following=False))


def _leftovers(stores: OwnStores, fix: bool) -> Iterator[DoctorFinding]:
    """Folders of removed workspaces, and old quarantine."""
    known = {str(index.id) for index in stores.indexes.values()}
    leftovers = [folder for folder in stores.folder.glob("text/*") if folder.name not in known]
    old = time.time() - KEEP_ASIDE
    leftovers += [file for file in stores.folder.glob("quarantine/*") if file.stat().st_mtime < old]
    for leftover in leftovers:
        name = str(leftover.relative_to(stores.folder))
        if fix:
            shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)
            yield DoctorFinding(name, "mended", "a leftover, removed")
        else:
            yield DoctorFinding(name, "warn", "a leftover that nothing uses", "memd doctor --fix")


# --- one workspace ------------------------------------------------------------------------------------------


def _index(stores: OwnStores, index: OwnIndex, settings: Settings, fix: bool) -> Iterator[DoctorFinding]:
    differs, mend = partial(_text_differs, stores, index), partial(rebuild.reconcile_text, stores, index, deep=True)
    name = f"{index.workspace.ns}: text index"
    made = index.open_text is not None or not stores.text_folder(index.id).exists()
    if fix or made or stores.has_form(index):
        # Before the files are read again, which needs it.
        text = _compare(name, differs, mend, fix)
    else:
        # To open it would empty it.
        text = DoctorFinding(name, "warn", "not of this memd's form: the next start makes it anew", "memd start")
    yield _files(stores, index, settings, fix)
    yield from _impaired(index)
    yield from _half_done(stores, index)
    yield text
    yield from _missing_vectors(stores, index)


def _missing_vectors(stores: OwnStores, index: OwnIndex) -> Iterator[DoctorFinding]:
    """Chunks that a question by meaning cannot find yet."""
    chunks, made = catalog.chunk_count(stores.reader, index.id), stores.vector_count(index)
    fix = "they are made while memd runs; memd status says how long it takes"
    if stores.model is not None and made < chunks:
        detail = f"{chunks - made:,} of {chunks:,} chunks have no vector yet: found by their words, not by meaning"
        yield DoctorFinding(f"{index.workspace.ns}: missing vectors", "warn", detail, fix)
    if stores.multilingual is not None and (foreign := stores.pending_foreign(index)):
        detail = f"{foreign:,} chunks have no vector for other languages yet"
        yield DoctorFinding(f"{index.workspace.ns}: vectors of other languages", "warn", detail, fix)


def _half_done(stores: OwnStores, index: OwnIndex) -> Iterator[DoctorFinding]:
    """Writes that neither ended nor were restored."""
    for row in actions.begun(stores.reader, index.id):
        if kept := actions.splices_of(stores.reader, row["id"]):
            files = ", ".join(dict.fromkeys(splice.path for splice in kept))
            detail = f"action {row['id']} ({row['what']}) is half done: {files}"
            fix = "make room on the disk; the daemon restores the files by itself"
            yield DoctorFinding(f"{index.workspace.ns}: writes", "warn", detail, fix)


def _collection(stores: OwnStores, index: OwnIndex, fix: bool, waits: bool) -> DoctorFinding:
    name, vectors = f"{index.workspace.ns}: vectors", stores.vectors
    if vectors is not None and vectors.following and not vectors.wait_in_step(FOLLOW_SECONDS) and not vectors.trouble:
        return DoctorFinding(name, "warn", "the collection still takes in what changed", "memd doctor, a little later")
    differs, mend = partial(_collection_differs, stores, index), partial(rebuild.reconcile_collection, stores, index)
    found = _compare(name, differs, mend, fix)
    if found.state == "broken" and waits:
        # A stop does not wait for Chroma: the next start brings it in step.
        return DoctorFinding(name, "ok", f"{found.detail}; the daemon sees to it when it runs")
    return found


def _files(stores: OwnStores, index: OwnIndex, settings: Settings, fix: bool) -> DoctorFinding:
    """Whether the ledger has every file as it is on disk."""
    ns, root = index.workspace.ns, index.workspace.root
    name = f"{ns}: files"
    if not root.is_dir():
        return DoctorFinding(name, "warn", f"{root} is not there", index.bring_back)
    seen = scan(index.workspace)
    stale = {path for path in changed_paths(index, seen) if not _same_text(index, path, settings)}
    if not stale:
        left_out = {**dict(index.left_out()), **seen.skipped}
        also = f"; {len(left_out)} left out: memd status" if left_out else ""
        return DoctorFinding(name, "ok", f"{_count(len(index.files.keys() - left_out), 'file')}, all as indexed{also}")
    some = ", ".join(sorted(stale)[:3])
    if not fix:
        return DoctorFinding(name, "warn", f"{len(stale)} differ from the index ({some})", "memd sync")
    list(ingest.apply_in_pieces(stores, index, stale, settings.index.max_file_kb * 1024, ingest.PLAIN, None))
    return DoctorFinding(name, "mended", f"{len(stale)} were read again ({some})")


def _impaired(index: OwnIndex) -> Iterator[DoctorFinding]:
    """The files that are searched, if not as they are."""
    found = [f"{path}: {row.problem}" for path, row in sorted(index.files.items()) if row.problem and not row.left_out]
    if found:
        fix = "make it readable, or mend it in your editor; until then memd keeps every byte"
        yield DoctorFinding(f"{index.workspace.ns}: notes", "warn", "\n".join(found[:MOST_SHOWN]), fix)


def _same_text(index: OwnIndex, path: str, settings: Settings) -> bool:
    known = index.files.get(path)
    content = read_or_none(index, path, settings.index.max_file_kb * 1024)
    return known is not None and (known.digest == content.digest if content else bool(known.problem))


def _compare(name: str, differs: Callable[[], str], mend: Callable[[], object], fix: bool) -> DoctorFinding:
    try:
        problem = differs()
    except MemdError as error:
        problem = error.message
    if not problem:
        return DoctorFinding(name, "ok", "in step with the ledger")
    if not fix:
        return DoctorFinding(name, "broken", problem, "memd doctor --fix")
    if mend() is False:
        return DoctorFinding(name, "broken", problem, "memd goes on by itself once it can")
    return DoctorFinding(name, "mended", problem)


def _text_differs(stores: OwnStores, index: OwnIndex) -> str:
    return _difference(*map(len, rebuild.text_difference(stores, index)))


def _collection_differs(stores: OwnStores, index: OwnIndex) -> str:
    if stores.vectors is not None and stores.vectors.trouble:
        return stores.vectors.trouble
    return _difference(*rebuild.collection_difference(stores, index))


def _difference(missing: int, extra: int) -> str:
    parts = [f"{missing:,} chunks are missing"] if missing else []
    parts += [f"{extra:,} are left over"] if extra else []
    return ", ".join(parts)


# --- one file -----------------------------------------------------------------------------------------------


def explain_file(file: Path, workspaces: Sequence[Workspace], max_bytes: int) -> JsonObject:
    """Why a file is memory, or is not, for each workspace around it."""
    real = file.parent.resolve() / file.name
    around = [workspace for workspace in workspaces if real.is_relative_to(workspace.root)]
    nowhere = DoctorFinding(str(file), "warn", "it is in no workspace", shlex.join(["memd", "add", str(file.parent)]))
    return report([_explain(one, str(real.relative_to(one.root)), max_bytes) for one in around] or [nowhere])


def _explain(workspace: Workspace, path: str, max_bytes: int) -> DoctorFinding:
    why = left_out(workspace, path) or refusal(workspace, path)
    if not why and (note := linked_note(workspace, path)):
        return DoctorFinding(f"{workspace.ns}: {path}", "ok", f"a link to {note}, which is read by that name")
    warnings: tuple[str, ...] = ()
    try:
        warnings = () if why else parse(path, read_note(workspace.root / path, max_bytes).text).warnings
    except (FileNotFoundError, SkippedFile, UnreadableFile) as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
    taken = next((f"taken in by the glob {glob}" for glob in workspace.globs if matcher(glob).fullmatch(path)), "")
    detail, state = f"left out: {why}" if why else "; ".join((taken, *warnings)), "warn" if why or warnings else "ok"
    hint = "what a note may declare: docs/writing.md" if warnings else "what is taken in: docs/configuration.md"
    return DoctorFinding(f"{workspace.ns}: {path}", state, detail, hint)


# --- secrets ------------------------------------------------------------------------------------------------


def find_secrets(workspaces: Sequence[Workspace], max_bytes: int, seconds: float = SECRET_SECONDS) -> FoundSecrets:
    """One finding a workspace, and every line that seems to hold a secret."""
    until = time.monotonic() + seconds
    found = [(workspace.ns, *_secrets(workspace, max_bytes, until)) for workspace in workspaces]
    return [_secret_finding(*one) for one in found], [place for _, places, *_ in found for place in places]


def _secrets(workspace: Workspace, max_bytes: int, until: float) -> tuple[list[JsonObject], str, bool]:
    """The secrets of a workspace as far as time allows, what was read in words, and whether that was all."""
    files, secrets, read_files, unread = scan(workspace).files, list[JsonObject](), 0, 0
    for path in newest_first(files, files):
        if time.monotonic() > until or len(secrets) >= MOST_SECRETS:
            break
        read_files += 1
        try:
            text = read_note(workspace.root / path, max_bytes).text
        except FileNotFoundError:
            continue
        except (SkippedFile, UnreadableFile):
            unread += 1
            continue
        secrets += [{"ns": workspace.ns, "path": path, **asdict(secret)} for secret in secrets_in(text)]
    complete = read_files == len(files)
    looked = _count(read_files, "file") if complete else f"the newest {read_files:,} of {len(files):,} files"
    return secrets, looked + (f", {unread:,} could not be read" if unread else ""), complete


def _secret_finding(ns: str, secrets: list[JsonObject], looked: str, complete: bool) -> DoctorFinding:
    name = f"{ns}: secrets"
    if not secrets:
        hint = "memd doctor --secrets, when the machine is less busy"
        return DoctorFinding(name, "ok" if complete else "warn", f"none seen in {looked}", hint)
    places = [f"{secret['path']}:{secret['line']} {secret['kind']}" for secret in secrets[:MOST_SHOWN]]
    if len(secrets) > MOST_SHOWN:
        places.append(f"and {len(secrets) - MOST_SHOWN:,} more; --json lists them")
    head = f"{_count(len(secrets), 'line')} in {looked} may hold one"
    return DoctorFinding(name, "warn", "\n".join([head, *places]), "remove them from the notes, and change the secrets")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
