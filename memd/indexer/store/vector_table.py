"""The vectors in the ledger, from which a collection can be rebuilt without running the model; and what is embedded."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from sqlite3 import Connection, Row
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language.lines import joined
from memd.indexer.model.embedder import Embedder
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import catalog
from memd.indexer.store.catalog import number_of
from memd.indexer.store.chroma import CollectionRow
from memd.indexer.store.queries import queries
from memd.models import grouped, pick
from memd.notes.names import COMMENT

RECIPE = 1
"""Raise it when the text below changes: all vectors are then made again."""

SENTENCE = re.compile(r"(?<=[.!?;…])\s+|(?<=[。！？；])|\n+")
PIECE = 120
"""Characters of a piece; shorter sentences in a row are one."""


STORED = np.dtype("<f2")
"""Half precision: half the file, and a cosine that differs by less than 0.001."""
Pieces = NDArray[np.float16]

SLICE = 4_096
MULTILINGUAL = "multilingual"
"""The source of the model for other languages, which stands beside the one in use."""
OF_OTHER_LANGUAGES = "(c.language > '' OR c.workspace IN (SELECT id FROM workspaces WHERE polyglot))"
"""Chunks that are to have its vectors too: those in another language, and all where such questions were asked."""
HERE_OR_REMOTE = "(length(v.vector) OR c.workspace IN (SELECT id FROM workspaces WHERE remote))"
"""A vector of a workspace whose vectors are in a server is an empty one here, once the server has it."""
EMBEDDED = f"FROM chunks c JOIN vectors v ON v.model = ? AND v.digest = c.digest AND {HERE_OR_REMOTE}"
WHOLE = "length(v.vector) <> (SELECT 2 * dims + 2 FROM models WHERE id = v.model)"
"""A vector of a chunk's beginning, which stands in for its own until that is made, has one number more."""
SHOWN = f"{EMBEDDED} JOIN memories m ON m.id = c.memory AND m.deleted IS NULL WHERE c.workspace = ? AND {WHOLE}"
NO_VECTOR = f"""NOT EXISTS (
    SELECT 1 FROM vectors v WHERE v.model = ? AND v.digest = c.digest AND {HERE_OR_REMOTE} AND {WHOLE})"""
IS_FIRST = "NOT EXISTS (SELECT 1 FROM chunks d WHERE d.memory = c.memory AND d.start_line < c.start_line)"
"""A chunk that is the first of its memory, which it stands for until the others have vectors of their own."""
SQL = queries(__file__, whole=WHOLE, no_vector=NO_VECTOR, embedded=EMBEDDED, shown=SHOWN)
FIRST_PASS = f"""{IS_FIRST} AND c.workspace NOT IN (SELECT id FROM workspaces WHERE remote)
    AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.model = {{}} AND v.digest = c.digest)"""
"""Such a chunk without any vector of a model, whose number is filled in. A server is sent whole ones only."""


# --- the text that is embedded; hits show the text of the file unchanged ------------------------------------


def embedded_text(heading: tuple[str, ...] | list[str], context: str, text: str) -> str:
    """A chunk under its headings, without which a short line means nothing."""
    above = " › ".join(part for part in heading if part and part not in text)
    return "\n".join(part for part in (above, context, COMMENT.sub("", text)) if part)


def sentence_pieces(text: str) -> list[str]:
    """The sentences of a chunk, short ones joined; none for a chunk that is a single piece.

    A question in another language is seldom near a whole chunk, which says several things; one of its sentences is.
    """
    pieces = joined(SENTENCE.split(COMMENT.sub("", text)), PIECE)
    return pieces if len(pieces) > 1 else []


# --- the rows -----------------------------------------------------------------------------------------------


def model_id(connection: Connection, name: str, fingerprint: str, dims: int, source: str) -> int:
    connection.execute(SQL["add_model"], (name, fingerprint, RECIPE, dims, source))
    return number_of(connection, "SELECT id FROM models WHERE fingerprint = ? AND recipe = ?", fingerprint, RECIPE)


def recognise(connection: Connection, embedder: Embedder) -> None:
    """Compare what a server's model makes of one sentence with what it made when it was last loaded."""
    if hasattr(embedder, "recognise") and hasattr(embedder, "place"):
        key = f"canary:{embedder.place}"
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        kept = embedder.recognise(row["value"] if row else "")
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, kept))


def known_model(connection: Connection, source: str) -> int:
    """The number of the last model of a source; 0, which no model has, where none was ever loaded."""
    return number_of(connection, "SELECT MAX(id) FROM models WHERE source = ? AND recipe = ?", source, RECIPE)


