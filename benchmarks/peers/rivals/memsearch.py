"""memsearch: Milvus Lite, chunks of up to 1,500 characters by heading, words and meaning fused by rank."""

from __future__ import annotations

from typing import Any

from rival import Hit, Rival


class Peer(Rival):
    title = "memsearch"
    packages = ("memsearch==0.4.23", "milvus-lite")
    loopback = True
    mode = "as installed (hybrid, no reranker), provider `openai`"
    embeds = "memd's model on loopback; its default is a model of OpenAI's"

    def index(self) -> None:
        report = self.wait(self._memory().index_with_report())
        if report.failed_files:
            raise RuntimeError(f"{len(report.failed_files)} files failed: {report.failed_files[0]}")

    def ask(self, question: str, limit: int) -> list[Hit]:
        found = self.wait(self._memory().search(question, top_k=limit))
        return [
            {"path": self.relative(hit["source"]), "start_line": hit["start_line"], "end_line": hit["end_line"]}
            for hit in found
        ]

    def cold(self, question: str) -> list[str] | None:
        given = ["-p", "openai", "-m", "granite", "--base-url", self.embedder, "--api-key", "none"]
        return [str(self.bin / "memsearch"), "search", question, *given, "--milvus-uri", self._store()]

    def watch(self) -> bool:
        self._open().watch()  # with a client of its own: it works on a loop of its own
        return True

    def _store(self) -> str:
        return str(self.place / "h" / "milvus.db")

    def _memory(self) -> Any:
        if not hasattr(self, "_kept"):
            self._kept = self._open()
        return self._kept

    def _open(self) -> Any:
        from memsearch import MemSearch  # type: ignore[import-not-found]

        given = {"embedding_model": "granite", "embedding_base_url": self.embedder, "embedding_api_key": "none"}
        return MemSearch([str(self.notes)], milvus_uri=self._store(), **(given if self.embedder else {}))
