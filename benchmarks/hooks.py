"""Measures `memd hook user-prompt-submit`: a cold process for each prompt, a warm daemon, 10,000 chunks.

python benchmarks/hooks.py [--chunks 10000] [--rounds 100] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure, median, percentile, table
from home import Home, workplace
from store import Store, prepare

MOST = 80.0
WARM = 20
SEED = 6
REQUESTS = (
    "Please refactor the login form so that the error is shown below the field.",
    "Can you look at the failing import again? It seems that the second file is read before the first one is closed,"
    " and then the counters are wrong. Last week we changed something there.",
    "yes, go on",
)
"""Prompts that no note answers."""


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        figures = measure(store, options.rounds)
    print("\n" + table(f"A prompt's hook ({store.title})", figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--rounds", type=int, default=100, help="prompts that are measured (100)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexed workspace there and use it again")
    return parser.parse_args()


def measure(store: Store, rounds: int) -> list[Figure]:
    """Prompts that the daemon never heard, then the same again; beside each a bare interpreter and an idle hook."""
    home = store.home
    # No limit of its own, so that slow ones are seen; as sure as words alone make it, since the vectors are random.
    env = home.env | {"MEMD_HOOKS__TIMEOUT_MS": "60000", "MEMD_HOOKS__CONFIDENCE": "0.6"}
    prompts = _prompts(home.workspace, rounds)
    taken = Taken()
    try:
        home.ready(home.start())
        for prompt in _prompts(home.workspace, WARM, seed=SEED + 1):
            _run(hook_command("user-prompt-submit"), env, _spoken(home, prompt))
        for name in ("new", "again"):
            for prompt in prompts:
                taken.note(name, _run(hook_command("user-prompt-submit"), env, _spoken(home, prompt)))
                taken.note("stop", _run(hook_command("stop"), env, _spoken(home, prompt)))
                taken.note("pass", _run([sys.executable, "-c", "pass"], env, b""))
    finally:
        home.stop()
    return taken.figures()


class Taken:
    """The figures, by their names."""

    def __init__(self) -> None:
        self.walls: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}
        self.told = 0

    def note(self, name: str, run: tuple[float, float, bytes]) -> None:
        self.walls.setdefault(name, []).append(run[0])
        self.cpu.setdefault(name, []).append(run[1])
        self.told += bool(run[2])

    def figures(self) -> list[Figure]:
        again, new = self.walls["again"], self.walls["new"]
        return [
            Figure("python -c pass, p50", median(self.walls["pass"]), note=f"p95 {self._p95('pass'):.0f}"),
            Figure("hook stop with nothing to do, p50", median(self.walls["stop"])),
            Figure("hook user-prompt-submit, CPU of the process, p50", median(self.cpu["again"])),
            Figure("hook user-prompt-submit, p50", median(again), note=f"{self.told} of {2 * len(new)} got memories"),
            Figure("hook user-prompt-submit, p95", self._p95("again"), most=MOST, note=f"most {max(again):.0f}"),
            Figure("  words that nobody asked for since the start, p50", median(new)),
            Figure("  words that nobody asked for since the start, p95", self._p95("new"), note=f"most {max(new):.0f}"),
        ]

    def _p95(self, name: str) -> float:
        return percentile(self.walls[name], 0.95)


def hook_command(event: str) -> list[str]:
    """As `memd connect` writes it; the module only where memd is not installed."""
    script = Path(sys.executable).with_name("memd")
    return [*([str(script)] if script.exists() else [sys.executable, "-m", "memd"]), "hook", event]


def _spoken(home: Home, prompt: str) -> bytes:
    return json.dumps({"session_id": "bench", "cwd": str(home.workspace), "prompt": prompt}).encode()


def _prompts(workspace: Path, count: int, seed: int = SEED) -> list[str]:
    """The English text of notes, one or two sentences of it, and each third time a request.

    The first prompt in another language would have all notes embedded once more, beside what is measured.
    """
    notes = sorted((workspace / "memory").glob("2*.md"))
    lines = [line for note in notes for line in note.read_text().splitlines() if line[:1].isalpha() and len(line) > 60]
    lines = [line for line in lines if line.isascii()]
    chosen = random.Random(seed).sample(lines, count)
    return [f"{REQUESTS[nth % len(REQUESTS)]} {nth}" if nth % 3 == 0 else line for nth, line in enumerate(chosen)]


def _run(command: list[str], env: dict[str, str], spoken: bytes) -> tuple[float, float, bytes]:
    """Milliseconds from spawn to exit, milliseconds of CPU, and what was said."""
    before = _children()
    started = time.perf_counter()
    done = subprocess.run(command, env=env, input=spoken, capture_output=True, check=True, cwd=os.sep)
    return (time.perf_counter() - started) * 1000, (_children() - before) * 1000, done.stdout


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
