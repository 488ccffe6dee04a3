"""The means of every handler: the running parts of the daemon, which workspaces are meant, a thread to read in."""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar, TypeVarTuple, cast

from memd.config.schema import Settings
from memd.daemon.embedding.thread import Embedding
from memd.daemon.jobs.built_in import ReflectionRunner, rules_of
from memd.daemon.jobs.scheduler import Scheduler
from memd.daemon.process.health import Health
from memd.daemon.readers.messages import ReaderGone
from memd.daemon.readers.pool import ReaderPool
from memd.daemon.serving.events import APPLIED, SAVED, UNLINKED, Events, Subscriptions
from memd.daemon.serving.mcp_sessions import McpSessions
from memd.daemon.serving.server import IncomingCall
from memd.daemon.watching.code_outlines import CodeOutlines
from memd.daemon.watching.watcher import Watcher
from memd.daemon.writer import tasks
from memd.daemon.writer.queue import IndexingJob, Turn
from memd.daemon.writer.worker import Worker
from memd.errors import LedgerMoved, StoreBroken, UnknownWorkspace, UsageError, in_shell
from memd.indexer.context.code_names import CodeNames
from memd.indexer.indexing.ingest import PLAIN, SETTLED, IndexingOptions, IngestReport
from memd.indexer.language.languages import foreign_language, signs_of
from memd.indexer.language.question import time_filter
from memd.indexer.query.meaning import is_foreign_to
from memd.indexer.store import catalog
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.stores import Indexes, ModelChanged
from memd.indexer.views import keys
from memd.lifecycle.rules import Rule
from memd.models import Filters, Workspace
from memd.protocol.methods.base import Asking, Filtered, InPath, OneWorkspace, Request, Scoped, Timed
from memd.protocol.methods.search import GetRequest

log = logging.getLogger("memd.handlers")

THREADS = 4
EXPRESSIONS = 2
"""Regular expressions that are looked for at a time: each may fill a core until its time is up."""
ALONE = 8
"""Questions that the daemon answers by itself before it starts readers, unless it is busy: a start is not slowed
down, and a daemon that is hardly asked takes no memory for them."""
MOST_REREADS = 1_000
AUTO_SYNC_SECONDS, OWN_SYNC_SECONDS = 0.5, 3.0
"""How long a question waits for changes; for what memd itself was told to write it waits longer."""
PROGRESS_SECONDS = 0.1
POLL_SECONDS = 0.02
MODEL_SECONDS = 20.0
"""A model loads in a second or two; a machine under load may take longer."""
LANGUAGE_SECONDS = 5.0
"""How long the first question in another language waits for its vectors, if no word of it is found."""
MOST_SIGNS = 3
"""Words of a question that are named as what made a workspace multilingual: small ones, which tell nothing."""


P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Result = dict[str, Any]
InWorkspace = Scoped | OneWorkspace
"""A request that says which workspaces it is about."""
HowFar = tuple[str, int, int] | None
"""The phase, how much of it is done, and how much there is to do; None while that is not known."""
ReportProgress = Callable[[str, int, int], Awaitable[None]]
"""Takes these three."""


