"""A daemon and its Chroma: what boilerplate, crashes and hangs there cost is nothing that a question would notice."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memd.protocol.client import Client
from tests.conftest import Home
from tests.faults.agreement import assert_agreement, chroma_processes, eventually, serve, shown, wait_for_collections

pytestmark = pytest.mark.usefixtures("chroma_at_once")

BEAT = "\n\n".join(["## Heartbeat\n\nHEARTBEAT_OK"] * 2_000) + "\n"
WORD = "marmalade " * 30_000


def child_of(home: Home) -> int:
    """The one that there is, once one that a daemon left behind has ended."""
    (child,) = eventually(lambda: len(found := chroma_processes(home)) == 1 and found)
    return int(child)


def texts(home: Home) -> int:
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        return int(ledger.execute("SELECT COUNT(DISTINCT digest) FROM chunks").fetchone()[0])


def has_chroma(home: Home) -> bool:
    """Whether the daemon has loaded anything of Chroma: its native part is mapped as soon as it is imported."""
    assert home.daemon is not None
    return "chromadb" in Path(f"/proc/{home.daemon.pid}/maps").read_text()


def ask(client: Client) -> None:
    assert "ErsatzTV" in shown(client, "ErsatzTV", mode="hybrid")


def test_boilerplate_costs_one_row_and_no_question(home: Home, workspace: Path) -> None:
    """Thousands of equal vectors are the worst that Chroma can be given; they once stopped the daemon for minutes."""
    client = serve(home, workspace)
    client.sync(vectors=True)
    (workspace / "memory" / "2026-02-17.md").write_text(BEAT)
    (workspace / "memory" / "2026-02-18.md").write_text(WORD)
    while client.status()["pending"] or client.status()["workspaces"][0]["chunks"] < 2_000:
        ask(client)
    client.sync(vectors=True)
    ask(client)
    chunks = assert_agreement(home, workspace)
    assert chunks > 2_000 and texts(home) < chunks - 1_990
    assert len(chroma_processes(home)) == 1 and not has_chroma(home)
    ask(client)
    assert home.stop() == 0
    eventually(lambda: not chroma_processes(home))


def test_what_happens_to_chroma_costs_the_daemon_nothing(home: Home, workspace: Path) -> None:
    client = serve(home, workspace)
    client.sync(vectors=True)
    wait_for_collections(home)
    first = child_of(home)
    os.kill(first, signal.SIGSEGV)
    (workspace / "MEMORY.md").write_text("## New\n\nthe crashed merlin\n")
    client.sync(vectors=True)
    assert "merlin" in shown(client, "merlin", mode="vector")
    assert_agreement(home, workspace)
    assert client.status()["degraded"] == [] and child_of(home) != first
    os.kill(child_of(home), signal.SIGSTOP)
    (workspace / "MEMORY.md").write_text("## New\n\nthe hanging hobby\n")
    client.sync(vectors=True)
    assert "hobby" in shown(client, "hobby", mode="vector")
    ask(client)
    assert home.stop() == 0, "nor does a stop wait for it"


def test_it_ends_with_a_daemon_that_is_killed_and_the_next_one_takes_over(home: Home, workspace: Path) -> None:
    client = serve(home, workspace)
    client.sync(vectors=True)
    child = child_of(home)
    home.kill()
    (workspace / "MEMORY.md").write_text("## New\n\nthe orphaned osprey\n")
    client = home.start()
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    # It may have been loading Chroma when its daemon was killed, and looks up when it has.
    eventually(lambda: child not in chroma_processes(home))
    child_of(home)


def test_a_start_with_nothing_new_leaves_chroma_alone(home: Home, workspace: Path) -> None:
    serve(home, workspace).sync(vectors=True)
    wait_for_collections(home)
    assert home.stop() == 0
    client = serve(home, workspace)
    client.sync(vectors=True)
    assert "apple trees" in shown(client, "Planted two apple trees behind the shed", mode="vector")
    assert client.status()["degraded"] == [] and not chroma_processes(home)
    assert client.doctor()["ok"] and len(chroma_processes(home)) == 1
