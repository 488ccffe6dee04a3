"""Making vectors takes the share of the time that it may have, less on battery, and leaves a processor to questions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memd.config.schema import EmbeddingSettings
from memd.daemon.embedding import backlog
from memd.daemon.embedding.backlog import LONGEST_REST, on_battery, rest
from memd.indexer.model.embedding_process import EmbeddingProcess


def supply(folder: Path, name: str, **told: str) -> None:
    (folder / name).mkdir(parents=True)
    for what, value in told.items():
        (folder / name / what).write_text(f"{value}\n")


def test_a_machine_runs_on_battery_while_its_own_is_used_up(tmp_path: Path) -> None:
    assert not on_battery(tmp_path / "none"), "a machine that tells nothing"
    supply(tmp_path, "AC", type="Mains", online="0")
    supply(tmp_path, "mouse", type="Battery", scope="Device", status="Discharging")
    assert not on_battery(tmp_path), "a mouse has a battery of its own"
    supply(tmp_path, "BAT0", type="Battery", status="Charging")
    assert not on_battery(tmp_path)
    (tmp_path / "BAT0" / "status").write_text("Discharging\n")
    assert on_battery(tmp_path)


def test_the_rests_leave_the_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "on_battery", lambda: False)
    assert (rest(2.0, 1.0), rest(2.0, 0.5), rest(2.0, 0.05)) == (0.0, 2.0, LONGEST_REST)
    monkeypatch.setattr(backlog, "on_battery", lambda: True)
    assert (rest(2.0, 1.0), rest(1.0, 0.5)) == (2.0, 3.0)


@pytest.mark.linux  # threads of another process are found by /proc
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux tells a process where to run")
def test_a_backlog_leaves_a_processor_to_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    every, process = os.sched_getaffinity(0), EmbeddingProcess(EmbeddingSettings(), tmp_path)
    process.embed(["a smew"])
    pid = process.process.pid

    def places() -> list[set[int]]:
        return [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{pid}/task")]

    process.leave_room(True)
    assert {len(place) for place in places()} == {1}
    process.leave_room(False)
    assert all(place == every for place in places())
    process.close()
    process.leave_room(True)
