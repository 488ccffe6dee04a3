"""Holds the rules in force, for whoever applies them and whoever changes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from memd.daemon.health import Health
from memd.lifecycle.book import Book, book
from memd.lifecycle.rules import Rule

log = logging.getLogger("memd")

NAME = "rules"


class Ruling:
    """The rules as the config file last said; a wrong one is told as a trouble, and the others hold."""

    def __init__(self, health: Health, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._health = health
        self._book = Book()
        self.take(texts)

    def all(self) -> tuple[Rule, ...]:
        return self._book.rules

    def take(self, texts: Iterable[tuple[str, str]]) -> None:
        """Go by these from now on."""
        self._book = book(texts)
        if self._book.problems:
            said = "; ".join(message for _, message in self._book.problems)
            log.warning("rules that are not followed: %s", said)
            self._health.set(NAME, said, "see where: memd config check; mend it with memd rule set, or memd rule rm")
        else:
            self._health.clear(NAME)
