"""What docs/stability.md promises is still there: release/surface.txt has it, a line a thing."""

from __future__ import annotations

import pytest

from release import surface


@pytest.fixture(scope="module")
def now() -> set[str]:
    return surface.today()


def test_nothing_that_was_promised_is_taken_away(now: set[str]) -> None:
    assert surface.taken_away(now) == [], "docs/stability.md says how something goes; what is new: make surface"


@pytest.mark.parametrize(
    "line",
    [
        "method query", "method query.limit whole number",
        "method query.limit optional", "method query.mode takes exact",
        "result query.hits.path always", "result query.hits.path str", "event written", "protocol 1",
        "error not_found NotFound wire -32004 exit 1", "command memd query", "command memd query --json switch",
        "command memd query -l value", "command memd config set NAME value", "python Client.query argument 1 query",
        "setting search.fusion takes rrf",
        "setting workspace.globs", "tool memory_context.budget optional", "python memd.Client(autostart)",
        "python memd.AsyncClient.call",
    ],
)  # fmt: skip
def test_each_kind_of_promise_is_held(now: set[str], line: str) -> None:
    assert line in surface.promised()
    assert surface.taken_away(now - {line}) == [f"gone: {line}"]


def test_additions_are_free_unless_a_caller_must_give_them(now: set[str]) -> None:
    new = {"method forecast", "method forecast.day required", "method query.colour text", "command memd query --colour"}
    assert surface.taken_away(now | new) == []
    assert surface.taken_away(now | {"method query.day required"}) == ["demanded: method query.day required"]
    assert surface.taken_away(now - {"method query.query required"}) == []
