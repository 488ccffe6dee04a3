"""memweave: SQLite with sqlite-vec and FTS5, chunks of about 400 tokens, vector and keyword scores added 7 : 3."""

from __future__ import annotations

import os
from typing import Any

from rival import Hit, Rival


class Peer(Rival):
    title = "memweave"
    packages = ("memweave[watch]==0.2.1",)
    extensions = True
    loopback = True
    mode = "as installed: hybrid, scores of at least 0.35"
    embeds = "memd's model on loopback; its default is a model of OpenAI's"

    def index(self) -> None:
        self.wait(self._memory().index())

    def ask(self, question: str, limit: int) -> list[Hit]:
        found = self.wait(self._memory().search(question, max_results=limit))
        return [{"path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line} for hit in found]

    def cold(self, question: str) -> list[str] | None:
        given = ["--embedding-model", "openai/granite"] if self.embedder else []
        env = f"OPENAI_API_BASE={self.embedder}", "OPENAI_API_KEY=none"
        return ["env", *env, str(self.bin / "memweave"), "search", question, "-w", str(self.notes), *given]

    def watch(self) -> bool:
        self.wait(self._memory().start_watching())
        return True

    def _memory(self) -> Any:
        from memweave import MemWeave  # type: ignore[import-not-found]
        from memweave.config import EmbeddingConfig, MemoryConfig  # type: ignore[import-not-found]

        if not hasattr(self, "_kept"):
            own = EmbeddingConfig(model="openai/granite", api_base=self.embedder, api_key="none")
            store = self.place / "h" / "memweave"
            store.mkdir(exist_ok=True)
            if not (self.notes / ".memweave").exists():  # its usual place, led to where this run keeps everything
                os.symlink(store, self.notes / ".memweave")
            config = MemoryConfig(workspace_dir=self.notes, **({"embedding": own} if self.embedder else {}))
            self._kept = MemWeave(config)
        return self._kept
