"""memtomem: SQLite with sqlite-vec and FTS5, chunks by heading, words and meaning fused by rank."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rival import Hit, Rival


class Peer(Rival):
    title = "memtomem"
    packages = ("memtomem[onnx]==0.6.12",)
    extensions = True
    loopback = True
    mode = "`mm init --preset english` (hybrid); its reranker, a download, is off"
    embeds = "memd's model on loopback; its default, multilingual-e5-small, is a download"

    def __init__(self, notes: Path, place: Path, embedder: str, **settings: Any) -> None:
        super().__init__(notes, place, embedder, **settings)
        url = embedder.removesuffix("/v1")
        own = {"PROVIDER": "openai", "MODEL": "granite", "API_KEY": "none", "DIMENSION": "384", "BASE_URL": url}
        self.env = {f"MEMTOMEM_EMBEDDING__{name}": value for name, value in own.items()} if embedder else {}
        self.env |= {"MEMTOMEM_RERANK__ENABLED": "false"} if embedder else {}
        os.environ.update(self.env)

    def index(self) -> None:
        if not (self.place / "h" / ".memtomem" / "config.json").exists():
            given = ["--non-interactive", "--preset", "english", "--memory-dir", self.notes, "--mcp", "skip"]
            self.run(self.bin / "mm", "init", *given)
        self.run(self.bin / "mm", "index", "--force-unsafe", self.notes)  # else it leaves out what looks secret

    def ask(self, question: str, limit: int) -> list[Hit]:
        from memtomem.services.search_service import run_search  # type: ignore[import-not-found]

        pipeline = self._components().search_pipeline
        found, _, _ = self.wait(run_search(pipeline, query=question, top_k=limit, origin="cli"))
        return [self._hit(hit.chunk.metadata, hit.chunk.content) for hit in found]

    def _hit(self, place: Any, text: str) -> Hit:
        lines = {"start_line": place.start_line, "end_line": place.end_line}
        return {"path": self.relative(place.source_file), "text": text, **lines}

    def cold(self, question: str) -> list[str] | None:
        env = (f"{name}={value}" for name, value in self.env.items())
        return ["env", *env, str(self.bin / "mm"), "search", question]

    def watch(self) -> bool:
        """Its MCP server watches, once it is warm."""
        self.background(self.bin / "mm", "serve", MEMTOMEM_WARMUP__ENABLED="true")
        self.logged("Watching")
        return True

    def _components(self) -> Any:
        from memtomem.server.component_factory import create_components  # type: ignore[import-not-found]

        if not hasattr(self, "_kept"):
            self._kept = self.wait(create_components())
        return self._kept
