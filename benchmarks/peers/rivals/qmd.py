"""qmd: SQLite FTS5 over whole documents, answered with snippets; its models come from a download and are not used."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_session import McpSession
from rival import Hit, Rival, keywords


class Peer(Rival):
    title = "qmd"
    npm = ("@tobilu/qmd@2.8.3",)
    mode = "a `lex` search for each of the question's words but the commonest, fused by qmd; its models are downloads"
    asked = "over MCP"

    def index(self) -> None:
        if not (self.place / "h" / ".cache" / "qmd" / "index.sqlite").exists():
            self.run(*self._qmd(), "collection", "add", self.notes, "--name", "notes")
        self.run(*self._qmd(), "update")

    def ask(self, question: str, limit: int) -> list[Hit]:
        if not hasattr(self, "_session"):
            self._session = McpSession(*self._qmd(), "mcp", cwd=self.notes)
        searches = [{"type": "lex", "query": word} for word in keywords(question)[:10]]
        told = self._session.call("query", searches=searches, limit=limit, rerank=False)
        return [self._hit(one) for one in told["structuredContent"]["results"]]

    def cold(self, question: str) -> list[str] | None:
        return [*map(str, self._qmd()), "search", question]

    def _hit(self, told: dict[str, str]) -> Hit:
        """Its snippets begin with their place: `@@ -start,count @@`."""
        start, count = map(int, re.findall(r"@@ -(\d+),(\d+) @@", told["snippet"])[0])
        path = told["file"].partition("/")[2]
        return {"path": path, "start_line": start, "end_line": start + count - 1, "text": told["snippet"]}

    def _qmd(self) -> list[str | Path]:
        return ["node", self.bin.parents[1] / "node_modules" / ".bin" / "qmd"]
