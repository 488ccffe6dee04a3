"""The reader processes: started when questions come, given work, replaced when they die or hang."""

import asyncio
import itertools
import logging
import os
import pickle
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memd.child import LENGTH, encode, start_child
from memd.daemon.readers.messages import CallResult, DaemonCall, ReadCall, ReaderGone, Ready, dump_work
from memd.errors import MemdError
from memd.indexer.model.pooling import Vectors
from memd.indexer.query.meaning import vector_of
from memd.indexer.store.followed import DaemonState, FollowedModel
from memd.indexer.store.ledger import translated
from memd.indexer.store.mirror import MirrorPlace
from memd.indexer.store.stores import ActiveModel, ModelChanged, Stores

log = logging.getLogger("memd.readers")

MOST_READERS = 4
"""Readers that are started without being asked for: each takes about forty megabytes."""

PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a reader that died is replaced; doubled each time until one lives for a minute."""

PATIENCE, LOOK_SECONDS = 3.0, 0.5
"""A reader whose call takes so long is asked for a sign of life, and killed without one."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Several readers use the cores better than the threads of one, which wait for each other in a loop."""


@dataclass(slots=True, eq=False)
class Reader:
    """A running reader process."""

    process: subprocess.Popen[bytes]
    writer: asyncio.StreamWriter
    state: DaemonState | None = None
    """The state that it was last told."""
    calls: dict[int, tuple[asyncio.Future[CallResult], float]] = field(default_factory=dict)
    """The calls under way, and when they began."""
    heard: float = 0.0
    """When its last message came."""
    asked: float | None = None
    """When it was asked for a sign of life."""

    def send(self, message: Any) -> None:
        self.writer.write(encode(message))

    def hangs(self, now: float) -> bool:
        """Whether it gave no sign of life; asks for one when a call takes long."""
        oldest = min((began for _, began in self.calls.values()), default=now)
        if now - oldest < PATIENCE:
            self.asked = None
        elif self.asked is None or self.heard > self.asked:
            self.asked = now
            self.send(Ready())
        return self.asked is not None and now - self.asked > PATIENCE


