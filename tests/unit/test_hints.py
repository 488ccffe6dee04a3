"""Whoever waits for what changed waits for what had changed when they asked, and for nothing that came since."""

from __future__ import annotations

from concurrent.futures import Future

from memd.daemon.hints import Hints


def asked(hints: Hints) -> Future[None] | None:
    """Somebody who waits; None when there is nothing to wait for."""
    future: Future[None] = Future()
    return future if hints.wait_for_all(future) else None


def test_who_asks_does_not_wait_for_what_comes_later() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("agent", "a.md")
    waiting = asked(hints)
    assert waiting is not None and hints.awaited
    assert hints.take() is not None
    hints.mark_changed("agent", "a.md")
    later = asked(hints)
    assert hints.finish() == [waiting]
    assert hints.take() is not None and hints.finish() == [later]
    assert asked(hints) is None and not hints.awaited


def test_what_is_in_hand_is_waited_for() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("agent", "a.md")
    assert hints.take() is not None
    waiting = asked(hints)
    assert waiting is not None and hints.finish() == [waiting]


def test_another_workspace_that_was_noted_before_is_waited_for_too() -> None:
    hints = Hints(settle=0)
    hints.mark_changed("one", "a.md")
    hints.mark_changed("two", "b.md")
    waiting = asked(hints)
    taken = hints.take()
    assert taken is not None and taken.ns == "one" and hints.finish() == []
    assert hints.take() is not None and hints.finish() == [waiting]


def test_what_must_be_read_again_is_still_due() -> None:
    for again in ("restless", "later"):
        hints = Hints(settle=0)
        hints.mark_changed("agent", "a.md")
        waiting = asked(hints)
        assert hints.take() is not None
        if again == "restless":
            hints.mark_read("agent", ["a.md"], restless=["a.md"])
        else:
            hints.retry_later("agent", ["a.md"], 0)
        assert hints.finish() == []
        assert hints.take() is not None
        hints.mark_read("agent", ["a.md"])
        assert hints.finish() == [waiting]
