"""How long the code outline takes: 1,000 files of Python from nothing, one changed file, symbols over the socket.

python benchmarks/outline.py [--files 1000] [--symbols 200] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from figures import Figure, median, noise, percentile, spread, table
from home import Home, workplace
from store import say

from memd.protocol.client import Client

COLD_S, CHANGED_MS, SYMBOL_MS = 20.0, 100.0, 30.0
"""The targets: all files, one changed file, a symbol that was asked before."""
CHANGES = 30
SETTLED = 0.15
"""Seconds after which a file that was read does not count as changed this very moment."""


def prepare(home: Home, count: int) -> int:
    """A workspace of files from the standard library, always the same ones; how many bytes they have."""
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted(one for one in library.rglob("*.py") if "site-packages" not in one.parts)
    chosen = random.Random(count).sample(files, min(count, len(files)))
    home.configure()
    with (home.path / "config.toml").open("a") as config:
        config.write('\n[outline]\nenabled = true\n\n[embedding]\nprovider = "none"\n')
    for file in chosen:
        to = home.workspace / "lib" / file.relative_to(library)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    return sum(file.stat().st_size for file in chosen)


def measure(home: Home, symbols: int) -> list[Figure]:
    try:
        client = home.start()
        idle = cpu_with_children(home.pid)
        cold = timed(lambda: client.outline_file(file=str(some_file(home)), depth=1)) / 1000
        found = [
            Figure("all files from nothing, until the first answer", cold, "s", COLD_S),
            Figure("the same, processor time of all processes", cpu_with_children(home.pid) - idle, "s"),
            Figure("memory of the daemon after it", home.memory_mb()["VmRSS"], "MB"),
            Figure("the first map", timed(lambda: client.outline_map(budget=1)) / 1000, "s"),
        ]
        names = [one["name"] for one in client.outline_map(budget=100_000)["symbols"]]
        found += warm(home, client, random.Random(1).sample(names, min(symbols, len(names))))
        found += changed(home, client)
        home.stop()
        client = home.start()
        again = timed(lambda: client.outline_file(file=str(some_file(home)), depth=1)) / 1000
        return [*found, Figure("after a restart, from the cache", again, "s")]
    finally:
        home.stop()


def some_file(home: Home) -> Path:
    return min(
        (home.workspace / "lib").rglob("*.py"), key=lambda file: (file.stat().st_size < 2_000, file)
    ).relative_to(home.workspace)


def warm(home: Home, client: Client, names: list[str]) -> list[Figure]:
    """Each symbol twice; the second time counts."""
    asked = [lambda name=name: client.outline_symbol(symbol=name, language="python") for name in names]
    first = [timed(ask) for ask in asked]
    before = home.cpu_seconds()
    again = [timed(ask) for ask in asked]
    spent = (home.cpu_seconds() - before) * 1000 / len(names)
    return [
        *spread("a symbol, asked for the first time", first),
        *spread("a symbol, asked again", again, p95=SYMBOL_MS),
        Figure("the same, processor time each", spent),
    ]


def changed(home: Home, client: Client) -> list[Figure]:
    """A file is saved, and a symbol that was added to it asked for at once."""
    files = sorted((home.workspace / "lib").rglob("*.py"))
    times, before = [], home.cpu_seconds()
    for nth, file in enumerate(random.Random(2).sample(files, CHANGES)):
        time.sleep(SETTLED)
        file.write_bytes(file.read_bytes() + f"\ndef added_{nth}(): ...\n".encode())
        path = str(file.relative_to(home.workspace))
        asked = {"symbol": f"added_{nth}", "file": path, "relations": ["calls"]}
        times.append(timed(lambda asked=asked: client.outline_symbol(**asked)))
    spent = (home.cpu_seconds() - before) * 1000 / CHANGES
    return [
        Figure("a changed file, from save to answer, p50", median(times), most=CHANGED_MS, note=f"{CHANGES} files"),
        Figure("a changed file, p90", percentile(times, 0.9), note="a file of 300 KB takes 0.2 s"),
        Figure("the same, processor time each", spent),
    ]


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def cpu_with_children(pid: int) -> float:
    """Seconds of processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    options = _options()
    with workplace(None) as place:
        home = Home(place / "home")
        size = prepare(home, options.files)
        say("measuring the outline")
        before = noise()
        found = measure(home, options.symbols)
    print("\n" + table(f"Code outline, {options.files:,} files of Python, {size / 1e6:.1f} MB", found))
    print(f"\nThe machine before: {before}; after: {noise()}.")
    if options.json:
        figures = [asdict(figure) | {"met": figure.met} for figure in found]
        options.json.write_text(json.dumps({"files": options.files, "figures": figures}, indent=1) + "\n")
    return 0 if all(figure.met is not False for figure in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000, help="files of the standard library (1000)")
    parser.add_argument("--symbols", type=int, default=200, help="how many symbols are asked for (200)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