def models_with_vectors(connection: Connection) -> list[Row]:
    """The models that vectors are there of, but for the one for other languages; the one that has most first."""
    return connection.execute(SQL["models_with_vectors"], (MULTILINGUAL,)).fetchall()


def forget_other_models(connection: Connection, *fingerprints: str) -> None:
    """Delete the models but for some, with their vectors."""
    connection.execute(SQL["forget_other_models"], (RECIPE, json.dumps(fingerprints)))


def save(connection: Connection, model: int, digests: Sequence[str], vectors: Iterable[Vectors]) -> None:
    """Keep the vector of each text, or several: that of the whole text, then those of its pieces."""
    rows = [(model, digest, text.astype(STORED).tobytes()) for digest, text in zip(digests, vectors, strict=True)]
    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)


def stand_in(vector: Vectors) -> Vectors:
    """The vector of a beginning, marked as such."""
    return np.append(vector, np.float32(0))


def newest(connection: Connection) -> int:
    """The number of the newest chunk."""
    return number_of(connection, "SELECT MAX(id) FROM chunks")


def pending(
    connection: Connection, model: int, most: int, after: int = 0, among: str = "1", urgent: Sequence[int] = ()
) -> list[int]:
    """Chunks without a vector: of `urgent` workspaces, then one a memory, then the others; newest notes first.

    Those up to number `after` are known to have one.
    """
    first = " ".join(f"WHEN {workspace} THEN {nth}" for nth, workspace in enumerate(urgent)) or "WHEN 0 THEN 0"
    turn = f"CASE c.workspace {first} ELSE {len(urgent)} END AS turn"
    missing = f"FROM chunks c JOIN memories m ON m.id = c.memory WHERE c.id > ? AND {among} AND {NO_VECTOR}"
    order = f"ORDER BY turn, turn = {len(urgent)} AND NOT {IS_FIRST}, m.date DESC, c.id DESC LIMIT ?"
    query = f"SELECT c.id, {turn} {missing} {order}"
    return [row["id"] for row in connection.execute(query, (after, model, most))]


def unembedded(connection: Connection, model: int, chunks: Sequence[int], among: str) -> list[Row]:
    """Those of some chunks that have no vector, in their order."""
    return connection.execute(SQL["unembedded"].format(which=among), (json.dumps(chunks), model)).fetchall()


def pending_counts(connection: Connection, model: int, after: int = 0, among: str = "1") -> dict[int, int]:
    """How many chunks have no vector, by workspace. It looks at every chunk after number `after`."""
    return dict(connection.execute(SQL["pending_counts"].format(which=among), (after, model)))


def any_multilingual(connection: Connection) -> bool:
    """Whether any chunk is to have a vector of the model for other languages."""
    return bool(number_of(connection, SQL["any_multilingual"]))


def of_workspace(connection: Connection, model: int, workspace: int, dims: int) -> Iterator[tuple[list[int], Vectors]]:
    """The chunks of a workspace that have a vector, and the vectors, a few thousand at a time.

    At once a large workspace would take several times its size.
    """
    cursor = connection.execute(SQL["of_workspace"], (model, workspace))
    while rows := cursor.fetchmany(SLICE):
        yield _unpacked(rows, dims)


def any_embedded(connection: Connection, model: int, workspace: int) -> bool:
    """Whether a chunk of a workspace has a vector."""
    return connection.execute(SQL["newest_embedded"], (model, workspace)).fetchone() is not None


def embedded_count(connection: Connection, model: int, workspace: int) -> int:
    """How many chunks of a workspace have a vector."""
    return number_of(connection, SQL["embedded_count"], model, workspace)


def of_chunks(connection: Connection, model: int, chunks: str, dims: int) -> tuple[list[int], Vectors]:
    """The vectors of some chunks, given as a JSON list."""
    return _unpacked(_rows_of_chunks(connection, model, chunks), dims)


def pieces_of_chunks(connection: Connection, model: int, chunks: str, dims: int) -> dict[int, Pieces]:
    """The vectors of the pieces of some chunks, given as a JSON list; none of a chunk without a vector."""
    rows = _rows_of_chunks(connection, model, chunks)
    return {chunk: np.frombuffer(vector, STORED).reshape(-1, dims)[1:].copy() for chunk, vector in rows}


def _rows_of_chunks(connection: Connection, model: int, chunks: str) -> list[Row]:
    return connection.execute(SQL["of_chunks"], {"model": model, "chunks": chunks}).fetchall()


# --- what a collection is to hold ---------------------------------------------------------------------------


