"""MemPalace: Chroma, pieces of about 800 characters, meaning first, then ranked with the words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rival import Hit, Rival


class Peer(Rival):
    title = "MemPalace"
    packages = ("mempalace==3.11.0",)
    loopback = True
    mode = "`init`, `mine`, then search with candidates of both kinds (`union`)"
    embeds = "memd's model on loopback; its default, MiniLM, is a download"

    def __init__(self, notes: Path, place: Path, embedder: str, **settings: Any) -> None:
        super().__init__(notes, place, embedder, **settings)
        self.palace = str(place / "h" / "palace")
        self.env = {"MEMPALACE_PALACE_PATH": self.palace}
        if embedder:
            own = {"API_URL": embedder, "API_MODEL": "granite", "API_KEY": "none", "MODEL": "openai-compat"}
            self.env |= {f"MEMPALACE_EMBEDDING_{name}": value for name, value in own.items()}
        os.environ.update(self.env)

    def index(self) -> None:
        if not (self.notes / "mempalace.yaml").exists():
            self._palace("init", "--yes", "--no-llm", self.notes)
        self._palace("mine", self.notes)

    def ask(self, question: str, limit: int) -> list[Hit]:
        from mempalace.searcher import search_memories  # type: ignore[import-not-found]

        told = search_memories(question, palace_path=self.palace, n_results=limit, candidate_strategy="union")
        if "error" in told:
            raise RuntimeError(told["error"])
        return [{"text": hit["text"], "path": self._path(hit.get("source_path"))} for hit in told["results"]]

    def cold(self, question: str) -> list[str] | None:
        env = (f"{name}={value}" for name, value in self.env.items())
        return ["env", *env, str(self.bin / "mempalace"), "--palace", self.palace, "search", question]

    def _palace(self, *given: str | Path) -> None:
        self.run(self.bin / "mempalace", "--palace", self.palace, *given)

    def _path(self, told: str | None) -> str:
        return self.relative(told) if told else ""