class ReaderPool:
    """As many readers as the settings say; every method is called on the loop."""

    def __init__(self, stores: Stores, threads: ThreadPoolExecutor, count: int) -> None:
        self._stores = stores
        self._threads = threads
        self._count = count if count >= 0 else min(MOST_READERS, os.cpu_count() or 1)
        self._at_first = count if count >= 0 else 1
        """How many are started together; the others when all are busy: one client asks one question at a time."""
        self._readers: list[Reader] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._numbers = itertools.count()
        self._last_state: tuple[Any, ...] = ()
        self._for_readers: dict[str, Callable[..., Any]] = {
            "embed": self._embed,
            "count_tokens": lambda model, text: self._model(model).embedder.count_tokens(text),
            "mirror": self._mirror,
        }
        """The functions that readers call, by name."""

    @property
    def pids(self) -> list[int]:
        return [reader.process.pid for reader in self._readers]

    def start(self) -> None:
        """Start the readers that are needed, unless they are there or on their way."""
        busy = len(self._readers) == len(self._keepers) and all(reader.calls for reader in self._readers)
        wanted = min(self._count, max(self._at_first, len(self._keepers) + busy))
        while len(self._keepers) < wanted:
            self._keepers.append(asyncio.create_task(self._keep()))

    async def stop(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def run(self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallResult:
        """Have a reader run a function; ReaderGone when there is none, or when it dies."""
        reader = min(self._readers, key=lambda reader: len(reader.calls), default=None)
        if reader is None:
            raise ReaderGone("there is no reader")
        self._tell_state(reader)
        number, result = next(self._numbers), asyncio.get_running_loop().create_future()
        reader.calls[number] = result, time.monotonic()
        try:
            reader.send(ReadCall(number, dump_work(work, args, kwargs)))
            answer: CallResult = await result
        finally:
            reader.calls.pop(number, None)
        if answer.error is not None:
            raise answer.error
        return answer

    def _tell_state(self, reader: Reader) -> None:
        """Tell a reader what changed since it was last told."""
        if (state := self._state()) is not reader.state:
            reader.state = state
            reader.send(state)

    def embed_ahead(self, text: str, names: Sequence[str]) -> None:
        """Begin with the vectors of a question, which a reader will ask for when it has looked up the words."""
        for model in (self._stores.serving, self._stores.multilingual):
            if self._readers and model is not None:
                self._threads.submit(self._begin_vector, model, text, names)

    def _begin_vector(self, model: ActiveModel, text: str, names: Sequence[str]) -> None:
        """The model for other languages is asked only for workspaces that have its vectors."""
        indexes = [index for index in self._stores.indexes.values() if index.workspace.ns in names]
        if model is not self._stores.multilingual or any(index.foreign for index in indexes):
            vector_of(self._stores, model, text)

    def _state(self) -> DaemonState:
        stores = self._stores
        parts = stores.indexes, stores.model, stores.former, stores.multilingual, stores.engine
        if not self._last_state or any(one is not other for one, other in zip(parts, self._last_state, strict=False)):
            indexes, model, former, foreign, engine = parts
            workspaces = tuple((index.id, index.workspace, index.remote) for index in indexes.values())
            models = _followed(model), _followed(former), _followed(foreign)
            address = engine.address if engine is not None else None
            self._last_state = *parts, DaemonState(workspaces, *models, address)
        state: DaemonState = self._last_state[-1]
        return state

    # --- one reader -------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Have one reader running, always."""
        pause = PAUSE
        while True:
            began = time.monotonic()
            await self._live()
            if time.monotonic() - began > LONGEST_PAUSE:
                pause = PAUSE
            log.warning("a reader ended and is started again in %.1f s", pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _live(self) -> None:
        """The life of one reader process."""
        device, inode = self._stores.ledger.file or (0, 0)
        arguments = str(self._stores.folder), str(device), str(inode)
        environment = {**os.environ, **ONE_THREAD}
        spawn = partial(start_child, "memd.daemon.readers.process", *arguments, environment=environment)
        process, connection = await asyncio.get_running_loop().run_in_executor(self._threads, spawn)
        incoming, writer = await asyncio.open_connection(sock=connection)
        reader = Reader(process, writer)
        watching = asyncio.create_task(self._watch(reader))
        try:
            await self._listen(reader, incoming)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            watching.cancel()
            self._end(reader)

    async def _listen(self, reader: Reader, incoming: asyncio.StreamReader) -> None:
        while True:
            (length,) = LENGTH.unpack(await incoming.readexactly(LENGTH.size))
            message = pickle.loads(await incoming.readexactly(length))
            reader.heard = time.monotonic()
            match message:
                case CallResult(number):
                    if number in reader.calls:
                        reader.calls[number][0].set_result(message)
                case DaemonCall():
                    self._threads.submit(self._answer, reader, message, asyncio.get_running_loop())
                case Ready():
                    if reader not in self._readers:
                        self._tell_state(reader)
                        self._readers.append(reader)

    async def _watch(self, reader: Reader) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if reader.hangs(time.monotonic()):
                log.error("a reader does not answer and is killed pid=%d", reader.process.pid)
                reader.process.kill()

    def _end(self, reader: Reader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        for result, _ in reader.calls.values():
            if not result.done():
                result.set_exception(ReaderGone("the reader ended"))
        reader.writer.close()
        reader.process.kill()
        reader.process.wait()

    # --- what a reader asks for -------------------------------------------------------------------------------

    def _answer(self, reader: Reader, call: DaemonCall, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with translated():
                result = CallResult(call.number, self._for_readers[call.name](*call.args))
        except MemdError as error:
            result = CallResult(call.number, error=error)
        except Exception as error:
            # A reader that hears nothing would wait for ever.
            log.exception("a reader asked for something that failed unexpectedly")
            result = CallResult(call.number, error=MemdError(f"the daemon could not answer a reader: {error!r}"))
        loop.call_soon_threadsafe(reader.send, result)

    def _model(self, number: int) -> ActiveModel:
        for model in self._stores.models:
            if model.id == number:
                return model
        raise ModelChanged("the model has changed")

    def _embed(self, model: int, texts: Sequence[str], question: bool) -> Vectors:
        if question:
            return vector_of(self._stores, self._model(model), texts[0])[None]
        return self._model(model).embedder.embed(texts, urgent=True)

    def _mirror(self, ns: str, model: int) -> MirrorPlace | None:
        mirror = self._stores.index(ns).local_mirror(self._model(model))
        return mirror.place if mirror is not None else None


def _followed(model: ActiveModel | None) -> FollowedModel | None:
    if model is None:
        return None
    embedder = model.embedder
    return FollowedModel(model.id, embedder.name, embedder.fingerprint, embedder.dims, embedder.scale)
