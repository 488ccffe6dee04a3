"""Memories that come from elsewhere: reads an export, plans what would change, and gives memories their lives back."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from typing import Any

from memd.errors import NotFound, Refused, TooLarge, UsageError
from memd.indexer.indexing.scan import is_memory_path
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.transfer import imported_lives
from memd.indexer.transfer.export import LIFE, SCHEMA, seconds_of
from memd.models import KINDS, Declared
from memd.notes import safe_write
from memd.notes.incoming_file import (
    IncomingFile,
    IncomingMemory,
    MergeResult,
    merge,
    sectioned,
    text_digest,
    without_known,
)
from memd.notes.secrets import secrets_in

MAX_EXPORT = 512 * 1024 * 1024
Told = dict[str, Any]


# --- reading an export --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportedWorkspace:
    """What an export has of one workspace: its files, and what is known of each memory."""

    ns: str
    incoming_files: tuple[IncomingFile, ...]
    lives: dict[tuple[str, str], Told]
    """By path and slug."""
    gone: tuple[Told, ...]
    edges: tuple[Told, ...] = ()


def load(file: Path) -> list[ExportedWorkspace]:
    """Read an export that `memd export` wrote."""
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "a service has a /tmp of its own: put the file elsewhere")
    if file.stat().st_size > MAX_EXPORT:
        raise TooLarge(f"{file} has more than {MAX_EXPORT >> 20} MiB", "export one workspace at a time")
    try:
        told = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not an export: {error}", "memd ingest takes other files") from error
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    number = told.get("memd_export") if isinstance(told, dict) else None
    if not isinstance(number, int):
        raise UsageError(f"{file} is not an export of memd", "memd ingest takes other files")
    if number > SCHEMA:
        raise UsageError(f"{file} was written by a newer memd (schema {number}, this one knows {SCHEMA})")
    edges = _objects(told, "edges")
    return [_exported(entry, edges) for entry in _objects(told, "workspaces")]


def _exported(told: Told, edges: Sequence[Told]) -> ExportedWorkspace:
    files = _objects(told, "files")
    lives = {
        (_text(file, "path"), _text(memory, "slug")): memory for file in files for memory in _objects(file, "memories")
    }
    ns = _text(told, "ns")
    own = tuple(edge for edge in edges if _text(edge, "ns") == ns)
    return ExportedWorkspace(ns, tuple(map(_incoming, files)), lives, tuple(_objects(told, "gone")), own)


def _incoming(told: Told) -> IncomingFile:
    path = _text(told, "path")
    items = tuple(
        IncomingMemory(
            _text(memory, "slug"), _text(memory, "text"), _text(memory, "after"), _text(memory, "key") or path
        )
        for memory in _objects(told, "memories")
    )
    try:
        exact = base64.b64decode(told["base64"], validate=True) if told.get("base64") else None
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(f"`base64` of {path!r} cannot be read: {error}") from error
    return IncomingFile(path, _text(told, "head"), items, exact, seconds_of(_text(told, "modified")))


def _objects(told: Told, name: str) -> list[Told]:
    value = told.get(name) or []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UsageError(f"`{name}` of the export must be a list of objects", "docs/export.md has the schema")
    return value


def _text(told: Told, name: str) -> str:
    value = told.get(name) or ""
    if not isinstance(value, str):
        raise UsageError(f"`{name}` of the export must be text, not {value!r}", "docs/export.md has the schema")
    return value


# --- planning -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileImport:
    """One file that would change."""

    incoming: IncomingFile
    merge: MergeResult
    new: bool


@dataclass(slots=True)
class ImportPlan:
    """What would happen to one workspace."""

    steps: list[FileImport] = field(default_factory=list)
    same: int = 0
    conflicts: list[Told] = field(default_factory=list)
    problems: list[Told] = field(default_factory=list)
    secrets: list[Told] = field(default_factory=list)

    @property
    def added(self) -> int:
        return sum(len(step.merge.added) for step in self.steps)

    @property
    def replaced(self) -> int:
        return sum(len(step.merge.replaced) for step in self.steps)


def plan(
    index: WorkspaceIndex, incoming_files: Iterable[IncomingFile], overwrite: bool, known: set[str] | None = None
) -> ImportPlan:
    """Look what each file would change; what `known` has is copied nowhere, and what is planned is added to it."""
    made = ImportPlan()
    for incoming in incoming_files:
        why, found = _found(index, incoming.path)
        if why:
            made.problems.append({"path": incoming.path, "why": why})
            continue
        wanted = incoming if known is None else without_known(incoming, known)
        if known is not None and found is not None:
            wanted = without_known(sectioned(wanted), known)
        made.same += len(incoming.items) - len(wanted.items)
        if known is not None:
            known.update(item.digest for item in wanted.items)
            if not wanted.items:
                continue
        _consider(made, wanted, found, overwrite)
    return made


def _consider(made: ImportPlan, incoming: IncomingFile, found: bytes | None, overwrite: bool) -> None:
    result = merge(incoming, found, overwrite)
    made.same += result.same
    made.conflicts += [
        {"key": _key(incoming.path, item), "place": item.place, "why": why} for item, why in result.rejected
    ]
    if result.data != found:
        made.steps.append(FileImport(incoming, result, found is None))
        made.secrets += _secrets(incoming, result, found is None)


def _secrets(incoming: IncomingFile, merge: MergeResult, new: bool) -> Iterator[Told]:
    """Where what would be written looks like a secret."""
    written = [(item.place, item.line, item.text) for item in (*merge.added, *merge.replaced)]
    if new and incoming.items:
        written.insert(0, (incoming.items[0].place, 1, incoming.head))
    for place, line, text in written:
        for secret in secrets_in(text):
            yield {"place": f"{place}:{line + secret.line - 1}", "kind": secret.kind}


def _key(path: str, item: IncomingMemory) -> str:
    return f"{path}#{item.slug}" if item.slug else path


def _found(index: WorkspaceIndex, path: str) -> tuple[str, bytes | None]:
    """Why a path cannot be written to, and what stands there."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or str(pure) != path or "\0" in path:
        return "it is not a path within a workspace", None
    if not is_memory_path(index.workspace, path):
        return "the workspace's globs do not take it in", None
    try:
        place = safe_write.place_of(index.workspace.root, path)
        return "", place.read_bytes() if place.exists() else None
    except Refused as error:
        return error.message, None
    except OSError as error:
        return error.strerror or str(error), None


