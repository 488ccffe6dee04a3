"""Finds memories by their key, lines by their path, and lists memories by tag, by file and by age."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from sqlite3 import Connection, Row

from memd.errors import MemdError, NotFound, Refused, UsageError, in_shell
from memd.indexer.indexing.scan import is_memory_path, linked_note, refusal
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.catalog import digest_of_memory
from memd.indexer.store.lexicon import similar_names
from memd.indexer.store.queries import queries, with_lists
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.models import OWN, JsonObject, grouped, pick
from memd.notes import metadata, sections, topics
from memd.notes.documents import read_note
from memd.notes.names import DATE, INDEX, Layout, is_long_term, slug
from memd.notes.read import FileContent, SkippedFile, UnreadableFile
from memd.prose import composed, estimate_tokens

SQL = queries(__file__)

# --- one memory by its key ------------------------------------------------------------------------------------


LIFE = ("importance", "accesses", "days", "accessed", "useful", "first_seen", "moved", "moved_by", "moved_why")
"""The observed facts of a memory, besides its tier."""

MOST_SHOWN_TO = 20


def refuse_deleted(row: Row, key: str) -> None:
    """A memory that is in no answer is told, and how it comes back."""
    if row["deleted"]:
        why = f" ({row['moved_why']})" if row["moved_why"] != "delete" else ""
        back = f"memd curate {in_shell(key)} promote"
        raise NotFound(f"`{key}` was deleted on {row['deleted'][:10]}{why}",
                       f"its text is still in {row['path']}; to bring it back: {back}")  # fmt: skip


def by_key(stores: Stores, indexes: Indexes, key: str, max_bytes: int) -> tuple[int, JsonObject]:
    """The memory that `key` names: its number in the ledger, and its text as the file has it now."""
    index, row = find_memory(stores, indexes, key)
    refuse_deleted(row, key)
    content = _read(index, row["path"], max_bytes)
    note = index.parse_cache.parse(row["path"], content.text, content.day)
    memory = next((memory for memory in note.memories if memory.slug == row["slug"]), None)
    if memory is None:
        raise NotFound(f"`{key}` is no longer in {row['path']}", suggest_keys(stores, indexes, key))
    last = history.latest(stores.reader, row["id"])
    # None: the ledger has not heard of the text that the file has.
    number = last.number if last is not None and last.digest == digest_of_memory(memory) else None
    shown = {
        **index.place,
        "path": note.path,
        **{name: getattr(memory, name) for name in ("start_line", "end_line", "heading", "text", "kind")},
        "date": row["date"],
        "role": note.role,
        "tags": list(memory.declared.tags),
        "declared": declared_facts(asdict(memory.declared)),
        "key": key.removesuffix("#"),
        "tier": row["tier"],
        "expires": row["expires"],
        "life": {**pick(row, *LIFE), "shown": _shown_to(stores.reader, row["id"])},
        "sections_follow": sum(bool(other.slug) for other in note.memories) if not memory.slug else 0,
        **version_facts(number, memory.text),
    }
    return row["id"], *history.with_authors(stores.reader, [(row["id"], shown)])


def _shown_to(connection: Connection, memory: int) -> list[dict[str, str]]:
    """Who was last shown a memory, by the hour, newest first; only what was counted: looking changes nothing."""
    rows = connection.execute(SQL["shown_to"], (memory, MOST_SHOWN_TO))
    return [{"who": who, "at": f"{hour}:00+00:00"} for who, hour in rows]


def find_memory(stores: Stores, indexes: Indexes, key: str) -> tuple[WorkspaceIndex, Row]:
    """The one memory that a key names, and its workspace."""
    reader = stores.reader
    rows = [(index, row) for index in indexes for row in lookup.memories(reader, index.id, _unprefixed(index, key))]
    if not rows:
        gone = [row["gone"] or "" for index in indexes for row in lookup.gone(reader, index.id, key)
                if not is_title(stores, index, row)]  # fmt: skip
        if gone:
            raise NotFound(
                f"`{key}` was removed on {max(gone)[:10]}", f"to bring it back: memd restore {in_shell(key)}"
            )
        name = key.rstrip("#")
        raise NotFound(f"no memory has the key `{name}`", suggest_keys(stores, indexes, name))
    own = [(index, row) for index, row in rows if _is_own(index, row["path"], indexes)]
    return only_one(own or rows, f"`{key}` names several memories")


def is_title(stores: Stores, index: WorkspaceIndex, row: Row) -> bool:
    """Whether a memory that is gone was a bare title, and its file is still there: nothing was removed."""
    if row["slug"] or row["path"] not in index.files:
        return False
    return metadata.HEADING.fullmatch(history.text_of(stores.reader, row["digest"]) or "") is not None


def _is_own(index: WorkspaceIndex, path: str, asked: Indexes) -> bool:
    """Whether it wins over what else has its name: the team's, what is shared, and what an agent keeps elsewhere."""
    first, *others = asked
    # Also a workspace that is shared itself wins over those that only answer along with it.
    own = not _answers_along(index) or (index is first and all(map(_answers_along, others)))
    return own and index.workspace.layer_of(path) == OWN


