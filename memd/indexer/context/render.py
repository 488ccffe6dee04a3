"""How memories are shown in a prompt: under their titles, with where they stand, as much of them as fits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.context.inputs import ContextInputs
from memd.indexer.language.words import only_terms, query_terms
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.views import tokens
from memd.lifecycle.packing import PackedContext, PackedMemory, Packer
from memd.notes.entries import QUOTE_LEVEL, quoted


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """What was assembled; `told` is what the wire says, `memories` are the numbers of what is in it."""

    told: dict[str, Any]
    memories: tuple[int, ...] = ()


def packer(inputs: ContextInputs, memories: Sequence[int], against: Mapping[int, Sequence[int]]) -> tuple[Packer, bool]:
    count, estimated = tokens.counter(inputs.stores)
    sought = set(query_terms(inputs.wanted.ask.query))
    _name(inputs, {*memories, *(other for memory in memories for other in against.get(memory, ()))})

    def body(memory: int) -> str:
        text = quoted(_text(inputs.connection, inputs.rows[memory]))
        return f"{text}\n\n" if text else "\n"

    beginnings = [term[: max(3, len(term) - 2)] for term in sought]

    def worth(piece: str) -> float:
        # Most lines of a long memory have no word of the task, and that is quickly seen.
        lowered = piece.lower()
        if piece.isascii() and not any(beginning in lowered for beginning in beginnings):
            return 0.0
        return float(len(sought & _terms(piece)))

    return Packer(lambda memory, beside: _head(inputs, memory, beside), body, count, worth, against), estimated


@lru_cache(maxsize=5_000)
def _terms(piece: str) -> frozenset[str]:
    """Kept, since the same pinned lines are looked at for every task."""
    return frozenset(only_terms(piece))


def _name(inputs: ContextInputs, memories: Iterable[int]) -> None:
    """Find out which keys need the whole path."""
    stems: dict[int, set[str]] = {}
    for memory in memories:
        row = inputs.rows[memory]
        stems.setdefault(row["workspace"], set()).add(row["stem"])
    inputs.shared = {number: lookup.shared_stems(inputs.connection, number, names) for number, names in stems.items()}


def _text(connection: Connection, row: Row) -> str:
    kept = history.text_of(connection, row["digest"])
    if kept is not None:
        return kept
    chunks = [chunk for chunk, _ in lookup.siblings(connection, [row["id"]])]
    texts = lookup.texts(connection, chunks)
    return "\n\n".join(texts[chunk] for chunk in chunks)


def _head(inputs: ContextInputs, memory: int, beside: int | None) -> str:
    row = inputs.rows[memory]
    title = row["heading"] or json.loads(row["declared"]).get("title") or row["stem"]
    lines = f"{row['start_line']}-{row['end_line']}" if row["end_line"] > row["start_line"] else row["start_line"]
    place = f"{inputs.ns(memory)}:{row['path']}" if len(inputs.indexes) > 1 else row["path"]
    parts = [f"{place}:{lines}", row["date"], inputs.key(memory)]
    if beside is not None:
        parts.append(f"contradicts {inputs.key(beside)}")
    return f"{'#' * QUOTE_LEVEL} {_one_line(title)}\n{_one_line(' · '.join(part for part in parts if part))}\n\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def context(inputs: ContextInputs, bundle: PackedContext, told: dict[str, Any]) -> AssembledContext:
    text = "".join(one.text for one in bundle.packed).rstrip("\n")
    memories = [_memory(inputs, one) for one in bundle.packed]
    whole = {"text": f"{text}\n" if text else "", "memories": memories, "tokens": bundle.tokens,
             "budget": inputs.wanted.budget, **told}  # fmt: skip
    return AssembledContext(whole, tuple(one.memory for one in bundle.packed))


def _memory(inputs: ContextInputs, one: PackedMemory) -> dict[str, Any]:
    row = inputs.rows[one.memory]
    plain = {name: row[name] for name in ("path", "start_line", "end_line", "date", "tier", "kind")}
    told = {"ns": inputs.ns(one.memory), "key": inputs.key(one.memory), **plain, "phase": one.phase,
            "excerpt": one.excerpt, "tokens": one.tokens}  # fmt: skip
    return told | ({"contradicts": inputs.key(one.against)} if one.against is not None else {})
