"""The overall proof: what a naive reader finds in the files is what the ledger, Whoosh and Chroma hold."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings as ChromaSettings
from whoosh.filedb.filestore import FileStorage

from memd.notes.parse import parse
from memd.notes.read import decode
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.forge import forged_processes

SOAK = os.environ.get("MEMD_SOAK") == "1"

Piece = tuple[str, int, int, str, tuple[str, ...], str]
"""A chunk as the files have it: path, first and last line, text, headings, context."""


def rounds(few: int, many: int) -> int:
    """How often to try: a few times by default, many times in a soak."""
    return many if SOAK else few


def eventually(holds: Callable[[], Any], seconds: float = PATIENCE, every: float = 0.03) -> Any:
    """Wait until something holds, and answer it."""
    until = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"this did not come true within {seconds} s")
        time.sleep(every)


def stand_still(home: Home) -> None:
    """Stop the daemon, every thread of it."""
    assert home.daemon is not None
    home.daemon.send_signal(signal.SIGSTOP)
    eventually(partial(_stands_still, home.daemon.pid))


def _stands_still(pid: int) -> bool:
    try:
        states = [(one / "stat").read_text().rpartition(") ")[2][0] for one in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        # A thread, or all of them, ended meanwhile.
        return not Path(f"/proc/{pid}/stat").exists()
    return all(state in "TZ" for state in states)


@contextmanager
def frozen(home: Home) -> Iterator[None]:
    """The daemon and its Chroma stand still: what they keep can be copied as it was in one moment, as after a kill."""
    daemon = [home.daemon.pid] if home.daemon is not None and home.daemon.poll() is None else []
    stopped = [*daemon, *chroma_processes(home)]
    try:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            eventually(partial(_stands_still, pid))
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def serve(home: Home, workspace: Path, more: str = "", **env: str) -> Client:
    """A daemon that keeps one workspace, `agent`, in step."""
    home.configure(f'{more}\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    return home.start(**env)


def shown(client: Client, question: str, **how: Any) -> str:
    """Everything that a query shows, also what only comes near, as one text."""
    answer = client.query(question, limit=50, **{"mode": "text", **how})
    hits = (*answer["hits"], *answer["near"])
    return "\n".join(f"{hit['path']}:{hit['start_line']} {hit['text']}" for hit in hits)


def children(pid: int) -> list[int]:
    """The processes that the daemon started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(file.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(file.parent.name))
    return found


def chroma_processes(home: Home) -> list[int]:
    """The processes that have Chroma open for this home."""
    known, found = forged_processes(home.path), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"chroma_process" in command and (str(home.state).encode() in command or process.name in known):
            found.append(int(process.name))
    return found


def naive_reading(root: Path) -> Counter[Piece]:
    """Parse every memory file there is, without any help from the indexer."""
    files = [root / "MEMORY.md", *(root / "memory").rglob("*.md"), *(root / "daily").rglob("*.md")]
    found: Counter[Piece] = Counter()
    for file in files:
        if file.is_file():
            path = file.relative_to(root).as_posix()
            note = parse(path, decode(file.read_bytes()))
            pieces = [chunk for memory in note.memories for chunk in memory.chunks]
            found.update((path, c.start_line, c.end_line, c.text, c.heading, c.context) for c in pieces)
    return found


