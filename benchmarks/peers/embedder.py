"""Serves memd's own model on loopback as an OpenAI-compatible embedder, so that engines are compared and not downloads.

python embedder.py [--remember FILE]   prints its address, then serves until its stdin ends
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from processes import cpu_seconds
from rival import Rival

from memd.config.schema import EmbeddingSettings
from memd.indexer.model.embedder import load_embedder

MODEL = "granite-embedding-30m-english"


class Vectors:
    """The model, one call at a time; with a file it embeds no text twice, which is for scoring and not for timing."""

    def __init__(self, remember: Path | None) -> None:
        self._model = load_embedder(EmbeddingSettings(), Path(tempfile.gettempdir()) / "memd-peers-model")
        self._lock = threading.Lock()
        self._kept = sqlite3.connect(remember, check_same_thread=False) if remember else None
        if self._kept:
            self._kept.execute("CREATE TABLE IF NOT EXISTS vectors (digest BLOB PRIMARY KEY, vector BLOB)")

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        with self._lock:
            if self._kept is None:
                return self._run(texts)
            digests = [hashlib.sha256(text.encode()).digest() for text in texts]
            found = {}
            for digest in digests:
                for (vector,) in self._kept.execute("SELECT vector FROM vectors WHERE digest = ?", (digest,)):
                    found[digest] = vector
            missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in found}
            if missing:
                found |= zip(missing, self._run(list(missing.values())), strict=True)
                self._kept.executemany(
                    "INSERT OR IGNORE INTO vectors VALUES (?, ?)", [(digest, found[digest]) for digest in missing]
                )
                self._kept.commit()
            return [found[digest] for digest in digests]

    def _run(self, texts: Sequence[str]) -> list[bytes]:
        assert self._model is not None
        return [row.astype(np.float32).tobytes() for row in self._model.embed(list(texts))]


class Handler(BaseHTTPRequestHandler):
    """`POST …/embeddings` and `GET …/models`."""

    protocol_version = "HTTP/1.1"
    vectors: Vectors

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given = asked["input"]
        rows = self.vectors.embed([given] if isinstance(given, str) else given)
        bare = asked.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding", "index": nth,
                "embedding": base64.b64encode(row).decode() if bare else np.frombuffer(row, np.float32).tolist(),
            }
            for nth, row in enumerate(rows)
        ]  # fmt: skip
        self._send({"object": "list", "data": data, "model": MODEL, "usage": {"prompt_tokens": 0, "total_tokens": 0}})

    def _send(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *what: object) -> None:
        """Nothing: it is asked thousands of times."""


@dataclass(frozen=True, slots=True)
class Running:
    """Where the embedder answers, and the process that does; nowhere and none for who embeds by itself."""

    url: str
    pid: int | None

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid) if self.pid else 0.0


@contextmanager
def served(rival: type[Rival], remember: Path | None = None) -> Iterator[Running]:
    """The embedder in a process of its own, where a rival calls it."""
    if not rival.loopback:
        yield Running("", None)
        return
    given = ["--remember", str(remember)] if remember else []
    command = [sys.executable, str(Path(__file__).resolve()), *given]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Running(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--remember", type=Path, metavar="FILE", help="keep every vector there")
    Handler.vectors = Vectors(parser.parse_args().remember)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