def text_count(connection: Connection, model: int, workspace: int) -> int:
    """How many texts of a workspace its collection is to hold; equal ones are one."""
    return number_of(connection, SQL["text_count"], model, workspace)


def shown_digests(connection: Connection, model: int, workspace: int) -> Iterator[str]:
    """The same texts."""
    return (row[0] for row in connection.execute(SQL["shown_digests"], (model, workspace)))


def collection_rows(
    connection: Connection, model: int, workspace: int, digests: Sequence[str], dims: int
) -> list[CollectionRow]:
    """The rows of those of some texts that a workspace has, as the collection is to hold them."""
    values = {"model": model, "workspace": workspace, "digests": json.dumps(list(digests))}
    return [_collection_row(row, dims) for row in connection.execute(SQL["collection_rows"], values)]


def _collection_row(row: Row, dims: int) -> CollectionRow:
    tags = [tag.lower() for tag in json.loads(row["tags"])]
    heading = " › ".join(json.loads(row["heading"]))
    more = {"day": day_number(row["date"]), "heading": heading, "tags": tags or None}
    vector = np.frombuffer(row["vector"], STORED)[:dims].astype(np.float32) if row["vector"] else None
    known = pick(row, "ns", "key", "path", "first_line", "last_line", "role", "kind", "tier", "language", "copies")
    return CollectionRow(row["digest"], vector, row["text"], known | more)


def day_number(day: str, rest: str = "0") -> int:
    """A day as a number that can be compared, such as 20260215; what a shorter one leaves open is filled up."""
    return int(day.replace("-", "").ljust(8, rest)) if day else 0


def chunks_of(connection: Connection, workspace: int, digests: Iterable[str]) -> dict[str, list[int]]:
    """The chunks of a workspace that have some texts."""
    rows = connection.execute(SQL["chunks_of"], (json.dumps(list(digests)), workspace))
    return grouped((row[0], row[1]) for row in rows)


def emptied(connection: Connection, model: int, digests: Sequence[str]) -> list[str]:
    """Those of some texts whose vectors only a server has."""
    return [row[0] for row in connection.execute(SQL["emptied"], (model, json.dumps(list(digests))))]


def bring_back(connection: Connection, model: int, vectors: Iterable[tuple[str, Vectors]]) -> None:
    """Keep vectors that only a server had."""
    rows = [(vector.astype(STORED).tobytes(), model, digest) for digest, vector in vectors]
    connection.executemany("UPDATE vectors SET vector = ? WHERE model = ? AND digest = ?", rows)


def unsent(connection: Connection, after: int, most: int) -> list[tuple[int, int, str]]:
    """Texts whose rows may differ from the ledger: a number that grows, the workspace, the digest."""
    return [(row[0], row[1], row[2]) for row in connection.execute(SQL["unsent"], (after, most))]


class SentRows(NamedTuple):
    """What the collections took in, for the ledger to know."""

    up_to: int
    """The last number of `unsent` that is done."""
    model: int = 0
    kept: Sequence[str] = ()
    """Texts whose vectors are there now."""
    lost: Sequence[str] = ()
    """Texts that should be there and are not, and whose vectors nobody else has."""


def mark_sent(connection: Connection, sent: SentRows) -> None:
    """Cross out what was taken in; let go of vectors that a server has, but for texts that other workspaces have too;
    and note which ones nobody has any more: they are made again."""
    connection.execute("DELETE FROM unsent WHERE id <= ?", (sent.up_to,))
    connection.execute(SQL["empty"], (sent.model, json.dumps(list(sent.kept))))
    connection.execute(SQL["drop_lost"], (sent.model, json.dumps(list(sent.lost))))


def chunks_with(connection: Connection, digests: Sequence[str]) -> dict[int, list[int]]:
    """The chunks with one of these digests, by workspace: equal texts share a vector."""
    rows = catalog.among(connection, "SELECT workspace, id FROM chunks WHERE digest AMONG ?", digests)
    return grouped((row[0], row[1]) for row in rows)


def _unpacked(rows: list[Row], dims: int) -> tuple[list[Any], Vectors]:
    """The first column of some rows, and the vector of each whole text."""
    size = dims * STORED.itemsize
    packed = np.frombuffer(b"".join(row["vector"][:size] for row in rows), STORED)
    return [row[0] for row in rows], packed.reshape(len(rows), dims).astype(np.float32)


def sweep(connection: Connection) -> int:
    """Delete the vectors of texts that no chunk has any more."""
    return connection.execute(SQL["sweep"]).rowcount
