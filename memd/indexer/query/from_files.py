"""Answers by the words of the files alone, while the ledger cannot be read."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from memd.indexer.language.words import Word, only_terms, telling_words, words
from memd.indexer.query.certainty import confidence, verdict
from memd.indexer.query.grep import GrepMatches, contents
from memd.indexer.query.hits import hit_of
from memd.indexer.query.lookup import key_of
from memd.models import Answer, Ask, Chunk, Hit, Memory, Note, Workspace
from memd.notes.parse import parse
from memd.notes.read import without_markers


def search_files(workspaces: Sequence[Workspace], ask: Ask, max_bytes: int) -> tuple[Answer, list[dict[str, str]]]:
    """The chunks that have most of the question's words, those of the newest files first; and what cannot be read."""
    sought, read = telling_words(words(ask.query)), GrepMatches()
    found: list[Hit] = []
    for _, workspace, path, content in contents(workspaces, max_bytes, read):
        note = parse(path, without_markers(content.text))
        found += (
            _hit(workspace, note, memory, chunk, share)
            for memory in note.memories
            for chunk in memory.chunks
            if (share := _share(chunk, ask, sought))
        )
    found.sort(key=lambda hit: -hit.score)
    best = found[0].score if found else 0.0
    hits = [hit for hit in found if hit.score == best]
    sure = confidence(best, best, None) if found else 0.0
    near = found[len(hits) :][: ask.limit]
    return Answer(hits[: ask.limit], verdict(bool(found), sure), sure, len(hits), near=near), read.skipped


def _share(chunk: Chunk, ask: Ask, sought: Sequence[Word]) -> float:
    """The share of the question's words that a chunk has; letter by letter, all or nothing."""
    if ask.mode == "exact" or not sought:
        return float(ask.query.casefold() in chunk.text.casefold())
    terms = set(only_terms("\n".join((*chunk.heading, chunk.text))))
    return sum(not terms.isdisjoint(word.terms) for word in sought) / len(sought)


def _hit(workspace: Workspace, note: Note, memory: Memory, chunk: Chunk, share: float) -> Hit:
    row = {"id": 0, "tier": "", "path": note.path, "role": note.role, "kind": memory.kind, "date": memory.date,
           "title": memory.heading, "text": chunk.text, "start_line": chunk.start_line,
           "end_line": chunk.end_line}  # fmt: skip
    key = key_of(PurePosixPath(note.path).stem, note.path, memory.slug, set())
    return hit_of(workspace, row, chunk.heading, list(memory.declared.tags), share, {}, key=key)
