"""Part `faults`: a rival is killed, run twice, given a corrupt file and a full disk; then asked known facts."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import corpus
import embedder
from context import Context, workplace
from located import holds
from processes import HUNG, Failed, Peer, Worker

CHUNKS = 40
FACTS = 20
MOMENTS = (0.3, 0.7)
CORRUPTED = 3
DISK = "512m"
LEFT = 64 * 1024
TOWNS = """Ulm Bergen Porto Gdansk Lund Ghent Trieste Vaduz Bilbao Tartu Kosice Varna Split Nantes Turku Aarhus Brno
Graz Pecs Novara Umea Cadiz Leiden Basel Linz Opole Siena Malmo Zadar Rouen Jena Odense Padua Gijon Vigo Arles Krems
Lugo Oulu Tromso""".split()

Answers = tuple[int, str]
"""How many of the facts were found, and what the rival said was wrong."""


def measure(peer: Peer, context: Context) -> dict[str, Any]:
    # Vectors are remembered: this part does not measure how long they take.
    with embedder.served(peer.rival, context.remember) as model:
        return {
            "kill": _killed(peer, model.url, context),
            "two": _two(peer, model.url, context),
            "corrupt": _corrupt(peer, model.url, context),
            "disk": _disk_full(peer, model.url, context),
        }


@contextmanager
def notes_with_facts() -> Iterator[tuple[Path, Path]]:
    with workplace() as place:
        notes = place / "notes"
        corpus.write(notes, CHUNKS)
        write_facts(notes, range(FACTS))
        yield place, notes


def write_facts(notes: Path, numbers: range) -> None:
    # Of more than 100 characters: mcp-memory-service leaves out what is shorter.
    beside = "Ring twice, wait at the gate for the porter, and close it behind you.\n"
    for nth in numbers:
        fact = f"The depot in {TOWNS[nth]} opens with the code {code(nth)}. {beside}"
        text = f"# Depot in {TOWNS[nth]}\n\n## Access\n\n{fact}"
        (notes / "memory" / f"depot-{nth:02}.md").write_text(text, encoding="utf-8")


def code(nth: int) -> str:
    return f"QX{7_000 + 37 * nth}"


def ask(worker: Worker, notes: Path, numbers: range = range(FACTS)) -> Answers:
    """Which facts stand in the first five hits; an error is an honest answer."""
    found, said = 0, ""
    for nth in numbers:
        try:
            told = worker.ask(f"which code opens the depot in {TOWNS[nth]}", 5)
        except Failed as error:
            said = said or str(error)
            continue
        found += holds(notes, told, code(nth))
    return found, said


def verdict(answers: Answers, of: int = FACTS) -> dict[str, Any]:
    found, said = answers
    outcome = "found" if found == of else "hung" if HUNG in said else "said so" if said else "silently wrong"
    return {"outcome": outcome, "found": found, "of": of, "said": said[:200]}


def _again(peer: Peer, notes: Path, place: Path, url: str, context: Context) -> Answers:
    """Started again as its user would, indexed again, asked."""
    with Worker(peer, notes, place, url, context.patience) as worker:
        try:
            worker.call("index")
        except Failed as error:
            return ask(worker, notes)[0], str(error)
        return ask(worker, notes)


# --- the four faults ------------------------------------------------------------------------------------------


def _killed(peer: Peer, url: str, context: Context) -> list[dict[str, Any]]:
    for _ in range(2):  # the first time fills what is remembered
        with notes_with_facts() as (place, notes), Worker(peer, notes, place, url, context.patience) as worker:
            started = time.monotonic()
            worker.call("index")
            whole = time.monotonic() - started
            healthy = ask(worker, notes)[0]
    if healthy < FACTS:
        raise Failed(f"finds {healthy} of {FACTS} facts without any fault, so faults show nothing")
    return [_killed_at(peer, url, context, whole * share) for share in MOMENTS]


def _killed_at(peer: Peer, url: str, context: Context, seconds: float) -> dict[str, Any]:
    with notes_with_facts() as (place, notes):
        worker = Worker(peer, notes, place, url, context.patience)
        indexing = threading.Thread(target=_index_quietly, args=(worker, []))
        indexing.start()
        time.sleep(seconds)
        worker.kill()
        indexing.join()
        return verdict(_again(peer, notes, place, url, context))


def _index_quietly(worker: Worker, said: list[str]) -> None:
    try:
        worker.call("index")
    except Failed as error:
        said.append(str(error))


def _two(peer: Peer, url: str, context: Context) -> list[dict[str, Any]]:
    """Two processes index the same notes into the same place at the same time, then both are asked."""
    with notes_with_facts() as (place, notes):
        said: list[str] = []
        with (
            Worker(peer, notes, place, url, context.patience) as one,
            Worker(peer, notes, place, url, context.patience) as other,
        ):
            both = [threading.Thread(target=_index_quietly, args=(worker, said)) for worker in (one, other)]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
            answers = [ask(worker, notes) for worker in (one, other)]
        return [verdict((found, error or "; ".join(said))) for found, error in answers]


def _corrupt(peer: Peer, url: str, context: Context) -> list[dict[str, Any]]:
    """The middle third of each of the largest files is overwritten, one file at a time."""
    with notes_with_facts() as (place, notes):
        with Worker(peer, notes, place, url, context.patience) as worker:
            worker.call("index")
        home, kept = place / "h", place / "kept"
        shutil.copytree(home, kept, symlinks=True, ignore_dangling_symlinks=True, ignore=_sockets)
        outcomes = []
        for file in _largest(kept):
            shutil.rmtree(home)
            shutil.copytree(kept, home, symlinks=True)
            _overwrite(home / file)
            with Worker(peer, notes, place, url, context.patience) as worker:
                outcomes.append({"file": str(file), **verdict(ask(worker, notes))})
        return outcomes


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.exists(os.path.join(folder, name)) and not _plain(Path(folder, name))]


def _plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def _largest(home: Path) -> list[Path]:
    """The largest files that a rival made, but for models and logs."""
    files = [file for file in home.rglob("*") if file.is_file() and not file.is_symlink()]
    made = [file for file in files if file.suffix not in (".onnx", ".log") and "model" not in file.parts]
    ranked = sorted(made, key=lambda file: file.stat().st_size, reverse=True)
    return [file.relative_to(home) for file in ranked[:CORRUPTED] if file.stat().st_size > 1_024]


def _overwrite(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(size // 3)
        opened.write(os.urandom(size // 3))


def _disk_full(peer: Peer, url: str, context: Context) -> list[dict[str, Any]]:
    """Its home is on a disk of its own; that is filled, notes are added; then room is made."""
    with notes_with_facts() as (place, notes):
        script = f'mkdir -p "$0" && mount -t tmpfs -o size={DISK} tmpfs "$0" && mkdir -p "$0/tmp" && exec "$@"'
        before = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, str(place / "h"))
        with Worker(peer, notes, place, url, context.patience, before) as worker:
            worker.call("index")
            ballast = Path(f"/proc/{worker.process.pid}/root{place}/h/ballast")
            _fill(ballast)
            write_facts(notes, range(FACTS, 2 * FACTS))
            said: list[str] = []
            _index_quietly(worker, said)
            full = ask(worker, notes, range(2 * FACTS))
            ballast.unlink(missing_ok=True)
            later: list[str] = []
            _index_quietly(worker, later)
            after = ask(worker, notes, range(2 * FACTS))
        told = ((full[0], full[1] or "; ".join(said)), (after[0], after[1] or "; ".join(later)))
        return [verdict(answers, 2 * FACTS) for answers in told]


def _fill(ballast: Path) -> None:
    """A file that takes all but a few blocks."""
    with suppress(OSError), ballast.open("wb") as file:
        free = os.statvfs(ballast.parent)
        left = free.f_bavail * free.f_frsize - LEFT
        while left > 0:
            left -= file.write(b"\0" * min(left, 1 << 20))
