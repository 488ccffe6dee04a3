"""How many chunks a second the daemon embeds, beside the bare model in a process of its own on the same texts.

The two take turns, so that what else the machine does meanwhile slows both. `make bench PARTS=embedding`
`ARGS=--server`: the daemon's own processor time for a chunk, with an embedding server that takes none.
`ARGS=--passes`: how long until every memory has a vector, and until every chunk has.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import corpus
from home import Home, workplace

from memd.config.schema import EmbeddingSettings
from memd.indexer.model.embedder import load_embedder
from memd.indexer.store.vector_table import embedded_text
from memd.notes.parse import parse
from memd.protocol.client import Client

AIM = 0.9


def bare(notes: Path, cache: Path, chunks: int) -> float:
    """Chunks a second of the model alone; loading it does not count."""
    embedder = load_embedder(EmbeddingSettings(), cache)
    assert embedder is not None
    files = sorted(notes.rglob("*.md"))
    found = [
        chunk for file in files for memory in parse(file.name, file.read_text()).memories for chunk in memory.chunks
    ]
    texts = [embedded_text(chunk.heading, chunk.context, chunk.text) for chunk in found[:chunks]]
    embedder.embed(texts[:8])
    started = time.monotonic()
    embedder.embed(texts)
    return len(texts) / (time.monotonic() - started)


def bare_elsewhere(notes: Path, cache: Path, chunks: int) -> float:
    command = [sys.executable, __file__, "--bare", str(notes), str(cache), "--chunks", str(chunks)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def in_daemon(home: Home) -> float:
    """Chunks a second of a daemon that has nothing else to do, from the first that it saved to the last."""
    try:
        client = home.start()
        first, began = _embedded(client, 1)
        while client.status()["pending"]:
            time.sleep(0.1)
        return float((client.status()["embedded"] - first) / (time.monotonic() - began))
    finally:
        home.stop()


def _embedded(client: Client, least: int) -> tuple[int, float]:
    while (told := client.status()["embedded"]) < least:
        time.sleep(0.05)
    return int(told), time.monotonic()


# --- a server that takes no time ------------------------------------------------------------------------------


def serve() -> None:
    """Answer each text with one of a hundred vectors that were made before; the first line printed is the port."""
    chance = random.Random(1)
    made = [json.dumps([round(chance.gauss(0, 1), 6) for _ in range(384)]) for _ in range(100)]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
            rows = ", ".join(made[hash(text) % len(made)] for text in texts)
            self._reply(f'{{"embeddings": [{rows}]}}'.encode())

        def do_GET(self) -> None:
            self._reply(b'{"models": []}')

        def _reply(self, answer: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def beside_server(place: Path, chunks: int) -> str:
    """The processor time of the daemon for a chunk, less that of a start."""
    home = Home(place / "home")
    home.configure()
    corpus.write(home.workspace, chunks)
    home.take_in(home.start(MEMD_EMBEDDING__PROVIDER="none"))
    home.stop()
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        took = [_until_embedded(home, MEMD_EMBEDDING__PROVIDER="ollama", MEMD_EMBEDDING__URL=url) for _ in range(2)]
    finally:
        server.kill()
        server.wait()
    (cpu, wall, made), (start, _, _) = took
    return f"{made} chunks in {wall:.0f} s: {(cpu - start) / made * 1000:.2f} ms of the daemon's CPU time each"


def _until_embedded(home: Home, **env: str) -> tuple[float, float, int]:
    """CPU time and wall time until nothing is pending, and how many chunks were embedded since the start."""
    began, client = time.monotonic(), home.start(**env)
    while client.status()["model"]["state"] != "ready" or client.status()["pending"]:
        time.sleep(0.2)
    result = home.cpu_seconds(), time.monotonic() - began, client.status()["embedded"]
    home.stop()
    return result


# --- the two passes -------------------------------------------------------------------------------------------

MADE = """
SELECT COUNT(*), COUNT(DISTINCT memory), COUNT(DISTINCT IIF(begun, memory, NULL)), SUM(whole)
FROM (
    SELECT c.memory, v.digest IS NOT NULL AS begun, COALESCE(length(v.vector) = 2 * m.dims, 0) AS whole
    FROM chunks c LEFT JOIN models m ON m.source <> 'multilingual'
    LEFT JOIN vectors v ON v.model = m.id AND v.digest = c.digest
)"""
"""All chunks and memories, the memories that are found by meaning, and the chunks that have vectors of their own."""


def passes(place: Path, chunks: int) -> str:
    """When every memory of a new workspace had a vector, every chunk, and every chunk in another language one of the
    model for those; in CPU time and by the clock."""
    home, told = Home(place / "home"), list[str]()
    home.configure()
    corpus.write(home.workspace, chunks)
    home.take_in(home.start(MEMD_EMBEDDING__PROVIDER="none"))
    home.stop()
    began, client = time.monotonic(), home.start()
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        while len(told) < 3:
            every, memories, begun, whole = ledger.execute(MADE).fetchone()
            took = f"{time.monotonic() - began:.0f} s, {home.cpu_seconds():.0f} s of CPU time"
            if not told and begun == memories:
                told.append(f"{memories} memories: {took} ({whole} of {every} chunks)")
                print(told[0], flush=True)
            if len(told) == 1 and whole == every:
                told.append(f"{every} chunks: {took}")
                print(told[1], flush=True)
            if len(told) == 2 and not client.status()["pending"]:
                told.append(f"other languages too: {took}")
            time.sleep(1.0)
    home.stop()
    return "; ".join(told)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chunks", type=int, default=800)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--bare", nargs=2, type=Path)
    options.add_argument("--server", action="store_true")
    options.add_argument("--serve", action="store_true")
    options.add_argument("--passes", action="store_true")
    given = options.parse_args()
    if given.serve:
        serve()
    if given.server or given.passes:
        with workplace(None) as place:
            print((beside_server if given.server else passes)(place, given.chunks))
        return
    if given.bare:
        print(bare(*given.bare, given.chunks))
        return
    with workplace(None) as place:
        for nth in range(given.rounds):
            home = Home(place / f"home-{nth}")
            home.configure()
            corpus.write(home.workspace, given.chunks, seed=nth + 1)
            before = bare_elsewhere(home.workspace, place / "model", given.chunks // 2)
            daemon = in_daemon(home)
            after = bare_elsewhere(home.workspace, place / "model", given.chunks // 2)
            share = daemon / ((before + after) / 2)
            print(f"bare {before:.1f} and {after:.1f}, daemon {daemon:.1f} chunks/s: {share:.0%} (aim {AIM:.0%})")


if __name__ == "__main__":
    main()
