"""The thread that makes vectors: newest notes first, at low priority, never in the way of a text query."""

from __future__ import annotations

import gc
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from sqlite3 import Row
from typing import TYPE_CHECKING, cast

import numpy as np

from memd.config.schema import SERVERS, EmbeddingSettings, VectorsSettings
from memd.daemon.embedding.backlog import FETCH, EmbeddingStep, ModelSwitch, VectorBacklog, VectorMaker, batches, rest
from memd.daemon.process.system import give_way
from memd.daemon.serving.events import UNEMBEDDED
from memd.daemon.writer import tasks
from memd.daemon.writer.queue import Turn
from memd.daemon.writer.worker import Worker
from memd.errors import DiskFull, LedgerDamaged, MemdError, ModelUnavailable
from memd.indexer.indexing import ingest
from memd.indexer.language.languages import foreign_language
from memd.indexer.lifecycle import similarity
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import Embedder, OnnxEmbedder, load_embedder
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.chroma_server import ChromaServer, chroma_place
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.store.stores import ActiveModel
from memd.indexer.store.vector_table import SentRows, embedded_text, mark_sent, sentence_pieces, stand_in
from memd.indexer.store.vectors import Collection, VectorStore
from memd.timespans import duration

if TYPE_CHECKING:
    from memd.indexer.model.embedding_server import ServerEmbedder

log = logging.getLogger("memd.embedding")

UNREAD = 500
"""Chunks whose language is looked at in one go, where memd had them before it did that."""
BEING_MADE = "the model changed and its vectors are being made"
UNCLEAR = "{0.name} tells questions and notes apart in {0.scale.told_apart:.0%} of comparisons: words alone decide"
UNCLEAR_FIX = "check embedding.pooling and the prefixes, or choose another model: memd model"
RETRY_SECONDS = 30.0
SERVER_SECONDS = 3.0
"""A server that is away may be back any time: how often it is asked, beside the rests that it is given."""
DISK_SECONDS = 2.0
LOG_SECONDS = 60.0
STILL_SECONDS = 60.0
"""After so long without a vector an answer says that none come, whatever the reason."""
OPEN_SECONDS = 10.0
"""A server that is to have the vectors of a new workspace may take so long before some are made here."""
HEAD_START = 0.5
"""Importing the model's runtime keeps the interpreter busy; the first text questions go before it."""

FIRST_TOKENS = 64
"""The beginning of a memory that gets a vector first."""
COMPARED_AT_ONCE = 256
"""Memories that are compared as soon as they have their vectors; what a large import leaves is for the job."""