def _answers_along(index: WorkspaceIndex) -> bool:
    return index.workspace.shared or bool(index.workspace.project)


def _unprefixed(index: WorkspaceIndex, name: str) -> str:
    """A key or a path without the name of its workspace, as hits of another one have it: `people:MEMORY.md`."""
    return name.removeprefix(f"{index.workspace.ns}:")


def day_with_sections(stores: Stores, indexes: Indexes, key: str) -> tuple[WorkspaceIndex, str] | None:
    """The file of a day that is more than one memory: its name stands for all that was noted on it."""
    files = [(index, path) for index in indexes for path in index.files if PurePosixPath(path).stem == key]
    own = [(index, path) for index, path in files if _is_own(index, path, indexes)] or files
    if not DATE.fullmatch(key) or len(own) != 1:
        return None
    (index, path), *_ = own
    return (index, path) if any(lookup.in_file(stores.reader, index.id, path)) else None


def only_one(rows: Sequence[tuple[WorkspaceIndex, Row]], problem: str) -> tuple[WorkspaceIndex, Row]:
    """The single row that a key matched; `problem` says what is wrong with more."""
    if len(rows) > 1:
        names = ", ".join(f"{index.workspace.ns}:{row['path']}" for index, row in rows)
        raise UsageError(f"{problem} ({names})", "use the path as the key, or name the workspace: -n NS")
    return rows[0]


MOST_MEANT = 5


def suggest_keys(stores: Stores, indexes: Indexes, key: str) -> str:
    """A hint for a key that no memory has."""
    rows = (lookup.keyed_rows(stores.reader, "m.id", "m.workspace = ?", (index.id,)) for index in indexes)
    keys = list(dict.fromkeys(name for some in rows for name, _ in some))
    plain = key.casefold()
    # A file or a day without a section, or a heading without its file.
    meant = [name for name in keys if name.casefold().startswith(f"{plain}#") or name.rpartition("#")[2] == slug(key)]
    similar = meant[:MOST_MEANT] or similar_names(key, keys)
    names = ", ".join(f"`{name}`" for name in similar)
    return f"did you mean {names}?" if names else f"look for it: memd query {in_shell(key)}"


def shown_version(index: WorkspaceIndex, key: str, version: Row | JsonObject, text: str, current: bool) -> JsonObject:
    """A memory in one of its versions, by the columns of that."""
    columns, facts = pick(version, "path", "heading", "at", "who"), version_facts(version["number"], text)
    return {**index.place, "key": key, **columns, **facts, "text": text, "current": current}


def version_facts(number: int | None, text: str) -> JsonObject:
    """The facts of a version beside its text."""
    supersedes = number - 1 if number is not None and number > 1 else None
    return {"version": number, "supersedes": supersedes, "estimated_tokens": estimate_tokens(text)}


