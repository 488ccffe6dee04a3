"""The one command of the benchmarks: `make bench PARTS="queries hub" ARGS="--chunks 10000" DATA=FOLDER`.

python benchmarks/run.py [PART...] [--data FOLDER...] [arguments of the parts]

Without a part it measures what docs/performance.md promises on a workspace of 10,000 chunks: the parts of `PROMISES`,
on one store. Each of the other parts is a program of its own, with its own `--help`. `--list` tells what there is.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path

import fresh
import shell
import start
import throughput
from figures import Figure, noise, table
from home import workplace
from store import Store, prepare, say

HERE = Path(__file__).resolve().parent
PROMISES: dict[str, tuple[str, Callable[[Store], list[Figure]]]] = {
    "fresh": ("An edit is found", fresh.measure),
    "start": ("A start, its memory, and what it embeds", start.measure),
    "shell": ("One question from the shell", shell.measure),
    "throughput": ("Throughput", throughput.measure),
}


PROGRAMS = {
    **{name: HERE / f"{name}.py" for name in (
        "queries", "steps", "floors", "stall", "context", "embedding", "kernels", "agents", "workspaces",
        "memory", "hooks", "sessions", "hub", "web", "chroma_server", "outline",
        "retrieval", "ablation", "words", "other_words", "reliability", "fit", "kinds",
        "tasks", "likeness", "lifecycle",
    )},
    "peers": HERE / "peers" / "compare.py",
}  # fmt: skip
TAKES_DATA: dict[str, list[str]] = {"fit": ["--strangers"], "peers": ["--data"]}
TAKES_DATA |= {name: [] for name in ("retrieval", "ablation", "words", "likeness", "reliability")}
"""The programs that take the folders of DATA, and what they want before them."""


def main() -> int:
    given = sys.argv[1:]
    parts = list(takewhile(lambda word: word in PROMISES or word in PROGRAMS, given))
    data, rest = _data(given[len(parts) :])
    if rest == ["--list"]:
        return _list()
    promised = [part for part in parts if part in PROMISES]
    codes = [_promises(promised, rest)] if promised or not parts else []
    codes += [_program(part, data, rest) for part in parts if part in PROGRAMS]
    return max(codes)


def _data(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """The folders after `--data`, and the other arguments."""
    if "--data" not in given:
        return [], list(given)
    at = given.index("--data")
    folders = list(takewhile(lambda word: not word.startswith("-"), given[at + 1 :]))
    return folders, [*given[:at], *given[at + 1 + len(folders) :]]


def _list() -> int:
    for name, (title, _) in PROMISES.items():
        print(f"{name:15}{title}; with no part named")
    for name, file in PROGRAMS.items():
        print(f"{name:15}{(ast.get_docstring(ast.parse(file.read_text(encoding='utf-8'))) or '').splitlines()[0]}")
    return 0


def _program(part: str, data: list[str], rest: list[str]) -> int:
    """Run one program, with the folder of the benchmarks and the repository to import from."""
    paths = os.pathsep.join(filter(None, (str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH"))))
    folders = [*TAKES_DATA[part], *data] if data and part in TAKES_DATA else []
    command = [sys.executable, str(PROGRAMS[part]), *folders, *rest]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, check=False).returncode


def _promises(names: list[str], arguments: list[str]) -> int:
    options = _options(arguments)
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, options.real_vectors)
        results = {name: _run(name, store) for name in names or PROMISES}
    if options.json:
        options.json.write_text(json.dumps(_record(store, results), indent=1, ensure_ascii=False) + "\n")
    return 0 if all(figure.met is not False for figures in results.values() for figure in figures) else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s [PART...] [--data FOLDER...] [arguments of the parts]",
        description=f"The parts: {', '.join([*PROMISES, *PROGRAMS])}. `--list` explains them. Without a part, "
        f"or with {', '.join(PROMISES)}, these arguments are taken:",
    )
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexed workspace there and use it again")
    parser.add_argument(
        "--real-vectors", action="store_true", help="embed the whole workspace with the model; takes minutes"
    )
    parser.add_argument(
        "--synthetic-vectors", action="store_false", dest="real_vectors",
        help="random vectors for the workspace; what is edited is embedded for real (the default)",
    )  # fmt: skip
    return parser.parse_args(arguments)


def _run(name: str, store: Store) -> list[Figure]:
    title, measure = PROMISES[name]
    say(f"measuring: {name}")
    before = noise()
    figures = measure(store)
    print("\n" + table(f"{title} ({store.title})", figures))
    print(f"The machine before: {before}; after: {noise()}.\n", flush=True)
    return figures


def _record(store: Store, results: dict[str, list[Figure]]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "chunks": store.chunks,
        "real_vectors": store.real_vectors,
        "figures": {
            name: [asdict(figure) | {"met": figure.met} for figure in found] for name, found in results.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
