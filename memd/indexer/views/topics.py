"""The topics of a workspace: their files as they are on disk, and the index that lists them."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from memd.config.paths import is_utf8
from memd.errors import MemdError
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import LINK, SWAP, ScanResult, is_memory_path, refusal
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views.keys import content_now
from memd.models import FileStat
from memd.notes.names import INDEX, KNOWLEDGE, Layout, is_topic, layout_of
from memd.notes.topics import Topic, read_topic

SQL = queries(__file__)


def layout(index: WorkspaceIndex) -> Layout:
    # An empty folder for topics was made by somebody who wants them there.
    chosen = is_memory_path(index.workspace, INDEX) and (index.workspace.root / KNOWLEDGE).is_dir()
    return layout_of([*index.files, INDEX] if chosen else index.files)


def paths(index: WorkspaceIndex) -> dict[str, str]:
    """The file of every topic by its name: those in the folder for topics, then other topic files."""
    place = layout(index)
    inside = [f"{place.topics}/{name}" for name in _names(index, place.topics) if name.endswith(place.topic_suffix)]
    # One that was just forgotten may be in the ledger still.
    elsewhere = (path for path in sorted({*index.files} - {*inside}) if is_topic(path))
    there = (path for path in elsewhere if (index.workspace.root / path).is_file())
    topics: dict[str, str] = {}
    for path in (*inside, *there):
        if path != place.index:
            topics.setdefault(PurePosixPath(path).stem, path)
    return dict(sorted(topics.items()))


def _names(index: WorkspaceIndex, folder: str) -> Iterator[str]:
    """The files of a folder, without swap files, links that lead out, and names that are not UTF-8."""
    if refusal(index.workspace, folder) == LINK:
        return
    try:
        entries = sorted(os.scandir(index.workspace.root / folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if SWAP.search(entry.name) or not is_utf8(entry.name):
            continue
        # Only links cost a stat: a folder may have thousands of files.
        if not refusal(index.workspace, f"{folder}/{entry.name}") if entry.is_symlink() else entry.is_file():
            yield entry.name


def index_text(index: WorkspaceIndex, max_bytes: int) -> str:
    content = content_now(index, layout(index).index, max_bytes, MemdError)
    return content.text if content else ""


def topic(index: WorkspaceIndex, name: str, path: str, max_bytes: int) -> Topic | None:
    content = content_now(index, path, max_bytes, MemdError)
    return read_topic(name, path, content.text, content.day) if content else None


def tags(stores: Stores, index: WorkspaceIndex, topics: dict[str, str], max_bytes: int) -> dict[str, tuple[str, ...]]:
    """The tags of each topic: from the ledger, or from the file if it has changed since."""
    stale = changed_paths(index, ScanResult(dict(_stats(index, topics.values()))))
    rows = stores.ledger.reader.execute(SQL["tags"], (index.id, json.dumps(list(topics.values()))))
    known = {path: tuple(json.loads(tags)) for path, tags in rows if path not in stale}
    for name, path in topics.items():
        if path not in known:
            changed = topic(index, name, path, max_bytes)
            known[path] = changed.tags if changed else ()
    return {name: known[path] for name, path in topics.items()}


def _stats(index: WorkspaceIndex, files: Iterable[str]) -> Iterator[tuple[str, FileStat]]:
    for path in files:
        try:
            yield path, FileStat.of((index.workspace.root / path).stat())
        except OSError:
            continue
