"""Runs reflections, one at a time, by the rules in force, and gives way to questions and writes meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from sqlite3 import Connection
from typing import Any

from memd.daemon.health import Health
from memd.daemon.task_queue import Turn
from memd.daemon.tasks.lifecycle import announce_moved
from memd.daemon.worker import Worker
from memd.indexer.lifecycle.reflect import ReflectionOptions, link, reflect
from memd.indexer.store.own_stores import OwnStores
from memd.lifecycle.rule_book import RuleBook, rule_book
from memd.lifecycle.rules import Rule

log = logging.getLogger("memd")

LEAST, MOST = 0.002, 0.05
"""Seconds of rest after each piece of work: about as long as the piece took."""

RULES = "rules"


class ActiveRules:
    """The rules of the config file; a wrong one degrades health, and the others hold."""

    def __init__(self, health: Health, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._health = health
        self._rule_book = RuleBook()
        self.take(texts)

    def all(self) -> tuple[Rule, ...]:
        return self._rule_book.rules

    def take(self, texts: Iterable[tuple[str, str]]) -> None:
        """Use these from now on."""
        self._rule_book = rule_book(texts)
        if self._rule_book.problems:
            problems = "; ".join(message for _, message in self._rule_book.problems)
            log.warning("rules that are not followed: %s", problems)
            self._health.set(
                RULES, problems, "see where: memd config check; mend it with memd rule set, or memd rule rm"
            )
        else:
            self._health.clear(RULES)


class ReflectionRunner:
    """Lets memories age, for a job or for someone who asked."""

    def __init__(self, stores: OwnStores, worker: Worker, rules: Callable[[], Sequence[Rule]]) -> None:
        self._stores = stores
        self._worker = worker
        self._rules = rules
        self._one = threading.Lock()

    def reflect(self, ns: str, who: str, dry: bool = False, **passes: bool) -> dict[str, Any]:
        """Age the memories of a workspace and link similar ones; returns what was done and what needs a decision.

        With `moves=False` only fading is done, with `fades=False` all the rest.
        """
        with self._one:
            options = ReflectionOptions(
                self._write, _pacer(), dry, who, **passes, moved=partial(announce_moved, self._worker)
            )
            return reflect(self._stores, self._stores.index(ns), self._rules(), datetime.now(UTC), options)

    def link(self, ns: str, who: str) -> int:
        """Only link memories, by mentions, tags and similarity; returns how many edges are new."""
        with self._one:
            options = ReflectionOptions(self._write, _pacer(), who=who)
            return link(self._stores, self._stores.index(ns), self._rules(), datetime.now(UTC), options)

    def _write(self, work: Callable[[Connection], Any]) -> Any:
        return self._worker.submit(self._stores.ledger.transact, work, turn=Turn.BACKGROUND).result()


def _pacer() -> Callable[[], None]:
    """A function that sleeps for as long as was worked since it last slept."""
    since = time.monotonic()

    def rest() -> None:
        nonlocal since
        time.sleep(min(MOST, max(LEAST, time.monotonic() - since)))
        since = time.monotonic()

    return rest