def known_texts(stores: Stores, index: WorkspaceIndex) -> set[str]:
    """The digests of every memory that a workspace has."""
    rows = stores.ledger.reader.execute(
        "SELECT digest FROM memories WHERE workspace = ? AND file IS NOT NULL", (index.id,)
    )
    return {row["digest"] for row in rows}


# --- lives --------------------------------------------------------------------------------------------------


def restore_lives(stores: Stores, index: WorkspaceIndex, exported: ExportedWorkspace, paths: Sequence[str]) -> None:
    """Give memories that an import has brought the life and the versions that they had."""
    with stores.ledger.write() as connection:
        brought = list(_brought(connection, index, exported, paths))
        for memory, told in brought:
            life = told.get("life")
            if isinstance(life, dict) and all(isinstance(life.get(name), str) for name in LIFE):
                known = {"tier": imported_lives.tier(life["tier"], "stm"), **_times(life)}
                imported_lives.put(connection, memory, {**known, **imported_lives.lived(life)})
            _restore_versions(connection, memory, told)
        if brought:
            stores.ledger.tick(connection)


def _times(life: Told) -> Told:
    seen = {
        name: imported_lives.moment(life.get(name)) or imported_lives.LONG_AGO for name in ("first_seen", "changed")
    }
    return {**seen, "expires": imported_lives.moment(life.get("expires"))}


def places(exported: ExportedWorkspace) -> dict[str, tuple[str, str]]:
    """Where each key of an export stands: it may be called otherwise here."""
    return {_text(memory, "key"): place for place, memory in exported.lives.items()}


def _brought(
    connection: Connection, index: WorkspaceIndex, exported: ExportedWorkspace, paths: Sequence[str]
) -> Iterator[tuple[int, Told]]:
    """Memories of which all that is known is that an import wrote them as they are in the export."""
    rows = connection.execute(
        "SELECT m.id, m.slug, m.digest, f.path FROM memories m JOIN files f ON f.id = m.file"
        " WHERE m.workspace = ? AND f.path IN (SELECT value FROM json_each(?))"
        " AND (SELECT COUNT(*) FROM versions v WHERE v.memory = m.id) = 1"
        " AND EXISTS (SELECT 1 FROM versions v JOIN actions a ON a.id = v.action"
        "             WHERE v.memory = m.id AND a.what = 'import')",
        (index.id, json.dumps(list(paths))),
    )
    for row in rows:
        told = exported.lives.get((row["path"], row["slug"]))
        if told is not None and text_digest(_text(told, "text")) == row["digest"]:
            yield row["id"], told


