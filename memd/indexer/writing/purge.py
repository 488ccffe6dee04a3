"""Purges a memory: its text, history, caches and free pages; then searches for what is left of it, and reports it."""

import json
import re
import subprocess
import sys
import zlib
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

from memd.config import paths
from memd.errors import NotFound, Refused, in_shell
from memd.indexer.lifecycle import sync_state
from memd.indexer.maintenance import rebuild
from memd.indexer.record import history
from memd.indexer.record.actions import PURGED
from memd.indexer.store import catalog, ledger, vector_table
from memd.indexer.store.own_stores import PURGING, OwnIndex, OwnStores
from memd.indexer.store.queries import queries
from memd.models import JsonObject
from memd.notes.read import decode

SQL = queries(__file__)
SHORTEST = 4
"""Shorter words are in every note and say nothing about where a text has been."""
WORD = re.compile(rf"\w{{{SHORTEST},}}")
UNUSUAL = re.compile(r"(?=\w*\d)\w{6,}")
"""A word with a figure, such as a password: alone it tells as much as a phrase."""
PHRASE = re.compile(r"(?:\w{1,12}[^\w\n]{0,3}){1,6}(?<=\w)")
SHORTEST_PHRASE, SHORTEST_LINE = 20, 12
"""Bytes of a part of a line, and of a whole one, that others hardly have by chance."""

ROWS = {"texts": "digest", "splices": "action, nth", "pages": "file", "proposals": "id", "facts": "memory, until"}
"""Tables whose rows go with what they hold, and their keys."""

SQLITE = b"SQLite format 3\0"
DEFLATED = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
WINDOW, OVERLAP = 1 << 23, 1 << 16
"""Bytes of a file that are searched in one go, and how many of them once more with the next ones."""
READ_OUT = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer, 1 << 20)"
MOST_NEEDLES = 32
"""Parts of a memory that are looked for in files; whoever copied it has the longest ones too."""
BACKUP = "a backup from before"
ASIDE = "put aside for a person to look at; memd doctor --fix removes it in a week"
COPY = "a copy that is not memd's"
OWN = "memd needs the file and does not change it for this"
OTHERS = "memd needs it for something else"
"""Why something of a purged memory is left."""
NO_NOTES = ("model", "outline")
"""Folders of the state that have no text of a note."""

RENEW_SECONDS = 10.0
"""How long a caller waits until the collection has nothing of a purged memory any more."""


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """The texts of a memory in all its versions, and the parts that nothing else has."""

    memories: frozenset[int]
    workspaces: frozenset[int]
    digests: frozenset[str]
    actions: frozenset[int]
    phrases: frozenset[str] = frozenset()
    """Parts of its lines, in small letters, that no note has."""
    words: frozenset[str] = frozenset()
    """Words, in small letters, that no other memory ever had."""

    def in_text(self, text: str) -> bool:
        """Whether a text has a part that tells it from every other."""
        small = text.lower()
        return any(phrase in small for phrase in self.phrases)

    def touches(self, text: str) -> bool:
        """Whether a text has any part of it, be it a single word."""
        return not self.words.isdisjoint(WORD.findall(text.lower())) or self.in_text(text)

    def in_row(self, table: str, row: Row) -> bool:
        """Whether a row of the tables whose rows go has a part of it."""
        texts = _cells(row).values()
        if table == "splices":
            return row["action"] in self.actions or any(self.touches(text) or self._torn(text) for text in texts)
        return (table == "texts" and row["digest"] in self.digests) or any(map(self.in_text, texts))

    def _torn(self, text: str) -> bool:
        """Whether a word of it is cut: the context of a splice may begin and end in the middle of one."""
        found = WORD.findall(text.lower())
        return bool(found) and any(word.endswith(found[0]) or word.startswith(found[-1]) for word in self.words)

    def needles(self) -> list[bytes]:
        """The longest phrases as a file may have them."""
        phrases = sorted(self.phrases, key=len)[-MOST_NEEDLES:]
        encoded = {phrase.encode(code) for phrase in phrases for code in ("utf-8", "utf-16-le", "utf-16-be")}
        return [*encoded, *{json.dumps(phrase)[1:-1].encode() for phrase in phrases} - encoded]


def purge(stores: OwnStores, index: OwnIndex, memory: int) -> tuple[JsonObject, MemoryTrace]:
    """Remove every trace of a memory whose text is no longer in the files; also returns what `left_behind` seeks."""
    trace = _trace(stores, index, memory)
    with stores.ledger.forgetting() as connection:
        purged = _from_ledger(connection, trace)
        stores.ledger.save_setting(connection, PURGING, json.dumps([*stores.purging | trace.workspaces]))
    stores.question_vectors.clear()
    for one in (one for one in stores.indexes.values() if one.id in trace.workspaces):
        # A segment keeps the words of deleted chunks: the text index is built again.
        stores.swap_text(one, rebuild.build_elsewhere(stores.folder, one.id))
        rebuild.reconcile_text(stores, one)
        one.drop_mirrors()
        purged["collection"] = "made again" if stores.renew_collection(one) else "not open"
    problem = stores.ledger.compact()
    kept = [{"what": "state.db-wal", "why": problem}] if problem else []
    return {"memory": memory, "purged": purged, "kept": kept}, trace


