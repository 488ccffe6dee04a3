"""A Chroma server, asked over its HTTP interface: the collections of this home, which no other home may write.

Only what one's own server, a distributed one and Chroma's cloud have in common. Any thread may ask.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import numpy as np

from memd.config.addresses import is_exposed, is_loopback
from memd.config.schema import VectorsSettings
from memd.errors import StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store.chroma import INDEX, ChromaFolder, ChromaPlace, ChromaRows, CollectionRow

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


class ServerAway(StoreBroken):
    """The server gave no answer, or refused."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """How to reach the collections of a home."""

    url: str
    tenant: str
    database: str
    headers_env: str
    ledger: str


class ChromaClient:
    """Asks a server for rows and collections by their names."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.prefix = f"memd-{address.ledger}"
        self._base = f"{address.url}/api/v2/tenants/{quote(address.tenant)}"
        self._base += f"/databases/{quote(address.database)}/collections"
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
            raise ServerAway(f"the Chroma server {self.address.url} is away", "memd goes on by itself")
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
        found: dict[str, Any] | None = self._call("GET", f"/{name}", absent=(404,))
        return found

    def _call(
        self, method: str, path: str, body: Any = None, seconds: float = CALL_SECONDS, absent: Sequence[int] = ()
    ) -> Any:
        # Loaded where a server is used: most homes have none.
        import httpx

        packed = msgspec.json.encode(body) if body is not None else None
        if self._client is None:
            headers = {"Content-Type": "application/json", **self._headers()}
            # Without a proxy for what is on this machine.
            self._client = httpx.Client(headers=headers, trust_env=not is_loopback(self.address.url))
        try:
            answer = self._client.request(method, self._base + path, content=packed, timeout=seconds)
        except httpx.HTTPError as error:
            raise self._failed(repr(error)) from error
        if answer.is_success:
            return msgspec.json.decode(answer.content) if answer.content else None
        if answer.status_code in absent:
            return None
        # It may have been wiped: its collections have other numbers then.
        self._numbers.clear()
        raise self._failed(f"{answer.status_code} {answer.text}")

    def _headers(self) -> dict[str, str]:
        """Those in the environment variable, one a line; a wrong one is not repeated in the message."""
        variable = self.address.headers_env
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
        return ServerAway(f"the Chroma server {self.address.url}: {said[:MOST_SHOWN]}", "memd goes on by itself")


class ChromaServer(ChromaPlace, ChromaRows, ChromaClient):
    """The collections as their one writer sees them: a place that is always open."""

    look_every = 30.0

    def __init__(self, settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> None:
        address = ServerAddress(
            settings.url.rstrip("/"), settings.tenant, settings.database, settings.headers_env, ledger
        )
        ChromaClient.__init__(self, address)
        self._plain_http = settings.plain_http
        self._tokens, self._token, self._take_over = state / TOKENS, "", take_over
        self._counted = 0

    def open(self) -> ChromaServer:
        if is_exposed(self.address.url) and not self._plain_http:
            raise StoreBroken(
                f"{self.address.url} is another machine, and http:// lets others read and change vectors on the way",
                "use https://, or set vectors.plain_http = true for a network that you trust",
            )
        self._numbers.clear()
        self._claim()
        return self

    def put_aside(self, why: str) -> None:
        """A collection on a server is not thrown away because it is out of reach; it is compared when it is back."""

    def close(self, seconds: float = 0.0) -> None:
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
        return StoreBroken(
            f"the collections {self.prefix}-… belong to another memd, on {self._host};"
            " if that is gone, memd stop and memd doctor --fix take them over", "memd doctor --fix",
        )  # fmt: skip

    def _write(self, name: str, what: str, body: Mapping[str, Any]) -> Any:
        """Change rows, as long as the collections are this home's."""
        owner, _ = self._owner()
        if not owner:
            raise ServerAway(f"the Chroma server {self.address.url} has lost its collections", "they are made again")
        if owner != self._token:
            raise self._belongs_to_another()
        if name not in self._numbers:
            configuration = {"hnsw": INDEX}
            made = {"name": f"{self.prefix}-{name}", "configuration": configuration, "get_or_create": True}
            self._numbers[name] = self._call("POST", "", made)["id"]
        return self._rows(name, what, body)

    # --- rows -----------------------------------------------------------------------------------------------------

    def add(self, name: str, rows: Sequence[CollectionRow]) -> None:
        packed = [base64.b64encode(np.asarray(row.vector, "<f4").tobytes()).decode() for row in rows]
        self._write(name, "upsert", {"embeddings": packed, **_columns(rows)})

    def describe(self, name: str, rows: Sequence[CollectionRow]) -> list[str]:
        """Tell anew what some rows are, whose vectors are there; returns those that are not."""
        held = self.held(name, [row.digest for row in rows])
        if known := [row for row in rows if row.digest in held]:
            self._write(name, "update", _columns(known))
        return [row.digest for row in rows if row.digest not in held]

    def drop(self, name: str, digests: Sequence[str]) -> None:
        self._write(name, "delete", {"ids": list(digests)})

    def held(self, name: str, digests: Sequence[str]) -> set[str]:
        if self._number(name) is None:
            return set()
        return set(self._rows(name, "get", {"ids": list(digests), "include": []})["ids"])

    def page(self, name: str, offset: int, most: int) -> list[str]:
        found: list[str] = self._rows(name, "get", {"limit": most, "offset": offset, "include": []})["ids"]
        return found

    def counts(self) -> dict[str, int]:
        return self._counts(self._collections())

    def look(self, names: Iterable[str]) -> dict[str, int]:
        mine = self._collections()
        some = sorted(mine)[self._counted :][:MOST_COUNTED]
        # The others are counted in the next looks.
        self._counted = self._counted + MOST_COUNTED if len(some) == MOST_COUNTED else 0
        return dict.fromkeys(set(names) - mine.keys(), 0) | self._counts({name: mine[name] for name in some})

    def _counts(self, numbers: Mapping[str, str]) -> dict[str, int]:
        return {name: int(self._call("GET", f"/{number}/count")) for name, number in numbers.items()}

    def _collections(self) -> dict[str, str]:
        """The server's number of each collection of this home."""
        every: list[Any] = []
        while page := self._call("GET", f"?limit={PAGE}&offset={len(every)}"):
            every += page
        begin = f"{self.prefix}-"
        return {one["name"].removeprefix(begin): one["id"] for one in every if one["name"].startswith(begin)}

    def delete(self, name: str) -> None:
        self._write(name, "get", {"limit": 1, "include": []})
        self._numbers.pop(name, None)
        self._call("DELETE", f"/{self.prefix}-{name}")

    def compact(self) -> None:
        """When deleted bytes leave its disk is the server's matter."""

    def ping(self) -> None:
        self._owner()


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
