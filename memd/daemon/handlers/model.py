"""`model.try`: what another embedding model would find in the notes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from memd import exam
from memd.config.schema import EmbeddingSettings
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.errors import ModelUnavailable, UsageError
from memd.exam import Probe
from memd.indexer.model.embedder import Embedder, load_embedder
from memd.indexer.model.pooling import Vectors
from memd.indexer.store.stores import Stores
from memd.indexer.views import overview
from memd.protocol.methods.exam import ModelTryRequest

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
        passages = overview.exam_passages(stores.ledger.reader, index.id, index.workspace.ns)
        probes += [probe for probe in exam.make_probes(passages) if probe.kind == "paraphrase"]
        texts |= dict.fromkeys(passage.text for passage in passages)
        if len(probes) >= MOST_PROBES and len(texts) >= MOST_PASSAGES:
            break
    if not probes:
        raise UsageError("there are no notes yet that a probe could be made from", "memd note TEXT writes one")
    probes = probes[:MOST_PROBES]
    return probes, list(dict.fromkeys([*(probe.passage.text for probe in probes), *texts]))[:MOST_PASSAGES]


async def _tried(ctx: HandlerContext, embedder: Embedder, probes: Sequence[Probe], passages: Sequence[str]) -> Result:
    """How many probes find their passage among all, by the vectors of one model."""
    scale = await ctx.read(lambda: embedder.scale)
    notes, ms_note = await _embedded(ctx, embedder, passages)
    asked, ms_question = await _embedded(ctx, embedder, [probe.query for probe in probes], question=True)
    own = [passages.index(probe.passage.text) for probe in probes]
    cosines = asked @ notes.T
    # Passages that are as near come first: a model to which all are alike finds none.
    ranks = (cosines >= cosines[np.arange(len(own)), own][:, None]).sum(axis=1)
    found = {name: int((ranks <= most).sum()) for name, most in PLACES.items()}
    times = {"ms_note": ms_note, "ms_question": ms_question}
    return {"name": embedder.name, "dims": embedder.dims, **found, **times, "scale": asdict(scale)}


async def _embedded(
    ctx: HandlerContext, embedder: Embedder, texts: Sequence[str], question: bool = False
) -> tuple[Vectors, float]:
    """The vectors, in parts so that others are answered in between, and the milliseconds that each took."""
    started, parts = time.perf_counter(), []
    for at in range(0, len(texts), AT_ONCE):
        parts.append(await ctx.read(embedder.embed, texts[at : at + AT_ONCE], False, question))
        if ctx.answer.report:
            await ctx.answer.report("questions" if question else "notes", at, len(texts))
    return np.concatenate(parts), round((time.perf_counter() - started) * 1000 / len(texts), 2)