def around(stores: OwnStores, index: OwnIndex) -> list[OwnIndex]:
    """The workspaces that may have the same files: those around one, and those inside it."""
    root = index.workspace.root
    roots = [(one, one.workspace.root) for one in stores.indexes.values() if one is not index]
    return [one for one, other in roots if root.is_relative_to(other) or other.is_relative_to(root)]


def _trace(stores: OwnStores, index: OwnIndex, memory: int) -> MemoryTrace:
    connection = stores.reader
    row = connection.execute("SELECT * FROM memories WHERE id = ? AND workspace = ?", (memory, index.id)).fetchone()
    if row is None:
        raise NotFound(f"there is no memory with the number {memory}")
    if row["gone"] is None:
        raise Refused("the memory is still in its file", "remove it first: memd rm KEY --hard does both")
    # What was gone before under the same key is forgotten with it, and the same section of the file elsewhere.
    paths = {path for (path,) in connection.execute("SELECT path FROM versions WHERE memory = ?", (memory,))}
    memories = {memory}
    watched = {one.id for one in stores.indexes.values()}
    former = [(number, Path(root)) for number, (_, root) in catalog.others(connection, watched).items()]
    for number, root in [(one.id, one.workspace.root) for one in (index, *around(stores, index))] + former:
        own = [index.workspace.root / path for path in paths]
        names = json.dumps([str(file.relative_to(root)) for file in own if file.is_relative_to(root)])
        same = connection.execute(SQL["same_key"], {"workspace": number, "slug": row["slug"], "paths": names})
        memories |= {other for (other,) in same}
    versions = [version for each in memories for version in history.versions(connection, each)]
    digests = frozenset(version.digest for version in versions if version.digest)
    actions = frozenset(version.action for version in versions if version.action is not None)
    workspaces = frozenset(catalog.numbers_of(connection, SQL["workspaces_of"], json.dumps([*memories])))
    return _distinctive(connection, MemoryTrace(frozenset(memories), workspaces, digests, actions), row["slug"])


def _distinctive(connection: Connection, trace: MemoryTrace, slug: str) -> MemoryTrace:
    """The trace with what is its own: phrases that no note has any more, words that no other memory ever had."""
    own = "\n".join([slug, *_texts(connection, trace.digests)])
    lines = {line.strip("-*> \t") for line in own.split("\n") if not line.startswith("#")}
    phrases = {phrase for phrase in PHRASE.findall(own) if len(phrase.encode()) >= SHORTEST_PHRASE}
    phrases |= {line for line in lines if len(line.encode()) >= SHORTEST_LINE}
    present = connection.execute("SELECT digest, id FROM memories WHERE gone IS NULL")
    living = {digest for digest, number in present if number not in trace.memories}
    for text in _texts(connection, living):
        phrases = {phrase for phrase in phrases if phrase not in text}
    trace, words = replace(trace, digests=trace.digests - living, phrases=frozenset(phrases)), set(WORD.findall(own))
    for text in _texts(connection, trace.digests, other=True):
        if not trace.in_text(text):
            words = {word for word in words if word not in text}
    unusual = {word for word in words if UNUSUAL.fullmatch(word)}
    return replace(trace, phrases=trace.phrases | unusual, words=frozenset(words))


def _texts(connection: Connection, digests: Container[str], other: bool = False) -> Iterator[str]:
    """The texts with these digests, or all others, in small letters."""
    rows = connection.execute("SELECT digest, body FROM texts")
    return (_as_text(body).lower() for digest, body in rows if (digest in digests) is not other)


# --- the ledger ---------------------------------------------------------------------------------------------


def _from_ledger(connection: Connection, trace: MemoryTrace) -> JsonObject:
    gone = {}
    for table, column in (("versions", "memory"), ("chunks", "memory"), ("memories", "id")):
        numbers = [(memory,) for memory in trace.memories]
        gone[table] = connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", numbers).rowcount
    for table, keys in ROWS.items():
        rows = [row for row in connection.execute(f"SELECT * FROM {table}") if trace.in_row(table, row)]
        found = [tuple(row[key] for key in keys.split(", ")) for row in rows]
        query = f"DELETE FROM {table} WHERE ({keys}) = ({', '.join('?' * len(keys.split(',')))})"
        gone[table] = connection.executemany(query, found).rowcount if found else 0
    _blank_log(connection, trace)
    return {**gone, "vectors": vector_table.sweep(connection)}


def _blank_log(connection: Connection, trace: MemoryTrace) -> None:
    """Remove the words of the memory from the log, of which a key is made; the actions stay.

    Those whose splices went can no longer be undone.
    """
    for row in connection.execute("SELECT id, key, detail FROM actions").fetchall():
        key = PURGED if row["key"] and row["id"] in trace.actions else _blanked(row["key"], trace)
        detail = json.dumps(_blanked(json.loads(row["detail"]), trace), ensure_ascii=False)
        if (key, detail) != (row["key"], row["detail"]):
            connection.execute("UPDATE actions SET key = ?, detail = ? WHERE id = ?", (key, detail, row["id"]))


