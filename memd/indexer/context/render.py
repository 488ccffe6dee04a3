"""How memories are shown in a prompt: under their titles, with where they stand, as much of them as fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sqlite3 import Connection, Row

from memd.indexer.context.inputs import ContextInputs
from memd.indexer.language.words import only_terms, query_terms
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.stores import Stores
from memd.indexer.views.get import estimate_tokens
from memd.lifecycle.packing import PackedContext, PackedMemory, Packer
from memd.models import JsonObject
from memd.notes.entries import QUOTE_LEVEL, quoted


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """The result for the wire, and the numbers of the memories in it."""

    result: JsonObject
    memories: tuple[int, ...] = ()


def packer(inputs: ContextInputs, memories: Sequence[int], against: Mapping[int, Sequence[int]]) -> tuple[Packer, bool]:
    """A packer for these memories, and whether its tokens are only estimated."""
    count, estimated = token_counter(inputs.stores)
    terms = set(query_terms(inputs.task.ask.query))
    inputs.name({*memories, *(other for memory in memories for other in against.get(memory, ()))})

    def body(memory: int) -> str:
        text = quoted(_text(inputs.connection, inputs.rows[memory]))
        return f"{text}\n\n" if text else "\n"

    beginnings = [term[: max(3, len(term) - 2)] for term in terms]

    def worth(piece: str) -> float:
        # Most lines of a long memory have no word of the task, and that is quickly seen.
        lowered = piece.lower()
        if piece.isascii() and not any(beginning in lowered for beginning in beginnings):
            return 0.0
        return float(len(terms & _terms(piece)))

    return Packer(lambda memory, beside: _head(inputs, memory, beside), body, count, worth, against), estimated


@lru_cache(maxsize=5_000)
def _terms(piece: str) -> frozenset[str]:
    """Cached: every task looks at the same pinned lines."""
    return frozenset(only_terms(piece))


def _text(connection: Connection, row: Row) -> str:
    text = history.text_of(connection, row["digest"])
    if text is not None:
        return text
    chunks = [chunk for chunk, _ in lookup.siblings(connection, [row["id"]])]
    texts = lookup.texts(connection, chunks)
    return "\n\n".join(texts[chunk] for chunk in chunks)


def _head(inputs: ContextInputs, memory: int, beside: int | None) -> str:
    row = inputs.rows[memory]
    title = row["heading"] or json.loads(row["declared"]).get("title") or row["stem"]
    lines = f"{row['start_line']}-{row['end_line']}" if row["end_line"] > row["start_line"] else row["start_line"]
    place = f"{inputs.ns(memory)}:{row['path']}" if len(inputs.indexes) > 1 else row["path"]
    parts = [f"{place}:{lines}", row["date"], inputs.keys[memory]]
    if beside is not None:
        parts.append(f"contradicts {inputs.keys[beside]}")
    return f"{'#' * QUOTE_LEVEL} {_one_line(title)}\n{_one_line(' · '.join(part for part in parts if part))}\n\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def context(inputs: ContextInputs, bundle: PackedContext, facts: JsonObject) -> AssembledContext:
    text = "".join(one.text for one in bundle.packed).rstrip("\n")
    memories = [_memory(inputs, one) for one in bundle.packed]
    result = {"text": f"{text}\n" if text else "", "memories": memories, "tokens": bundle.tokens,
              "budget": inputs.task.budget, **facts}  # fmt: skip
    return AssembledContext(result, tuple(one.memory for one in bundle.packed))


def _memory(inputs: ContextInputs, one: PackedMemory) -> JsonObject:
    row = inputs.rows[one.memory]
    columns = {name: row[name] for name in ("path", "start_line", "end_line", "date", "tier", "kind")}
    memory = {"ns": inputs.ns(one.memory), "key": inputs.keys[one.memory], **columns, "phase": one.phase,
              "excerpt": one.excerpt, "tokens": one.tokens}  # fmt: skip
    return memory | ({"contradicts": inputs.keys[one.against]} if one.against is not None else {})


# --- tokens -------------------------------------------------------------------------------------------------

MOST_CACHED = 10_000
LONGEST_CACHED = 8_000
"""Characters of a text whose count is cached; longer ones are rarely counted twice."""

FOLLOWING = "."
"""Counted behind every text and subtracted again, so that the counts of pieces add up.

A whole text has marks around it that belong to no piece, and line ends at its very end are fewer tokens than inside.
"""


_counts: dict[tuple[str, str], int] = {}
"""Token counts by model and text: the same notes are packed for task after task."""


def token_counter(stores: Stores) -> tuple[Callable[[str], int], bool]:
    """What counts the tokens of a text with the model's tokenizer, and whether it only estimates."""
    model = stores.former or stores.model
    if model is None:
        return estimate_tokens, True
    embedder = model.embedder
    end = embedder.count_tokens(FOLLOWING)

    def count(text: str) -> int:
        known = _counts.get((embedder.fingerprint, text))
        if known is None:
            known = embedder.count_tokens(text + FOLLOWING) - end
            if len(_counts) >= MOST_CACHED:
                _counts.clear()
            if len(text) <= LONGEST_CACHED:
                _counts[embedder.fingerprint, text] = known
        return known

    return count, False
