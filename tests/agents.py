"""An agent for the tests: the official SDK's own client, talking to a real `memd mcp`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import Implementation

from tests.conftest import PATIENCE, Home

NAME = "test-agent"
MODERN = "2026-07-28"
SECONDS = 60


@asynccontextmanager
async def agent(
    home: Home, *flags: str, cwd: Path | None = None, mode: str = "legacy", **how: Any
) -> AsyncIterator[Any]:
    """A session through `memd mcp`; what the pump says on stderr is in the home's `pump.stderr`."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "memd", "mcp", *flags], env=home.env, cwd=str(cwd or home.path)
    )
    info = Implementation(name=NAME, version="1.0")
    with (home.path / "pump.stderr").open("a") as stderr:
        transport = stdio_client(server, errlog=stderr)
        async with Client(transport, mode=mode, client_info=info, read_timeout_seconds=SECONDS, **how) as client:
            yield client


def played(play: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Run a test's scene, and not for ever."""

    async def scene() -> None:
        async with asyncio.timeout(2 * SECONDS):
            await play(*args)

    asyncio.run(scene())


async def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.fixture
def structured(home: Home) -> None:
    """Answers also come as data: `server.structured_content`."""
    home.env["MEMD_SERVER__STRUCTURED_CONTENT"] = "true"


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


def code_of(result: Any) -> str:
    assert result.is_error and set(result.structured_content) == {"error"}
    error = result.structured_content["error"]
    assert text_of(result).startswith(f"{error['code']}: ")
    return str(error["code"])
