"""Takes in an export: which files would change, what stays, what looks like a secret, and the lives of the memories."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from typing import Any

from memd.config.paths import bytes_of
from memd.errors import NotFound, Refused, TooLarge, UsageError
from memd.indexer.indexing.scan import left_out
from memd.indexer.lifecycle.lives import update
from memd.indexer.lifecycle.sync_state import is_count
from memd.indexer.query import lookup
from memd.indexer.record import actions, history
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.transfer.export import EDGE_STATES, LIFE, SCHEMA
from memd.lifecycle.lives import BY_RULE, OBSERVED
from memd.models import KINDS, RELATIONS, TIERS, Declared, JsonObject, digest_of
from memd.notes import merging, safe_write
from memd.notes.merging import IncomingFile, IncomingMemory, MergeResult
from memd.notes.metadata import share
from memd.notes.names import UNSEEN
from memd.notes.secrets import secrets_in

SQL = queries(__file__)
MAX_EXPORT = 512 * 1024 * 1024
DEEPEST = 32
"""Folders on the way to a file; other programs have limits too."""


# --- reading an export --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportedWorkspace:
    """The part of an export about one workspace."""

    ns: str
    incoming_files: tuple[IncomingFile, ...]
    lives: dict[tuple[str, str], JsonObject]
    """The exported memories by path and slug."""
    gone: tuple[JsonObject, ...]
    edges: tuple[JsonObject, ...] = ()


def load(file: Path) -> list[ExportedWorkspace]:
    """Read an export that `memd export` wrote."""
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "memd export writes one; a service has a /tmp of its own")
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
    memories = ((text_at(file, "path"), memory) for file in files for memory in objects(file, "memories"))
    lives = {(path, text_at(memory, "slug")): memory for path, memory in memories}
    own = tuple(edge for edge in edges if text_at(edge, "ns") == ns)
    return ExportedWorkspace(ns, tuple(map(_incoming, files)), lives, tuple(objects(entry, "gone")), own)


def _incoming(file: JsonObject) -> IncomingFile:
    path = text_at(file, "path")
    memories = []
    for memory in objects(file, "memories"):
        slug, text, after, key = (text_at(memory, name) for name in ("slug", "text", "after", "key"))
        memories.append(IncomingMemory(slug, text, after, key or path))
    try:
        exact = base64.b64decode(file["base64"], validate=True) if file.get("base64") else None
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(f"`base64` of {path!r} cannot be read: {error}") from error
    return IncomingFile(path, text_at(file, "head"), tuple(memories), exact, seconds_of(text_at(file, "modified")))


# --- planning -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ImportPlan:
    """The effect of an import on one workspace."""

    steps: list[IncomingFile] = field(default_factory=list)
    """The files that would change; only a new one has a time, which it keeps."""
    added: int = 0
    replaced: int = 0
    same: int = 0
    conflicts: list[JsonObject] = field(default_factory=list)
    problems: list[JsonObject] = field(default_factory=list)
    secrets: list[JsonObject] = field(default_factory=list)

    def add(self, incoming: IncomingFile, data: bytes | None, overwrite: bool) -> None:
        """Plan the merge of a file into the bytes that are there."""
        outcome = merging.merge_incoming(incoming, data, overwrite)
        self.same += outcome.same
        for memory, why in outcome.rejected:
            key = f"{incoming.path}#{memory.slug}" if memory.slug else incoming.path
            self.conflicts.append({"key": key, "place": memory.place, "why": why})
        if outcome.data != data:
            self.steps.append(incoming if data is None else replace(incoming, modified=0.0))
            self.added += len(outcome.added)
            self.replaced += len(outcome.replaced)
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
        wanted = incoming
        if known is not None:
            wanted = merging.without_known(incoming, known)
            if data is not None:
                wanted = merging.without_known(merging.sectioned(wanted), known)
            known.update(item.digest for item in wanted.items)
            result.same += len(incoming.items) - len(wanted.items)
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
    if UNSEEN.search(path):
        return "its name has characters that cannot be seen", None
    if len(pure.parts) > DEEPEST:
        return f"it is in more than {DEEPEST} folders", None
    if why := left_out(index.workspace, path):
        return why, None
    try:
        return "", bytes_of(safe_write.place_of(index.workspace.root, path))
    except Refused as error:
        return error.message, None
    except OSError as error:
        return error.strerror or str(error), None


def known_texts(stores: Stores, index: WorkspaceIndex) -> set[str]:
    """The digests of every memory of a workspace."""
    return {digest for (digest,) in stores.reader.execute(SQL["digests"], (index.id,))}


FILE_ORIGINS = ("declared", "written")
"""Edges of these origins are in the files: only their removal moves with an export."""
LONG_AGO = actions.in_utc(datetime(1970, 1, 1, tzinfo=UTC))

Lives = Mapping[tuple[str, str], JsonObject]
"""The exported memories by path and slug."""


# --- memories -----------------------------------------------------------------------------------------------


def restore_lives(stores: Stores, index: WorkspaceIndex, lives: Lives, paths: Sequence[str]) -> None:
    """Give the memories that an import brought their lives and versions."""
    with stores.ledger.write() as connection:
        brought = list(_brought(connection, index, lives, paths))
        for memory, entry in brought:
            life = _facts(entry, "life")
            if all(isinstance(life.get(name), str) for name in LIFE):
                update(connection, memory, {**_life(life), **_observed(life)})
            _restore_versions(connection, memory, entry)
        if brought:
            stores.ledger.tick(connection)


def _brought(
    connection: Connection, index: WorkspaceIndex, lives: Lives, paths: Sequence[str]
) -> Iterator[tuple[int, JsonObject]]:
    """Memories whose only version is the import's and whose text is the export's."""
    for row in connection.execute(SQL["brought"], (index.id, json.dumps(list(paths)))):
        entry = lives.get((row["path"], row["slug"]))
        if entry is not None and digest_of(text_at(entry, "text")) == row["digest"]:
            yield row["id"], entry


def _restore_versions(connection: Connection, memory: int, entry: JsonObject) -> None:
    """Put the versions of the export in place of the one that the import made."""
    text, versions = text_at(entry, "text"), objects(entry, "versions")
    own = digest_of(text)
    texts = [version.get("text", text if version.get("digest") == own else None) for version in versions]
    last = texts[-1] if versions and versions[-1].get("digest") is not None else None
    if isinstance(last, str) and digest_of(last) == own:
        connection.execute("DELETE FROM versions WHERE memory = ?", (memory,))
        _add_versions(connection, memory, versions, texts)


def _add_versions(connection: Connection, memory: int, versions: Sequence[JsonObject], texts: Iterable[object]) -> None:
    for number, (entry, content) in enumerate(zip(versions, texts, strict=True), 1):
        kept = entry.get("digest")
        text = content if isinstance(content, str) and kept is not None else None
        digest = digest_of(text) if text is not None else kept if isinstance(kept, str) else None
        at, who, path, heading = (text_at(entry, name) for name in ("at", "who", "path", "heading"))
        history.add(connection, history.MemoryVersion(memory, number, at, who, None, digest, path, heading), text)


def absent(stores: Stores, index: WorkspaceIndex, gone: Sequence[JsonObject]) -> list[JsonObject]:
    """The gone memories of an export that this ledger does not know."""
    known = [(index.id, text_at(entry, "digest"), _life(_facts(entry, "life"))["first_seen"]) for entry in gone]
    there = [stores.reader.execute(SQL["known"], values).fetchone() for values in known]
    return [entry for entry, row in zip(gone, there, strict=True) if row is None]


def restore_gone(stores: Stores, index: WorkspaceIndex, gone: Sequence[JsonObject]) -> None:
    """Keep the history of memories that were gone already when they were exported."""
    with stores.ledger.write() as connection:
        for entry in gone:
            columns = {"workspace": index.id, "start_line": 0, "end_line": 0, **_columns(entry)}
            names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
            inserted = connection.execute(f"INSERT INTO memories ({names}) VALUES ({values})", columns)
            memory, versions = int(inserted.lastrowid or 0), objects(entry, "versions")
            _add_versions(connection, memory, versions, (version.get("text") for version in versions))


def _columns(entry: JsonObject) -> JsonObject:
    """The row of a gone memory; unknown facts are dropped."""
    known, life, kind = asdict(Declared()), _facts(entry, "life"), text_at(entry, "kind")
    declared = known | {name: value for name, value in _facts(entry, "declared").items() if name in known}
    return {
        **{name: text_at(entry, name) for name in ("slug", "heading", "digest", "body", "role", "date")},
        "kind": kind if kind in KINDS else "semantic",
        "tags": json.dumps(list(declared["tags"]), ensure_ascii=False),
        "declared": json.dumps(declared, ensure_ascii=False),
        **_life(life),
        **_observed(life),
        "gone": _moment(life.get("gone")) or LONG_AGO,
    }


# --- edges --------------------------------------------------------------------------------------------------


def restore_edges(stores: Stores, index: WorkspaceIndex, lives: Lives, edges: Sequence[JsonObject]) -> None:
    """Link memories as they were linked, where both exist here; what a rule decided holds for the same texts only."""
    # A key may be another one here: memories are found by path and slug.
    places = {text_at(memory, "key"): place for place, memory in lives.items()}
    with stores.ledger.write() as connection:
        in_file = cache(partial(lookup.in_file, connection, index.id))
        for edge in edges:
            ends = [places.get(str(edge.get(end)), ("", "")) for end in ("from", "to")]
            one, other = (in_file(path).get(slug) for path, slug in ends)
            if one is None or other is None or one["id"] == other["id"]:
                continue
            then = [digest_of(text_at(lives[end], "text")) for end in ends]
            if edge.get("origin") != BY_RULE or then == [one["digest"], other["digest"]]:
                _restore_edge(connection, index.id, one["id"], other["id"], edge)


def _restore_edge(connection: Connection, workspace: int, one: int, other: int, edge: JsonObject) -> None:
    """An edge that was used here already stays as it is."""
    base, weight, state = share(edge.get("base")), share(edge.get("weight")), edge.get("removed") or ""
    removed = EDGE_STATES.index(state) if state in EDGE_STATES else 0
    rel, origin = str(edge.get("type")), str(edge.get("origin"))
    weight = base if weight is None else weight
    known = origin in (*OBSERVED, BY_RULE) or (origin in FILE_ORIGINS and removed)
    if rel not in RELATIONS or not known or weight is None:
        return
    made = _moment(edge.get("made")) or actions.now()
    used = (_count(edge.get("accesses")) or 0, _moment(edge.get("accessed")))
    values = (workspace, one, other, rel, weight if base is None else base, weight, origin, made, *used, removed)
    connection.execute(SQL["restore_edge"], values)


# --- values of an export ------------------------------------------------------------------------------------


def objects(entry: JsonObject, name: str) -> list[JsonObject]:
    value = entry.get(name) or []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UsageError(f"`{name}` of the export must be a list of objects", "docs/export.md has the schema")
    return value


def text_at(entry: JsonObject, name: str) -> str:
    value = entry.get(name) or ""
    if not isinstance(value, str):
        raise UsageError(f"`{name}` of the export must be text, not {value!r}", "docs/export.md has the schema")
    return value


def seconds_of(time: str) -> float:
    """A time in seconds; 0 if it is none."""
    try:
        return datetime.fromisoformat(time.strip()).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _moment(time: object) -> str | None:
    """A time as the ledger writes it; None if it is none."""
    try:
        moment = datetime.fromisoformat(time.strip()) if isinstance(time, str) else None
        return actions.in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else None
    except (ValueError, OverflowError):
        return None


def _tier(tier: object, otherwise: str) -> str:
    return tier if isinstance(tier, str) and tier in TIERS else otherwise


def _facts(entry: JsonObject, name: str) -> JsonObject:
    """An object within another; empty where there is none."""
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def _life(life: JsonObject) -> JsonObject:
    """The columns of every memory's life, with a default for what makes no sense."""
    times = {name: _moment(life.get(name)) or LONG_AGO for name in ("first_seen", "changed")}
    return {"tier": _tier(life.get("tier"), "stm"), **times, "expires": _moment(life.get("expires"))}


def _observed(life: JsonObject) -> JsonObject:
    """The further columns of a life, without what makes no sense."""
    columns = {name: check(life.get(name)) for name, check in CHECKS.items()}
    return {name: value for name, value in columns.items() if value is not None}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and is_count(value) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


CHECKS: dict[str, Callable[[object], Any]] = {
    "accesses": _count, "days": _count, "accessed": _moment, "useful": _count, "importance": share, "moved": _moment,
    "moved_by": _text, "moved_why": _text, "home": partial(_tier, otherwise=""), "deleted": _moment,
}  # fmt: skip
"""How each further column is checked; None: it makes no sense."""
