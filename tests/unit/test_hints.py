"""Whoever waits for what changed waits for what had changed when they asked, and for nothing that came since."""

from __future__ import annotations

from concurrent.futures import Future

from memd.daemon.writer.queue import Batch, Hints


def asked(hints: Hints) -> Future[None] | None:
    """Somebody who waits; None when there is nothing to wait for."""
    future: Future[None] = Future()
    return future if hints.wait_for_all(future) else None


def taken(hints: Hints) -> Batch:
    due = hints.take()
    assert due is not None
    return due


def test_who_asks_does_not_wait_for_what_comes_later() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("agent", "a.md")
    waiting = asked(hints)
    assert waiting is not None and hints.waiters
    first = taken(hints)
    hints.mark_changed("agent", "a.md")
    later = asked(hints)
    assert hints.finish(first) == [waiting]
    assert hints.finish(taken(hints)) == [later]
    assert asked(hints) is None and not hints.waiters


def test_what_is_in_hand_is_waited_for() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("agent", "a.md")
    first = taken(hints)
    waiting = asked(hints)
    assert waiting is not None and hints.finish(first) == [waiting]


def test_another_workspace_that_was_noted_before_is_waited_for_too() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("one", "a.md")
    hints.mark_changed("two", "b.md")
    waiting = asked(hints)
    first = taken(hints)
    assert first.ns == "one" and hints.finish(first) == []
    assert hints.finish(taken(hints)) == [waiting]


def test_what_must_be_read_again_is_still_due() -> None:
    for again in ("restless", "later"):
        hints = Hints(settle=0)
        hints.mark_changed("agent", "a.md")
        waiting = asked(hints)
        first = taken(hints)
        if again == "restless":
            hints.mark_read("agent", ["a.md"], restless=["a.md"])
        else:
            hints.retry_later("agent", ["a.md"], 0)
        assert hints.finish(first) == []
        second = taken(hints)
        hints.mark_read("agent", ["a.md"])
        assert hints.finish(second) == [waiting]


def test_what_is_done_a_piece_at_a_time_is_waited_for_though_something_else_was_done_before_it() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("agent", "large.md")
    large = taken(hints)
    hints.mark_written("agent", "own.md")
    waiting = asked(hints)
    own = hints.take(hurry=True, only_own=True)
    assert own is not None and own.paths == ("own.md",)
    assert hints.finish(own) == []
    assert hints.finish(large) == [waiting]
