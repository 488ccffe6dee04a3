"""A session with a rival's MCP server over stdio, for those that are asked that way; the standard library only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "comparison", "version": "1"}}


class McpSession:
    """One server process; it ends with the worker."""

    def __init__(self, *command: str | Path, cwd: Path, **env: str) -> None:
        self._server = subprocess.Popen(
            [str(part) for part in command], env=os.environ | env, cwd=cwd, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=sys.stderr,
        )  # fmt: skip
        self._number = 0
        self._ask("initialize", HELLO)
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """The result of a tool; an error that the server tells is raised."""
        result = self._ask("tools/call", {"name": tool, "arguments": given})
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result['content']}")
        return result

    def close(self) -> None:
        self._server.kill()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self._server.stdout is not None
        for line in self._server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number and "method" not in answer:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
        raise RuntimeError("the MCP server ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._server.stdin.flush()
