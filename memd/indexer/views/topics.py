"""Finds the topics of a workspace: their files as they stand on the disk, and the index that lists them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from memd.errors import MemdError
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import LINK, SWAP, FileStat, ScanResult, refusal
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.notes.layout import Layout, layout_of
from memd.notes.names import is_topic
from memd.notes.read import FileContent, SkippedFile, UnreadableFile, read
from memd.notes.topics import Topic, read_topic


def layout(index: WorkspaceIndex) -> Layout:
    return layout_of(list(index.files))


def paths(index: WorkspaceIndex) -> dict[str, str]:
    """The file of every topic by its name: those in the folder for topics, then others that are known as topics."""
    place = layout(index)
    inside = (f"{place.topics}/{name}" for name in _names(index, place.topics) if name.endswith(place.topic_suffix))
    elsewhere = sorted(path for path in list(index.files) if is_topic(path))
    found: dict[str, str] = {}
    for path in (*inside, *elsewhere):
        if path != place.index:
            found.setdefault(PurePosixPath(path).stem, path)
    return dict(sorted(found.items()))


def _names(index: WorkspaceIndex, folder: str) -> Iterator[str]:
    """The files of a folder, without what editors leave there, what leads out, and names that cannot be spoken."""
    if refusal(index.workspace, folder) == LINK:
        return
    try:
        entries = sorted(os.scandir(index.workspace.root / folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        name = entry.name
        if SWAP.search(name) or name.encode("utf-8", "replace").decode() != name:
            continue
        # Only a link costs more than a look at the folder: there may be thousands.
        if not refusal(index.workspace, f"{folder}/{name}") if entry.is_symlink() else entry.is_file():
            yield name


def reading(index: WorkspaceIndex, path: str, max_bytes: int) -> FileContent | None:
    """A file as it is now; None when there is none."""
    try:
        return read(index.workspace.root / path, max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (SkippedFile, UnreadableFile) as error:
        raise MemdError(f"{path} cannot be read: {error}", "memd status") from error


def index_text(index: WorkspaceIndex, max_bytes: int) -> str:
    found = reading(index, layout(index).index, max_bytes)
    return found.text if found else ""


def topic(index: WorkspaceIndex, name: str, path: str, max_bytes: int) -> Topic | None:
    found = reading(index, path, max_bytes)
    return read_topic(name, path, found.text, found.day) if found else None


def tags(stores: Stores, index: WorkspaceIndex, topics: dict[str, str], max_bytes: int) -> dict[str, tuple[str, ...]]:
    """The tags of each topic: from the ledger where the file is as it was read, else from the file."""
    stale = changed_paths(index, ScanResult(dict(_seen(index, topics.values()))))
    rows = stores.ledger.reader.execute(
        "SELECT f.path, m.tags FROM memories m JOIN files f ON f.id = m.file WHERE m.workspace = ? AND m.slug = ''"
        " AND f.path IN (SELECT value FROM json_each(?))",
        (index.id, json.dumps(list(topics.values()))),
    )
    kept = {row["path"]: tuple(json.loads(row["tags"])) for row in rows if row["path"] not in stale}
    found = {}
    for name, path in topics.items():
        if path not in kept:
            fresh = topic(index, name, path, max_bytes)
            kept[path] = fresh.tags if fresh else ()
        found[name] = kept[path]
    return found


def _seen(index: WorkspaceIndex, files: Iterable[str]) -> Iterator[tuple[str, FileStat]]:
    for path in files:
        try:
            status = (index.workspace.root / path).stat()
        except OSError:
            continue
        yield path, FileStat(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