def _blanked(value: Any, trace: MemoryTrace) -> Any:
    """A JSON value without the words of the memory."""
    if isinstance(value, dict):
        return {_blanked(name, trace): _blanked(one, trace) for name, one in value.items()}
    if isinstance(value, list):
        return [_blanked(one, trace) for one in value]
    return PURGED if isinstance(value, str) and trace.touches(value) else value


def _cells(row: Row) -> dict[str, str]:
    """The content of a row: texts, and bytes, be they compressed or not."""
    cells = zip(row.keys(), row, strict=True)
    return {name: _as_text(value) for name, value in cells if isinstance(value, str | bytes)}


def _as_text(value: str | bytes) -> str:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            value = zlib.decompress(value)
        return decode(value)
    if value.startswith(("{", "[")):
        # Its escapes would divide what belongs together.
        with suppress(ValueError):
            return json.dumps(json.loads(value), ensure_ascii=False).replace("\\", "")
    return value


# --- what is left -------------------------------------------------------------------------------------------


def left_behind(stores: OwnStores, ns: str, trace: MemoryTrace) -> list[dict[str, str]]:
    """Where something of a purged memory still is, or may be, and why. It takes a while: not for the writer's thread.

    Every column of the ledger and every byte of memd's files is searched: a list of places would miss one.
    """
    index = stores.index(ns)
    with stores.ledger.copying:
        # A backup that was begun before has its name now.
        files = list(_files(stores, index))
    collections = [one.collection for one in (index, *around(stores, index)) if one.collection is not None]
    problems = filter(None, [one.wait_renewed(RENEW_SECONDS) for one in collections])
    left = [("chroma", f"it will be made again: {problem}") for problem in problems]
    left += [(f"state.db: {name}", OTHERS) for name in _columns(stores.reader, trace)]
    for file, why in files:
        # Other memories may have had the same text once: in the ledger itself their digests stay.
        apart = file.name.startswith(stores.ledger.path.name)
        digests = () if apart else trace.digests
        if _is_holding(file, [*trace.needles(), *map(str.encode, digests)], why is BACKUP, apart):
            left.append((str(file), f"{why}; to remove it: rm {in_shell(file)}" if why != OWN else why))
    return [{"what": what, "why": why} for what, why in left]


def _columns(connection: Connection, trace: MemoryTrace) -> list[str]:
    """The columns of the ledger that have a part of a memory."""
    found = dict[str, None]()
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            found |= {f"{table}.{name}": None for name, text in _cells(row).items() if trace.in_text(text)}
    return list(found)


def _files(stores: OwnStores, index: OwnIndex) -> Iterator[tuple[Path, str]]:
    """The files of memd's home, and what is no note in the workspace, with why each is left as it is."""
    state, root, settings = stores.folder, index.workspace.root, paths.config_file()
    backups = ledger.backups(state)
    for file in sorted({*state.rglob("*"), *settings.parent.rglob("*")}):
        parts = file.relative_to(state).parts if state in file.parents else ()
        if not parts:
            yield file, OWN if file == settings else COPY
        elif parts[0] not in NO_NOTES:
            yield file, BACKUP if file in backups else ASIDE if parts[0] == "quarantine" else OWN
    for file in sorted({*(root / path for path in index.skipped), *(root / sync_state.FOLDER).glob("*")}):
        yield file, COPY


def _is_holding(file: Path, needles: Sequence[bytes], is_database: bool, apart: bool) -> bool:
    """Whether a file has one of some bytes, as they are or compressed, or should be a database and cannot be read."""
    if file.is_symlink() or not file.is_file():
        return False
    with suppress(OSError), _opened_apart(file) if apart else file.open("rb") as stream:
        if is_database and not stream.peek().startswith(SQLITE):
            return True
        behind = b""
        while window := stream.read(WINDOW):
            data = behind + window
            pieces = (data, *(_inflated(data, start.start()) for start in DEFLATED.finditer(data)))
            if any(needle in piece for piece in map(bytes.lower, pieces) for needle in needles):
                return True
            behind = window[-OVERLAP:]
    return False


@contextmanager
def _opened_apart(file: Path) -> Iterator[Any]:
    """A file as another process reads it: whoever closes one lets go of all his locks on it, also of SQLite's."""
    command = [sys.executable, "-I", "-S", "-c", READ_OUT, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        yield reader.stdout


def _inflated(data: bytes, start: int) -> bytes:
    """The compressed data at a place, as far as it can be read: a database cuts it at the end of a page."""
    unpacked, found = zlib.decompressobj(), b""
    with suppress(zlib.error):
        for at in range(start, min(start + OVERLAP, len(data)), 256):
            if unpacked.eof:
                break
            found += unpacked.decompress(data[at : at + 256])
    return found
