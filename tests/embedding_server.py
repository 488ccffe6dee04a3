"""An embedding server on loopback that speaks as Ollama and as OpenAI do, and fails when it is told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from memd.indexer.model.pooling import Vectors, unit
from memd.indexer.model.scale import QUESTIONS
from tests.hash_embedder import HashEmbedder

FAULTS = ("slow", "429", "500", "dimensions", "fewer", "zeros", "half", "garbage", "closed")
"""Never answers; busy; broken; vectors too short; a vector too few; half an answer; not JSON; the line cut at once."""


ANSWERED_BY = {question: note for pairs in QUESTIONS.values() for question, note in pairs}


def words(texts: Sequence[str]) -> Vectors:
    """The hash embedder, which also knows which notes answer the questions that a scale is measured by."""
    return unit(HashEmbedder().embed(texts) + HashEmbedder().embed([ANSWERED_BY.get(text, text) for text in texts]))


def wide(texts: Sequence[str]) -> Vectors:
    """A model of other dimensions than the one of the tests, which finds the same."""
    rows = words(texts)
    return np.concatenate([rows, rows[:, :32]], axis=1)


class EmbeddingServer:
    """Serves the vectors of a model under `/api/embed` and `/v1/embeddings`."""

    def __init__(self, embed: Callable[[Sequence[str]], Vectors]) -> None:
        self.embed = embed
        self.digest = "sha256:1"
        """What Ollama's list says of the model; empty for a server that has no such list."""
        self.fault = ""
        """What happens to every request from now on."""
        self.faults: deque[str] = deque()
        """What happens to the next ones, before that."""
        self.most_chars = 0
        """Longer texts are refused, if it is set."""
        self.asked: list[dict[str, Any]] = []
        """The bodies of all requests for vectors."""
        self.keys: list[str] = []
        self.ending = threading.Event()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, where it did before if it was stopped."""
        self.ending.clear()
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and cut those that wait."""
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(server: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = [{"name": "granite:latest", "digest": server.digest}]
            self.reply({"models": known} if server.digest else {"error": "not found"}, 200 if server.digest else 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.keys.append(self.headers.get("authorization", ""))
            server.asked.append(body)
            fault = server.faults.popleft() if server.faults else server.fault
            if fault in ("429", "500"):
                self.reply({"error": f"no, {self.headers.get('authorization')}"}, int(fault), **{"Retry-After": "0.01"})
            elif server.most_chars and any(len(text) > server.most_chars for text in body["input"]):
                self.reply({"error": "the input is too long"}, 400)
            elif fault == "slow":
                server.ending.wait()
            elif fault != "closed":
                self.vectors(body, fault)

        def vectors(self, body: dict[str, Any], fault: str) -> None:
            rows = server.embed(body["input"]).tolist()
            if fault == "dimensions":
                rows = [[1.0, *row[:2]] for row in rows]
            if fault == "fewer":
                rows = rows[:-1]
            if fault == "zeros":
                rows = [[0.0] * len(row) for row in rows]
            listed = [{"index": nth, "embedding": row} for nth, row in enumerate(rows)]
            answer = {"embeddings": rows} if self.path == "/api/embed" else {"data": listed[::-1]}
            assert self.path in ("/api/embed", "/v1/embeddings")
            self.reply(answer, 200, fault)

        def reply(self, answer: dict[str, Any], status: int, fault: str = "", **headers: str) -> None:
            data = b"<html>" if fault == "garbage" else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if fault == "half" else data)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
