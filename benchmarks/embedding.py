"""How many chunks a second the daemon embeds, beside the bare model in a process of its own on the same texts.

The two take turns, so that what else the machine does meanwhile slows both. `make bench PARTS=embedding`
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chunks", type=int, default=800)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--bare", nargs=2, type=Path)
    given = options.parse_args()
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
