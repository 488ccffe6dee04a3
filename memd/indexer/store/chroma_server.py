"""A Chroma server, asked over its HTTP interface: the collections of this home, which no other home may write; and the
vectors of a workspace that it alone has, asked for as a mirror is.

Only what one's own server, a distributed one and Chroma's cloud have in common. Any thread may ask.
"""

import base64
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import NDArray

from memd.config.addresses import is_exposed, is_loopback
from memd.config.schema import VectorsSettings
from memd.errors import StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.chroma import INDEX, ChromaFolder, ChromaPlace, CollectionRow
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.mirror import Ids
from memd.indexer.store.postings import SizedCache
from memd.indexer.store.vectors import collection_name
from memd.models import PINNED, Filters

if TYPE_CHECKING:
    import httpx

CALL_SECONDS, QUESTION_SECONDS = 120.0, 10.0
AWAY_SECONDS = 5.0
"""After a failure questions are not sent for so long: they are answered by their words."""
PAGE = 250
"""Rows and collections that are asked for at a time: Chroma's cloud gives 300, one's own server any number."""
MOST_COUNTED = 50
"""Collections that are counted in one look; of more, others are counted in the next."""
MOST_SHOWN = 300
"""Characters of what a server says that go into an error."""
TOKENS = "chroma-owner"
"""The file that says which owner of the collections this home is."""

FEW = 300
"""So many chunks, or fewer, are compared one by one: a filter that leaves few takes Chroma longest."""
WIDER = 4
"""So many times the rows are asked for where some of them may not be allowed."""
RANKED = 1_000
"""The place of a chunk is told up to this one."""
REMEMBERED = 32
"""Questions whose cosines are kept: a chunk's text never changes."""

DAY = re.compile(r"\d{4}(-\d\d){0,2}")


class ServerAway(StoreBroken):
    """The server gave no answer, or refused."""


class ChromaClient:
    """Asks a server for rows and collections by their names."""

    def __init__(self, settings: VectorsSettings, ledger: str) -> None:
        self.address = settings, ledger
        """How to reach the collections of a home."""
        self.settings = settings
        self.prefix = f"memd-{ledger}"
        self._server = f"the Chroma server {settings.url}"
        self._base = f"{settings.url.rstrip('/')}/api/v2/tenants/{quote(settings.tenant)}"
        self._base += f"/databases/{quote(settings.database)}/collections"
        self._numbers: dict[str, str] = {}
        """The server's number of each collection that was asked for."""
        self._client: httpx.Client | None = None
        self._away_until = 0.0

    # --- questions ------------------------------------------------------------------------------------------------

    def nearest(self, name: str, vectors: Vectors, limit: int, where: Mapping[str, Any] | None = None) -> list[Any]:
        """For each vector the digests of the nearest rows, with their cosines."""
        body = {"query_embeddings": vectors.tolist(), "n_results": limit, "where": where, "include": ["distances"]}
        found = self._ask(name, "query", body)
        pairs = zip(found["ids"], found["distances"], strict=True)
        return [[(digest, 1.0 - far) for digest, far in zip(*both, strict=True)] for both in pairs]

    def vectors(self, name: str, digests: Sequence[str]) -> Iterator[tuple[str, Vectors]]:
        """The vectors of those of some texts that are there."""
        for at in range(0, len(digests), PAGE):
            found = self._ask(name, "get", {"ids": digests[at : at + PAGE], "include": ["embeddings"]})
            yield from zip(found["ids"], np.array(found["embeddings"], np.float32), strict=True)

    def _ask(self, name: str, what: str, body: Mapping[str, Any]) -> Any:
        """As for a question, which does not wait for a server that has just failed."""
        if time.monotonic() < self._away_until:
            raise ServerAway(f"{self._server} is away", "memd goes on by itself")
        try:
            return self._rows(name, what, body, QUESTION_SECONDS)
        except ServerAway:
            self._away_until = time.monotonic() + AWAY_SECONDS
            raise

    # --- requests -------------------------------------------------------------------------------------------------

    def _rows(self, name: str, what: str, body: Mapping[str, Any], seconds: float = CALL_SECONDS) -> Any:
        if (number := self._number(name)) is None:
            raise self._failed(f"there is no collection {name}")
        return self._call("POST", f"/{number}/{what}", body, seconds)

    def _number(self, name: str) -> str | None:
        """The server's number of a collection; None if there is no such one."""
        number = self._numbers.get(name)
        if number is None and (found := self._found(f"{self.prefix}-{name}")) is not None:
            number = self._numbers[name] = str(found["id"])
        return number

    def _found(self, name: str) -> dict[str, Any] | None:
        """The collection of a name."""
        found: dict[str, Any] | None = self._call("GET", f"/{name}", absent=404)
        return found

    def _call(self, method: str, path: str, body: Any = None, seconds: float = CALL_SECONDS, absent: int = 0) -> Any:
        """The answer; None for one with the status `absent`."""
        # Loaded where a server is used: most homes have none.
        import httpx

        packed = msgspec.json.encode(body) if body is not None else None
        if self._client is None:
            headers = {"Content-Type": "application/json", **self._headers()}
            # Without a proxy for what is on this machine.
            self._client = httpx.Client(headers=headers, trust_env=not is_loopback(self.settings.url))
        try:
            answer = self._client.request(method, self._base + path, content=packed, timeout=seconds)
        except httpx.HTTPError as error:
            raise self._failed(repr(error)) from error
        # It refers back to the answer, and so to what was sent: both would stay until the collector comes by.
        del answer.stream
        if answer.is_success or answer.status_code == absent:
            return msgspec.json.decode(answer.content) if answer.is_success and answer.content else None
        # It may have been wiped: its collections have other numbers then.
        self._numbers.clear()
        raise self._failed(f"{answer.status_code} {answer.text}")

    def _headers(self) -> dict[str, str]:
        """Those in the environment variable, one a line; a wrong one is not repeated in the message."""
        variable = self.settings.headers_env
        text = os.environ.get(variable, "").strip() if variable else ""
        if variable and not text:
            raise StoreBroken(f"there are no headers in ${variable}", "set it in the daemon's environment")
        lines = [line.partition(":") for line in text.splitlines()]
        if not all(name.strip() and value.strip() and f"{name}{value}".isascii() for name, _, value in lines):
            raise StoreBroken(f"${variable} must have lines such as: Authorization: Bearer …", "correct it")
        return {name.strip(): value.strip() for name, _, value in lines}

    def _failed(self, said: str) -> ServerAway:
        for value in self._headers().values():
            said = said.replace(value, "…").replace(value.split()[-1], "…")
        return ServerAway(f"{self._server}: {said[:MOST_SHOWN]}", "memd goes on by itself")


