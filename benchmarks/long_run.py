"""Whether memd stays as it is over a long life: a day of ten agents in some minutes, measured every minute.

python benchmarks/long_run.py [--minutes 120] [--agents 10] [--questions 1000] [--writes 200] [--out build/long-run]

One daemon with the real model; each agent has a workspace, and the last of them speaks MCP. A day of one agent is
`--questions` questions (half by words and meaning, a third by words, the others for something that it wrote), a
twentieth as many contexts and prompts with their hook, and `--writes` changes: notes and keyed memories through memd,
plain files, edits, renames, deletions, removals, and two memories forgotten for good. The jobs run as often as in a
day. What was written must be found at once and at the end, what is gone must not. In the last quarter descriptors and
threads may be as many as in the second one: by then everything is loaded that is loaded late. Memory grows with the
notes: it may be as much as that of a daemon which is then started on the same notes, for a quarter of a day.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import corpus
from figures import Figure, median, noise, percentile, table
from home import LONGEST_FILL, Home, workplace
from hooks import hook_command
from memory import draw
from store import say

from memd.errors import MemdError
from memd.protocol.client import Client

LETTERS = "bcdfghjklmnpqrstvwxz"
"""Markers are made of these: a word with digits would be searched in pieces."""
CHANGES = {"note": 28, "put": 12, "file": 20, "edit": 20, "rename": 5, "delete": 7, "remove": 7, "forget": 1}
"""How often each change comes among a hundred."""
WRITTEN = ("note", "put", "file", "edit")
QUESTIONS = {"ask_meaning": 50, "ask_words": 35, "ask_own": 15}
PER_QUESTION = {"context": 20, "prompt": 20}
"""One of these for so many questions."""
JOBS = {"link": 96, "reflect": 24, "decay": 1, "backup": 1, "selfexam": 1, "reconcile": 1, "compact": 1}
"""How often a job runs in a day; the last one once a week."""
MOST_GROWTH = 1.05
SLACK = {"descriptors": 24, "threads": 4}
"""What may be added beyond the share: the segments of a text index come and go, each with its open files."""
CALM_SECONDS = 60.0


class Wrong(Exception):
    """An answer that is not what the notes say."""


@dataclass(frozen=True)
class Row:
    """All processes of memd together, at one moment."""

    seconds: float
    pss_mb: float
    own_mb: float
    """Without pages of files: a library's count by how many other programs use it just now."""
    descriptors: int
    threads: int
    processes: int
    home_bytes: int
    notes_bytes: int
    cpu_seconds: float
    wakeups: int
    questions: int
    written: int


# --- the daemon, and what the kernel says about it --------------------------------------------------------------


class House(Home):
    """A home with a workspace for each agent; the MCP servers of the agents belong to memd's processes."""

    def __init__(self, place: Path, agents: int) -> None:
        super().__init__(place / "home")
        self.roots = [place / "notes" / f"agent-{nth}" for nth in range(agents)]
        self.bridges: list[int] = []
        self._switches: dict[tuple[int, str], int] = {}

    def fill(self, chunks: int) -> None:
        self.path.mkdir(parents=True)
        for nth, root in enumerate(self.roots):
            corpus.write(root, chunks, seed=nth + 1)
        (self.path / "config.toml").write_text("".join(f'[[workspace]]\npath = "{root}"\n\n' for root in self.roots))

    def processes(self) -> list[int]:
        return [*super().processes(), *self.bridges]

    def wakeups(self) -> int:
        """The voluntary context switches of all threads, with those of threads that have ended since the last look."""
        for pid in self.processes():
            for status in Path(f"/proc/{pid}/task").glob("*/status"):
                with suppress(OSError):
                    lines = status.read_text().splitlines()
                    line = next(line for line in lines if line.startswith("voluntary_ctxt_switches:"))
                    self._switches[pid, status.parent.name] = int(line.split()[1])
        return sum(self._switches.values())

    def count(self, folder: str) -> int:
        """The entries of /proc/PID/`folder` over all processes."""
        total = 0
        for pid in self.processes():
            with suppress(OSError):
                total += len(os.listdir(f"/proc/{pid}/{folder}"))
        return total

    def look(self, seconds: float, tally: Tally) -> Row:
        self._must_live()
        memory = self.memory_mb()
        return Row(
            round(seconds, 1), round(memory["Pss"], 1), round(memory["Pss_Anon"] + memory["Pss_Shmem"], 1),
            self.count("fd"), self.count("task"), len(self.processes()), size(self.path),
            sum(map(size, self.roots)), round(self.cpu_seconds(), 1), self.wakeups(),
            tally.count(*QUESTIONS), tally.count(*WRITTEN),
        )  # fmt: skip


