"""Many workspaces, few of them open: indexes are opened when they are asked, closed again, and nothing is lost."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memd.config.schema import EmbeddingSettings, Settings
from memd.daemon.embedding.thread import Embedding
from memd.daemon.jobs.built_in import IndexMaintenance
from memd.daemon.process.health import Health
from memd.daemon.writer.tasks import scan_workspaces, verify_text
from memd.daemon.writer.worker import Worker
from memd.errors import StoreBroken
from memd.indexer.query.many_workspaces import MOST_SEARCHED
from memd.indexer.query.search import search
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.models import Answer, Ask, Workspace
from tests.conftest import PATIENCE, Home, write_notes
from tests.faults.agreement import SOAK, eventually
from tests.hash_embedder import HashEmbedder
from tests.lab import Lab

MANY, OPEN = 200 if SOAK else 60, 5

LETTERS = "bcdfghjklm"


def word(nth: int, start: str) -> str:
    """A word of letters only, another one for each number: digits would be searched in pieces."""
    return start + "".join(LETTERS[int(digit)] for digit in f"{nth:03}")


def notes(nth: int) -> dict[str, str]:
    return {"MEMORY.md": f"## Bird\n\nthe {word(nth, 'wren')} sings\n", "memory/day.md": "## Day\n\nrain all day\n"}


# --- with a daemon ----------------------------------------------------------------------------------------------


def opened(home: Home) -> set[str]:
    """The folders of text indexes in which the daemon has files open."""
    assert home.daemon is not None
    folders = set()
    for link in Path(f"/proc/{home.daemon.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            file = link.readlink()
            folders |= {file.parent.name} if file.parent.parent == home.state / "text" else set()
    return folders


@pytest.mark.linux  # all of them are watched by inotify
@pytest.mark.timeout(900)
def test_many_workspaces_with_five_open_are_asked_and_saved_in(home: Home) -> None:
    roots = [write_notes(home.path.parent / f"agent{nth}", notes(nth)) for nth in range(MANY)]
    config = "".join(f'[[workspace]]\npath = "{root}"\n' for root in roots)
    home.configure(f"[watch]\nscan_seconds = 3600\n[index]\nmax_open = {OPEN}\n{config}")
    client = home.start()
    client.sync(vectors=True)

    def asked(nth: int, start: str, **how: str) -> list[str]:
        return [hit["path"] for hit in client.query(word(nth, start), ns=f"agent{nth}", **how)["hits"]]

    for nth in range(MANY):
        assert asked(nth, "wren", mode="text") == ["MEMORY.md"], nth
    eventually(lambda: len(opened(home)) <= OPEN)
    assert {row["watch"] for row in client.status()["workspaces"]} == {"inotify"}
    for nth, root in enumerate(roots):
        write_notes(root, {"memory/new.md": f"## New\n\nthe {word(nth, 'lark')} came\n"})
        client.note(f"the {word(nth, 'finch')} went", ns=f"agent{nth}", title="Finch")
    client.sync(vectors=True)
    for nth in range(MANY):
        assert asked(nth, "lark", mode="text", sync="none") == ["memory/new.md"], nth
        assert asked(nth, "finch", mode="text", sync="none"), nth
    assert client.query(word(7, "lark"), mode="text")["hits"][0]["ns"] == "agent7", "asked of all at once"
    eventually(lambda: len(opened(home)) <= OPEN)
    told = client.doctor()
    assert told["ok"], [finding for finding in told["findings"] if finding["state"] == "broken"]
    home.stop()
    client = home.start()
    assert asked(MANY - 1, "lark", mode="text") == ["memory/new.md"]
    assert len(opened(home)) <= 2, "a start opens no index but the one that is asked"


# --- the answer of many -----------------------------------------------------------------------------------------


COMMON = "router backup garden invoice train lamp printer server window bread meeting ticket travel paint".split()
VERDICTS = ("none", "weak", "found")


def filled(lab: Lab, rng: random.Random, count: int, rare: list[str]) -> None:
    """Small workspaces: words that all of them have, words that few have, and codes of their own."""
    for nth in range(count):
        entries = []
        for entry in range(3):
            words = [*rng.sample(COMMON, 4), *rng.sample(rare, rng.randint(0, 2)), f"unique{nth}x{entry}"]
            entries.append(f"## {rng.choice(COMMON).title()}\n\nThe {' '.join(rng.sample(words, len(words)))} today.\n")
        lab.add({f"memory/2026-02-{1 + nth % 17:02}.md": "\n".join(entries)}, f"agent{nth}")


def prefix_of_union(many: Answer, alone: list[Answer]) -> bool:
    """Whether the hits are the best that the workspaces have when each is asked alone."""
    every = sorted((hit.score for answer in alone for hit in (*answer.hits, *answer.near)), reverse=True)
    return [hit.score for hit in many.hits] == every[: len(many.hits)]


@pytest.fixture(scope="module", params=range(20) if SOAK else range(2))
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, list[str]]]:
    """More workspaces than are searched one by one, and what they are asked; nobody writes to them."""
    rng, count = random.Random(request.param), MOST_SEARCHED + 15
    rare = ["".join(rng.choices("abcdefghiklmnoprstuvwz", k=9)) for _ in range(20)]
    lab = Lab(tmp_path_factory.mktemp("many"), HashEmbedder())
    filled(lab, rng, count, rare)
    one, other = rng.sample(rare, 2)
    questions = [one, other, *COMMON[:2], f"{one} {COMMON[0]}", f"{COMMON[1]} {other} {COMMON[2]} {one}", "zebra",
                 f"where is the {one[:4]}{one[5:]} zebra", *(f"unique{rng.randrange(count)}x{nth}" for nth in range(4)),
                 "when was the printer ticket paid", "latest invoice", f"{COMMON[3]} on 2026-02-05"]  # fmt: skip
    yield lab, questions
    lab.close()


@pytest.mark.parametrize("mode", ["text", "vector", "hybrid"])
def test_many_answer_as_each_of_them_asked_alone(asked: tuple[Lab, list[str]], mode: str) -> None:
    lab, questions = asked
    for question in questions:
        alone = [lab.ask(question, ns, mode=mode) for ns in lab.stores.indexes]
        many = lab.ask(question, mode=mode)
        assert prefix_of_union(many, alone), question
        assert bool(many.hits) == any(answer.hits for answer in alone), question
        assert VERDICTS.index(many.verdict) >= max(VERDICTS.index(answer.verdict) for answer in alone), question
        assert set(many.missing) == set.intersection(*(set(answer.missing) for answer in alone)), question


def test_a_word_that_one_of_many_workspaces_has_is_found_there(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    filled(lab, random.Random(5), MANY, [word(nth, "wren") for nth in range(30)])
    for nth in range(0, MANY, 7):
        answer = lab.ask(f"unique{nth}x1")
        assert (answer.hits[0].ns, answer.verdict, answer.missing) == (f"agent{nth}", "found", ()), nth
        assert f"unique{nth}x1" in answer.hits[0].text
    assert lab.ask("unique5x1 unique9x77").missing == ("unique9x77",)
    lab.close()


# --- without one ------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, HashEmbedder())
    lab.stores.most_open = 3
    for nth in range(8):
        lab.add(notes(nth), f"agent{nth}")
    lab.stores.close_unused()
    yield lab
    lab.close()


def open_names(stores: OwnStores) -> set[str]:
    return {index.workspace.ns for index in stores.open_indexes}


def with_open_text(stores: OwnStores) -> set[str]:
    return {index.workspace.ns for index in stores.indexes.values() if index.open_text is not None}


def test_the_least_recently_used_are_closed(lab: Lab) -> None:
    assert open_names(lab.stores) == {"agent5", "agent6", "agent7"}
    assert lab.ask(word(1, "wren"), "agent1").hits
    assert lab.ask(word(6, "wren"), "agent6").hits
    assert any(lab.stores._unused())
    lab.stores.close_unused()
    assert open_names(lab.stores) == {"agent1", "agent6", "agent7"}
    assert not any(lab.stores._unused())


def test_memory_is_bounded_too_and_the_one_in_use_stays(lab: Lab) -> None:
    lab.stores.most_open, lab.stores.most_bytes = 100, 1
    assert lab.ask(word(2, "wren"), "agent2").hits
    assert any(lab.stores._unused())
    lab.stores.close_unused()
    assert open_names(lab.stores) == {"agent2"}
    assert not any(lab.stores._unused())


def test_what_is_saved_while_closed_is_found_by_words_and_by_meaning(lab: Lab) -> None:
    for nth in range(8):
        lab.save({"memory/new.md": f"## New\n\nthe {word(nth, 'lark')} came\n"}, f"agent{nth}")
        lab.stores.close_unused()
    for index in lab.stores.indexes.values():
        index.close()
    lab.embed()
    for nth in range(8):
        assert lab.ask(word(nth, "lark"), f"agent{nth}", mode="text").hits
        assert lab.ask(f"the {word(nth, 'lark')} came", f"agent{nth}", mode="vector").hits
        index = lab.stores.index(f"agent{nth}")
        assert index.mirror is not None and len(index.mirror) == 3 == lab.stores.vector_count(index)
        lab.stores.close_unused()
        assert lab.stores.vector_count(index) == 3


def test_who_reads_can_go_on_after_the_index_was_closed_and_written(lab: Lab) -> None:
    index = lab.stores.index("agent7")
    postings, mirror, count = index.text.postings(), index.mirror, len(index.files)
    index.close()
    lab.save({"MEMORY.md": "## Bird\n\nit flew away\n"}, "agent7")
    assert postings.frequency("exact", word(7, "wren")) == 1, "what was read stays as it was"
    assert mirror is not None and len(mirror) == count == 2
    assert not index.text.postings().frequency("exact", word(7, "wren"))


def test_vectors_that_are_loaded_while_others_are_saved_are_all_there(lab: Lab) -> None:
    """Whoever loads reads the ledger; whoever saves writes it first, and then changes what is loaded."""
    index, stop = lab.stores.index("agent0"), threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            mirror = index.mirror
            assert mirror is not None
            seen.append(len(mirror))
            index.drop_mirrors()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for nth in range(20):
        lab.save({f"memory/{nth}.md": f"## Note\n\nthe {word(nth, 'swift')} flies\n"}, "agent0")
        lab.embed()
        mirror = index.mirror
        assert mirror is not None and len(mirror) == nth + 3
    stop.set()
    for reader in readers:
        reader.join()
    assert seen


def test_threads_that_open_one_index_at_once_get_the_same(lab: Lab) -> None:
    for _ in range(10):
        index = lab.stores.index("agent3")
        index.close()
        together, got = threading.Barrier(4), []

        def fetch(index: OwnIndex = index, together: threading.Barrier = together, got: list = got) -> None:
            together.wait()
            got.append((index.text, index.files, index.mirror))

        threads = [threading.Thread(target=fetch) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({tuple(map(id, parts)) for parts in got}) == 1


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    (tmp_path / "state").mkdir()
    stores = OwnStores(tmp_path / "state")
    worker = Worker(stores, Settings(), Health())
    worker.start()
    for nth in range(3):
        worker.submit(
            worker.stores.open_index, Workspace(f"agent{nth}", write_notes(tmp_path / f"agent{nth}", notes(nth)))
        )
    worker.submit(scan_workspaces, worker).result(PATIENCE)
    for index in stores.indexes.values():
        index.close()
    yield worker
    worker.stop(10)
    stores.close()


def test_a_scan_opens_no_index_where_nothing_changed(worker: Worker) -> None:
    worker.submit(scan_workspaces, worker).result(PATIENCE)
    assert not with_open_text(worker.stores)
    root = worker.stores.index("agent1").workspace.root
    write_notes(root, {"memory/new.md": "## New\n\nsnow\n"})
    assert worker.submit(scan_workspaces, worker).result(PATIENCE).files == 1
    assert with_open_text(worker.stores) == {"agent1"}


def test_a_text_index_that_is_gone_is_made_again_by_the_scan(worker: Worker) -> None:
    shutil.rmtree(worker.stores.text_folder(worker.stores.index("agent1").id))
    worker.submit(scan_workspaces, worker).result(PATIENCE)
    assert search(worker.stores, Ask(word(1, "wren"), ("agent1",), mode="text"), 10_000).hits


def test_a_text_index_that_lacks_chunks_is_found_out_when_it_is_opened(worker: Worker) -> None:
    index = worker.stores.index("agent2")
    index.text.apply((), list(index.text.ids())[:1])
    index.close()
    worker.submit(scan_workspaces, worker).result(PATIENCE)
    with pytest.raises(StoreBroken, match="1 of 2 chunks"):
        _ = index.text
    assert worker.submit(verify_text, worker, "agent2").result(PATIENCE) == 1
    assert index.text.count() == 2


def test_a_resting_daemon_opens_what_nobody_asked_and_repairs_it(worker: Worker) -> None:
    index = worker.stores.index("agent0")
    index.text.apply((), list(index.text.ids())[:1])
    index.close()
    maintenance = IndexMaintenance(worker, Embedding(worker, EmbeddingSettings(provider="none")))
    for _ in range(2 * len(worker.stores.indexes)):
        maintenance.look()
        assert maintenance._thread is not None
        maintenance._thread.join()
    assert with_open_text(worker.stores) == set(worker.stores.indexes)
    assert index.text.count() == 2
    for other in worker.stores.indexes.values():
        other.close()
    maintenance.look()
    maintenance._thread.join()
    assert not with_open_text(worker.stores), "what was closed again is left alone"
