"""Reads an export and plans an import: which files would change, what stays, and what looks like a secret."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from memd.errors import NotFound, Refused, TooLarge, UsageError
from memd.indexer.indexing.scan import is_memory_path
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.transfer.export import SCHEMA
from memd.indexer.transfer.imported_lives import objects, seconds_of, text_at
from memd.models import JsonObject
from memd.notes import safe_write
from memd.notes.incoming_file import IncomingFile, IncomingMemory, MergeResult, merge, sectioned, without_known
from memd.notes.secrets import secrets_in

MAX_EXPORT = 512 * 1024 * 1024


# --- reading an export --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportedWorkspace:
    """What an export has of one workspace."""

    ns: str
    incoming_files: tuple[IncomingFile, ...]
    lives: dict[tuple[str, str], JsonObject]
    """The exported memories by path and slug."""
    gone: tuple[JsonObject, ...]
    edges: tuple[JsonObject, ...] = ()


def load(file: Path) -> list[ExportedWorkspace]:
    """Read an export that `memd export` wrote."""
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "a service has a /tmp of its own: put the file elsewhere")
    if file.stat().st_size > MAX_EXPORT:
        raise TooLarge(f"{file} has more than {MAX_EXPORT >> 20} MiB", "export one workspace at a time")
    try:
        export = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not an export: {error}", "memd ingest takes other files") from error
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    schema = export.get("memd_export") if isinstance(export, dict) else None
    if not isinstance(schema, int):
        raise UsageError(f"{file} is not an export of memd", "memd ingest takes other files")
    if schema > SCHEMA:
        raise UsageError(f"{file} was written by a newer memd (schema {schema}, this one knows {SCHEMA})")
    edges = objects(export, "edges")
    return [_exported(entry, edges) for entry in objects(export, "workspaces")]


def _exported(entry: JsonObject, edges: Sequence[JsonObject]) -> ExportedWorkspace:
    ns, files = text_at(entry, "ns"), objects(entry, "files")
    lives = {
        (text_at(file, "path"), text_at(memory, "slug")): memory
        for file in files
        for memory in objects(file, "memories")
    }
    own = tuple(edge for edge in edges if text_at(edge, "ns") == ns)
    return ExportedWorkspace(ns, tuple(map(_incoming, files)), lives, tuple(objects(entry, "gone")), own)


def _incoming(file: JsonObject) -> IncomingFile:
    path = text_at(file, "path")
    memories = tuple(
        IncomingMemory(
            text_at(memory, "slug"), text_at(memory, "text"), text_at(memory, "after"), text_at(memory, "key") or path
        )
        for memory in objects(file, "memories")
    )
    try:
        exact = base64.b64decode(file["base64"], validate=True) if file.get("base64") else None
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(f"`base64` of {path!r} cannot be read: {error}") from error
    return IncomingFile(path, text_at(file, "head"), memories, exact, seconds_of(text_at(file, "modified")))


# --- planning -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileImport:
    """One file that would change."""

    incoming: IncomingFile
    merge: MergeResult
    new: bool


@dataclass(slots=True)
class ImportPlan:
    """What an import would do to one workspace."""

    steps: list[FileImport] = field(default_factory=list)
    same: int = 0
    conflicts: list[JsonObject] = field(default_factory=list)
    problems: list[JsonObject] = field(default_factory=list)
    secrets: list[JsonObject] = field(default_factory=list)

    @property
    def added(self) -> int:
        return sum(len(step.merge.added) for step in self.steps)

    @property
    def replaced(self) -> int:
        return sum(len(step.merge.replaced) for step in self.steps)

    def add(self, incoming: IncomingFile, data: bytes | None, overwrite: bool) -> None:
        """Plan the merge of a file into the bytes that are there."""
        outcome = merge(incoming, data, overwrite)
        self.same += outcome.same
        for memory, why in outcome.rejected:
            key = f"{incoming.path}#{memory.slug}" if memory.slug else incoming.path
            self.conflicts.append({"key": key, "place": memory.place, "why": why})
        if outcome.data != data:
            self.steps.append(FileImport(incoming, outcome, data is None))
            self.secrets += _secrets(incoming, outcome, data is None)


def plan(
    index: WorkspaceIndex, incoming_files: Iterable[IncomingFile], overwrite: bool, known: set[str] | None = None
) -> ImportPlan:
    """Plan the import of some files; texts that `known` has are skipped, and planned ones are added to it."""
    result = ImportPlan()
    for incoming in incoming_files:
        why, data = _existing(index, incoming.path)
        if why:
            result.problems.append({"path": incoming.path, "why": why})
            continue
        wanted = incoming if known is None else without_known(incoming, known)
        if known is not None and data is not None:
            wanted = without_known(sectioned(wanted), known)
        result.same += len(incoming.items) - len(wanted.items)
        if known is not None:
            known.update(item.digest for item in wanted.items)
            if not wanted.items:
                continue
        result.add(wanted, data, overwrite)
    return result


def _secrets(incoming: IncomingFile, merge: MergeResult, new: bool) -> Iterator[JsonObject]:
    """The places of what looks like a secret in what would be written."""
    written = [(item.place, item.line, item.text) for item in (*merge.added, *merge.replaced)]
    if new and incoming.items:
        written.insert(0, (incoming.items[0].place, 1, incoming.head))
    for place, line, text in written:
        for secret in secrets_in(text):
            yield {"place": f"{place}:{line + secret.line - 1}", "kind": secret.kind}


def _existing(index: WorkspaceIndex, path: str) -> tuple[str, bytes | None]:
    """Why a path cannot be written, and the bytes that are there."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or str(pure) != path or "\0" in path:
        return "it is not a path within a workspace", None
    if not is_memory_path(index.workspace, path):
        return "the workspace's globs do not take it in", None
    try:
        return "", safe_write.bytes_of(safe_write.place_of(index.workspace.root, path))
    except Refused as error:
        return error.message, None
    except OSError as error:
        return error.strerror or str(error), None


def known_texts(stores: Stores, index: WorkspaceIndex) -> set[str]:
    """The digests of every memory of a workspace."""
    rows = stores.ledger.reader.execute(
        "SELECT digest FROM memories WHERE workspace = ? AND file IS NOT NULL", (index.id,)
    )
    return {row["digest"] for row in rows}
