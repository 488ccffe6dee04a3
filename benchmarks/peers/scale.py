"""Part `scale`: a workspace of many chunks is indexed, asked cold and warm, edited; time, processor, memory, disk."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import corpus
import embedder
import queries
from context import Context, workplace
from figures import median, percentile
from located import holds
from processes import Failed, Meter, Peer, Worker, disk_mb, timed

Figures = dict[str, Any]

BOX = 30.0
"""Seconds for the questions from the shell, and as many for the warm ones: slow rivals are asked fewer."""
EDITS = 20
EDIT_BOX = 60.0
NEVER = 60.0
"""Seconds after which an edit counts as not found by itself."""
HITS = 8


def measure(peer: Peer, context: Context) -> Figures:
    with workplace() as place, embedder.served(peer.rival) as model:
        notes = place / "notes"
        chunks = corpus.write(notes, context.chunks)
        questions = queries.questions(context.asks, seed=3)
        figures: Figures = {"chunks": chunks}
        with Worker(peer, notes, place, model.url, context.patience) as worker:
            figures |= _first_index(worker, notes, model)
        with Worker(peer, notes, place, model.url, context.patience) as worker:
            ms, _ = timed(lambda: worker.ask(questions[0], HITS, patience=300))
            figures["start_ms"] = ms
            figures |= _warm(worker, questions)
            figures |= _cold(worker, questions)
            figures |= _saved(worker, notes)
        return figures


def _first_index(worker: Worker, notes: Path, model: embedder.Running) -> Figures:
    before = model.cpu_seconds()
    with Meter(worker) as meter:
        ms, _ = timed(lambda: worker.call("index"))
    return {
        "index_s": ms / 1000,
        "index_cpu_s": meter.cpu + model.cpu_seconds() - before,
        "index_memory_mb": meter.peak_mb,
        "disk_mb": disk_mb(worker.place) - disk_mb(notes),
    }


def _warm(worker: Worker, questions: list[str]) -> Figures:
    times = []
    until = time.monotonic() + BOX
    with Meter(worker) as meter:
        for question in questions:
            times.append(timed(lambda question=question: worker.ask(question, HITS))[0])
            if time.monotonic() > until:
                break
    return {"warm_p50_ms": median(times), "warm_p95_ms": percentile(times, 0.95), "warm_asked": len(times),
            "memory_mb": meter.peak_mb}  # fmt: skip


def _cold(worker: Worker, questions: list[str]) -> Figures:
    if worker.call("cold", questions[0]) is None:
        return {}
    times, until = [], time.monotonic() + BOX
    for question in questions:
        command = worker.call("cold", question)
        ms, done = timed(lambda command=command: _shell(worker, command))
        if done.returncode not in (0, 1):
            raise Failed(f"`cold`: exit {done.returncode}: {done.stderr[-300:].decode(errors='replace')}")
        times.append(ms)
        if time.monotonic() > until:
            break
    return {"cold_p50_ms": median(times), "cold_p95_ms": percentile(times, 0.95), "cold_asked": len(times)}


def _shell(worker: Worker, command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, env=worker.env, cwd=worker.place / "notes", capture_output=True)


def _saved(worker: Worker, notes: Path) -> Figures:
    """From the end of a save until the edit is found: by itself where the rival watches, else with its command."""
    by_itself = bool(worker.call("watch"))
    times, missed, until = [], 0, time.monotonic() + EDIT_BOX
    for nth, file in enumerate(sorted(notes.rglob("20*.md"))[-EDITS:]):
        word = f"zaubernuss{nth:02}x"
        with file.open("a", encoding="utf-8") as note:
            note.write(f"\n## Edit {nth}\n\nThe {word} was moved behind the greenhouse.\n")
        ms = _until_found(worker, notes, word, by_itself)
        if ms is not None:
            times.append(ms)
        else:
            missed += 1
            by_itself = by_itself and bool(times or missed < 2)
        if time.monotonic() > until and (times or not by_itself):
            break
    told = {"saved_p50_ms": median(times) if times else None, "saved_edits": len(times), "saved_missed": missed}
    return {"saved_by_itself": by_itself, **told}


def _until_found(worker: Worker, notes: Path, word: str, by_itself: bool) -> float | None:
    started = time.perf_counter()
    if not by_itself:
        worker.call("index")
    while time.perf_counter() - started < NEVER or not by_itself:
        if holds(notes, worker.ask(f"the {word}", HITS), word):
            return (time.perf_counter() - started) * 1000
        if not by_itself:
            return None
        time.sleep(0.005)
    return None