def _restore_versions(connection: Connection, memory: int, told: Told) -> None:
    """The versions of the export in place of the one that the import made."""
    own, texts = text_digest(_text(told, "text")), []
    versions = _objects(told, "versions")
    for entry in versions:
        text = entry.get("text", told.get("text") if entry.get("digest") == own else None)
        texts.append(text if isinstance(text, str) and entry.get("digest") is not None else None)
    if not versions or texts[-1] is None or text_digest(texts[-1]) != own:
        return
    connection.execute("DELETE FROM versions WHERE memory = ?", (memory,))
    _add_versions(connection, memory, versions, texts)


def _add_versions(connection: Connection, memory: int, versions: Sequence[Told], texts: Sequence[str | None]) -> None:
    for number, (entry, text) in enumerate(zip(versions, texts, strict=True), 1):
        digest = entry.get("digest")
        if text is not None:
            digest = text_digest(text)
            packed = zlib.compress(text.encode("utf-8", "surrogatepass"))
            connection.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (digest, packed))
        connection.execute(
            "INSERT INTO versions VALUES (?, ?, ?, ?, NULL, ?, ?, ?)",
            (memory, number, _text(entry, "at"), _text(entry, "who"), digest if isinstance(digest, str) else None,
             _text(entry, "path"), _text(entry, "heading")),
        )  # fmt: skip


def absent(stores: Stores, index: WorkspaceIndex, exported: ExportedWorkspace) -> list[Told]:
    """The memories of an export that are gone there, and of which nothing is known here."""
    asked = "SELECT 1 FROM memories WHERE workspace = ? AND digest = ? AND first_seen = ?"
    connection = stores.ledger.reader
    return [
        told
        for told in exported.gone
        if not connection.execute(asked, (index.id, _text(told, "digest"), _life(told)["first_seen"])).fetchone()
    ]


def restore_gone(stores: Stores, index: WorkspaceIndex, told: Sequence[Told]) -> None:
    """Keep the history of memories that were gone already where they come from."""
    with stores.ledger.write() as connection:
        for entry in told:
            life = _life(entry)
            made = connection.execute(
                "INSERT INTO memories (workspace, slug, heading, start_line, end_line, digest, body, kind, tier, role,"
                " date, tags, declared, first_seen, changed, gone, expires)"
                " VALUES (?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    index.id,
                    *_columns(entry),
                    life["first_seen"],
                    life["changed"],
                    life["gone"],
                    life["expires"],
                ),
            )
            imported_lives.put(connection, int(made.lastrowid or 0), imported_lives.lived(entry.get("life") or {}))
            versions = _objects(entry, "versions")
            texts = [text if isinstance(text := version.get("text"), str) else None for version in versions]
            _add_versions(connection, int(made.lastrowid or 0), versions, texts)


def _columns(told: Told) -> tuple[str, ...]:
    """A memory's row, from its slug to its declared facts; what is not among them is left out."""
    known = asdict(Declared())
    given = told.get("declared") if isinstance(told.get("declared"), dict) else {}
    declared = known | {name: value for name, value in (given or {}).items() if name in known}
    kind = _text(told, "kind")
    return (
        _text(told, "slug"), _text(told, "heading"), _text(told, "digest"), _text(told, "body"),
        kind if kind in KINDS else "semantic", _life(told)["tier"], _text(told, "role"), _text(told, "date"),
        json.dumps(list(declared["tags"]), ensure_ascii=False), json.dumps(declared, ensure_ascii=False),
    )  # fmt: skip


def _life(told: Told) -> Told:
    life = told.get("life")
    known = life if isinstance(life, dict) else {}
    gone = imported_lives.moment(known.get("gone")) or imported_lives.LONG_AGO
    return {**_times(known), "tier": imported_lives.tier(known.get("tier"), "stm"), "gone": gone}