class Stores:
    """A copy of a daemon's stores, opened without memd."""

    def __init__(self, state: Path) -> None:
        self.ledger = sqlite3.connect(state / "state.db")
        self.state = state

    def workspace(self) -> int:
        return int(self.ledger.execute("SELECT id FROM workspaces WHERE ns = 'agent'").fetchone()[0])

    def pieces(self) -> dict[int, Piece]:
        rows = self.ledger.execute(
            "SELECT c.id, f.path, c.start_line, c.end_line, c.text, c.heading, c.context"
            " FROM chunks c JOIN files f ON f.id = c.file JOIN memories m ON m.id = c.memory WHERE m.gone IS NULL"
        )
        return {
            number: (path, first, last, text, tuple(json.loads(heading)), context)
            for number, path, first, last, text, heading, context in rows
        }

    def vectors(self) -> dict[int, np.ndarray]:
        rows = self.ledger.execute("SELECT c.id, v.vector FROM chunks c JOIN vectors v ON v.digest = c.digest")
        return {number: np.frombuffer(vector, "<f2").astype(np.float32) for number, vector in rows}

    def texts(self) -> dict[str, int]:
        """A chunk of each text, by its digest: equal texts are one row in Chroma."""
        return dict(self.ledger.execute("SELECT digest, id FROM chunks").fetchall())

    def in_text(self) -> list[int]:
        opened = FileStorage(str(self.state / "text" / str(self.workspace()))).open_index()
        with opened.reader() as reader:
            numbers = reader.column_reader("number") if reader.doc_count() else {}
            return sorted(numbers[document] for document in reader.all_doc_ids())

    def in_chroma(self) -> dict[str, np.ndarray]:
        """What the collection holds; each vector must also be found by a search, which goes another way."""
        client = chromadb.PersistentClient(
            str(self.state / "chroma"), settings=ChromaSettings(anonymized_telemetry=False)
        )
        try:
            mine = [c for c in client.list_collections() if c.name.startswith(f"ws-{self.workspace()}-")]
            assert len(mine) <= 1, [collection.name for collection in mine]
            held = mine[0].get(include=["embeddings"]) if mine else {"ids": [], "embeddings": []}
            vectors = np.asarray(held["embeddings"], np.float32)
            # Not where many are equal: a graph of equal points has no way through to all of them.
            if len(vectors) and len(np.unique(vectors, axis=0)) == len(vectors):
                wanted = min(300, len(vectors))
                found = mine[0].query(query_embeddings=vectors[:1], n_results=wanted, include=[])
                assert len(set(found["ids"][0])) == wanted, "the graph lacks rows"
            return {
                digest: np.asarray(vector, np.float32)
                for digest, vector in zip(held["ids"], held["embeddings"], strict=True)
            }
        finally:
            client.close()


def wait_for_collections(home: Home) -> None:
    """Wait until nothing is to be sent, and the daemon has found the collections to be what the ledger says."""

    def followed() -> bool:
        with closing(sqlite3.connect(home.state / "state.db")) as ledger:
            if ledger.execute("SELECT 1 FROM unsent").fetchall():
                return False
        found = {one["name"]: one["state"] for one in home.wait().doctor()["findings"]}
        states = [state for name, state in found.items() if name.endswith(": vectors")]
        return bool(states) and all(state == "ok" for state in states)

    eventually(followed)


def assert_agreement(home: Home, workspace: Path, vectors: bool = True) -> int:
    """Compare all four on a copy of the stores; call it when nothing is pending. Says how many chunks there are."""
    if vectors:
        wait_for_collections(home)
    with tempfile.TemporaryDirectory(prefix="memd-copy-") as place:
        copy = Path(place) / "state"
        # What a process of its own builds is not the daemon's yet. The vectors may still be on their way when they are
        # not asked for.
        left_out = ("quarantine", "building", "memd.log*", "model", *(() if vectors else ("chroma",)))
        with frozen(home):
            shutil.copytree(home.state, copy, ignore=shutil.ignore_patterns(*left_out))
        stores = Stores(copy)
        pieces = stores.pieces()
        in_files, in_ledger = naive_reading(workspace), Counter(pieces.values())
        assert in_ledger == in_files, _difference(in_files, in_ledger, home)
        assert stores.in_text() == sorted(pieces), f"text index {stores.in_text()}, ledger {sorted(pieces)}\n{home.log}"
        if vectors:
            _compare_vectors(stores, pieces, home)
        stores.ledger.close()
        return len(pieces)


def _compare_vectors(stores: Stores, pieces: dict[int, Piece], home: Home) -> None:
    banked, held, texts = stores.vectors(), stores.in_chroma(), stores.texts()
    assert banked.keys() == pieces.keys(), f"vectors {sorted(banked)}, ledger {sorted(pieces)}\n{home.log}"
    assert held.keys() == texts.keys(), f"Chroma {sorted(held)}, ledger {sorted(texts)}\n{home.log}"
    for digest, vector in held.items():
        # Chroma may keep a vector scaled to length one; its direction is what counts.
        right = _unit(banked[texts[digest]])
        assert np.allclose(_unit(vector), right, atol=2e-3), f"chunk {texts[digest]} has another text's vector"


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _difference(in_files: Counter[Piece], in_ledger: Counter[Piece], home: Home) -> str:
    missing, extra = in_files - in_ledger, in_ledger - in_files
    return f"in the files only: {list(missing)[:5]}\nin the ledger only: {list(extra)[:5]}\n{home.log}"
