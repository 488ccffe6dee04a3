"""Chunks without a vector: counted, fetched in the order of need, computed where that suits, at a pace that suits; and
how far a change from one model to another is."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nsmallest
from pathlib import Path
from sqlite3 import Row
from typing import NamedTuple

from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model.embedder import Embedder, OnnxEmbedder
from memd.indexer.model.embedding_process import EmbeddingProcess
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import vector_table
from memd.indexer.store.own_stores import OwnStores
from memd.indexer.store.stores import ActiveModel

FADE = 0.9
FIRST = 4
"""Workspaces that come before the others: as many that were asked last, and as many that lack least."""
ASKED_SECONDS = 10.0
"""For so long after a question another one is likely."""
QUEUED, ORDER_SECONDS = 65_536, 10.0
"""Chunks whose order is read at once, by a look at all that have no vector; and how long it holds, whatever is new."""
ORDER_SHARE = 10
"""So many times as long as reading it took the order holds at least."""


class EmbeddingStep(NamedTuple):
    """One of the tasks that are left."""

    model: ActiveModel
    among: str
    """The chunks that are meant."""
    pending: int
    """How many may lack a vector of the model."""
    first: bool = False
    """Whether the beginning of each is enough for now."""


class VectorBacklog:
    """The chunks that want a vector of one of the models that are loaded."""

    def __init__(self, stores: OwnStores) -> None:
        self._stores = stores
        self._waiting: Counter[int] = Counter()
        """How many chunks of each workspace want a vector, as far as is known: every answer tells it."""
        self._counted = 0
        """The newest chunk when they were counted in the ledger."""
        self._lock = threading.Lock()
        self._asked: list[int] = []
        """The workspaces that were asked last, the very last first."""
        self._asked_at = -ASKED_SECONDS
        self._queues: dict[tuple[int, str, int], list[int]] = {}
        """The chunks that are next, by model, by which chunks are meant, and by how many workspaces have vectors for
        other languages; empty where none was left when they were read."""
        self._has_more, self._order_holds = False, 0.0
        """Whether more chunks came since their order was read, and until when that holds."""
        self._rate = 0.0
        self._moved = 0.0
        """When the last vectors were made, or were wanted where none were before."""
        self._embedded_up_to: dict[tuple[int, int], int] = {}
        """The number of a chunk up to which all have their vector, by model and by how many workspaces have vectors for
        other languages: only later chunks need be looked at."""

    @property
    def pending(self) -> int:
        with self._lock:
            return self._waiting.total()

    def pending_of(self, workspaces: Iterable[int]) -> int:
        with self._lock:
            return sum(self._waiting[workspace] for workspace in workspaces)

    def add(self, workspace: int, chunks: Iterable[int]) -> None:
        """Some chunks are new; they may have been counted before this is heard."""
        self._has_more = True
        with self._lock:
            self._want(self._waiting + Counter({workspace: sum(chunk > self._counted for chunk in chunks)}))

    def _want(self, waiting: Counter[int]) -> None:
        if not self._waiting:
            self._moved = time.monotonic()
        self._waiting = waiting

    def asked(self, workspaces: Sequence[int]) -> None:
        """Somebody asks these workspaces: what they lack is made first. A question to very many prefers none."""
        self._asked_at = time.monotonic()
        if len(workspaces) <= FIRST:
            self._asked = list(dict.fromkeys((*workspaces, *self._asked)))[:FIRST]

    @property
    def somebody_asks(self) -> bool:
        return time.monotonic() < self._asked_at + ASKED_SECONDS

    def steps(self) -> list[EmbeddingStep]:
        """The tasks, one after the other: first all that workspaces lack which somebody asks, then the rest."""
        asked = [workspace for workspace in self._asked if self._waiting[workspace]]
        of_asked = self._passes(self.pending_of(asked))
        there = f"c.workspace IN ({', '.join(map(str, asked))})"
        some = [step._replace(among=f"{step.among} AND {there}") for step in of_asked if asked]
        return [*some, *self._passes(self.pending)]

    def _passes(self, pending: int) -> list[EmbeddingStep]:
        """Of a backlog the beginning of each memory first, where the model is on this machine and is to answer."""
        model, whole = self._stores.model, [EmbeddingStep(*one, pending) for one in self.models()]
        if pending < BACKLOG or self._stores.former is not None or model is None:
            return whole
        first = EmbeddingStep(model, vector_table.FIRST_PASS.format(model.id), pending, True)
        return [first, *whole] if isinstance(model.embedder, OnnxEmbedder) else whole

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()
        # That there was nothing to do stays known until something is new.
        self._queues = {key: queue for key, queue in self._queues.items() if not queue}

    @property
    def rate(self) -> float | None:
        """Vectors a second, while some are made."""
        return round(self._rate, 1) if self.pending and self._rate else None

    @property
    def eta_s(self) -> float | None:
        """Seconds until the vectors have caught up, at the pace so far."""
        return round(self.pending / self.rate, 1) if self.rate else None

    def still_s(self, now: float) -> float:
        """For how many seconds no vector was made, though some are to be."""
        return now - self._moved if self.pending else 0.0

    def models(self) -> list[tuple[ActiveModel, str]]:
        """The models that are loaded, each with the chunks that are to have its vectors."""
        stores = self._stores
        # What is new is found by meaning during a change too, so the former model comes first.
        all_of = (stores.former, "1"), (stores.model, "1"), (stores.multilingual, vector_table.OF_OTHER_LANGUAGES)
        return [(model, among) for model, among in all_of if model is not None]

    def fetch(self, model: ActiveModel, among: str, most: int) -> list[Row]:
        """The most urgent chunks without a vector of this model."""
        if self._has_more:
            held = time.monotonic() < self._order_holds
            self._queues = {key: queue for key, queue in self._queues.items() if queue and held}
        key = model.id, among, self._multilingual_count
        while queue := self._queues[key] if key in self._queues else self._read(model, among):
            if rows := vector_table.unembedded(self._stores.reader, model.id, queue[:most], among):
                return rows
            del queue[:most]
            if not queue:
                del self._queues[key]
        return []

    def _read(self, model: ActiveModel, among: str) -> list[int]:
        """The order of some thousand chunks: small workspaces, then what stands for a memory, then the newest."""
        reader, languages, waiting = self._stores.reader, self._multilingual_count, self._waiting
        self._has_more, began = False, time.monotonic()
        newest, after = vector_table.newest(reader), self._embedded_up_to.get((model.id, languages), 0)
        small = [one for one in nsmallest(FIRST, waiting, key=waiting.__getitem__) if waiting[one] < BACKLOG]
        queue = vector_table.pending(reader, model.id, QUEUED, after, among, small)
        self._queues[model.id, among, languages] = queue
        self._order_holds = time.monotonic() + max(ORDER_SECONDS, ORDER_SHARE * (time.monotonic() - began))
        if not queue and (model, among) in self.models():
            self._embedded_up_to[model.id, languages] = newest
        return queue

    def look_at_all(self) -> None:
        """Forget what was embedded before: the next look is at every chunk."""
        self._queues.clear()
        self._embedded_up_to = {}

    def made(self, rows: Sequence[Row], seconds: float, stand_ins: int = 0) -> None:
        """Some chunks have their vector now; others have one that stands in for it."""
        pace = (len(rows) + stand_ins) / max(seconds, 1e-6)
        self._rate = pace if not self._rate else FADE * self._rate + (1 - FADE) * pace
        with self._lock:
            self._moved = time.monotonic()
            # Only what is left above nothing: the number may be behind.
            self._waiting = self._waiting - Counter(row["workspace"] for row in rows)

    def recount(self, source: str, wants_multilingual: bool) -> None:
        """Count in the ledger what is missing; where no model is loaded, what the one of this source has not made."""
        reader = self._stores.reader
        models = [(model.id, among) for model, among in self.models()]
        if not models:
            models.append((vector_table.known_model(reader, source), "1"))
        if wants_multilingual and self._stores.multilingual is None and vector_table.any_multilingual(reader):
            # It is needed and not loaded yet; it may have made them before.
            known = vector_table.known_model(reader, vector_table.MULTILINGUAL)
            models.append((known, vector_table.OF_OTHER_LANGUAGES))
        waiting: Counter[int] = Counter()
        with self._stores.ledger.snapshot():
            newest = vector_table.newest(reader)
            for number, among in models:
                after = self._embedded_up_to.get((number, self._multilingual_count), 0)
                waiting.update(vector_table.pending_counts(reader, number, after, among))
        with self._lock:
            self._want(waiting)
            self._counted = newest

    @property
    def _multilingual_count(self) -> int:
        return sum(index.multilingual for index in self._stores.indexes.values())


@dataclass(slots=True)
class ModelSwitch:
    """The model before answers questions until the vectors of the other one are complete."""

    before: str
    """The model that answers meanwhile; empty if none can."""
    to: str
    state: str = "loading"
    """loading, waiting (the other model cannot be had yet), building, done, cancelled."""
    done: int = 0
    total: int = 0
    """Vectors that were made, of those that were to be made when it began."""
    note: str = ""
    """The reason why it waits."""
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def under_way(self) -> bool:
        return self.state in ("loading", "waiting", "building")

    def build(self, name: str, missing: int) -> None:
        """The other model is there."""
        self.to, self.state, self.note, self.total = name, "building", "", missing

    def count(self, missing: int) -> None:
        self.total = max(self.total, missing)
        self.done, self.note = self.total - missing, ""

    def end(self, state: str) -> None:
        self.state, self.note = state, ""
        if state == "done":
            self.done = self.total


log = logging.getLogger("memd.embedding")

FETCH = 64
BATCH = 8
"""Larger batches gain nothing and cost memory."""
BACKLOG, BACKLOG_FETCH, BACKLOG_BATCH = 256, 128, 32
"""So many chunks without a vector are embedded in a process of their own; so many are fetched at a time, and so many
are kept at a time: what a busy machine makes in a minute or two is not to be lost."""
ALONE_SECONDS = 30.0
"""How long the daemon embeds by itself after that process failed."""


class VectorMaker:
    """Makes vectors of texts, in batches of the size that suits the place."""

    def __init__(self, model_folder: Path, is_interrupted: Callable[[], bool]) -> None:
        self._model_folder = model_folder
        self._is_interrupted = is_interrupted
        self._process: EmbeddingProcess | None = None
        """While there is a backlog."""
        self._alone_until = 0.0

    def prepare(self, settings: EmbeddingSettings | None, foreign: bool, pending: int) -> tuple[int, int]:
        """Start or end the process for a backlog, which needs settings; returns how many chunks to take on, and how
        many of them at a time."""
        if self._process is not None and (settings is None or self._process.foreign != foreign):
            self.end_process()
        is_backlog = pending >= BACKLOG and time.monotonic() >= self._alone_until
        if self._process is None and settings is not None and is_backlog:
            self._process = EmbeddingProcess(settings, self._model_folder, foreign)
        return (BACKLOG_FETCH, BACKLOG_BATCH) if self._process else (FETCH, BATCH)

    def make(self, embedder: Embedder, texts: list[str], leave_room: bool = False) -> Vectors:
        """One vector a text; ModelUnavailable where there is none to be had, or the work was interrupted."""
        if self._process is not None:
            try:
                self._process.leave_room(leave_room)
                return self._process.embed(texts)
            except ModelUnavailable as error:
                self.end_process()
                if self._is_interrupted():
                    raise
                log.warning("the daemon embeds by itself: %s", error)
                self._alone_until = time.monotonic() + ALONE_SECONDS
        return embedder.embed(texts)

    def interrupt(self) -> None:
        """Cut short what the process does, from another thread."""
        if process := self._process:
            process.process.kill()

    def end_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def batches(rows: list[Row], size: int) -> list[list[Row]]:
    """The rows in batches, each text once: equal ones get its vector with it."""
    different = list({row["digest"]: row for row in rows}.values())
    # Longest first pads least, and the whole lot is the newest that there is.
    different.sort(key=lambda row: -len(row["text"]))
    return [different[at : at + size] for at in range(0, len(different), size)]


# --- how much of the machine it takes ---------------------------------------------------------------------------

SUPPLIES = Path("/sys/class/power_supply")
ON_BATTERY = 0.5
"""The part of its usual share that it takes on battery."""
LONGEST_REST = 5.0


def on_battery(supplies: Path = SUPPLIES) -> bool:
    """Whether a battery of the machine itself is being used up; that of a mouse is none."""
    used_up = (one.parent for one in supplies.glob("*/status") if _told(one) == "Discharging")
    return any(_told(one / "type") == "Battery" and _told(one / "scope") != "Device" for one in used_up)


def _told(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def rest(seconds: float, share: float) -> float:
    """How long to rest after so many seconds of work, so that it takes its share of the time."""
    return min(LONGEST_REST, seconds * (1 / (share * (ON_BATTERY if on_battery() else 1.0)) - 1))
