"""Runs reflections, one at a time, by the rules in force, giving way to whoever asks or writes meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from sqlite3 import Connection
from typing import Any

from memd.daemon import lifecycle
from memd.daemon.health import Health
from memd.daemon.lifecycle import JobStep
from memd.daemon.worker import Worker
from memd.indexer.lifecycle.ageing import ReflectionOptions
from memd.indexer.lifecycle.reflect import link, reflect
from memd.indexer.store.stores import Stores
from memd.lifecycle.rule_book import RuleBook, rule_book
from memd.lifecycle.rules import Rule

log = logging.getLogger("memd")

LEAST, MOST = 0.002, 0.05
"""Seconds of rest after each piece of work: about as long as the piece took."""

RULES = "rules"


class ActiveRules:
    """The rules as the config file last said; a wrong one is told as a trouble, and the others hold."""

    def __init__(self, health: Health, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._health = health
        self._rule_book = RuleBook()
        self.take(texts)

    def all(self) -> tuple[Rule, ...]:
        return self._rule_book.rules

    def take(self, texts: Iterable[tuple[str, str]]) -> None:
        """Go by these from now on."""
        self._rule_book = rule_book(texts)
        if self._rule_book.problems:
            said = "; ".join(message for _, message in self._rule_book.problems)
            log.warning("rules that are not followed: %s", said)
            self._health.set(RULES, said, "see where: memd config check; mend it with memd rule set, or memd rule rm")
        else:
            self._health.clear(RULES)


class ReflectionRunner:
    """Who lets memories age: the job, or someone who asked for it."""

    def __init__(self, stores: Stores, worker: Worker, rules: Callable[[], Sequence[Rule]]) -> None:
        self._stores = stores
        self._worker = worker
        self._rules = rules
        self._one = threading.Lock()

    def reflect(self, ns: str, who: str, dry: bool = False, **what: bool) -> dict[str, Any]:
        """Age the memories of a workspace and link what is alike; says what was done and what wants an eye.

        With `moves=False` only what fades is looked after, with `fades=False` all the rest.
        """
        with self._one:
            options = ReflectionOptions(
                self._write, _breather(), dry, who, **what, moved=partial(lifecycle.announce_moved, self._worker)
            )
            return reflect(self._stores, self._stores.index(ns), self._rules(), datetime.now(UTC), options)

    def link(self, ns: str, who: str) -> int:
        """Only link what memories mention, share and are like; says how many edges are new."""
        with self._one:
            options = ReflectionOptions(self._write, _breather(), who=who)
            return link(self._stores, self._stores.index(ns), self._rules(), datetime.now(UTC), options)

    def _write(self, work: Callable[[Connection], Any]) -> Any:
        return self._worker.submit(JobStep(work)).result()


def _breather() -> Callable[[], None]:
    """Rests as long as was worked since the last rest."""
    since = time.monotonic()

    def rest() -> None:
        nonlocal since
        time.sleep(min(MOST, max(LEAST, time.monotonic() - since)))
        since = time.monotonic()

    return rest