def declared_facts(declared: JsonObject) -> JsonObject:
    """The facts that a memory declares, without those it leaves out."""
    return {name: value for name, value in declared.items() if not metadata.is_empty(value)}


# --- lines of a file ----------------------------------------------------------------------------------------


def by_path(stores: Stores, indexes: Indexes, path: str, first: int, count: int, max_bytes: int) -> JsonObject:
    """Lines of a file; all of them when `count` is 0."""
    for index in indexes:
        inner = inside(index, _unprefixed(index, path))
        if inner and (index.workspace.root / inner).exists():
            lines = _lines(index, inner, first, count, max_bytes)
            return lines | history.authors_at(stores.reader, index.id, inner, first, lines["end_line"])
    names = sorted(name for index in indexes for name in index.files)
    if path in names:
        raise _gone(path)
    similar = ", ".join(similar_names(path, names))
    raise NotFound(f"no memory file is called {path}", f"similar names: {similar}" if similar else "memd workspaces")


def inside(index: WorkspaceIndex, path: str) -> str:
    """The path relative to the workspace if it is one of its memory files, else empty."""
    path = as_indexed(index, path)
    path = path if path in index.files else {composed(one): one for one in index.files}.get(composed(path), path)
    safe = path and ".." not in PurePosixPath(path).parts
    if not safe or not is_memory_path(index.workspace, path) or refusal(index.workspace, path):
        return ""
    return linked_note(index.workspace, path) or path


def as_indexed(index: WorkspaceIndex, path: str) -> str:
    """A path, or a pattern, as the index spells it: relative to the workspace, where it may be given from `/`, also
    through a linked folder. Empty where it leads out."""
    root, place = index.workspace.root, index.workspace.root / path
    try:
        return (place if place.is_relative_to(root) else Path(os.path.realpath(place))).relative_to(root).as_posix()
    except ValueError:
        return ""


def _lines(index: WorkspaceIndex, path: str, first: int, count: int, max_bytes: int) -> JsonObject:
    lines = _read(index, path, max_bytes).text.split("\n")
    last = len(lines) if count == 0 else min(len(lines), first + count - 1)
    if first > len(lines):
        raise NotFound(f"{path} has {len(lines)} lines", "ask for an earlier line")
    text = "\n".join(lines[first - 1 : last])
    return {**index.place, "path": path, "start_line": first, "end_line": last, "text": text}


def _read(index: WorkspaceIndex, path: str, max_bytes: int) -> FileContent:
    content = content_now(index, path, max_bytes)
    if content is None:
        raise _gone(path)
    return content


def _gone(path: str) -> NotFound:
    """The error about a file that is known and not there."""
    return NotFound(f"{path} is gone", "where many vanished at once, their memories are kept: memd status")