def size(folder: Path) -> int:
    """The bytes on the disk of all files below it."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.lstat().st_blocks * 512
    return total


class Bridge:
    """An agent's session through `memd mcp`."""

    def __init__(self, house: House, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "mcp", "--profile", "all", "--no-start"],
            env=house.env, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        house.bridges.append(self.process.pid)
        self.calls = 0
        client = {"name": "long-run", "version": "1"}
        self._send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> str:
        answer = self._send("tools/call", {"name": tool, "arguments": arguments})
        said = str(answer["content"][0]["text"])
        if answer["isError"]:
            raise Wrong(f"{tool}: {said}")
        return said

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        self._write({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Wrong("the MCP server ended")
            message = json.loads(line)
            if message.get("id") == self.calls:
                if "error" in message:
                    raise Wrong(f"{method}: {message['error']}")
                return dict(message["result"])

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


# --- the agents -------------------------------------------------------------------------------------------------


class Tally:
    """What was done, how long it took, and what went wrong."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.took: list[tuple[str, float, float]] = []
        """Each call: its name, the second at which it began, its milliseconds."""
        self.faults: list[str] = []

    def add(self, name: str, started: float) -> None:
        self.took.append((name, started - self.began, (time.monotonic() - started) * 1000))

    def count(self, *names: str) -> int:
        return sum(name in names for name, _, _ in self.took)

    def fault(self, who: str, what: str) -> None:
        self.faults.append(f"{who}: {what}")
        say(f"WRONG  {who}: {what}")


@dataclass
class Note:
    """Something that an agent wrote: a word that nothing else has, and where it stands."""

    marker: str
    key: str = ""
    """Of a keyed memory."""
    file: Path | None = None
    """The file that an editor would save; neither: a section in the note of the day."""


class Paced(threading.Thread):
    """Does each thing of a plan at its time."""

    def __init__(self, name: str, tally: Tally, seconds: float, todo: list[str], rng: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.tally = tally
        self.rng = rng
        self.finished = False
        rng.shuffle(todo)
        self.plan = list(zip(sorted(rng.uniform(0, seconds) for _ in todo), todo, strict=True))

    def run(self) -> None:
        for at, what in self.plan:
            time.sleep(max(0.0, self.tally.began + at - time.monotonic()))
            try:
                self.do(what)
            except (MemdError, OSError, Wrong, subprocess.SubprocessError) as error:
                self.tally.fault(self.name, f"{what}: {type(error).__name__}: {error}")
        self.finished = True

    def do(self, what: str) -> None:
        raise NotImplementedError


class Jobs(Paced):
    """Runs memd's jobs as often as a day has them."""

    def __init__(self, house: House, tally: Tally, seconds: float) -> None:
        todo = [name for name, count in JOBS.items() for _ in range(count)]
        super().__init__("jobs", tally, seconds, todo, random.Random(0))
        self.client = house.client()

    def do(self, what: str) -> None:
        started = time.monotonic()
        job = self.client.call("job.run", {"name": what})["job"]
        if not job["ok"]:
            raise Wrong(job["result"])
        self.tally.add("job", started)


class Agent(Paced):
    """Asks and writes in a workspace of its own."""

    def __init__(self, house: House, nth: int, tally: Tally, options: argparse.Namespace, day: int) -> None:
        rng = random.Random(100 * day + nth)
        super().__init__(f"agent-{nth}", tally, options.minutes * 60, _day(rng, options), rng)
        self.house = house
        self.root = house.roots[nth]
        self.client = Client(house.socket, timeout=600, bind=self.name, who=self.name)
        self.bridge = Bridge(house, self.root) if nth == options.agents - 1 else None
        self.questions = iter(corpus.questions(2 * options.questions + 100, seed=1_000 * day + nth))
        self.writer = corpus.Writer(1)
        self.writer.rng = rng
        self.kept: list[Note] = []
        self.gone: list[str] = []

    def do(self, what: str) -> None:
        """Do it, or what has to come first: nothing can be removed before it was written."""
        if what in ("remove", "forget") and not any(note.key for note in self.kept):
            what = "put"
        elif what in ("edit", "rename", "delete") and not any(note.file for note in self.kept):
            what = "file"
        started = time.monotonic()
        getattr(self, what)()
        self.tally.add(what, started)

    # --- asking

    def ask(self, question: str, mode: str = "hybrid", sync: str = "auto") -> str:
        if self.bridge and mode == "hybrid":
            return self.bridge.call("memory_search", query=question)
        answer = self.client.query(question, mode=mode, sync=sync)
        return json.dumps([answer["hits"], answer["near"]])

    def ask_meaning(self) -> None:
        self.ask(next(self.questions))

    def ask_words(self) -> None:
        self.ask(next(self.questions), mode="text")

    def ask_own(self) -> None:
        if self.kept:
            self.must_find(self.rng.choice(self.kept).marker, mode="hybrid")
        else:
            self.ask_meaning()

    def context(self) -> None:
        task = next(self.questions)
        if self.bridge:
            self.bridge.call("memory_context", task=task, budget=800)
        else:
            self.client.context(task, budget=800)

    def prompt(self) -> None:
        spoken = {"session_id": self.name, "cwd": str(self.root), "prompt": f"Please look: {next(self.questions)}?"}
        subprocess.run(
            hook_command("user-prompt-submit"), input=json.dumps(spoken).encode(), env=self.house.env,
            capture_output=True, check=True, timeout=120,
        )  # fmt: skip

    def must_find(self, marker: str, mode: str = "text", sync: str = "auto") -> str:
        said = self.ask(marker, mode, sync)
        if marker not in said:
            raise Wrong(f"{marker} was written and is not found ({mode})")
        return said

    def must_miss(self, marker: str, sync: str = "auto") -> None:
        self.gone.append(marker)
        if marker in self.ask(marker, "text", sync):
            raise Wrong(f"{marker} is gone and is found")

    # --- changing through memd

    def word(self, length: int) -> str:
        return "".join(self.rng.choices(LETTERS, k=length))

    def sentence(self) -> tuple[str, str]:
        """A text that nothing else has, and the word that tells it."""
        marker = self.word(14)
        return marker, f"{self.writer.paragraph()} It is called {marker}. {self.writer.paragraph()}"

    def note(self) -> None:
        marker, text = self.sentence()
        if self.bridge:
            self.bridge.call("memory_save", content=text)
        else:
            self.client.note(text, title=f"About {marker[:4]}")
        self.kept.append(Note(marker))
        self.must_find(marker)

    def put(self) -> None:
        marker, text = self.sentence()
        key = "key-" + self.word(8)
        self._put(key, text)
        self.kept.append(Note(marker, key))
        self.must_find(marker)

    def _put(self, key: str, text: str) -> None:
        if self.bridge:
            self.bridge.call("ghost_put", key=key, content=text)
        else:
            self.client.put(key, text)

    def remove(self) -> None:
        self._remove(hard=False)

    def forget(self) -> None:
        self._remove(hard=True)

    def _remove(self, hard: bool) -> None:
        note = self._taken(lambda note: bool(note.key))
        if self.bridge and not hard:
            self.bridge.call("ghost_curate", key=note.key, op="delete")
        else:
            self.client.rm(note.key, hard=hard)
        self.must_miss(note.marker)

    # --- changing files, as an editor does

    def file(self) -> None:
        marker, text = self.sentence()
        file = self.root / "memory" / f"plain-{self.word(8)}.md"
        file.write_text(f"# Plain {marker[:4]}\n\n## First\n\n{text}\n\n## Second\n\nNothing more.\n")
        self.kept.append(Note(marker, file=file))
        self.must_find(marker, sync=self._seen())

    def edit(self) -> None:
        note = self._taken(lambda note: bool(note.file or note.key))
        marker, text = self.sentence()
        sync = "auto"
        if note.file:
            note.file.write_text(note.file.read_text().replace(note.marker, marker))
            sync = self._seen()
        else:
            self._put(note.key, text)
        self.kept.append(Note(marker, note.key, note.file))
        self.must_find(marker, sync=sync)
        self.must_miss(note.marker)

    def rename(self) -> None:
        note = self._taken(lambda note: note.file is not None)
        assert note.file is not None
        new = note.file.with_name(f"moved-{self.word(8)}.md")
        note.file.rename(new)
        self.kept.append(Note(note.marker, file=new))
        if new.name not in self.must_find(note.marker, sync=self._seen()):
            raise Wrong(f"{note.marker} is found in a file that was renamed")

    def delete(self) -> None:
        note = self._taken(lambda note: note.file is not None)
        assert note.file is not None
        note.file.unlink()
        self.must_miss(note.marker, sync=self._seen())

    def _seen(self) -> str:
        """Half of the time a `sync` has memd look at the files, half of the time the question does."""
        if self.rng.random() < 0.5:
            return "full"
        self.client.sync(ns=self.name)
        return "auto"

    def _taken(self, fits: Callable[[Note], bool]) -> Note:
        note = self.rng.choice([note for note in self.kept if fits(note)])
        self.kept.remove(note)
        return note

    # --- at the end

    def exam(self) -> int:
        """Ask for everything that was ever written; answers how many questions that took."""
        for note in self.kept:
            self._tell(lambda marker=note.marker: self.must_find(marker))
        gone, self.gone = self.gone, []
        for marker in gone:
            self._tell(lambda marker=marker: self.must_miss(marker))
        self.client.close()
        if self.bridge:
            self.bridge.close()
        return len(self.kept) + len(gone)

    def _tell(self, check: Callable[[], object]) -> None:
        try:
            check()
        except (MemdError, OSError, Wrong) as error:
            self.tally.fault(self.name, f"at the end: {error}")


def _day(rng: random.Random, options: argparse.Namespace) -> list[str]:
    """The things that one agent does in a day, in no order."""
    todo = rng.choices(list(QUESTIONS), list(QUESTIONS.values()), k=options.questions)
    todo += rng.choices(list(CHANGES), list(CHANGES.values()), k=options.writes)
    return todo + [name for name, every in PER_QUESTION.items() for _ in range(options.questions // every)]


# --- the measurement --------------------------------------------------------------------------------------------


def measure(house: House, options: argparse.Namespace) -> tuple[list[Row], Tally, list[Figure]]:
    """A day, and the first quarter of the next one with a daemon that has just been started."""
    rows, tally, asked = live(house, options, day=1)
    say("measuring a minute of rest")
    while not house.calm(3):
        pass
    rest = _rest(house, min(options.minutes * 60, CALM_SECONDS))
    say("the next morning, with a new daemon")
    house.stop()
    counts = {"questions": options.questions // 4, "writes": options.writes // 4}
    morning = argparse.Namespace(**{**vars(options), "minutes": options.minutes / 4, **counts})
    later, new_tally, _ = live(house, morning, day=2)
    tally.faults += new_tally.faults
    return rows, tally, [*_traffic(rows, tally, asked), *_growth(rows, later), *_disk(rows), *rest]


def live(house: House, options: argparse.Namespace, day: int) -> tuple[list[Row], Tally, int]:
    """Start the daemon and have the agents work; answers how many questions were asked again at the end, too."""
    seconds = options.minutes * 60
    client = house.start()
    say("waiting until everything is embedded")
    client.call("sync", {"vectors": True}, timeout=LONGEST_FILL)
    house.ready(client)
    tally = Tally()
    agents = [Agent(house, nth, tally, options, day) for nth in range(options.agents)]
    say(f"{options.agents} agents for {options.minutes:g} minutes; {noise()}")
    tally.began = time.monotonic()
    busy: list[Paced] = [*agents, Jobs(house, tally, seconds)]
    for thread in busy:
        thread.start()
    rows = watch(house, tally, busy, options)
    for thread in busy:
        if not thread.finished:
            tally.fault(thread.name, "ended before its day did; its traceback stands above")
    say(f"asking for everything again; {noise()}")
    asked = sum(agent.exam() for agent in agents)
    house.bridges.clear()
    return rows, tally, asked


def watch(house: House, tally: Tally, busy: list[Paced], options: argparse.Namespace) -> list[Row]:
    """A row every minute until the agents are done; short runs have 24 rows."""
    every = min(60.0, options.minutes * 60 / 24)
    rows = [house.look(0, tally)]
    print(
        "  minute  PSS MB  own MB descriptors threads processes home MB notes MB   CPU s    wake-ups questions  written"
    )
    while any(thread.is_alive() for thread in busy):
        time.sleep(max(0.0, tally.began + len(rows) * every - time.monotonic()))
        rows.append(house.look(time.monotonic() - tally.began, tally))
        print(_line(rows[-1]), flush=True)
        save(options.out, rows, tally, [])
    return rows


def _line(row: Row) -> str:
    return (
        f"{row.seconds / 60:8.1f} {row.pss_mb:7.1f} {row.own_mb:7.1f} {row.descriptors:11}"
        f" {row.threads:7} {row.processes:9} {row.home_bytes / 1e6:7.1f}"
        f" {row.notes_bytes / 1e6:8.1f} {row.cpu_seconds:7.1f} {row.wakeups:11,} {row.questions:9,} {row.written:8,}"
    )


def quarter(rows: list[Row], nth: int) -> list[Row]:
    """Those of the first (1) to the last (4) quarter of the time."""
    last = rows[-1].seconds
    return [row for row in rows[1:] if (nth - 1) * last / 4 < row.seconds <= nth * last / 4]


def middle(rows: list[Row], name: str, nth: int) -> float:
    return median([getattr(row, name) for row in quarter(rows, nth)])


def _growth(rows: list[Row], morning: list[Row]) -> list[Figure]:
    """The last quarter beside the second one; its memory beside that of a new daemon."""
    names = {"descriptors": "open descriptors", "threads": "threads"}
    new, notes = middle(morning, "own_mb", 4), [middle(some, "notes_bytes", 4) / 1e6 for some in (rows, morning)]
    return [
        Figure(
            "memory of all processes, without files, last quarter", middle(rows, "own_mb", 4), "MB",
            most=new * MOST_GROWTH,
            note=f"{middle(rows, 'own_mb', 2):g} in the second; {new:g} of a new daemon, with {notes[1]:.1f} MB of"
            f" notes instead of {notes[0]:.1f}",
        ),
        *(
            Figure(
                f"{title}, last quarter", middle(rows, name, 4), "",
                most=max(middle(rows, name, 2) * MOST_GROWTH, middle(rows, name, 2) + SLACK[name]),
                note=f"{middle(rows, name, 2):g} in the second; most {max(getattr(row, name) for row in rows):g}",
            )
            for name, title in names.items()
        ),
    ]  # fmt: skip


def _disk(rows: list[Row]) -> list[Figure]:
    figures = []
    for title, name in (("the home", "home_bytes"), ("the notes themselves", "notes_bytes")):
        for what, first in (("all of the run", rows[0]), ("its second half", rows[len(rows) // 2])):
            grown = getattr(rows[-1], name) - getattr(first, name)
            written = max(1, rows[-1].written - first.written)
            figures.append(
                Figure(f"{title} grows by, {what}", grown / written, "bytes a note", note=f"{grown / 1e6:.1f} MB")
            )
    return figures


def _traffic(rows: list[Row], tally: Tally, asked: int) -> list[Figure]:
    seconds = rows[-1].seconds
    return [
        Figure("wrong answers and errors", len(tally.faults), "", most=0),
        Figure("questions", rows[-1].questions, ""),
        Figure("contexts, hooks and jobs", tally.count(*PER_QUESTION, "job"), ""),
        Figure("changes", tally.count(*CHANGES), "", note=", ".join(f"{name} {tally.count(name)}" for name in CHANGES)),
        Figure("asked for again at the end", asked, ""),
        Figure("a core's share", rows[-1].cpu_seconds / seconds * 100 - rows[0].cpu_seconds / seconds * 100, "%"),
        Figure("wake-ups", (rows[-1].wakeups - rows[0].wakeups) / seconds, "a second"),
    ]


def _rest(house: House, seconds: float) -> list[Figure]:
    cpu, woken = house.cpu_seconds(), house.wakeups()
    time.sleep(seconds)
    return [
        Figure("at rest, a core's share", (house.cpu_seconds() - cpu) / seconds * 100, "%"),
        Figure("at rest, wake-ups", (house.wakeups() - woken) / seconds, "a second"),
        Figure("at rest, PSS of all processes", house.memory_mb()["Pss"], "MB"),
    ]


# --- the report -------------------------------------------------------------------------------------------------


def quarters(rows: list[Row], tally: Tally) -> str:
    """A table with a column for each quarter."""
    lines: list[tuple[str, list[float]]] = [
        (title, [middle(rows, name, nth) / scale for nth in range(1, 5)])
        for title, name, scale in (
            ("PSS of all processes, MB", "pss_mb", 1), ("without files, MB", "own_mb", 1),
            ("open descriptors", "descriptors", 1), ("threads", "threads", 1),
            ("processes", "processes", 1), ("home on the disk, MB", "home_bytes", 1e6),
            ("notes on the disk, MB", "notes_bytes", 1e6),
        )
    ]  # fmt: skip
    for title, name in (("CPU, ms a second", "cpu_seconds"), ("wake-ups a second", "wakeups")):
        scale = 1000 if name == "cpu_seconds" else 1
        steps = [
            (two, (getattr(two, name) - getattr(one, name)) / (two.seconds - one.seconds))
            for one, two in pairwise(rows)
        ]
        lines.append(
            (title, [median([v for row, v in steps if row in quarter(rows, nth)]) * scale for nth in range(1, 5)])
        )
    last = rows[-1].seconds
    for title, names in (("question", QUESTIONS), ("change and its question", CHANGES), ("hook", ("prompt",))):
        for share in (0.5, 0.95):
            parts = [
                [took for name, at, took in tally.took if name in names and (nth - 1) * last / 4 < at <= nth * last / 4]
                for nth in range(1, 5)
            ]
            lines.append((f"{title}, p{share * 100:g}, ms", [percentile(part, share) if part else 0 for part in parts]))
    head = f"{'median of each quarter':32}" + "".join(f"{name:>10}" for name in ("first", "second", "third", "last"))
    return "\n".join(
        [head, *(f"{title:32}" + "".join(f"{value:10,.1f}" for value in values) for title, values in lines)]
    )


def save(out: Path, rows: list[Row], tally: Tally, figures: list[Figure]) -> None:
    """The rows and the picture, as far as they are known."""
    out.mkdir(parents=True, exist_ok=True)
    told = {
        "rows": [asdict(row) for row in rows],
        "figures": [asdict(figure) for figure in figures],
        "faults": tally.faults,
    }
    (out / "long-run.json").write_text(json.dumps(told, indent=1) + "\n")
    late = rows[1:]
    rates = [(two.cpu_seconds - one.cpu_seconds) / (two.seconds - one.seconds) * 100 for one, two in pairwise(rows)]
    wakes = [(two.wakeups - one.wakeups) / (two.seconds - one.seconds) for one, two in pairwise(rows)]
    panels: dict[str, list[float]] = {
        "memory of all processes (PSS), MB": [row.pss_mb for row in late],
        "the same without files, MB": [row.own_mb for row in late],
        "open descriptors of all processes": [row.descriptors for row in late],
        "threads of all processes": [row.threads for row in late],
        "the home on the disk, MB": [row.home_bytes / 1e6 for row in late],
        "notes written": [row.written for row in late],
        "CPU, % of a core": rates,
        "wake-ups a second": wakes,
    }
    (out / "long-run.svg").write_text(draw([row.seconds / 60 for row in late], panels))


def main() -> int:
    options = _options()
    with workplace(options.keep) as place, House(place, options.agents) as house:
        say(f"writing {options.agents} workspaces of {options.chunks} chunks")
        house.fill(options.chunks)
        rows, tally, figures = measure(house, options)
    save(options.out, rows, tally, figures)
    print("\n" + quarters(rows, tally))
    title = f"A day of {options.agents} agents in {options.minutes:g} minutes"
    print("\n" + table(title, figures) + f"\n\nThe picture and the rows are in {options.out}.")
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120, help="how long the day takes (120)")
    parser.add_argument("--agents", type=int, default=10, help="how many there are; the last one speaks MCP (10)")
    parser.add_argument("--questions", type=int, default=1_000, help="of each agent (1000)")
    parser.add_argument("--writes", type=int, default=200, help="changes of each agent (200)")
    parser.add_argument("--chunks", type=int, default=100, help="size of each workspace at the beginning (100)")
    parser.add_argument("--out", type=Path, default=Path("build/long-run"), help="for the picture and the rows")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the home and the notes there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
