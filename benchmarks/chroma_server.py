"""A Chroma server beside the embedded engine: building, questions, and a server that is killed under load.

Both are asked through the process that memd asks, in one run, with the same vectors. `--chunks 100000` takes long and
wants a quiet machine.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import numpy as np

from memd.config.schema import VectorsSettings
from memd.errors import MemdError
from memd.indexer.model.pooling import Vectors, unit
from memd.indexer.store import chroma
from memd.indexer.store.chroma import ChromaFolder, ChromaPlace, ChromaServer
from memd.indexer.store.vectors import BATCH, Collection, VectorStore

DIMS, DEPTH = 384, 10
NAME = "ws-1-model-1"


class RunningChroma:
    """`chroma run` on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self.folder)]
        place = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen([*command, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def clustered(count: int, seed: int = 1) -> Vectors:
    """Unit vectors that lie in heaps, as those of notes do."""
    chance = np.random.default_rng(seed)
    heaps = chance.normal(size=(max(1, count // 50), DIMS))
    return unit((heaps[chance.integers(len(heaps), size=count)] + 0.7 * chance.normal(size=(count, DIMS))).astype("f4"))


def milliseconds(times: list[float]) -> str:
    cuts = quantiles(times, n=20)
    return f"p50 {cuts[9] * 1e3:7.2f} ms   p95 {cuts[18] * 1e3:7.2f} ms"


def measure(title: str, host: ChromaPlace, vectors: Vectors, questions: Vectors) -> None:
    """Build a collection and ask it; print how long that took and how much it found of what is nearest."""
    rows = host.open()
    began = time.perf_counter()
    for at in range(0, len(vectors), BATCH):
        part = vectors[at : at + BATCH]
        rows.add(NAME, [str(at + nth) for nth in range(len(part))], part)
    built = time.perf_counter() - began
    rows.search(NAME, questions[0], DEPTH)
    times, found = [], 0
    for question in questions:
        began = time.perf_counter()
        answer = rows.search(NAME, question, DEPTH) or []
        times.append(time.perf_counter() - began)
        found += len({int(digest) for digest, _ in answer} & set(exact(vectors, question)))
    recall = found / (len(questions) * DEPTH)
    print(
        f"{title:9} build {built:8.1f} s ({len(vectors) / built:6.0f}/s)   {milliseconds(times)}   recall {recall:.3f}"
    )
    rows.close(60.0)


def exact(vectors: Vectors, question: Vectors) -> list[int]:
    return [int(nth) for nth in np.argsort(-(vectors @ question), kind="stable")[:DEPTH]]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that the ledger would want in the collection."""

    held: Vectors
    name: str = "ws-2-model-1"
    workspace: int = 2

    def vectors(self, digests: Iterable[str]) -> tuple[list[str], Vectors]:
        known = list(digests)
        return known, self.held[[int(digest) for digest in known]]

    def digests(self) -> set[str]:
        return {str(nth) for nth in range(len(self.held))}


def killed_under_load(server: RunningChroma, host: ChromaPlace, vectors: Vectors, kills: int) -> None:
    """Send rows while questions come, and kill the server in the middle of it, again and again; then compare."""
    store, source = VectorStore(host), Rows(vectors)
    collection = store.collection(source, None)  # type: ignore[arg-type]
    stop, counts = threading.Event(), {"answers": 0, "none": 0, "wrong": 0}
    asking = threading.Thread(target=ask, args=(collection, vectors, stop, counts), daemon=True)
    asking.start()
    began = time.perf_counter()
    for _ in range(kills):
        wait_in_step(store, counts)
        collection.touch(random.sample(sorted(source.digests()), min(len(vectors), 5 * BATCH)))
        time.sleep(random.uniform(0.2, 1.0))
        server.kill()
        began = time.perf_counter()
        server.start()
    wait_in_step(store, counts)
    took = time.perf_counter() - began
    stop.set()
    asking.join()
    same = collection.digests() == source.digests()
    store.close()
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(
        f"killed {kills} times: the last time caught up after {took:.1f} s, all rows there: {same}; questions: {told}"
    )


def wait_in_step(store: VectorStore, counts: dict[str, int]) -> None:
    """Until every row is there, and some questions were answered by them."""
    while not store.wait_in_step(60.0):
        store.hurry()
        time.sleep(0.2)
    enough = counts["answers"] + 20
    while counts["answers"] < enough:
        time.sleep(0.01)


def ask(collection: Collection, vectors: Vectors, stop: threading.Event, counts: dict[str, int]) -> None:
    """An answer is wrong if it claims to be in step and misses the very vector that was asked for."""
    chance = random.Random(2)
    while not stop.wait(0.005):
        nth = chance.randrange(len(vectors))
        try:
            found = collection.search(vectors[nth], DEPTH)
        except MemdError:
            found = None
        if found is None:
            counts["none"] += 1
        else:
            counts["answers" if str(nth) in {digest for digest, _ in found} else "wrong"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=3)
    args = parser.parse_args()
    # Measured to the end, however long it takes here.
    chroma.SEARCH_SECONDS = 60.0
    folder = Path(tempfile.mkdtemp(prefix="memd-chroma-"))
    vectors, questions = clustered(args.chunks), clustered(args.questions, seed=1)
    server = RunningChroma(folder / "server")
    settings = VectorsSettings(engine="server", url=f"http://127.0.0.1:{server.port}")
    try:
        print(f"{args.chunks:,} vectors of {DIMS} numbers, {args.questions} questions, {DEPTH} nearest")
        measure("embedded", ChromaFolder(folder / "embedded"), vectors, questions)
        host = ChromaServer(settings, folder, "benchmark")
        measure("server", host, vectors, questions)
        killed_under_load(server, host, vectors[:10_000], args.kills)
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
