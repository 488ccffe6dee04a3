"""memd, from this repository, installed like everyone else."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from rival import Hit, Rival


class Peer(Rival):
    title = "memd"
    packages = (str(Path(__file__).resolve().parents[3]),)
    python = "3.11"
    mode = "as installed: words and meaning together"
    embeds = "granite-embedding-30m-english (int8), inside the package"
    asked = "over its socket"

    def index(self) -> None:
        self.run(self.bin / "memd", "add", self.notes, "--glob", "**/*.md", "-n", "notes")
        client = self._client()
        client.sync(vectors=True)
        while (told := client.status())["pending"] or told["model"]["state"] != "ready":
            if told["degraded"]:
                raise RuntimeError(f"degraded: {told['degraded']}")
            time.sleep(0.05)

    def ask(self, question: str, limit: int) -> list[Hit]:
        hits = self._client().query(question, ns="notes", limit=limit)["hits"]
        return [{name: hit[name] for name in ("path", "start_line", "end_line", "text")} for hit in hits]

    def cold(self, question: str) -> list[str] | None:
        return [str(self.bin / "memd"), "query", "-n", "notes", question]

    def watch(self) -> bool:
        return True

    def stop(self) -> None:
        subprocess.run([self.bin / "memd", "stop"], capture_output=True)

    def _client(self):  # type: ignore[no-untyped-def] # noqa: ANN202 the import needs the environment
        from memd import Client

        if not hasattr(self, "_kept"):
            self._kept = Client(autostart=True, timeout=600)
        return self._kept
