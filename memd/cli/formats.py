"""Writes answers in the forms that other tools' users and scripts already read.

Light on purpose: `memd query` and `memd grep` load it.
"""

from __future__ import annotations

import os

from memd.cli import hits
from memd.protocol import wire
from memd.protocol.safe_text import neutralise, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMATS = ("text", "memory-search", "grep", "bus", "files", "jsonl")


def written(name: str, result: dict[str, Any], colour: bool) -> str:
    """The hits of an answer in one of the formats, without the last newline."""
    several = len(result.get("ns", ())) > 1
    if name == "memory-search":
        return "\n\n".join(_memory_result(nth, hit, several) for nth, hit in enumerate(result["hits"], 1))
    if name == "grep":
        return "\n".join(_hit_as_block(hit, several, colour) for hit in result["hits"])
    if name == "files":
        return "\n".join(dict.fromkeys(_file(hit, several) for hit in result["hits"]))
    if name == "jsonl":
        return b"".join(wire.encode(hit) for hit in result["hits"]).decode().rstrip("\n")
    return hits.render(result, colour)


def blocks(result: dict[str, Any], colour: bool) -> str:
    """What `grep` found: each block with its file and the line of its first match."""
    several = len(result["ns"]) > 1
    return "\n".join(
        _block(_place(block, several), block["line"], _marked_lines(block, colour), colour)
        for block in result["blocks"]
    )


def entries(result: dict[str, Any]) -> str:
    """What `bus` ranked: each entry whole, under its role, title, time and score."""
    return "\n\n".join(_entry(entry) for entry in result["entries"])


def columns(result: dict[str, Any]) -> str:
    """Memories, one a line: role, title, time."""
    return "\n".join(
        f"{one_line(row['role']):<10} {one_line(row['title']):<36} {one_line(row['time'])}"
        for row in result["memories"]
    )


def _memory_result(nth: int, hit: dict[str, Any], several: bool) -> str:
    return f"Memory Result {nth}: [source: {_place(hit, several)}]\n{neutralise(hit['text']).rstrip()}"


def _entry(entry: dict[str, Any]) -> str:
    title = f"[{one_line(entry['role'])}] {one_line(entry['title'])} ({one_line(entry['time'])})"
    body = neutralise(entry["text"])
    return f"--- {title} score:{entry['score']:.1f} ---" + (f"\n{body}" if body else "")


def _file(hit: dict[str, Any], several: bool) -> str:
    """A path from the workspace; where several were asked, one that leads there from anywhere."""
    return one_line(os.path.join(hit["root"], hit["path"]) if several else hit["path"])  # noqa: PTH118


def _hit_as_block(hit: dict[str, Any], several: bool, colour: bool) -> str:
    text, marks = hit["text"], hit.get("marks") or []
    line = hit["start_line"] + (text.count("\n", 0, min(mark[0] for mark in marks)) if marks else 0)
    return _block(_place(hit, several), line, hits.marked(text, marks, colour).rstrip("\n"), colour)


def _marked_lines(block: dict[str, Any], colour: bool) -> str:
    spans = {match["line"]: match["spans"] for match in block["matches"]}
    numbered = enumerate(block["lines"], block["start_line"])
    return "\n".join(hits.marked(line, spans.get(number), colour) for number, line in numbered)


def _block(place: str, line: int, text: str, colour: bool) -> str:
    head = f"--- {place} (line {line}) ---"
    return f"{hits.PLACE}{head}{hits.END}\n{text}\n---" if colour else f"{head}\n{text}\n---"


def _place(found: dict[str, Any], several: bool) -> str:
    return one_line(f"{found['ns']}:{found['path']}" if several else found["path"])
