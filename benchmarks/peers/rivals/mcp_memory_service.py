"""mcp-memory-service: SQLite with sqlite-vec, pieces of about 1,000 characters, asked by meaning over HTTP."""

from __future__ import annotations

import json
import os
import socket
import urllib.request
from pathlib import Path
from typing import Any

from rival import Hit, Rival


class Peer(Rival):
    title = "mcp-memory-service"
    packages = ("mcp-memory-service==12.4.0",)
    overrides = ("certifi",)
    extensions = True
    loopback = True
    mode = "`memory ingest-directory`, then `POST /api/search`; of texts that mean about the same it keeps the first"
    embeds = "memd's model on loopback; its default, MiniLM, is a download"
    asked = "over HTTP"

    def __init__(self, notes: Path, place: Path, embedder: str, **settings: Any) -> None:
        super().__init__(notes, place, embedder, **settings)
        env = {"MCP_ALLOW_ANONYMOUS_ACCESS": "true", "MCP_MDNS_ENABLED": "false"}
        if embedder:
            own = {"URL": f"{embedder}/embeddings", "MODEL": "granite", "API_KEY": "none"}
            env |= {f"MCP_EXTERNAL_EMBEDDING_{name}": value for name, value in own.items()}
        os.environ.update(env)

    def index(self) -> None:
        again = self.place / "h" / "ingested"
        try:
            self.run(self.bin / "memory", "ingest-directory", "-r", "-e", "md", self.notes)
        except RuntimeError:
            if not again.exists():  # the second time it counts every chunk that it has already as an error
                raise
        again.touch()

    def ask(self, question: str, limit: int) -> list[Hit]:
        asked = json.dumps({"query": question, "n_results": limit}).encode()
        request = urllib.request.Request(f"{self._server()}/api/search", asked, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [{"text": one["memory"]["content"]} for one in json.load(answer)["results"]]

    def _server(self) -> str:
        if not hasattr(self, "_url"):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            self.background(self.bin / "memory", "server", "--http", MCP_HTTP_PORT=port, MCP_HTTP_HOST="127.0.0.1")
            self._url = f"http://127.0.0.1:{port}"
            self.reach(f"{self._url}/api/health")
        return self._url
