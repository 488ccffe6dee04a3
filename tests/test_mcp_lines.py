"""LineSplitter that are no good requests: each is answered once, with the id by which its sender knows what failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memd.cli.mcp_bridge import EDGE, LineSplitter, TooLong
from memd.protocol.wire import MAX_REQUEST
from tests.agents import agent, played, structured, text_of  # noqa: F401 (a fixture)
from tests.conftest import Home
from tests.test_mcp_bridge import INITIALIZE, READY, call

LONG = "x" * MAX_REQUEST


def answers(home: Home, cwd: Path, *lines: str) -> list[dict[str, Any]]:
    """What `memd mcp` says to the lines until it ends, but for the greeting."""
    given = [json.dumps(INITIALIZE), json.dumps(READY), *lines]
    done = home.run("mcp", cwd=cwd, input="".join(f"{line}\n" for line in given))
    assert (done.returncode, done.stderr) == (0, "")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [answer for answer in told if answer["id"] != INITIALIZE["id"]]


def number_of(text: str, size: int) -> Any:
    """The id found in a line that is too long, when it comes in pieces of this size."""
    lines, data = LineSplitter(2 * EDGE), text.encode() + b"\n"
    (line,) = [line for at in range(0, len(data), size) for line in lines.take(data[at : at + size])]
    assert isinstance(line, TooLong)
    return line.number()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"LONG"}}', 7),
        ('{ "id" : "a,b}\\"c" , "method":"m","params":{"a":"LONG"}}', 'a,b}"c'),
        ('{"method":"m","params":{"a":"LONG"},"jsonrpc":"2.0","id":7}', 7),
        ('{"method":"m","params":{"a":"LONG"},"id": "é-1", "jsonrpc":"2.0"} \r', "é-1"),
        ('{"method":"m","params":{"id":5,"a":"LONG","id":6},"id":7}', 7),
        ('{"method":"m","params":{"id":5,"a":"LONG","b":{"id":6}}}', None),
        ('{"method":"m","params":{"a":"\\"id\\":5,LONG,\\"id\\":6}"}}', None),
        ('{"id":0,"method":"m","params":{"a":"LONG","id":6}}', 0),
        ('{"id":true,"method":"m","params":{"a":"LONG"}}', None),
        ('{"id":[1],"method":"m","params":{"a":"LONG"}}', None),
        ('{"id":7,"result":{"a":"LONG"}}', None),
        ("LONG", None),
    ],
)
def test_the_id_of_a_line_that_is_too_long_is_found_at_its_ends(text: str, number: Any) -> None:
    long = text.replace("LONG", "é" * 2 * EDGE)
    assert [number_of(long, size) for size in (1, 700, 10**6)] == [number] * 3


def test_a_line_that_is_too_long_and_has_no_end_is_told_when_everything_ends() -> None:
    lines = LineSplitter(10)
    assert lines.take(b'{"id":7,"method":"m","par') == []
    (line,) = lines.left()
    assert line.number() == 7 and lines.left() == []
    assert LineSplitter(10).left() == []


def test_a_client_is_told_which_of_its_requests_was_too_long(served: Home, workspace: Path) -> None:
    async def scene() -> None:
        async with agent(served, cwd=workspace) as client:
            with pytest.raises(Exception, match=f"a message may have {MAX_REQUEST} bytes"):
                await client.call_tool("memory_save", {"content": LONG})
            assert "fjord" in text_of(await client.call_tool("memory_search", {"query": "router"}))

    played(scene)


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ('{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[]}', 6, -32600),
        ('{"id":8,"method":"ping"}', 8, -32600),
        ('{"jsonrpc":"2.0","id":"a","method":5}', "a", -32600),
        ('{"jsonrpc":"2.0","id":9}', 9, -32600),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5, -32600),
        ('{"jsonrpc":"2.0","id":[1],"method":"ping"}', None, -32600),
        ('{"jsonrpc":"2.0","id":6,"method":"ping","params":[],"result":{}}', 6, -32600),
        ('{"id":6,"result":{}}', None, -32600),
        ("[1]", None, -32600),
        ("this is no message", None, -32700),
        ('{"jsonrpc":"2.0","id":6,"method":"ping"', None, -32700),
    ],
)
def test_a_line_that_is_no_message_is_answered_once(
    served: Home, workspace: Path, line: str, number: Any, code: int
) -> None:
    good = call(99, "memory_search", query="router")
    told = answers(served, workspace, line, json.dumps(good))
    (error,) = [answer for answer in told if answer["id"] != good["id"]]
    assert (error["id"], error["error"]["code"]) == (number, code)
    assert len(told) == 2


def test_taking_back_what_was_never_asked_harms_nobody(served: Home, workspace: Path) -> None:
    back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}
    (told,) = answers(served, workspace, json.dumps(back), json.dumps(call(1, "memory_search", query="router")))
    assert "fjord" in str(told["result"])


@pytest.mark.usefixtures("structured")
def test_a_budget_into_which_nothing_fits_is_said_to_be_too_small(served: Home, workspace: Path) -> None:
    words = "The zeppelin engines are tuned with a strobe lamp, one after the other, never two at once. " * 9
    (workspace / "memory" / "2026-02-18.md").write_text(f"## How to tune the engines of a zeppelin\n\n{words}\n")

    async def scene() -> None:
        async with agent(served, cwd=workspace) as client:
            few = await client.call_tool("memory_context", {"task": "tune zeppelin engines", "budget": 50})
            assert few.structured_content["memories"] == [] and "fits into 50 tokens" in text_of(few)
            assert "several of these" not in text_of(few)
            more = await client.call_tool("memory_context", {"task": "tune zeppelin engines", "budget": 2_000})
            assert "strobe lamp" in text_of(more)

    played(scene)