def content_now(
    index: WorkspaceIndex, path: str, max_bytes: int, problem: type[MemdError] = NotFound
) -> FileContent | None:
    """A file as it is now; None when there is none."""
    try:
        return read_note(index.workspace.root / path, max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (SkippedFile, UnreadableFile) as error:
        raise problem(f"{path} cannot be read: {error}", "memd status") from error


# --- the memory that a write means ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyTarget:
    """Where the memory of a key is, or will be."""

    key: str
    path: str
    slug: str
    memory: int | None = None
    """Its number; None while it does not exist."""
    version: int = 0
    """0 while it does not exist."""
    digest: str | None = None
    """The digest of that version's text."""

    @property
    def number(self) -> int:
        """The number of a memory that exists."""
        assert self.memory is not None
        return self.memory


def existing(stores: Stores, index: WorkspaceIndex, key: str) -> KeyTarget:
    """The memory that a key names; the index of the topics is refused."""
    _, row = find_memory(stores, [index], key)
    if row["path"] == INDEX or (is_long_term(row["path"]) and row["heading"].casefold() in topics.PAIR):
        raise Refused(f"`{key}` is the index of the topics", "memd topic changes it")
    last = history.latest(stores.reader, row["id"])
    version, digest = (last.number, last.digest) if last else (1, row["digest"])
    return KeyTarget(key, row["path"], row["slug"], row["id"], version, digest)


def refuse_whole_file(stores: Stores, index: WorkspaceIndex, target: KeyTarget) -> None:
    """Refuse to write to the first memory of a file by the file's path, which is all of it to who reads it."""
    reader = stores.reader
    key = composed(target.key)
    if target.memory is None or key != composed(target.path) or len(lookup.in_file(reader, index.id, target.path)) < 2:
        return
    ((named, _),) = lookup.keyed_rows(reader, "m.id", "m.id = ?", (target.memory,))
    if composed(named) != key:
        raise UsageError(f"`{target.key}` is a file of several memories", f"the text before its sections is `{named}`")


def existing_or_new(stores: Stores, index: WorkspaceIndex, key: str, layout: Layout) -> KeyTarget:
    """The memory that a key names, or the topic file that it will be."""
    rows, layer_of = lookup.memories(stores.reader, index.id, key), index.workspace.layer_of
    # A file that only the team has gets a version of one's own; a section has none without the file, and is refused.
    if any(layer_of(row["path"]) == OWN or "#" in key or key.startswith(row["path"]) for row in rows):
        target = existing(stores, index, key)
        refuse_whole_file(stores, index, target)
        return target
    if "#" in key:
        new = f'a new one has a name without #: memd put {slug(key.rpartition("#")[2]) or "NAME"} "…"'
        raise NotFound(f"no memory has the key `{key}`", f"{suggest_keys(stores, [index], key)}\n{new}")
    name = topics.topic_name(key)
    path = layout.topic(name)
    others = [one for one in index.files
              if composed(PurePosixPath(one).stem) == name and one != path and layer_of(one) == OWN]  # fmt: skip
    for one in others:
        if index.files[one].problem or lookup.in_file(stores.reader, index.id, one):
            raise UsageError(f"`{key}` is a file of several memories ({one})", suggest_keys(stores, [index], key))
    # A note without any memory is where it will be.
    path = others[0] if others else path
    if DATE.fullmatch(name) or PurePosixPath(name).suffix in (".md", ".mdk"):
        raise UsageError(f"`{key}` cannot be the key of a new memory", "leave out .md; for a day: memd note")
    if not inside(index, path) or path == INDEX:
        raise Refused(f"{path} would not be a memory of this workspace", "its globs leave it out: memd workspaces")
    return KeyTarget(name, path, "")


def digest_in(target: KeyTarget, text: str | None) -> str | None:
    """The digest of a target's text in the given text of its file; None where it is not there."""
    whole = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    memory = sections.memory_in(target.path, whole, target.slug)
    return digest_of_memory(memory) if memory is not None else None


# --- lists --------------------------------------------------------------------------------------------------


AMONG = with_lists("AMONG :workspaces")
PLACE = ("path", "start_line", "heading")


def workspace_ids(indexes: Indexes) -> str:
    """The workspaces for `AMONG`."""
    return json.dumps([index.id for index in indexes])


def listed(
    connection: Connection, indexes: Indexes, columns: Sequence[str], clause: str,
    tables: str = lookup.IN_FILES, **values: object,
) -> list[JsonObject]:  # fmt: skip
    """Memories as objects: the namespace, the key and some columns. The clause has their order."""
    names = {index.id: index.workspace.ns for index in indexes}
    selected = ", ".join(f"{lookup.IS_PINNED} AS pinned" if name == "pinned" else f"m.{name}" for name in columns
                         if name != "path")  # fmt: skip
    keyed = lookup.keyed_rows(connection, selected, clause, {"workspaces": json.dumps(list(names)), **values}, tables)
    return [{"ns": names[row["workspace"]], "key": key, **pick(row, *columns)} for key, row in keyed]


def _rows(stores: Stores, indexes: Indexes, clause: str) -> Iterator[tuple[JsonObject, Row]]:
    """The memories that pass a clause, as objects and as rows, in the order of their files."""
    for index in indexes:
        clause_here = f"m.workspace = ? AND {clause} ORDER BY f.path, m.start_line"
        for key, row in lookup.keyed_rows(stores.reader, "m.*", clause_here, (index.id,)):
            yield {"ns": index.workspace.ns, "key": key, **pick(row, *PLACE)}, row


# An index has both times: reading every memory for its own would take ten times as long.
ENDED = f"m.id IN (SELECT m.id FROM memories m INDEXED BY memories_kept WHERE NOT {lookup.ALIVE})"


def ended(stores: Stores, index: WorkspaceIndex) -> dict[str, list[str]]:
    """The memories that are in no answer: their slugs by file, for who reads the files themselves."""
    return grouped((row["path"], row["slug"]) for _, row in _rows(stores, [index], ENDED))


def expired(stores: Stores, indexes: Indexes) -> list[JsonObject]:
    """The memories whose ttl has run out or that were deleted, oldest first."""
    memories = [
        {**memory, "ttl": json.loads(row["declared"])["ttl"], "expires": row["deleted"] or row["expires"],
         "deleted": bool(row["deleted"])}
        for memory, row in _rows(stores, indexes, ENDED)
    ]  # fmt: skip
    return sorted(memories, key=lambda memory: (memory["expires"], memory["key"]))


def tags(stores: Stores, indexes: Indexes) -> JsonObject:
    """Every tag in its commonest spelling, with the number of its memories, commonest first."""
    rows = _rows(stores, indexes, f"m.tags <> '[]' AND {lookup.ALIVE}")
    tagged = [(row["id"], tag) for _, row in rows for tag in json.loads(row["tags"])]
    memories = grouped((tag.casefold(), memory) for memory, tag in tagged)
    spellings = grouped((tag.casefold(), tag) for _, tag in tagged)
    commonest = {tag: max((times, one) for one, times in Counter(some).items())[1] for tag, some in spellings.items()}
    counted = [{"tag": commonest[tag], "memories": len(set(some))} for tag, some in memories.items()]
    return {"tags": sorted(counted, key=lambda row: (-int(row["memories"]), str(row["tag"])))}


def tagged_files(stores: Stores, index: WorkspaceIndex, tag: str) -> list[str]:
    """The files that have a memory with this tag."""
    rows = (row for _, row in _rows(stores, [index], "m.tags <> '[]'"))
    paths = (row["path"] for row in rows if any(sections.same_tag(one, tag) for one in json.loads(row["tags"])))
    return list(dict.fromkeys(paths))


def files_of(stores: Stores, index: WorkspaceIndex, key: str) -> list[JsonObject]:
    """The files that a memory declares."""
    _, row = find_memory(stores, [index], key)
    return [_file_relation(entry) for entry in json.loads(row["declared"]).get("files", ())]


def touching(stores: Stores, indexes: Indexes, file: str, cwd: str) -> list[JsonObject]:
    """The memories that declare a file, or one in a folder, with the relation to it."""
    memories = []
    for index in indexes:
        path = file_named(index, file, cwd)
        for memory, row in _rows(stores, [index], "json_array_length(m.declared, '$.files') > 0"):
            for relation in map(_file_relation, json.loads(row["declared"])["files"]):
                if path in (relation["file"], ".") or relation["file"].startswith(f"{path.rstrip('/')}/"):
                    memories.append({**memory, **relation})
    return memories


def _file_relation(entry: str) -> JsonObject:
    """`src/app.py:modified` as the wire has it."""
    file, _, rel = entry.rpartition(":")
    return {"file": file, "rel": rel} if file else {"file": entry, "rel": ""}


def file_named(index: WorkspaceIndex, file: str, cwd: str) -> str:
    """A file as memories name it: relative to the workspace if it is inside, else as given."""
    root = index.workspace.root
    resolved = (Path(cwd or root) / file).resolve()
    inside = resolved.is_relative_to(root) and (PurePosixPath(file).is_absolute() or resolved.exists())
    return str(resolved.relative_to(root)) if inside else str(PurePosixPath(file))
