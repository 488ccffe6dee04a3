"""Exams: `eval`, the probes that are asked every night, and `model.try`: what another embedding model would find in the
notes. None of them counts as an access."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from operator import itemgetter
from pathlib import Path

import numpy as np

from memd import exam
from memd.config.schema import EmbeddingSettings
from memd.daemon.handlers import search, workspace_writer
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.writer.tasks import save_exam
from memd.errors import ModelUnavailable, NotFound, UsageError
from memd.exam import Probe
from memd.indexer.model.embedder import Embedder, load_embedder
from memd.indexer.model.pooling import Vectors
from memd.indexer.query import lookup
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import overview
from memd.models import Ask
from memd.protocol.methods.base import MAX_HITS
from memd.protocol.methods.exam import EvalRequest, ModelTryRequest

MAX_BYTES = 32_000_000
GENTLE_SECONDS = 0.03
"""The pause after each question that nobody waits for."""


@handles(EvalRequest)
async def evaluate(ctx: HandlerContext, request: EvalRequest, call: IncomingCall) -> Result:
    ns, mode = ctx.names(request), request.mode
    # The figures speak of the first ten hits.
    asking = Ask("", ns, max(exam.TURN_DEPTH, request.limit or MAX_HITS), mode)
    await ctx.catch_up()
    if mode in ("hybrid", "vector"):
        await ctx.model_loaded()
    if request.self_:
        return {"ns": list(ns), "mode": mode, **await _probed(ctx, asking)}
    if request.questions is not None:
        asked = exam.collect(enumerate(request.questions, 1))
    else:
        asked = exam.read_questions(await ctx.read(_read, workspace_writer.absolute_path(request.path)))
    return {"ns": list(ns), "mode": mode, **await _graded(ctx, asking, *asked)}


async def _graded(ctx: HandlerContext, asking: Ask, asked: list[exam.ExamQuestion], bad: list[Result]) -> Result:
    """The report on those questions whose answer can be there."""
    reasons = await ctx.read(lambda: [_impossible(ctx, asking, question) for question in asked])
    checked = list(zip(asked, reasons, strict=True))
    sound = [question for question, why in checked if not why]
    bad = bad + [{"line": question.line, "why": why} for question, why in checked if why]
    bad.sort(key=itemgetter("line"))
    if not sound:
        raise UsageError("the exam has no question that can be asked", _problem_hint(bad))
    answers = await _ask_all(ctx, [_ask(asking, question.text, question.ns) for question in sound])
    return {**exam.of_questions(sound, answers), "problems": bad}


def _problem_hint(problems: Sequence[Result]) -> str:
    if not problems:
        return 'a line looks like this: {"question": "…", "expect": "memory/2026-02-15.md:12"}'
    return "\n".join(f"line {problem['line']}: {problem['why']}" for problem in problems[:5])


def _impossible(ctx: HandlerContext, asking: Ask, question: exam.ExamQuestion) -> str:
    """Why no search could ever answer it: it names something that is not there."""
    stores = ctx.stores
    if question.ns and question.ns not in stores.indexes:
        return f"no workspace is called `{question.ns}`"
    indexes = [stores.index(ns) for ns in ((question.ns,) if question.ns else asking.ns)]
    for wanted in question.expected:
        if wanted.span is not None and not any(_has(index, wanted.span.path) for index in indexes):
            return f"`{wanted.span.path}` is not a memory file"
        if wanted.key and not any(lookup.memories(stores.reader, index.id, wanted.key) for index in indexes):
            return f"no memory has the key `{wanted.key}`"
    return ""


def _has(index: WorkspaceIndex, path: str) -> bool:
    return path.removeprefix(f"{index.workspace.root}/") in index.files


async def _probed(ctx: HandlerContext, asking: Ask, pause: float = 0.0) -> Result:
    """The report on probes made from the notes of these workspaces."""
    indexes = [ctx.stores.index(ns) for ns in asking.ns]
    all_probes = [probe for index in indexes for probe in await ctx.read(_probes, ctx.stores, index)]
    answers = await _ask_all(ctx, [_ask(asking, probe.query, probe.passage.ns) for probe in all_probes], pause)
    return {**exam.of_probes(all_probes, answers), "problems": []}


def _probes(stores: Stores, index: WorkspaceIndex) -> list[Probe]:
    return exam.make_probes(overview.exam_passages(stores.reader, index.id, index.workspace.ns))


def _ask(asking: Ask, query: str, ns: str) -> Ask:
    return Ask(query, (ns,) if ns else asking.ns, asking.limit, asking.mode)


async def _ask_all(ctx: HandlerContext, asks: Sequence[Ask], pause: float = 0.0) -> list[exam.AnsweredQuestion]:
    """Ask one after the other, as a client would; others are answered in between."""
    answers = []
    for nth, ask in enumerate(asks):
        started = time.perf_counter()
        answer = await search.search_elsewhere(ctx, ask)
        answers.append(exam.AnsweredQuestion(answer.hits, (time.perf_counter() - started) * 1000))
        if ctx.answer.report and nth % 20 == 0:
            await ctx.answer.report("questions", nth, len(asks))
        await asyncio.sleep(pause)
    return answers


def _read(file: Path) -> str:
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "how to write one: memd eval --help")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise UsageError(f"{file} is larger than {MAX_BYTES // 1_000_000} MB")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text", "an exam has one JSON object a line") from error


# --- every night ---------------------------------------------------------------------------------------------------


async def nightly_exam(ctx: HandlerContext, today: date) -> str:
    """Probe every workspace and keep the result; what happened, in a few words."""
    if ctx.worker.pending_files() or not await ctx.read(ctx.embedding.caught_up):
        return "put off: not everything is indexed yet"
    recalls = []
    for ns, index in list(ctx.stores.indexes.items()):
        result = await _probed(ctx, Ask("", (ns,), exam.TURN_DEPTH), GENTLE_SECONDS)
        if result["questions"]:
            await ctx.write(save_exam, ctx.worker, index, today.isoformat(), result)
            recalls.append(f"{ns} {result['figures']['recall@5']:.0%}")
    return f"found in the first 5: {', '.join(recalls)}" if recalls else "no notes to make probes from"


# --- another model -------------------------------------------------------------------------------------------------

MOST_PROBES, MOST_PASSAGES = 60, 500
"""Enough to see a difference of ten points, few enough for a minute."""
AT_ONCE = 32
PLACES = {"first": 1, "first_5": 5, "first_10": 10}
OLLAMA_PORT = ":11434"


@handles(ModelTryRequest)
async def try_model(ctx: HandlerContext, request: ModelTryRequest, call: IncomingCall) -> Result:
    await ctx.model_loaded()
    if (serving := ctx.stores.serving) is None:
        raise ModelUnavailable("no embedding model is in use that another one could be compared with", "memd status")
    probes, passages = await ctx.read(_chosen, ctx.stores)
    other = await ctx.read(load_embedder, _settings(ctx.settings.embedding, request), ctx.embedding.model_folder)
    try:
        tried = [await _tried(ctx, embedder, probes, passages) for embedder in (serving.embedder, other)]
    finally:
        if hasattr(other, "close"):
            other.close()
    return {"probes": len(probes), "passages": len(passages), "models": tried}


def _settings(known: EmbeddingSettings, request: ModelTryRequest) -> EmbeddingSettings:
    """The settings of the other model; nothing that belongs to the one in use, such as its key, goes to it."""
    plain = EmbeddingSettings(
        threads=known.threads, plain_http=known.plain_http, timeout_s=known.timeout_s,
        query_prefix=request.query_prefix, document_prefix=request.document_prefix,
    )  # fmt: skip
    if "://" not in request.place:
        return replace(plain, provider="onnx", path=request.place)
    server = replace(plain, url=request.place, model=request.name, key_file=request.key_file)
    return replace(server, provider="ollama" if OLLAMA_PORT in request.place else "openai")


def _chosen(stores: Stores) -> tuple[list[Probe], list[str]]:
    """Probes in other words than their passages, and the passages that they are looked for among, theirs first."""
    probes: list[Probe] = []
    texts: dict[str, None] = {}
    for index in stores.indexes.values():
        passages = overview.exam_passages(stores.reader, index.id, index.workspace.ns)
        probes += [probe for probe in exam.make_probes(passages) if probe.kind == "paraphrase"]
        texts |= dict.fromkeys(passage.text for passage in passages)
        if len(probes) >= MOST_PROBES and len(texts) >= MOST_PASSAGES:
            break
    if not probes:
        raise UsageError("there are no notes yet that a probe could be made from", "memd note TEXT writes one")
    probes = probes[:MOST_PROBES]
    return probes, list(dict.fromkeys([*(probe.passage.text for probe in probes), *texts]))[:MOST_PASSAGES]


async def _tried(ctx: HandlerContext, embedder: Embedder, probes: Sequence[Probe], passages: list[str]) -> Result:
    """How many probes find their passage among all, by the vectors of one model."""
    scale = await ctx.read(lambda: embedder.scale)
    notes, ms_note = await _embedded(ctx, embedder, passages, question=False)
    asked, ms_question = await _embedded(ctx, embedder, [probe.query for probe in probes], question=True)
    own = [passages.index(probe.passage.text) for probe in probes]
    cosines = asked @ notes.T
    # Passages that are as near come first: a model to which all are alike finds none.
    ranks = (cosines >= cosines[np.arange(len(own)), own][:, None]).sum(axis=1)
    found = {name: int((ranks <= most).sum()) for name, most in PLACES.items()}
    times = {"ms_note": ms_note, "ms_question": ms_question}
    return {"name": embedder.name, "dims": embedder.dims, **found, **times, "scale": asdict(scale)}


async def _embedded(ctx: HandlerContext, embedder: Embedder, texts: list[str], question: bool) -> tuple[Vectors, float]:
    """The vectors, in parts so that others are answered in between, and the milliseconds that each took."""
    started, parts = time.perf_counter(), []
    for at in range(0, len(texts), AT_ONCE):
        parts.append(await ctx.read(embedder.embed, texts[at : at + AT_ONCE], False, question))
        if ctx.answer.report:
            await ctx.answer.report("questions" if question else "notes", at, len(texts))
    return np.concatenate(parts), round((time.perf_counter() - started) * 1000 / len(texts), 2)
