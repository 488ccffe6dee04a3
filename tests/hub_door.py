"""A hub under test: a real `memd serve` beside a real daemon, tokens for it, and a visitor that sends as it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from typing import Any

import httpx2
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from memd.protocol.client import Client
from tests.conftest import Home


class Hub:
    """A running `memd serve`."""

    def __init__(self, home: Home, *flags: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "serve", "--listen", "127.0.0.1:0", *flags], env=home.env, cwd=home.path,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None and self.process.stderr is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(f"no address: {self.process.stderr.read()}")
        self.port = int(self.url.rpartition(":")[2])

    def token(self, name: str, *flags: str) -> str:
        """A new token, as `memd token add` makes one."""
        made = self.home.run("token", "add", name, *flags)
        assert made.returncode == 0, made.stderr
        (token,) = made.stdout.splitlines()
        return token

    def client(self, token: str, **how: Any) -> Client:
        return Client(self.url, token=token, **how)

    @asynccontextmanager
    async def agent(self, token: str, query: str = "", mode: str = "legacy") -> AsyncIterator[Any]:
        """The official SDK's client at `/mcp`."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{self.url}/mcp{query}", http_client=http)
            info = Implementation(name="test-agent", version="1.0")
            async with McpClient(transport, mode=mode, client_info=info, read_timeout_seconds=60) as client:
                yield client

    def post(
        self, path: str, body: bytes | dict[str, Any], token: str = "", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """The status and the first line of the answer; underscores in names of headers are dashes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, {**({"Authorization": f"Bearer {token}"} if token else {}), **headers})

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=180)
        usual = {"Content-Type": "application/json", "Accept": "application/json"}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**usual, **sent})
        answer = connection.getresponse()
        self.said = {name.lower(): value for name, value in answer.getheaders()}
        said = answer.read().split(b"\n")[0]
        connection.close()
        return answer.status, json.loads(said) if said.startswith(b"{") else {"body": said.decode()}

    def close(self) -> str:
        """Stop it; what it said on stderr."""
        self.process.terminate()
        return self.process.communicate(timeout=30)[1]


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
