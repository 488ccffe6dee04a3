"""basic-memory: SQLite with FTS5 and sqlite-vec, notes as entities, hybrid search over its MCP server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mcp_session import McpSession
from rival import Hit, Rival


class Peer(Rival):
    title = "basic-memory"
    packages = ("basic-memory==0.24.1",)
    overrides = ("certifi",)
    extensions = True
    loopback = True
    mode = "`reindex`, then `search_notes` with `hybrid`"
    embeds = "memd's model on loopback; its default, bge-small, is a download"
    asked = "over MCP"

    def __init__(self, notes: Path, place: Path, embedder: str, **settings: Any) -> None:
        super().__init__(notes, place, embedder, **settings)
        own = {"PROVIDER": "openai", "MODEL": "granite", "API_BASE": embedder, "API_KEY": "none", "DIMENSIONS": "384"}
        self.env = {f"BASIC_MEMORY_SEMANTIC_EMBEDDING_{name}": value for name, value in own.items()} if embedder else {}
        os.environ.update(self.env)

    def index(self) -> None:
        if not (self.place / "h" / "added").exists():
            self.run(self.bin / "basic-memory", "project", "add", "notes", self.notes, "--default")
            (self.place / "h" / "added").touch()
        self.run(self.bin / "basic-memory", "reindex", "-p", "notes")

    def ask(self, question: str, limit: int) -> list[Hit]:
        if not hasattr(self, "_session"):
            self._session = McpSession(self.bin / "basic-memory", "mcp", cwd=self.notes)
        given = {"query": question, "project": "notes", "page_size": limit, "search_type": "hybrid"}
        told = self._session.call("search_notes", output_format="json", **given)
        found = json.loads(told["content"][0]["text"])["results"]
        return [{"text": one.get("matched_chunk") or one["content"], "path": one["file_path"]} for one in found]

    def cold(self, question: str) -> list[str] | None:
        env = (f"{name}={value}" for name, value in self.env.items())
        return ["env", *env, str(self.bin / "basic-memory"), "tool", "search-notes", "--hybrid", question]

    def watch(self) -> bool:
        return True
