"""Many small workspaces, one daemon: threads, open files, memory, how long a start and adding one more take.

python benchmarks/workspaces.py [--workspaces 200] [--chunks 100] [--vectors none] [--keep DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

import corpus
from figures import Figure, median, noise, percentile, table
from home import Home, workplace
from store import count_chunks, say, synthetic_vectors

from memd.errors import MemdError
from memd.protocol.client import Client

STARTS = 5
IDLE_SECONDS = 10.0
ADDED = 11
MOST_FILES = 1_000
QUESTIONS = 200
OVER_ALL = 5
CODES = 10
"""In each workspace; and so many questions for one of them, to all workspaces at once."""
QUESTION = "backup server"


def name(nth: int) -> str:
    return f"agent{nth:04}"


def code(nth: int, entry: int) -> str:
    """A word that one note of one workspace has."""
    return f"unique{nth}x{entry}"


# --- building ---------------------------------------------------------------------------------------------------


def prepare(place: Path, count: int, chunks: int, vectors: bool) -> tuple[Home, list[Figure]]:
    """A home with this many workspaces, all indexed; one that a run before this one left is used again."""
    home = Home(place / "home")
    if (home.state / "state.db").exists():
        return home, []
    say(f"writing {count:,} workspaces of {chunks} chunks")
    home.path.mkdir(parents=True)
    config = ["[watch]", "scan_seconds = 3600", ""]
    for nth in range(count):
        root = place / "notes" / name(nth)
        corpus.write(root, chunks, seed=nth + 1)
        codes = "".join(f"## Locker {entry}\n\nIts code is {code(nth, entry)}.\n\n" for entry in range(CODES))
        (root / "memory" / "codes.md").write_text(codes)
        config += ["[[workspace]]", f'path = "{root}"', ""]
    (home.path / "config.toml").write_text("\n".join(config))
    say("indexing their text")
    with home:
        took = home.take_in(home.start(MEMD_EMBEDDING__PROVIDER="none"))
    made = count_chunks(home)
    if vectors:
        synthetic_vectors(home)
    return home, [Figure("first indexing, text", made / took, "chunks/s", note=f"{made:,} chunks in {took:.1f} s")]


# --- what the kernel says about the daemon and its children -----------------------------------------------------


def threads(pids: list[int]) -> int:
    return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids)


def open_files(pids: list[int]) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


# --- measuring --------------------------------------------------------------------------------------------------


def measure(home: Home, place: Path, count: int, chunks: int, env: dict[str, str]) -> list[Figure]:
    figures = _starts(home, count, env)
    with home:
        client = home.start(**env)
        _rest(home, client)
        figures += _at_rest(home, "at rest")
        figures += _asked(client, count)
        figures += _at_rest(home, "after a question to each")
        figures += _asked_at_random(client, count)
        figures += _idle(home)
        figures += _adding(home, client, place, chunks)
    return figures


def _starts(home: Home, count: int, env: dict[str, str]) -> list[Figure]:
    times = [_first_answer(home, name((nth * 37) % count), env) for nth in range(STARTS)]
    return [
        Figure("spawn → first text answer, p50", median(times), most=1_500, note=f"{STARTS} starts"),
        Figure("spawn → first text answer, max", max(times)),
    ]


def _first_answer(home: Home, ns: str, env: dict[str, str]) -> float:
    spawned = time.monotonic()
    with home:
        home.spawn(**env)
        while True:
            try:
                home.client().query(QUESTION, ns=ns, mode="text")
                return (time.monotonic() - spawned) * 1000
            except MemdError:
                if time.monotonic() - spawned > 120:
                    raise
            time.sleep(0.002)


def _rest(home: Home, client: Client) -> None:
    """Wait until nothing is left to do."""
    say("waiting until the daemon rests")
    while True:
        told = client.ping()
        if not told["pending"] and _share(home, 3.0) < 0.03 and client.status()["model"]["state"] != "loading":
            return
        time.sleep(0.5)


def _share(home: Home, seconds: float) -> float:
    """The share of a core that all processes took for some seconds."""
    before = home.cpu_seconds()
    time.sleep(seconds)
    return max(0.0, home.cpu_seconds() - before) / seconds


def _at_rest(home: Home, when: str) -> list[Figure]:
    pids = home.processes()
    return [
        Figure(f"threads, {when}", threads(pids), "", note=f"{len(pids)} processes"),
        Figure(f"open files, {when}", open_files(pids), "", most=MOST_FILES),
        Figure(f"PSS of all processes, {when}", home.memory_mb()["Pss"], "MB", most=600),
    ]


def _asked(client: Client, count: int) -> list[Figure]:
    """One question to each workspace, most of which are closed when it comes."""
    say("asking each workspace")
    times = []
    for nth in range(count):
        started = time.monotonic()
        client.query(f"{QUESTION} {corpus.THINGS.split()[nth % 100]}", ns=name(nth))
        times.append((time.monotonic() - started) * 1000)
    return [
        Figure("a question to a workspace that nobody asked before, p50", median(times), note=f"{count} questions"),
        Figure("  p95", percentile(times, 0.95)),
    ]


def _asked_at_random(client: Client, count: int) -> list[Figure]:
    """New questions to workspaces in no order, and to all of them at once."""
    rng, figures = random.Random(5), []
    for mode in ("text", "hybrid"):
        times = [_time(client, rng, mode, ns=name(rng.randrange(count))) for _ in range(QUESTIONS)]
        figures += [
            Figure(f"{mode}, a workspace at random, p50", median(times)),
            Figure("  p95", percentile(times, 0.95)),
        ]
    for mode in ("text", "hybrid"):
        times = [_time(client, rng, mode) for _ in range(OVER_ALL)]
        figures += [Figure(f"{mode}, all workspaces at once, p50", median(times)), Figure("  max", max(times))]
        figures += _asked_for_codes(client, count, mode)
    return figures


def _asked_for_codes(client: Client, count: int, mode: str) -> list[Figure]:
    """Whether all workspaces at once find what one of them has."""
    right, times = 0, []
    for nth in range(CODES):
        owner = nth * count // CODES
        started = time.monotonic()
        answer = client.query(code(owner, nth), mode=mode)
        times.append((time.monotonic() - started) * 1000)
        first = answer["hits"][0] if answer["hits"] else {"ns": "", "text": ""}
        right += first["ns"] == name(owner) and code(owner, nth) in first["text"] and not answer["missing"]
    return [
        Figure(f"{mode}, a code that one workspace has, asked of all, p50", median(times)),
        Figure("  answered wrongly, or said to be missing", CODES - right, "", most=0, note=f"{CODES} questions"),
    ]


def _time(client: Client, rng: random.Random, mode: str, ns: str | None = None) -> float:
    question = " ".join(rng.sample(corpus.THINGS.split(), 3))
    started = time.monotonic()
    client.query(question, mode=mode, ns=ns)
    return (time.monotonic() - started) * 1000


def _idle(home: Home) -> list[Figure]:
    say(f"looking at it for {IDLE_SECONDS:g} seconds")
    time.sleep(IDLE_SECONDS)
    return [Figure(f"CPU at rest, of {IDLE_SECONDS:g} s", 100 * _share(home, IDLE_SECONDS), "% of a core")]


def _adding(home: Home, client: Client, place: Path, chunks: int) -> list[Figure]:
    """Adding one without a note is what is beyond its own text."""
    say("adding some")
    empty, processor = _added(home, client, place, 0)
    full, _ = _added(home, client, place, chunks)
    return [
        Figure("adding one more, without notes, p50", median(empty), most=50, note=f"{ADDED} times"),
        Figure("  max", max(empty)),
        Figure("  processor time of each", processor * 1000 / ADDED),
        Figure(f"adding one more of {chunks} chunks, until its text is found, p50", median(full)),
    ]


def _added(home: Home, client: Client, place: Path, chunks: int) -> tuple[list[float], float]:
    """How long adding took each time, and how much processor time all of them."""
    roots = [place / f"added-{time.time_ns()}" for _ in range(ADDED)]
    for nth, root in enumerate(roots):
        root.mkdir()
        if chunks:
            corpus.write(root, chunks, seed=1_000_000 + nth)
    before, times = home.cpu_seconds(), []
    for root in roots:
        started = time.monotonic()
        client.workspace_add(root)
        times.append((time.monotonic() - started) * 1000)
    spent = home.cpu_seconds() - before
    for root in roots:
        client.workspace_rm(path=root)
    return times, spent


def main() -> int:
    options = _options()
    env = {"MEMD_EMBEDDING__PROVIDER": "none"} if options.vectors == "none" else {}
    with workplace(options.keep) as place:
        home, figures = prepare(place, options.workspaces, options.chunks, options.vectors != "none")
        before = noise()
        figures += measure(home, place, options.workspaces, options.chunks, env)
        title = f"{options.workspaces:,} workspaces, {count_chunks(home):,} chunks"
    print("\n" + table(title, figures))
    print(f"\nThe machine before: {before}; after: {noise()}.")
    if options.json:
        told = [asdict(figure) | {"met": figure.met} for figure in figures]
        options.json.write_text(json.dumps({"workspaces": options.workspaces, "figures": told}, indent=1) + "\n")
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workspaces", type=int, default=200, help="how many there are (200)")
    parser.add_argument("--chunks", type=int, default=100, help="the size of each (100)")
    parser.add_argument("--vectors", choices=("made-up", "none"), default="made-up", help="none: without model, Chroma")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the store there, and use it if it is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