@dataclass(slots=True)
class AnswerUnderWay:
    """The facts of an answer beside its result."""

    call: IncomingCall | None = None
    """The call that is being answered, if it is a write that can be repeated."""
    report: ReportProgress | None = None
    """A way to report progress, for callers that asked for it."""
    seq: int | None = None
    """The clock's count of the snapshot that it was read from; None while it was not read from one."""
    unheard: str = ""
    """Why it went without the meaning of the question."""
    unready: str = ""
    """Why it went without its meaning in another language."""
    partial: bool = False
    """Whether a text index lacked many chunks when it was asked; by the end of the answer it may be complete."""
    began: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class RunningConfig:
    """The settings and rules in force, and the lock that is held while the config file changes, so that two callers
    cannot add one directory twice."""

    settings: Settings
    rules: tuple[Rule, ...]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class HandlerContext:
    """The parts of the daemon, and the answer under way. The app starts and stops them; handlers and jobs use them."""

    def __init__(
        self, settings: Settings, stores: OwnStores, loop: asyncio.AbstractEventLoop, stop_soon: Callable[[], None]
    ) -> None:
        self.answer = AnswerUnderWay()
        self.stores = stores
        self.stop_soon = stop_soon
        self.health = Health()
        self.config = RunningConfig(settings, rules_of(settings.rules, self.health))
        self.events = Events(loop)
        self.subscriptions = Subscriptions(stores, loop)
        self.worker = Worker(stores, settings, self.health, self.events)
        self.max_bytes = self.worker.max_bytes
        """How large a file of notes may be."""
        self.watcher = Watcher(settings.watch, self.worker.mark_changed, self.rescan)
        self.embedding = Embedding(self.worker, settings.embedding, settings.vectors)
        self.scheduler = Scheduler(self.events, self.worker.guard.explain)
        self.access_log = tasks.AccessLog(self.worker)
        self.reflection = ReflectionRunner(self.worker, lambda: self.config.rules)
        self.outlines = CodeOutlines(settings.outline, stores)
        self.code_names = CodeNames()
        self.mcp = McpSessions()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.began = time.monotonic()
        self.expressions = asyncio.Semaphore(EXPRESSIONS)
        self._threads = ThreadPoolExecutor(THREADS, "memd-reading")
        self.readers = ReaderPool(stores, ThreadPoolExecutor(THREADS, "memd-for-readers"), settings.daemon.readers)
        self._questions = count(1)
        self._background: set[asyncio.Task[Any]] = set()
        self._rereads: deque[tuple[str, ...]] = deque(maxlen=MOST_REREADS)
        self._awaited: set[str] = set()
        """The workspaces whose vectors for other languages a question has waited for."""
        self.events.listen(SAVED, self.subscriptions.saved)
        self.events.listen(UNLINKED, partial(tasks.resolve_mentions_later, self.worker))
        self.events.listen(APPLIED, partial(self.mcp.applied, loop))

    def for_call(self, call: IncomingCall | None, report: ReportProgress | None = None) -> Self:
        """The same parts with an answer of its own; the call where that is a write that can be repeated."""
        own = copy(self)
        own.answer = AnswerUnderWay(call, report)
        return own

    @property
    def settings(self) -> Settings:
        return self.config.settings

    @property
    def took_ms(self) -> float:
        """How long the answer has taken so far."""
        return round((time.monotonic() - self.answer.began) * 1000, 2)

    def freshness(self, names: Sequence[str] = ()) -> Result:
        """The fields of every answer, how new it is and what is missing from it; of the workspaces that it is about."""
        ledger, seq = self.stores.ledger, self.answer.seq
        why = self.answer.unheard or self.answer.unready
        # What another workspace lacks is missing from no answer about these: `held:NAME`.
        places = ((what, what.partition(":")[2]) for what in self.health.names)
        troubles = {what for what, ns in places if not (ns and names) or ns in names}
        why = why if self.embedding.phase != "off" else ""
        lacking = [name for name, lacks in (("vectors", why), ("text", self.answer.partial)) if lacks]
        return {
            "clock": ledger.clock if seq is None else ledger.clock_at(seq),
            "lag_ms": self.worker.lag_ms,
            "pending": self._pending(names),
            "degraded": sorted({*troubles, *lacking}),
            # What is to be repaired is told by `status`.
            **({"unheard": why} if why and "vectors" not in troubles else {}),
        }

    def _pending(self, names: Sequence[str]) -> int:
        """The files and vectors that are still to be made; only those of some workspaces where they are not all."""
        indexes = self.stores.indexes
        asked = [indexes[ns] for ns in names if ns in indexes]
        if not asked or len(asked) == len(indexes):
            return self.worker.pending_files() + self.embedding.pending
        return self.worker.pending_files(names) + self.embedding.backlog.pending_of(index.id for index in asked)

    def missing_vectors(self, index: OwnIndex) -> int:
        """The chunks of a workspace that have no vector yet, counted in the ledger; none where there is no model."""
        if self.embedding.phase == "off":
            return 0
        chunks = catalog.chunk_count(self.stores.reader, index.id)
        # Counted only while something is to be made: it takes half a second in 100,000 chunks.
        foreign = self.stores.pending_foreign(index) if self.embedding.multilingual and self.embedding.pending else 0
        return max(0, chunks - self.stores.vector_count(index)) + foreign

    def rescan(self, ns: tuple[str, ...]) -> None:
        """Scan whole workspaces soon; many requests are one scan."""
        self.worker.submit_once(tasks.scan_workspaces, self.worker, ns, SETTLED)

    # --- which workspaces are meant ---------------------------------------------------------------------------

    def names(self, request: InWorkspace) -> tuple[str, ...]:
        """The workspaces a call is about: named, or the one that holds its path from `/`, or the one around `cwd`, or
        all."""
        indexes = self.stores.indexes
        if not indexes:
            raise UnknownWorkspace("no workspace has been added yet", "go to your notes and run: memd add .")
        if request.ns:
            return tuple(dict.fromkeys(self.stores.index(ns).workspace.ns for ns in request.ns))
        file = request.path if isinstance(request, InPath | GetRequest) and request.path.startswith("/") else ""
        if not (around := self.around(file, holding=True) or self.around(request.cwd)):
            return tuple(indexes)
        return (around, *(self.along(around) if isinstance(request, Asking) else ()))

    def around(self, directory: str, holding: bool = False) -> str:
        """The innermost workspace that holds a directory, else one that is its memory; empty for none.

        With `holding` only one that has it inside.
        """
        place = Path(directory)
        above = {place, *place.parents} if directory else set()
        known = [index.workspace for index in self.stores.indexes.values()]
        places = [(at, one) for one in known for at in ((one.root,) if holding else one.places)]
        found = [(at == one.root, len(at.parts), one.ns) for at, one in places if at in above]
        return max(found)[-1] if found else ""

    def along(self, ns: str, hooks: bool = False) -> tuple[str, ...]:
        """The workspaces that answer along with another one: those of projects in it, and those that are shared; of
        these only a few with `hooks`: what hooks may tell."""
        own = self.stores.index(ns).workspace

        def belongs(one: Workspace) -> bool:
            project = Path(one.project)
            inside = project in own.places or (not hooks and own.root in project.parents)
            return (bool(one.project) and inside) or (one.shared and (not hooks or ns in one.hooks_in))

        others = [index.workspace for index in self.stores.indexes.values() if index.workspace.ns != ns]
        return tuple(one.ns for one in others if belongs(one))

    def workspace_around(self, directory: str) -> str:
        """The workspace of an agent that works in a directory. Outside of every one it gets nothing, not even names:
        what a workspace holds is told only to those inside it."""
        if around := self.around(directory):
            return around
        named = "name one (memd workspaces lists them): memd connect AGENT --scope project -n NAME"
        hint = f"make it one: memd add {in_shell(directory) if directory else 'DIR'}; or {named}"
        raise UnknownWorkspace(f"{directory or 'this session'} is in no workspace", hint)

    def indexes(self, request: InWorkspace) -> list[OwnIndex]:
        """The indexes of the workspaces a call is about."""
        return [self.stores.index(ns) for ns in self.names(request)]

    def only_index(self, request: InWorkspace) -> OwnIndex:
        """The index of the one workspace that is meant."""
        names = self.names(request)
        if len(names) > 1:
            raise UsageError("which workspace is meant?", f"name it with -n: {', '.join(names)}")
        return self.stores.index(names[0])

    def spell_path(self, request: InWorkspace) -> None:
        """Have the path that a call looks in as the index spells it; one from `/` tells the workspace, too."""
        if isinstance(request, InPath) and (given := request.path):
            found = {keys.as_indexed(index, given): index.workspace.ns for index in self.indexes(request)}
            # Of a workspace in another one the inner one is meant.
            path = min(filter(None, found), key=len, default=given)
            request.path = path if path != "." else ""
            request.ns = (found[path],) if given.startswith("/") and path in found else request.ns

    async def current_indexes(self, request: InWorkspace, linked: bool = False) -> list[OwnIndex]:
        """The indexes, once they have the changes that were seen so far; `linked`: once edges follow from them."""
        indexes = self.indexes(request)
        await (self.link(indexes) if linked else self.catch_up())
        return indexes

    # --- reading and writing ------------------------------------------------------------------------------------

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that only reads, in one of a few threads that have a connection each."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs))

    async def read_elsewhere(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` in a reader process, which nothing holds up that the daemon does; here while there is none.

        The answer is of one snapshot of the ledger, and its clock is that snapshot's.
        """
        if next(self._questions) > ALONE or self.worker.importing or self.embedding.at_work:
            self.readers.start()
        try:
            result = await self.readers.run(work, args, kwargs)
            self.answer.seq, value = result.seq, cast(T, result.value)
        except (ReaderGone, StoreBroken, LedgerMoved, ModelChanged):
            # A text index may seem broken to a reader whose files the daemon has just replaced.
            self.answer.seq, value = await self.read(self.stores.in_snapshot, partial(work, *args, **kwargs))
        return value

    async def write(self, do: Callable[[*Ts], T | IndexingJob], *args: *Ts, turn: Turn = Turn.PLAIN) -> T:
        """Have the writer's thread call a function, and wait for the result."""
        self.answer.seq = None
        future: Future[T] | None = AwaitedWrite(self.answer.call) if self.answer.call else None
        return await asyncio.wrap_future(self.worker.submit(do, *args, turn=turn, future=future))

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Go on with something nobody waits for."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def reread_before(self, *cause: str) -> bool:
        """Whether a file was read again for the same cause before; the last thousand are remembered."""
        if not (before := cause in self._rereads):
            self._rereads.append(cause)
        return before

    # --- waiting ------------------------------------------------------------------------------------------------

    async def applied(self) -> None:
        """Wait until every change that was seen so far is in the index."""
        await asyncio.wrap_future(self.worker.applied())

    async def catch_up(self, sync: str = "auto", ns: tuple[str, ...] = ()) -> None:
        """Wait for changes that were seen already, but not for a long import; what memd wrote comes before that."""
        if sync == "full":
            await self.scan(ns)
        elif sync == "auto" and (self.worker.importing is None or self.worker.has_own):
            seconds = OWN_SYNC_SECONDS if self.worker.has_own else AUTO_SYNC_SECONDS
            await asyncio.wait([asyncio.wrap_future(self.worker.applied())], timeout=seconds)

    async def link(self, indexes: Sequence[OwnIndex]) -> None:
        """Catch up, and resolve the mentions in what was just saved before anyone is shown edges."""
        await self.catch_up()
        for index in indexes:
            if index.unlinked:
                await self.write(tasks.resolve_mentions, self.worker, index.workspace.ns)

    async def scan(
        self, ns: tuple[str, ...], options: IndexingOptions = PLAIN, report: ReportProgress | None = None
    ) -> IngestReport:
        """Compare every file with the ledger, and wait until what differs is indexed."""

        def progress() -> HowFar:
            job = self.worker.importing
            return ("text", job.done, job.total) if job is not None else None

        scanned = self.worker.submit(tasks.scan_workspaces, self.worker, ns, options)
        done = await wait_reporting(scanned, progress, report)
        if done.restless:
            # Somebody else indexed them meanwhile, perhaps an older text: they are being read once more.
            await self.applied()
        return done

    async def model_loaded(self, collections: bool = False) -> None:
        """Wait, for a while, until the model, or the collections too, are there or are known not to be."""
        self.embedding.hurry()
        until = time.monotonic() + MODEL_SECONDS
        while (self.embedding.opening if collections else self.embedding.warming) and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)

    async def meaning_ready(self, text: str, ns: tuple[str, ...]) -> bool:
        """Whether the notes can be compared with a question in its language; where they cannot, the answer says so.

        The first question in another language has all chunks of a workspace embedded by the model for that.
        """
        self.embedding.backlog.asked([self.stores.index(name).id for name in ns])
        language, self.answer.unready = foreign_language(text), ""
        if not self.embedding.multilingual or not (language or self.embedding.loads_multilingual):
            return True
        waiting = [index for name in ns if not (index := self.stores.index(name)).compares_languages]
        waiting = await self.read(self._foreign_to, waiting, text)
        if language and (new := tuple(index.workspace.ns for index in waiting if not index.multilingual)):
            signs = ", ".join(signs_of(text, language)[:MOST_SIGNS])
            why = f"{language}: a question of {date.today()}{f' ({signs})' if signs else ''}"
            await self.write(tasks.mark_multilingual, self.stores, new, why)
            await self.read(self.embedding.recount)
            self.embedding.hurry()
        lacking = bool(waiting) and await self.read(self._lacks_languages, waiting)
        self.answer.unready = "the model for other languages is still loading or at work" if lacking else ""
        return not lacking

    async def meaning_made(self, text: str, ns: tuple[str, ...]) -> bool:
        """Wait for what `meaning_ready` lacked: for a while, and once in each workspace. Whether it is there."""
        until = time.monotonic() + (0 if self._awaited.issuperset(ns) else LANGUAGE_SECONDS)
        self._awaited.update(ns)
        while not (ready := await self.meaning_ready(text, ns)) and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)
        return ready

    def _foreign_to(self, indexes: Sequence[OwnIndex], text: str) -> list[OwnIndex]:
        """The workspaces to which a question is in another language: what their English notes say is not foreign. To
        one in English, those with notes in another language."""
        if not foreign_language(text):
            return [index for index in indexes if catalog.first_foreign(self.stores.reader, index.id)]
        return [index for index in indexes if index.multilingual or is_foreign_to(self.stores, index, text)]

    def _lacks_languages(self, waiting: Sequence[OwnIndex]) -> bool:
        """Whether some workspaces still wait for their first vectors for other languages."""
        for index in waiting if self.stores.multilingual is not None else ():
            index.compares_languages = index.compares_languages or not self.stores.pending_foreign(index)
        return self.embedding.multilingual and not all(index.compares_languages for index in waiting)

    async def vectors_made(self) -> None:
        total = 0
        self.embedding.hurry()
        while not await self.read(self.embedding.caught_up):
            total = max(total, self.embedding.pending)
            if self.answer.report:
                await self.answer.report("vectors", total - self.embedding.pending, total)
            await asyncio.sleep(PROGRESS_SECONDS)


class AwaitedWrite(Future[T]):
    """The result of a task of a write, which is dropped if its client goes before the writer begins with it."""

    def __init__(self, call: IncomingCall) -> None:
        super().__init__()
        self._call = call

    def set_running_or_notify_cancel(self) -> bool:
        if not self._call.begun and self._call.abandoned:
            log.info("a write was dropped: its client had gone before it began")
            self.cancel()
        self._call.begun = super().set_running_or_notify_cancel()
        return self._call.begun


async def wait_reporting(future: Future[T], progress: Callable[[], HowFar], report: ReportProgress | None) -> T:
    """Wait for a result; meanwhile report how far it is, to a caller that wants to know."""
    waiting = asyncio.wrap_future(future)
    while report and not waiting.done():
        await asyncio.wait([waiting], timeout=PROGRESS_SECONDS)
        if state := progress():
            await report(*state)
    return await waiting


def filters_of(request: Filtered) -> Filters:
    """The filters of a call, with days in place of words such as "yesterday"."""
    return replace(request.filters, since=date_of(request, "since"), until=date_of(request, "until"))


AS_WRITTEN = re.compile(r"[\d:.+TZ -]*")
"""Dates in digits; of `as_of` also times."""


def date_of(request: Request, name: str, bound: str = "") -> str:
    """What was given as `since` or `until`: a date as it is, or the day that words such as "yesterday" mean; of another
    parameter, the day that such a `bound` would be."""
    value: str = getattr(request, name)
    if AS_WRITTEN.fullmatch(value):
        return value
    today = request.local_time().date() if isinstance(request, Timed) else date.today()
    if not (read := time_filter(bound or name, value, today)):
        hint = "for example 2026-02-15, 2026-02, yesterday, last week"
        raise UsageError(f"`{name}` must be a date, not {value!r}", hint)
    return str(getattr(read, bound or name))


def namespaces(indexes: Indexes) -> list[str]:
    return [index.workspace.ns for index in indexes]
