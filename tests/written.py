"""Writes as memd writes, on real stores without a daemon; as a program of its own, so that it can be killed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from memd.indexer.indexing import ingest
from memd.indexer.indexing.ingest import IngestReport
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import scan
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.writing import write_files
from memd.indexer.writing.write_files import FileChange, WriteAction, undo
from memd.models import Workspace
from memd.notes import sections
from memd.notes.parse import parse

MAX_BYTES = 4 * 1024 * 1024
SECTION = re.compile(rb"^## .*?(?=\s*(?:^## |\Z))", re.MULTILINE | re.DOTALL)


def opened(state: Path, root: Path) -> tuple[OwnStores, OwnIndex]:
    """The stores as a daemon opens them, after whatever happened to the last one."""
    state.mkdir(parents=True, exist_ok=True)
    stores = OwnStores(state)
    index = stores.open_index(Workspace("agent", root))
    write_files.recover(stores, index)
    return stores, index


def apply(stores: OwnStores, index: OwnIndex, paths: Iterable[str], accept_missing: bool = False) -> IngestReport:
    """Bring the stores in step with some paths, in one go and one tick of the clock."""
    options = ingest.IndexingOptions(accept_missing)
    (report,) = ingest.apply_in_pieces(stores, index, paths, MAX_BYTES, options, None)
    return report


def sync(stores: OwnStores, index: OwnIndex) -> None:
    apply(stores, index, changed_paths(index, scan(index.workspace)), accept_missing=True)


def carry_out(stores: OwnStores, index: OwnIndex, order: dict[str, Any]) -> int:
    """Do what an order says; the number of the action."""
    if order["what"] == "undo":
        return undo(stores, index, order["action"], "cli").action
    changes = tuple(_change(order["what"], path, order["text"]) for path in order["paths"])
    write_action = WriteAction(order["what"], "cli", changes, request=order.get("request", ""))
    return write_files.perform(stores, index, write_action).action


def _change(what: str, path: str, text: str) -> FileChange:
    if what == "append":
        return FileChange(path, append=text, head="# New\n")
    if what == "remove":
        return FileChange(path, edit=lambda data: None)

    def change(current: str | None) -> str:
        current = current or ""
        slugs = [memory.slug for memory in parse(path, current).memories if memory.slug]
        if not slugs:
            return sections.with_new_section(current, text)
        return sections.with_section(path, current, slugs[-1], text)

    return FileChange(path, edit=sections.in_bytes(change))


def expected(what: str, data: bytes | None, text: str) -> bytes | None:
    """What an order makes of a file, worked out another way: with regular expressions on bytes."""
    if what == "remove":
        return None
    crlf = re.match(rb"[^\n]*\r\n", data or b"") is not None
    newline = b"\r\n" if crlf else b"\n"
    if what == "append":
        put = text.encode().replace(b"\n", newline)
        if not data:
            return b"# New\n" + put
        return data + (b"" if data.endswith(b"\n") else newline) + put
    found = list(SECTION.finditer(data or b""))
    if not found:
        head = (data or b"") + (newline if data and not data.endswith(b"\n") else b"")
        gap = newline if head and not head.endswith(newline * 2) else b""
        return head + gap + text.encode() + newline
    return (data or b"")[: found[-1].start()] + text.encode() + (data or b"")[found[-1].end() :]


if __name__ == "__main__":
    mine, index_of_mine = opened(Path(sys.argv[1]), Path(sys.argv[2]))
    with closing(mine):
        print(carry_out(mine, index_of_mine, json.loads(sys.argv[3])))
