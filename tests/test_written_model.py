"""The proof of writing: whatever memd, editors and kills do to the files in whatever order, no word is lost.

Every acknowledged write stands in the Markdown or in the history, bytes outside an edit are what they were, and `undo`
brings the exact bytes back.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zlib
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from memd.errors import Conflict
from tests.conftest import PATIENCE, ROOT, forge
from tests.faults.agreement import rounds
from tests.written import carry_out, expected, opened, sync

FILES = {
    "MEMORY.md": b"# Memory\n\n## Home\n\nrouter fjord\n\n## Likes\n\nshort answers\n",
    "memory/2026-02-15.md": b"# Day\r\n\r\n## One\r\n\r\nfirst line\r\n\r\n## Two\r\n\r\nlast line\r\n",
    "memory/2026-02-16.md": b"\xef\xbb\xbf# Day\n\nbefore it all\n\n## Only\n\nno line end here",
    "memory/2026-02-17.md": b"# Day\n\n## Odd\n\na byte \xff that is no text\n\n## Even\n\nand after it\n",
}
PLACES = (
    "safe-write-appended",
    "safe-write-before-exchange",
    "safe-write-exchanged",
    "ledger-commit:2",
    "ledger-commit:3",
    "ledger-commit:4",
)
"""Where a write is killed; the ledger commits before a file changes and after it."""

WORDS = ("fjord", "line", "answers", "Zürich", "設定", "`code`", "100 %")
paths = st.sampled_from((*FILES, "memory/2026-02-18.md"))
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
whats = st.sampled_from(("append", "put", "both", "remove"))


class WritersAndEditors(RuleBasedStateMachine):
    """memd writes, people edit, processes die."""

    @initialize()
    def begin(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="memd-"))
        self.root = self.place / "agent"
        for path, data in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)
        self.stores, self.index = opened(self.place / "state", self.root)
        sync(self.stores, self.index)
        self.number = count(1)
        self.said: list[str] = []
        """A word of each acknowledged write that no other text has."""
        self.done: list[tuple[int, str, dict[str, bytes | None], dict[str, bytes | None]]] = []
        """What was done and can be undone: action, its word, the files before and after."""

    # --- memd -----------------------------------------------------------------------------------------------

    @rule(what=whats, path=paths, other=paths, body=words)
    def write(self, what: str, path: str, other: str, body: str) -> None:
        token, order = self._order(what, path, other, body)
        before = self._files(order["paths"])
        action = carry_out(self.stores, self.index, order)
        self._wrote(action, token, order, before)

    @rule(what=whats, path=paths, other=paths, body=words, place=st.sampled_from(PLACES))
    def write_and_be_killed(self, what: str, path: str, other: str, body: str, place: str) -> None:
        token, order = self._order(what, path, other, body)
        before = self._files(order["paths"])
        action = self._killed(order, place)
        if action is not None:
            self._wrote(action, token, order, before)
            return
        after = self._files(order["paths"])
        # All of it or nothing.
        assert after in (before, self._wanted(order, before)), (order, place, before, after)

    @precondition(lambda self: self.done)
    @rule(place=st.sampled_from(("", *PLACES)), back=st.integers(0, 3))
    def undo(self, place: str, back: int) -> None:
        action, token, before, after = self.done.pop(max(0, len(self.done) - 1 - back))
        now = self._files(before)
        others = [word for word in self._standing() if word != token]
        order = {"what": "undo", "action": action}
        if place:
            if self._killed(order, place) is None:
                assert now == after or self._files(before) == now or self._standing(others) == others
                assert now != after or self._files(before) in (before, after), (order, place)
                return
        else:
            try:
                carry_out(self.stores, self.index, order)
            except Conflict:
                assert now != after, "nobody has changed it since"
                assert self._files(before) == now, "a conflict must overwrite nothing"
                return
        if now == after:
            assert self._files(before) == before, (now, self._files(before))
        assert set(others) <= set(self._standing()), "what others wrote must stay"

    @rule()
    def sync(self) -> None:
        sync(self.stores, self.index)

    @rule()
    def start_again(self) -> None:
        self.stores.close()
        self.stores, self.index = opened(self.place / "state", self.root)

    # --- people ---------------------------------------------------------------------------------------------

    @rule(path=paths, old=st.sampled_from(WORDS), new=st.sampled_from(WORDS))
    def edit_in_place(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        if file.exists():
            data = file.read_bytes().replace(old.encode(), new.encode(), 1)
            with file.open("r+b") as opened_file:
                opened_file.write(data)
                opened_file.truncate()

    @rule(path=paths, body=words)
    def append_in_an_editor(self, path: str, body: str) -> None:
        file = self.root / path
        if file.exists():
            with file.open("ab") as opened_file:
                opened_file.write(f"\nlater {body}\n".encode())

    @rule(path=paths, body=words)
    def replace_in_an_editor(self, path: str, body: str) -> None:
        """A person decides to keep only this; what memd wrote there is in the history, read or not."""
        file = self.root / path
        fresh = file.with_suffix(".tmp")
        fresh.write_bytes(f"# Anew\n\n## Anew\n\n{body}\n".encode())
        fresh.rename(file)

    @rule(path=paths)
    def delete_in_an_editor(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    # --- how ------------------------------------------------------------------------------------------------

    def _order(self, what: str, path: str, other: str, body: str) -> tuple[str, dict[str, Any]]:
        token = f"token{next(self.number)}x"
        chosen = list(dict.fromkeys((path, other))) if what == "both" else [path]
        text = f"\n## {token}\n\n{body}\n" if what == "append" else f"## {token}\n\n{body}"
        return token, {"what": "put" if what == "both" else what, "paths": chosen, "text": text}

    def _wrote(self, action: int, token: str, order: dict[str, Any], before: dict[str, bytes | None]) -> None:
        after = self._files(order["paths"])
        assert after == self._wanted(order, before), (order, before, after)
        if order["what"] != "remove":
            self.said.append(token)
        if after != before:
            self.done.append((action, token, before, after))

    def _wanted(self, order: dict[str, Any], before: dict[str, bytes | None]) -> dict[str, bytes | None]:
        return {path: expected(order["what"], data, order["text"]) for path, data in before.items()}

    def _killed(self, order: dict[str, Any], place: str) -> int | None:
        """Let another process do it and die there; its answer, if it came that far."""
        self.stores.close()
        arguments = [str(self.place / "state"), str(self.root), json.dumps(order)]
        done = forge("tests.written").run(arguments, {**os.environ, "MEMD_FAILPOINT": place}, ROOT, None, PATIENCE)
        assert done.returncode in (0, -9) or "Conflict" in done.stderr, done.stderr
        self.stores, self.index = opened(self.place / "state", self.root)
        assert not list(self.root.rglob("*.memd-aside")), "something was left behind"
        begun = self.stores.ledger.reader.execute("SELECT COUNT(*) FROM actions WHERE state = 'begun'").fetchone()[0]
        assert not begun
        return int(done.stdout) if done.returncode == 0 else None

    def _files(self, chosen: Any) -> dict[str, bytes | None]:
        """The bytes of some files; one that was made and never written to holds nothing, as if it were not there."""
        return {path: (file.read_bytes() or None) if (file := self.root / path).exists() else None for path in chosen}

    def _standing(self, among: list[str] | None = None) -> list[str]:
        """The words that stand in the Markdown."""
        data = b"".join(file.read_bytes() for file in self.root.rglob("*.md"))
        return [word for word in (self.said if among is None else among) if word.encode() in data]

    def _remembered(self) -> bytes:
        run = self.stores.ledger.reader.execute
        texts = [row[0] for row in run("SELECT body FROM texts")]
        texts += [part for row in run("SELECT removed, inserted FROM splices") for part in row]
        return b"\n".join(zlib.decompress(text) for text in texts)

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        try:
            sync(self.stores, self.index)
            remembered, standing = self._remembered(), set(self._standing())
            lost = [word for word in self.said if word not in standing and word.encode() not in remembered]
            assert not lost, f"acknowledged, and nowhere: {lost}"
        finally:
            self.stores.close()
            shutil.rmtree(self.place, ignore_errors=True)


WritersAndEditors.TestCase.settings = settings(
    max_examples=rounds(12, 500),
    stateful_step_count=rounds(15, 40),
    deadline=None,
    derandomize=rounds(1, 0) == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestWritersAndEditors = WritersAndEditors.TestCase