class ChromaServer(ChromaPlace, ChromaClient):
    """The collections as their one writer sees them."""

    look_every = 30.0

    def __init__(self, settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> None:
        ChromaClient.__init__(self, settings, ledger)
        self._tokens, self._token, self._take_over = state / TOKENS, "", take_over
        self._counted = 0

    def open(self) -> None:
        if is_exposed(self.settings.url) and not self.settings.plain_http:
            why = f"{self.settings.url} is another machine, and http:// lets others read and change vectors on the way"
            raise StoreBroken(why, "use https://, or set vectors.plain_http = true for a network that you trust")
        self._numbers.clear()
        self._claim()

    def put_aside(self, why: str) -> None:
        """A collection on a server is not thrown away because it is out of reach; it is compared when it is back."""

    def close(self, seconds: float) -> None:
        self._token = ""

    # --- one owner ------------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Become the owner, with a token that no copy of this home has; whoever was it before must be this home.

        By its place, and where a whole machine was copied by the last token. The file has the new one before the server
        does: a kill between the two leaves both.
        """
        place = _place(self._tokens)
        mine = self._tokens.read_text().split() if self._tokens.exists() else []
        mine = [token for token in mine if token.startswith(place)]
        owner, number = self._owner()
        if owner and owner not in mine and not self._take_over:
            raise self._belongs_to_another()
        token = place + secrets.token_hex(8)
        self._tokens.write_text(f"{owner}\n{token}\n")
        told = {"memd_owner": token, "memd_host": socket.gethostname()}
        if number:
            self._call("PUT", f"/{number}", {"new_metadata": told})
        else:
            self._call("POST", "", {"name": self.prefix, "metadata": told, "get_or_create": True})
        self._token = token

    def _owner(self) -> tuple[str, str]:
        """The token of the owner and the number of the collection that carries it; empty if there is none."""
        found = self._found(self.prefix)
        told = (found or {}).get("metadata") or {}
        self._host = told.get("memd_host", "an unknown machine")
        return told.get("memd_owner", ""), found["id"] if found else ""

    def _belongs_to_another(self) -> StoreBroken:
        whose = f"the collections {self.prefix}-… belong to another memd, on {self._host}"
        how = "if that is gone, memd stop and memd doctor --fix take them over"
        return StoreBroken(f"{whose}; {how}", "memd doctor --fix")

    def _write(self, name: str, what: str, body: Mapping[str, Any]) -> None:
        """Change rows, as long as the collections are this home's."""
        self._check_owner()
        if name not in self._numbers:
            configuration = {"hnsw": INDEX}
            made = {"name": f"{self.prefix}-{name}", "configuration": configuration, "get_or_create": True}
            self._numbers[name] = self._call("POST", "", made)["id"]
        self._rows(name, what, body)

    def _check_owner(self) -> None:
        owner, _ = self._owner()
        if not owner:
            raise ServerAway(f"{self._server} has lost its collections", "they are made again")
        if owner != self._token:
            raise self._belongs_to_another()

    # --- rows -----------------------------------------------------------------------------------------------------

    def add(self, name: str, rows: Sequence[CollectionRow]) -> None:
        packed = [base64.b64encode(np.asarray(row.vector, "<f4").tobytes()).decode() for row in rows]
        self._write(name, "upsert", {"embeddings": packed, **_columns(rows)})

    def describe(self, name: str, rows: Sequence[CollectionRow]) -> list[str]:
        held = set(self._held(name, {"ids": [row.digest for row in rows]}))
        if known := [row for row in rows if row.digest in held]:
            self._write(name, "update", _columns(known))
        return [row.digest for row in rows if row.digest not in held]

    def drop(self, name: str, digests: Sequence[str]) -> tuple[int, int]:
        self._write(name, "delete", {"ids": list(digests)})
        return 0, 0

    def digests(self, name: str) -> Iterator[str]:
        count = 0
        while page := self._held(name, {"limit": PAGE, "offset": count}):
            yield from page
            count += len(page)

    def _held(self, name: str, which: dict[str, Any]) -> list[str]:
        found = self._rows(name, "get", {**which, "include": []}) if self._number(name) else {}
        return list(found.get("ids", ()))

    def look(self, names: Iterable[str]) -> dict[str, int]:
        mine = self._collections()
        some = sorted(mine)[self._counted :][:MOST_COUNTED]
        # The others are counted in the next looks.
        self._counted = self._counted + MOST_COUNTED if len(some) == MOST_COUNTED else 0
        counts = {name: int(self._call("GET", f"/{mine[name]}/count")) for name in some}
        return dict.fromkeys(set(names) - mine.keys(), 0) | counts

    def _collections(self) -> dict[str, str]:
        """The server's number of each collection of this home."""
        every: list[Any] = []
        while page := self._call("GET", f"?limit={PAGE}&offset={len(every)}"):
            every += page
        begin = f"{self.prefix}-"
        return {one["name"].removeprefix(begin): one["id"] for one in every if one["name"].startswith(begin)}

    def delete(self, names: Iterable[str]) -> None:
        """When deleted bytes leave its disk is the server's matter."""
        self._check_owner()
        for name in names:
            self._numbers.pop(name, None)
            self._call("DELETE", f"/{self.prefix}-{name}", absent=404)


def _place(file: Path) -> str:
    """This home on this machine, whatever the machine is called today."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii")
    except OSError:
        machine = socket.gethostname()
    return hashlib.sha256(f"{machine.strip()}\n{file.resolve()}".encode()).hexdigest()[:16]


def _columns(rows: Sequence[CollectionRow]) -> dict[str, Any]:
    return {
        "ids": [row.digest for row in rows],
        "documents": [row.document for row in rows],
        "metadatas": [row.metadata for row in rows],
    }


def chroma_place(settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> ChromaPlace:
    """Where the settings have the collections."""
    if settings.engine == "server":
        return ChromaServer(settings, state, ledger, take_over)
    return ChromaFolder(state / "chroma")


# --- questions to a workspace ---------------------------------------------------------------------------------


class ServerVectors:
    """Raises ServerAway where the server gives no answer."""

    def __init__(self, client: ChromaClient, ledger: Ledger, workspace: int, model: int, dims: int) -> None:
        self.model, self.dims = model, dims
        self.client, self._ledger, self._workspace = client, ledger, workspace
        self._name = collection_name(workspace, model)
        self._count = (-1, 0)
        """The count of the ledger's clock, and how many chunks had a vector then."""
        self._filled = False
        """Whether a chunk had a vector: before that there is no collection to ask."""
        self._cosines: SizedCache[bytes, dict[int, float]] = SizedCache(REMEMBERED, lambda known: 1)

    def __len__(self) -> int:
        seq = self._ledger.seq_seen()
        if self._count[0] != seq:
            count = vector_table.embedded_count(self._ledger.reader, self.model, self._workspace)
            self._count = seq, count
        return self._count[1]

    def search(
        self, vector: Vectors, limit: int, allowed: Ids | None = None, filters: Filters | None = None
    ) -> list[tuple[int, float]]:
        """Chunk numbers with their cosine, nearest first, among `allowed` if given."""
        if allowed is not None and len(allowed) <= FEW:
            cosines = self.cosines(vector, allowed.tolist())
            order = [at for at in np.lexsort((allowed, -cosines)) if not np.isnan(cosines[at])][:limit]
            return [(int(allowed[at]), float(cosines[at])) for at in order]
        most = limit if allowed is None else WIDER * limit
        (near,) = self.nearest(vector[None], most, where_of(filters) if filters is not None else None)
        self._known(vector).update(near)
        if allowed is not None:
            near = {chunk: near[chunk] for chunk in np.array(list(near))[np.isin(list(near), allowed)].tolist()}
        return sorted(near.items(), key=lambda one: (-one[1], one[0]))[:limit]

    def rank(self, vector: Vectors, chunk: int) -> int | None:
        """The place of a chunk among all, counted from 1; None when it is not there."""
        own = float(self.cosines(vector, [chunk])[0])
        if np.isnan(own):
            return None
        (near,) = self.nearest(vector[None], RANKED)
        return sum(cosine > own for other, cosine in near.items() if other != chunk) + 1

    def cosines(self, vector: Vectors, chunks: Sequence[int]) -> NDArray[np.float64]:
        """The cosine of each of some chunks; NaN for one that is not there."""
        known = self._known(vector)
        if missing := [chunk for chunk in chunks if chunk not in known]:
            known.update(zip(missing, (self.take(missing) @ vector).astype(float).tolist(), strict=True))
        return np.array([known[chunk] for chunk in chunks], np.float64)

    def take(self, chunks: Sequence[int]) -> Vectors:
        """The vectors of some chunks; NaN for one that is not there."""
        digests = dict(catalog.among(self._ledger.reader, "SELECT id, digest FROM chunks WHERE id AMONG ?", chunks))
        found = dict(self.client.vectors(self._name, sorted(set(digests.values()))))
        absent = np.full(self.dims, np.nan, np.float32)
        return np.array([found.get(digests.get(chunk, ""), absent) for chunk in chunks]).reshape(-1, self.dims)

    def _known(self, vector: Vectors) -> dict[int, float]:
        return self._cosines.get(vector.tobytes(), dict)

    def nearest(self, vectors: Vectors, depth: int, where: dict[str, Any] | None = None) -> list[dict[int, float]]:
        """The chunks nearest to each of some vectors, with their cosines."""
        reader = self._ledger.reader
        self._filled = self._filled or vector_table.any_embedded(reader, self.model, self._workspace)
        if not self._filled:
            return [{} for _ in vectors]
        found = self.client.nearest(self._name, vectors, depth, where)
        digests = {digest for near in found for digest, _ in near}
        chunks = vector_table.chunks_of(reader, self._workspace, digests)
        return [{chunk: cosine for digest, cosine in near for chunk in chunks.get(digest, ())} for near in found]


def where_of(filters: Filters) -> dict[str, Any] | None:
    """Filters as Chroma takes them; what it cannot say is left to the ledger, and so is a text of several chunks."""
    parts: list[dict[str, Any]] = [
        {name: value} for name in ("kind", "role", "tier") if (value := getattr(filters, name)) and value != PINNED
    ]
    for name, compared, rest in (("since", "$gte", "0"), ("until", "$lte", "9")):
        if DAY.fullmatch(day := getattr(filters, name)):
            parts.append({"day": {compared: vector_table.day_number(day, rest)}})
    parts += [{"tags": {"$contains": tag.lstrip("#").lower()}} for tag in filters.tags]
    if not parts:
        return None
    return {"$or": [{"copies": {"$gt": 1}}, parts[0] if len(parts) == 1 else {"$and": parts}]}