class Embedding:
    """Loads the model and the collections, then embeds whatever has no vector yet."""

    def __init__(self, worker: Worker, settings: EmbeddingSettings, vectors: VectorsSettings | None = None) -> None:
        self.worker, self.stores, self.health = worker, worker.stores, worker.health
        self.settings, self.vectors = settings, vectors or VectorsSettings()
        self.phase = "off" if settings.provider == "none" else "loading"
        self.note = ""
        self.backlog = VectorBacklog(self.stores)
        self.multilingual = multilingual.is_wanted(settings)
        """Whether notes and questions in other languages get vectors of their own, with a model for them."""
        self.loads_multilingual = True
        """Whether that model is needed and not there yet; until the notes were looked at it may be."""
        self._opened: VectorsSettings | None = None
        """The settings of the place where the collections are."""
        self._swept = False
        self.model_folder = self.stores.folder / "model"
        self._maker = VectorMaker(self.model_folder, self._is_interrupted)
        self._loaded: Embedder | None = None
        """The model of the settings, once it could be loaded."""
        self._used: EmbeddingSettings | None = None
        """The settings of the model that makes vectors; another one's while that of the settings cannot be had."""
        self._next: EmbeddingSettings | None = None
        """The settings that are to be followed next."""
        self._try_at = 0.0
        """When a model that could not be loaded is tried again."""
        self.switch: ModelSwitch | None = None
        """The last change of models."""
        self._stuck = False
        self._logged = time.monotonic()
        """When the log last told how far it is."""
        self._busy = False
        """Whether vectors are being made, kept and compared."""
        self._work, self._again, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="memd-embedding", daemon=True)
        worker.events.listen(UNEMBEDDED, self.more)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        self.hurry()
        self._maker.interrupt()
        self._thread.join(seconds)

    def change(self, settings: EmbeddingSettings) -> None:
        """Follow other settings from now on. The model in use answers until the other one has made its vectors."""
        if settings == (self._next or self.settings):
            return
        self._next = settings
        if self.phase == "off":
            self.phase = "loading"
        if self.stores.former is not None and (server := _server(self._loaded)) is not None:
            # Nobody asks it yet, so nobody is cut short but this thread.
            server.close()
        self.hurry()

    def change_vectors(self, vectors: VectorsSettings) -> None:
        """Have the collections where other settings say; what only a server has is brought here first."""
        if vectors != self.vectors:
            self.vectors = vectors
            self.hurry()

    def more(self, workspace: int, chunks: Iterable[int]) -> None:
        """Some chunks want a vector."""
        if self.phase != "off":
            self.backlog.add(workspace, chunks)
            self._work.set()

    @property
    def pending(self) -> int:
        """How many chunks have no vector yet, as far as is known."""
        return self.backlog.pending

    @property
    def at_work(self) -> bool:
        """Whether vectors are being made, or will be in a moment."""
        return self.pending > 0 and self.phase != "failed"

    def _tell(self, cause: str, why: str = "", fix: str = "") -> bool:
        """Note what keeps questions from being heard by meaning, or with nothing its end; whether that is new."""
        return self.health.set("vectors", why, fix, cause) if why else self.health.clear("vectors", cause)

    def look(self, now: float) -> None:
        """Tell it when nothing comes, and when it comes again."""
        still = self.backlog.still_s(now) if self.at_work and not self._stuck else 0.0
        why = f"no vector was made for {still:.0f} s, and {self.pending:,} are to be made"
        self._tell("still", why if still > STILL_SECONDS else "", "a busy machine takes longer; memd logs tells more")

    def hurry(self) -> None:
        """Somebody waits: retry now what failed a moment ago."""
        self._stuck = False
        self._again.set()
        self._work.set()

    @property
    def warming(self) -> bool:
        """Whether the model is being loaded: a question by meaning can wait for it."""
        return self.phase == "loading"

    @property
    def opening(self) -> bool:
        """Whether the collections are still to be opened, which comes after the models."""
        return self.phase in ("loading", "ready") and self.stores.vectors is None

    def caught_up(self) -> bool:
        """Whether every chunk has its vector and questions find it, or waiting for that is useless."""
        if self._next is not None:
            return False
        if self.phase in ("off", "failed") or self._stuck:
            return True
        loading = self._used != self.settings and not self._try_at
        if loading or self.phase == "loading" or self.stores.vectors is None:
            return False
        if not self.pending:
            # It may be behind; while it is not, counting would take its time from making them.
            self.recount()
        # The ledger has vectors a moment before the mirror does.
        return self.pending == 0 and not self._busy

    # --- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        give_way()
        self._again.wait(HEAD_START)
        try:
            while not self._stopping.is_set():
                try:
                    self._step()
                except Exception as error:  # noqa: BLE001 - it is logged there
                    self._failed(self.worker.guard.explain(error))
        finally:
            self._maker.end_process()

    def _failed(self, error: Exception) -> None:
        if isinstance(error, ModelUnavailable):
            self._unavailable(error)
        elif isinstance(error, MemdError):
            if isinstance(error, DiskFull):
                self.health.set("disk", error.message, error.hint)
            else:
                log.error("%s", error)
            self._stuck = True
            self._pause(DISK_SECONDS)
        else:
            log.error("embedding goes on after an unexpected error", exc_info=error)
            self.phase, self.note = "failed", repr(error)
            self._tell("making", f"vectors cannot be made: {error!r}", "memd logs tells more; memd restart")
            self._pause(RETRY_SECONDS)

    def _pause(self, seconds: float) -> None:
        self._again.clear()
        if not self._stopping.is_set():
            self._again.wait(seconds)

    def _write(self, do: Callable[..., object], *args: object, turn: Turn = Turn.PLAIN) -> None:
        """Have the writer do something, and wait for it."""
        self.worker.submit(do, *args, turn=turn).result()

    def _step(self) -> None:
        if self._next is not None:
            self._take_settings(self._next)
        if self.settings.provider == "none":
            self._work.wait()
            self._work.clear()
            return
        self._leave_replaced()
        if self._used != self.settings and time.monotonic() >= self._try_at:
            self._load_wanted()
        self._load_multilingual()
        remote = any(index.remote for index in self.stores.indexes.values())
        # A server is kept until what only it has is here.
        place = replace(self.vectors, workspaces="", engine="server" if remote else self.vectors.engine)
        if place != self._opened:
            self._open_collections(place)
        self._move_vectors()
        more = self._embed_some()
        self._stuck = False
        if self.phase == "failed":
            # That step went well, so what failed before is over.
            self.phase, self.note = "ready", ""
            self._tell("making")
            self.recount()
        if not more:
            self._rest()

    def _rest(self) -> None:
        """Wait for work. A server in trouble is looked at meanwhile: nobody may ask for a long time."""
        server = self._serving_server
        if server is not None and server.trouble:
            self._work.wait(max(server.rest, SERVER_SECONDS))
            with suppress(ModelUnavailable):
                server.look()
        elif self._used != self.settings:
            self._work.wait(max(0.0, self._try_at - time.monotonic()))
        elif not self._work.wait(RETRY_SECONDS):
            # Nothing to do for a while: time to look at everything again.
            self.backlog.look_at_all()
        self._work.clear()

    # --- which model ------------------------------------------------------------------------------------------

    def _take_settings(self, settings: EmbeddingSettings) -> None:
        """Begin with other settings; what serves goes on until their model is there."""
        self._maker.end_process()
        self.settings, self._next, self._loaded, self._try_at = settings, None, None, 0.0
        self.multilingual = multilingual.is_wanted(settings)
        if settings.provider == "none":
            self._turn_off()
        elif (serving := self.stores.serving) is not None:
            self._begin_switch(serving.embedder.name, _named(settings))

    def _begin_switch(self, before: str, to: str) -> ModelSwitch:
        """The change of models that is under way, or a new one."""
        if self.switch is None or not self.switch.under_way:
            self.switch = ModelSwitch(before, to)
        return self.switch

    def _turn_off(self) -> None:
        self._write(self.stores.use_no_model)
        for trouble in ("making", "former", "server"):
            self._tell(trouble)
        if self.switch is not None and self.switch.under_way:
            self.switch.end("cancelled")
        self.phase, self.note, self._used = "off", "", None
        self.backlog.clear()

    def _load_wanted(self) -> None:
        """Load the model of the settings; if that fails, one that has vectors serves until it goes well."""
        try:
            self._load_model()
        except ModelUnavailable as error:
            if self.stores.model is None and not self._load_instead():
                self.recount()
                raise
            assert self.stores.serving is not None, "another model serves meanwhile"
            before = self.stores.serving.embedder.name
            if not self._try_at:
                log.warning("%s serves until the model of the settings can be had: %s", before, error)
            switch = self._begin_switch(before, _named(self.settings))
            switch.state, switch.note = "waiting", error.message
            self._try_at = time.monotonic() + (SERVER_SECONDS if self.settings.provider in SERVERS else RETRY_SECONDS)

    def _load(self, settings: EmbeddingSettings) -> Embedder:
        """A model; where a server runs it, health hears of its state before an answer goes out without it."""
        embedder = load_embedder(settings, self.model_folder)
        if (server := _server(embedder)) is not None:
            server.on_change = lambda trouble: self._tell_server()
        return embedder

    def _load_model(self) -> None:
        # Kept across tries: what fails below may be the ledger, and a model is a hundred megabytes.
        embedder = self._loaded = self._loaded or self._load(self.settings)
        self._use(embedder, self.settings)
        changing = self.stores.former is not None or self._load_former()
        self._note_switch(embedder, changing)
        self._tell("making")
        self._try_at, self.phase, self.note = 0.0, "ready", ""
        # What is loaded by now stays: no need to look through it again and again.
        gc.freeze()
        log.info("model ready name=%s dims=%d pending=%d", embedder.name, embedder.dims, self.pending)

    def _use(self, embedder: Embedder, settings: EmbeddingSettings) -> None:
        _ = embedder.scale  # measured before a question needs it
        self._maker.end_process()
        self._write(self.stores.use_model, embedder, settings.source)
        self._used, self._swept = settings, False
        self._tell_server()
        self.recount()

    def _leave_replaced(self) -> None:
        """Load a server's model anew if it has another one: its questions do not match the vectors that are there."""
        for model in self.stores.models:
            server = _server(model.embedder)
            if server is not None and (why := server.replaced()):
                log.warning("%s is another model now: %s", server.name, why)
                self._write(self.stores.use_no_model)
                server.close()
                self.phase, self._loaded, self._used, self._try_at = "loading", None, None, 0.0
                return

    def _note_switch(self, embedder: Embedder, changing: bool) -> None:
        """The change as `status` tells it: it goes on, or it was taken back, or there was none."""
        former, switch = self.stores.former, self.switch
        if changing:
            switch = self._begin_switch("", embedder.name)
            switch.before = former.embedder.name if former is not None else ""
            switch.build(embedder.name, self.pending)
        elif switch is not None and switch.under_way:
            taken_back = switch.before == embedder.name and switch.state != "loading"
            self.switch = switch if taken_back else None
            switch.end("cancelled")

    @property
    def _serving_server(self) -> ServerEmbedder | None:
        """The server that questions are sent to, if one runs the model that answers."""
        serving = self.stores.serving
        return _server(serving.embedder) if serving is not None else None

    def _tell_server(self) -> None:
        """Only the one that questions are sent to: another one that makes vectors holds up nobody."""
        server = self._serving_server
        hint = "memd goes on by itself when it is back; text search goes on meanwhile"
        self._tell("server", server.trouble if server is not None else "", hint)
        serving = self.stores.serving
        if serving is None or serving.embedder.scale.holds:
            self.health.clear("verdicts")
        else:
            self.health.set("verdicts", UNCLEAR.format(serving.embedder), UNCLEAR_FIX)

    def _load_instead(self) -> bool:
        """Use another model that the ledger has vectors of; says whether there is one."""
        rows = vector_table.models_with_vectors(self.stores.reader)
        row = next((row for row in rows if row["source"] != self.settings.source), None)
        if row is None or (embedder := self._load_known(row)) is None:
            return False
        self._use(embedder, self.settings.with_source(row["source"]))
        self.phase, self.note = "ready", ""
        return True

    def _load_known(self, row: Row) -> Embedder | None:
        """A model that the ledger knows, if it is still the same."""
        try:
            embedder = self._load(self.settings.with_source(row["source"]))
            self._write(self.stores.ledger.transact, vector_table.recognise, embedder)
            if embedder.fingerprint != row["fingerprint"]:
                return None
            _ = embedder.scale
            return embedder
        except ModelUnavailable as error:
            log.warning("the former model cannot be loaded: %s", error)
            return None

    def _load_multilingual(self) -> None:
        """Load the model for other languages as soon as a note or a question needs it."""
        if not self.multilingual or self.stores.multilingual is not None:
            return
        while unread := catalog.unread_chunks(self.stores.reader, UNREAD):
            languages = [(foreign_language(text), number) for number, text in unread]
            self._write(self.stores.ledger.transact, catalog.save_languages, languages, turn=Turn.BACKGROUND)
        self.loads_multilingual = vector_table.any_multilingual(self.stores.reader)
        if not self.loads_multilingual:
            return
        try:
            embedder = multilingual.load(self.model_folder)
        except ModelUnavailable as error:
            self.multilingual = False
            self.health.set("languages", error.message, error.hint or "memd doctor")
            return
        self._write(self.stores.use_multilingual, embedder)
        self.loads_multilingual = False
        self.recount()
        log.info("model ready name=%s dims=%d pending=%d", embedder.name, embedder.dims, self.pending)

    def _load_former(self) -> bool:
        """After a change of model the old vectors serve, with the model that made them, until the new are ready.

        Says whether there was a change, also where that model cannot be had any more.
        """
        rows = vector_table.models_with_vectors(self.stores.reader) if self.pending else []
        row = next((row for row in rows if self.stores.model is not None and row["id"] != self.stores.model.id), None)
        if row is None:
            return False
        log.info("the model changed from %s; %d chunks are embedded anew", row["name"], self.pending)
        if (former := self._load_known(row)) is not None:
            self._write(self.stores.use_former, row["id"], former)
        else:
            self._tell("former", BEING_MADE, "wait: memd status shows when")
        return True

    def _unavailable(self, error: ModelUnavailable) -> None:
        if self._is_interrupted():
            return
        if self.switch is not None and self.stores.former is not None:
            # The model before answers everything; only the change has to wait.
            self._stuck, self.switch.note = True, error.message
        else:
            self.phase, self.note = "failed", error.message
            if self._tell("making", error.message, error.hint or "memd doctor"):
                log.error("text search goes on without vectors: %s", error)
        self._pause(SERVER_SECONDS if self.settings.provider in SERVERS else RETRY_SECONDS)

    def _open_collections(self, settings: VectorsSettings) -> None:
        """Have the collections follow the ledger. Chroma is started when there is something for it to do."""
        if self.stores.vectors is not None:
            self.stores.vectors.close()
        place = chroma_place(settings, self.stores.folder, self.stores.ledger.id)
        self.stores.engine = place if isinstance(place, ChromaServer) else None
        vectors = VectorStore(self.stores.ledger, place)
        vectors.on_sent = self._mark_sent
        vectors.on_trouble = self._collections_failed
        self._write(self.stores.use_vectors, vectors)
        self._opened = settings
        if not self.pending:
            self._caught_up()

    def _mark_sent(self, sent: SentRows) -> Future[None]:
        marked = self.worker.submit(self.stores.ledger.transact, mark_sent, sent, turn=Turn.BACKGROUND)
        marked.add_done_callback(lambda _: self._make_again() if sent.lost else None)
        return marked

    def _make_again(self) -> None:
        """Vectors that only a server had are gone."""
        self.backlog.look_at_all()
        self.recount()
        self._work.set()

    def _move_vectors(self) -> None:
        """Let go of vectors that the server is to have alone, once it has them; bring back what it is not to have."""
        for index in list(self.stores.indexes.values()):
            wanted, vectors = self.vectors.has_alone(index.workspace.ns), self.stores.vectors
            if wanted is index.remote or vectors is None or index.collection is None or self.stores.former is not None:
                continue
            in_step = vectors.in_step and not vectors.trouble
            if not wanted:
                self._bring_back(index, index.collection)
            elif in_step or (index.collection.is_new and vectors.wait_in_step(OPEN_SECONDS)):
                self._write(self.stores.move_vectors, index, True)
                for digests in index.collection.pages():
                    self._mark_sent(SentRows(0, index.collection.model, digests)).result()
                log.info("the Chroma server has the vectors of %s", index.workspace.ns)

    def _bring_back(self, index: OwnIndex, collection: Collection) -> None:
        stores, lost = self.stores, list[str]()
        assert stores.engine is not None, "it is kept until all of it is here"
        for digests in collection.pages():
            emptied = vector_table.emptied(stores.reader, collection.model, digests)
            found = list(stores.engine.vectors(collection.name, emptied))
            self._write(stores.ledger.transact, vector_table.bring_back, collection.model, found, turn=Turn.BACKGROUND)
            lost += set(emptied) - {digest for digest, _ in found}
        self._write(stores.move_vectors, index, False)
        self._mark_sent(SentRows(0, collection.model, (), tuple(lost)))
        log.info("the vectors of %s are here again", index.workspace.ns)

    def _collections_failed(self, error: MemdError | None) -> None:
        """The collections stay behind for a while, or they are back when there is nothing to say."""
        if isinstance(error, LedgerDamaged):
            self.worker.guard.explain(error)
        elif error is not None:
            alone = any(index.remote for index in self.stores.indexes.values())
            hint = "memd goes on by itself; memd doctor tells more"
            self.health.set("vectors" if alone else "collections", error.message, hint, "engine" if alone else "")
        else:
            self.health.clear("collections")
            self._tell("engine")

    def _caught_up(self) -> None:
        """Every chunk has its vector: those of a former model can go."""
        if self._used != self.settings:
            # What was begun for the model of the settings is not lost.
            return
        if self.stores.former is not None or self._tell("former") or not self._swept:
            self._write(tasks.forget_old_models, self.stores)
            self._swept = True
        if self.stores.multilingual is not None and not self.multilingual:
            self._write(self.stores.drop_multilingual)
        if self.switch is not None and self.switch.under_way:
            self.switch.end("done")
            log.info("the change of models from %s to %s is done", self.switch.before, self.switch.to)
        self._tell_server()

    def _embed_some(self) -> bool:
        """Embed the most urgent chunks; False when there are none. Other languages come last."""
        for step in self.backlog.steps():
            try:
                if self._embed_with(step):
                    return True
            except ModelUnavailable as error:
                if step.model is not self.stores.former:
                    raise
                log.warning("the former model no longer serves: %s", error)
                self._tell("former", BEING_MADE, "wait: memd status shows when")
                self._write(self.stores.drop_former)
        self._maker.end_process()
        self.backlog.clear()
        self._caught_up()
        return False

    def _embed_with(self, step: EmbeddingStep) -> bool:
        model, among, pending, first = step
        server, former = _server(model.embedder), self.stores.former
        # A server computes elsewhere, so that nothing here is in the way; a former model makes what is new only.
        settings = self._used if server is None and model is not former else None
        most, at_once = self._maker.prepare(settings, model is self.stores.multilingual, pending)
        if server is not None:
            most, at_once = max(most, server.at_once), server.at_once
        if not (rows := self.backlog.fetch(model, among, most)):
            return False
        self._busy = True
        try:
            for batch in batches(rows, at_once):
                if self._is_interrupted():
                    return True
                self._embed(model, batch, first)
            if len(rows) < FETCH:
                # Equal texts had their vectors made with one of them; and what was urgent may not be all there is.
                self.recount()
            if not self.pending:
                self._maker.end_process()
                self._link_similar()
        finally:
            self._busy = False
        return True

    def _embed(self, model: ActiveModel, rows: list[Row], first: bool = False) -> None:
        """Make and keep the vectors of a batch, or of the beginnings of its texts, and rest."""
        began = time.monotonic()
        # Each text, in other languages with its pieces after it.
        groups = [[embedded_text(json.loads(row["heading"]), row["context"], row["text"])] for row in rows]
        if model is self.stores.multilingual:
            groups = [[*group, *sentence_pieces(row["text"])] for group, row in zip(groups, rows, strict=True)]
        texts = whole = [text for group in groups for text in group]
        if first:
            beginning = cast(OnnxEmbedder, model.embedder).beginning
            texts = [beginning(text, FIRST_TOKENS) for text in whole]
        vectors = self._maker.make(model.embedder, texts, self.backlog.somebody_asks)
        made = np.split(vectors, np.cumsum([len(group) for group in groups])[:-1])
        if first:
            made = [stand_in(one) if texts[nth] != whole[nth] else one for nth, one in enumerate(made)]
        self._write(ingest.save_vectors, self.stores, model, rows, made, turn=Turn.BACKGROUND)
        self.health.clear("disk")
        self._stopping.wait(rest(time.monotonic() - began, self.settings.share))
        done = [row for row, vector in zip(rows, made, strict=True) if vector.size % model.embedder.dims == 0]
        self.backlog.made(done, time.monotonic() - began, len(rows) - len(done))
        if not self.pending:
            self.recount()
        elif time.monotonic() > self._logged + LOG_SECONDS:
            self._logged = time.monotonic()
            left = self.backlog.eta_s or 0.0
            log.info("%d vectors to make, %s a second, about %s left", self.pending, self.backlog.rate, duration(left))
        if self.switch is not None and self.switch.state == "building" and model is self.stores.model:
            self.switch.count(self.pending)

    def _link_similar(self) -> None:
        """The vectors have caught up: compare the memories that are new."""
        for index in similarity.workspaces_to_compare(self.stores):
            for part in similarity.compare(self.stores, index, COMPARED_AT_ONCE).parts():
                compared = index.id, part, datetime.now(UTC)
                self._write(self.stores.ledger.transact, similarity.save, *compared, turn=Turn.BACKGROUND)

    def recount(self) -> None:
        """Count in the ledger what has no vector: `pending` is a running number that may be a moment behind."""
        self.backlog.recount(self.settings.source, self.multilingual)

    def _is_interrupted(self) -> bool:
        return self._stopping.is_set() or self._next is not None


def _server(embedder: Embedder | None) -> ServerEmbedder | None:
    """The same where a server runs the model; its class is not loaded for others."""
    return cast("ServerEmbedder", embedder) if hasattr(embedder, "on_change") else None


def _named(settings: EmbeddingSettings) -> str:
    """The facts of a model before it is loaded."""
    return f"{settings.model} ({settings.provider})" if settings.model else settings.provider
