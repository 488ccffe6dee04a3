"""The topics of a workspace: their files as they are on disk, and the index that lists them."""

import json
from pathlib import PurePosixPath

from memd.errors import MemdError
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import is_memory_path, scan
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import keys
from memd.notes.names import INDEX, KNOWLEDGE, Layout, is_topic, layout_of
from memd.notes.topics import Topic, read_topic
from memd.prose import composed

SQL = queries(__file__)


def layout(index: WorkspaceIndex) -> Layout:
    # An empty folder for topics was made by somebody who wants them there.
    chosen = is_memory_path(index.workspace, INDEX) and (index.workspace.root / KNOWLEDGE).is_dir()
    return layout_of([*index.files, INDEX] if chosen else index.files)


def paths(index: WorkspaceIndex) -> dict[str, str]:
    """The file of every topic by its name, as they are on disk: those in the folder for topics, then other ones."""
    place = layout(index)
    # Not those of the ledger, which may have one still that was just forgotten.
    there = (path for path in scan(index.workspace).files if is_topic(path) and path != place.index)
    topics: dict[str, str] = {}
    for path in sorted(there, key=lambda path: (path != place.topic(composed(PurePosixPath(path).stem)), path)):
        topics.setdefault(composed(PurePosixPath(path).stem), path)
    return dict(sorted(topics.items()))


def shown(stores: Stores, index: WorkspaceIndex, topics: dict[str, str]) -> dict[str, str]:
    """Those topics that answers tell of."""
    ended = keys.ended(stores, index)
    return {name: path for name, path in topics.items() if "" not in ended.get(path, ())}


def index_text(index: WorkspaceIndex, max_bytes: int) -> str:
    content = keys.content_now(index, layout(index).index, max_bytes, MemdError)
    return content.text if content else ""


def topic(index: WorkspaceIndex, name: str, path: str, max_bytes: int) -> Topic | None:
    content = keys.content_now(index, path, max_bytes, MemdError)
    return read_topic(name, path, content.text, content.day) if content else None


def tags(stores: Stores, index: WorkspaceIndex, topics: dict[str, str], max_bytes: int) -> dict[str, tuple[str, ...]]:
    """The tags of each topic: from the ledger, or from the file if it has changed since."""
    stale = changed_paths(index, scan(index.workspace))
    rows = stores.reader.execute(SQL["tags"], (index.id, json.dumps(list(topics.values()))))
    known = {path: tuple(json.loads(tags)) for path, tags in rows if path not in stale}
    for name, path in topics.items():
        if path not in known:
            changed = topic(index, name, path, max_bytes)
            known[path] = changed.tags if changed else ()
    return {name: known[path] for name, path in topics.items()}
