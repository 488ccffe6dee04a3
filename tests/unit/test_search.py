"""The search core on real stores: what Chroma and the exact path share, pending vectors, and what went meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from memd.errors import ModelUnavailable, StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.language.question import parse
from memd.indexer.maintenance.rebuild import reconcile_text
from memd.indexer.model.pooling import Vectors
from memd.indexer.query import certainty, grep, hits, lookup, many_workspaces, meaning, signals
from memd.indexer.query.candidates import CandidatePool
from memd.indexer.query.search import find, search
from memd.indexer.query.why_not import why_not
from memd.indexer.query.wording import match_words
from memd.indexer.store import vector_table
from memd.indexer.store.postings import SizedCache
from memd.models import Answer, Ask, Filters
from tests.hash_embedder import HashEmbedder
from tests.lab import MAX_BYTES, TODAY, Lab, Narrow

WORDS = (
    "router fjord apple trees shed backup photo archive disk port lamp hall garden ticket release train vienna".split()
)
NOTES = {
    "memory/2026-02-10.md": "## Router\n\nThe router is called fjord and stands in the hall.\n",
    "memory/2026-02-01.md": "## Garden\n\nPlanted two apple trees behind the shed.\n",
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, HashEmbedder())
    yield made
    made.close()


@pytest.fixture
def wordless(tmp_path: Path) -> Iterator[Lab]:
    """Stores without a model."""
    (tmp_path / "plain").mkdir()
    made = Lab(tmp_path / "plain")
    yield made
    made.close()


def many(count: int) -> dict[str, str]:
    rng = random.Random(5)
    texts = [f"## Entry {nth}\n\n{' '.join(rng.choices(WORDS, k=12))}.\n" for nth in range(count)]
    return {f"memory/2025-{1 + nth // 28:02d}-{1 + nth % 28:02d}.md": text for nth, text in enumerate(texts)}


def told(answer: Answer) -> list[tuple[object, ...]]:
    return [(hit.path, hit.start_line, hit.text, round(hit.score, 3), hit.ranks) for hit in answer.hits]


# Both ways to the nearest vectors


def test_an_index_that_is_being_made_again_is_not_believed(tmp_path: Path) -> None:
    """Whoever asks then waits until it is filled; it used to be a sure "none"."""
    lab = Lab(tmp_path, HashEmbedder())
    index = lab.add({"MEMORY.md": "The kettle whistles at nine.\n"})
    lab.stores.renew_text(index)
    with pytest.raises(StoreBroken):
        lab.ask("kettle", mode="text")
    reconcile_text(lab.stores, index)
    assert lab.ask("kettle", mode="text").verdict == "found"
    lab.close()


def test_why_not_agrees_with_the_answer(lab: Lab):
    index = lab.add(NOTES)
    for question in ("router", "xyzzy plugh"):
        answer = lab.ask(question)
        for hit, shown in (*((hit, True) for hit in answer.hits), *((hit, False) for hit in answer.near)):
            asked = Ask(question, ("agent",), today=TODAY)
            told = why_not(lab.stores, index, hit.path, hit.start_line, asked)
            assert told["shown"] == shown and bool(told["reasons"]) != shown


@pytest.mark.parametrize("question", ["shed on Tuesday", "yesterday", "latest", "what happened last week", "shed"])
def test_why_not_agrees_with_the_answer_to_a_question_of_a_time(wordless: Lab, question: str):
    index = wordless.add(NOTES | {"memory/2026-02-17.md": "## Shed\n\nPainted the shed.\n"})
    hits = {hit.path for hit in wordless.ask(question).hits}
    for path in index.files:
        told = why_not(wordless.stores, index, path, 1, Ask(question, ("agent",), today=TODAY))
        assert told["shown"] == (path in hits) and bool(told["reasons"]) == (path not in hits), path


# While vectors are missing


def test_words_are_trusted_while_no_vector_is_there(lab: Lab, wordless: Lab):
    wordless.add(NOTES)
    lab.add({})
    lab.save(NOTES)
    for question in ("which router is called fjord", "router colour", "xyzzy plugh"):
        pending, without = lab.ask(question), wordless.ask(question)
        assert (pending.verdict, pending.confidence) == (without.verdict, without.confidence)
    assert lab.ask("which router is called fjord").verdict == "found"
    assert wordless.ask("router colour").verdict == "weak"
    assert wordless.ask("xyzzy plugh").verdict == "none"


def test_a_note_without_its_vector_yet_is_found_by_its_words(lab: Lab):
    lab.add(NOTES)
    lab.save({"memory/2026-02-12.md": "## NAS\n\nThe password is under the mat.\n"})
    (hit, *_) = lab.ask("password mat").hits
    assert (hit.path, hit.ranks) == ("memory/2026-02-12.md", {"text": 1})
    lab.embed()
    assert lab.ask("password mat").hits[0].ranks == {"text": 1, "vector": 1}


def test_vectors_answer_while_the_text_index_is_being_made_again(lab: Lab):
    index = lab.add(NOTES)
    lab.stores.renew_text(index)
    assert lab.ask("the router called fjord").hits[0].path == "memory/2026-02-10.md"
    with pytest.raises(StoreBroken):
        lab.ask("router", mode="text")


def test_an_empty_workspace_answers_nothing(lab: Lab, wordless: Lab):
    for made in (lab, wordless):
        made.add({"MEMORY.md": ""})
        for mode in ("hybrid", "text", "vector"):
            answer = made.ask('router -apple "a b" ro*', mode=mode)
            assert (answer.hits, answer.verdict, answer.confidence) == ([], "none", 0.0)


# While the model before answers


def test_a_former_model_answers_from_its_own_vectors(lab: Lab):
    lab.add(NOTES)
    before = told(lab.ask("the router called fjord"))
    former = lab.stores.model
    assert former is not None
    lab.stores.use_model(Narrow(), "test")
    lab.stores.use_former(former.id, former.embedder)
    assert told(lab.ask("the router called fjord")) == before
    # A workspace that came afterwards has no vector of the model before, and those of the new one are of another size.
    lab.add({"memory/2026-02-11.md": "## Office\n\nThe router of the office.\n"}, "later")
    answer = lab.ask("the router of the office", "agent", "later")
    assert {hit.ns for hit in answer.hits} == {"agent", "later"}
    assert all("vector" not in hit.ranks for hit in answer.hits if hit.ns == "later")
    lab.stores.drop_former()
    assert lab.ask("the router of the office", "later").hits[0].ranks == {"text": 1, "vector": 1}


def test_a_question_outlives_the_model_that_understood_it(lab: Lab):
    index = lab.add(NOTES)
    former = lab.stores.model
    assert former is not None
    lab.stores.use_model(Narrow(), "test")
    lab.stores.use_former(former.id, former.embedder)
    sense, _ = meaning.question_vector(lab.stores, "router")
    assert sense is not None
    lab.stores.drop_former()
    assert sense.nearest(index, 10, None, Filters()) == []
    assert np.isnan(sense.near(index, [1, 2])).all()


def test_a_vector_that_was_begun_is_that_of_its_question_and_model_only(lab: Lab):
    """The model may change, and a mistyped word be corrected, while another process makes it."""
    before = lab.stores.model
    assert before is not None
    made = lab.stores.question_vectors[before.id, "router"] = Future[Vectors]()
    made.set_result(np.ones((1, before.embedder.dims), np.float32))
    assert (meaning.vector_of(lab.stores, before, "router") == 1).all()
    assert (meaning.vector_of(lab.stores, before, "ruoter") != 1).any()
    lab.stores.use_model(Narrow(), "test")
    after = lab.stores.model
    assert after is not None and len(meaning.vector_of(lab.stores, after, "router")) == Narrow.dims


def test_a_vector_that_could_not_be_made_is_not_kept_and_its_answer_says_so(lab: Lab):
    class Away(HashEmbedder):
        away = True

        def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
            if self.away:
                raise ModelUnavailable("the server is away")
            return super().embed(texts, urgent)

    lab.add(NOTES)
    lab.stores.use_model(Away(), "test")
    assert meaning.question_vector(lab.stores, "router") == (None, "the model is away")
    assert lab.ask("router").unheard and not lab.stores.question_vectors
    Away.away = False
    assert meaning.question_vector(lab.stores, "router")[0] is not None
    assert not lab.ask("router").unheard


# While files change


def test_a_chunk_that_goes_between_two_looks_is_left_out(lab: Lab):
    index = lab.add(NOTES)
    columns, postings, ask = index.columns, index.text.postings(), Ask("router apple", ("agent",), 8, today=TODAY)
    question = parse(ask.query, TODAY)
    lab.save({"memory/2026-02-10.md": "## Other\n\nThe secret is out.\n"})
    every = columns.shown(columns.ranked.chunk)
    weighed = signals.weigh(index, columns, every, question, match_words(postings, question.words), None, 8)
    assert len(weighed) == len(every) and weighed[0].parts
    shown = hits.answer(lab.stores, ask, weighed, 1.0)
    assert [hit.path for hit in shown.hits + shown.near] == ["memory/2026-02-01.md"]


def test_questions_during_edits_never_fail_nor_miss_a_note_nor_bring_back_what_was_taken_out(lab: Lab):
    lab.add(many(20))
    gone: set[str] = set()
    done = threading.Event()
    wrong: list[object] = []

    def ask() -> None:
        while not done.is_set():
            for mode in ("hybrid", "text"):
                known = set(gone)
                look = partial(lab.ask, "the secret word of the router is token", mode=mode)
                try:
                    texts = [hit.text for hit in lab.stores.in_snapshot(look)[1].hits]
                except Exception as error:  # noqa: BLE001
                    wrong.append(error)
                    return
                wrong.extend((token, text) for token in known for text in texts if token in text)
                if known and not any("secret word" in text for text in texts):
                    wrong.append(texts)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for nth in range(40):
        text = f"## Secret\n\nThe secret word of the router is token{nth}end.\n\n## Beside {nth % 3}\n\nA lamp {nth}.\n"
        lab.save({"memory/2026-02-14.md": text})
        lab.embed()
        gone.add(f"token{nth - 1}end")
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert "token39end" in lab.ask("secret word token39end").hits[0].text


def test_a_command_line_is_found_as_it_is_pasted(lab: Lab) -> None:
    lab.add({
        "memory/2026-02-01.md": "## Clean\n\nNever run `rm -rf build/` beside Trados, `ss -ltnp` shows it.\n",
        "memory/2026-02-02.md": "## Other\n\nThe rf antenna shows what ss and rm say of the build.\n",
    })  # fmt: skip
    for question in ("rm -rf build/", "ss -ltnp", "never run rm -RF with Trados"):
        assert lab.ask(question, mode="text").hits[0].path == "memory/2026-02-01.md", question
    assert [hit.path for hit in lab.ask("build -Trados", mode="text").hits] == ["memory/2026-02-02.md"]


# --- what rests ---------------------------------------------------------------------------------------------


def rest(lab: Lab, heading: str, tier: str = "dormant") -> None:
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE memories SET tier = ? WHERE heading = ?", (tier, heading))


def shown(answer: Answer) -> list[str]:
    return [hit.key.partition("#")[2] for hit in answer.hits]


RESTING = {
    "memory/2026-02-10.md": "## Router\n\nThe router is called fjord and stands in the hall.\n\n"
    "## Lamp\n\nThe router has a green lamp, they say.\n",
    "memory/2026-02-01.md": "## Garden\n\nPlanted two apple trees behind the shed.\n",
}


@pytest.mark.parametrize("tier", ["dormant", "sensory"])
def test_what_rests_is_left_out_where_something_awake_answers_as_well(lab: Lab, tier: str):
    lab.add(RESTING)
    assert set(shown(lab.ask("router hall"))) == {"router", "lamp"}
    rest(lab, "Lamp", tier)
    answer = lab.ask("router hall")
    assert (shown(answer), answer.resting) == (["router"], 1)
    whole = search(lab.stores, Ask("router hall", ("agent",), today=TODAY, all_tiers=True), MAX_BYTES)
    assert (shown(whole), whole.resting) == (["router", "lamp"], 0)
    only = search(lab.stores, Ask("router", ("agent",), filters=Filters(tier=tier), today=TODAY), MAX_BYTES)
    assert shown(only) == ["lamp"]
    why = why_not(lab.stores, lab.stores.index("agent"), "memory/2026-02-10.md", 7, Ask("router hall", ("agent",)))
    assert why["reasons"] == [f"it rests ({tier}), and awake memories answer as well: --all shows it"]


def test_ageing_never_hides_the_only_or_the_better_answer(lab: Lab):
    lab.add(RESTING)
    rest(lab, "Garden")
    rest(lab, "Lamp")
    assert shown(lab.ask("apple trees behind the shed"))[0] == "garden"
    better = lab.ask("green lamp of the router")
    assert shown(better)[0] == "lamp" and better.resting == 0
    rest(lab, "Router")
    assert set(shown(lab.ask("router"))) == {"router", "lamp"}


@pytest.mark.parametrize("asked", ["since:2020", "until:2090"])
def test_a_note_without_a_day_is_of_no_time(wordless: Lab, asked: str):
    wordless.add(NOTES)
    assert wordless.ask(f"router {asked}", mode="text").hits
    wordless.stores.ledger.transact(lambda run: run.execute("UPDATE memories SET date = ''"))
    assert wordless.ask("router", mode="text").hits and not wordless.ask(f"router {asked}", mode="text").hits


def test_what_rests_may_be_the_better_of_answers_that_have_little_of_the_question(wordless: Lab):
    """None of those that are awake is relevant enough to be a hit beside others: it used to be an error."""
    wordless.add({"memory/2026-02-10.md": f"## Hall\n\nThe lamp.\n\n## Shed\n\nA lamp {'and some tools ' * 20}.\n"})
    rest(wordless, "Hall")
    answer = wordless.ask("lamp plugh xyzzy quux frobozz grault garply waldo", mode="text")
    assert (shown(answer), [hit.key for hit in answer.near]) == (["shed"], ["2026-02-10#hall"])


def test_a_hit_in_another_language_is_as_sure_as_it_is_near_itself(lab: Lab):
    index = lab.add(NOTES)
    asked = {text: Ask(text, ("agent",), today=TODAY) for text in ("plugh xyzzy quux", "planted two apple trees")}
    without, having = (find(lab.stores, [index], ask, parse(ask.query, TODAY)) for ask in asked.values())
    translated = without.candidates[0].parts
    translated |= {"translated": 0.1, "section_meaning": 0.9}
    assert without.confidence > certainty.FOUND
    # Another chunk, in the question's own language, is as near as before.
    translated["section_meaning"] = 0.1
    assert without.confidence < certainty.FOUND
    # What has the words is not taken for less because its meaning seems far.
    having.candidates[0].parts.update(translated=0.1, section_meaning=0.1)
    assert having.confidence >= certainty.FOUND


def test_words_that_belong_together_count_more_than_words_apart(wordless: Lab):
    apart = "## Hall\n\nThe door is to be painted soon, in a light green that dries fast, and the key is lost.\n"
    together = "## Yard\n\nThe key of the green door hangs beside the window where the hose and the ladder are.\n"
    wordless.add({"memory/2026-02-10.md": apart, "memory/2026-02-09.md": together})
    hits = wordless.ask("green door key", explain=True).hits
    assert [hit.path for hit in hits] == ["memory/2026-02-09.md", "memory/2026-02-10.md"]
    assert "pairs" in (hits[0].explain or {}) and "pairs" not in (hits[1].explain or {})


# --- what it costs to look something up ---------------------------------------------------------------------


def steps(lab: Lab, look_up: Callable[[], Sized]) -> int:
    """How many steps SQLite takes for a lookup that finds something."""
    assert len(look_up())
    return lab.steps(look_up)


def test_texts_are_looked_up_at_the_same_cost_however_large_the_workspace_is(lab: Lab) -> None:
    index, model = lab.add(many(30)), lab.stores.model
    assert model is not None
    reader, dims = lab.stores.ledger.reader, model.embedder.dims

    def costs() -> list[int]:
        # The newest: whoever goes through the workspace meets them last.
        texts = [row["digest"] for row in reader.execute("SELECT digest FROM chunks ORDER BY id DESC LIMIT 10")]
        return [
            steps(lab, lambda: vector_table.collection_rows(reader, model.id, index.id, texts, dims)),
            steps(lab, lambda: vector_table.chunks_of(reader, index.id, texts)),
        ]

    few = costs()
    lab.save(many(300))
    lab.embed()
    assert all(later < 1.1 * before for before, later in zip(few, costs(), strict=True))


def test_a_collection_is_opened_at_the_same_cost_however_large_other_workspaces_are(lab: Lab) -> None:
    index, model = lab.add(many(3)), lab.stores.model
    assert model is not None
    reader = lab.stores.ledger.reader

    def cost() -> int:
        return steps(lab, lambda: range(vector_table.text_count(reader, model.id, index.id)))

    alone = cost()
    lab.add({path: f"{text}\nToo.\n" for path, text in many(300).items()}, "other")
    assert cost() < 1.1 * alone


def test_many_days_are_looked_up_at_the_cost_of_one_the_newest_first(lab: Lab) -> None:
    index = lab.add(many(300))
    postings = index.text.postings()

    def named(question: str) -> list[int]:
        return CandidatePool(index, parse(question, TODAY), postings, None, 500).besides

    days = {
        row["id"]: row["date"]
        for row in lookup.join(index.reader, index.columns.ranked.chunk.tolist(), Filters()).values()
    }
    one, all_days = (
        f"what happened on {max(days.values())}",
        f"what happened since {min(days.values())}",
    )
    assert steps(lab, lambda: named(all_days)) == steps(lab, lambda: named(one))
    assert [days[chunk] for chunk in named(all_days)] == sorted(days.values(), reverse=True)
    assert {days[chunk] for chunk in named(one)} >= {max(days.values())}


@pytest.mark.parametrize("mode", ["text", "vector", "hybrid"])
def test_of_many_workspaces_those_with_the_best_hits_are_searched(lab: Lab, mode: str, monkeypatch) -> None:
    entries = list(many(120).items())
    for nth in range(29):
        lab.add(dict(entries[nth::29]), f"agent{nth}")
    lab.add(NOTES, "other")
    names = tuple(lab.stores.indexes)

    def asked(query: str) -> tuple[list[tuple[str, str]], int]:
        ask = Ask(query, names, limit=3, mode=mode, today=TODAY)
        found = find(lab.stores, list(lab.stores.indexes.values()), ask, parse(query, TODAY, ask.filters))
        hits = search(lab.stores, ask, MAX_BYTES).hits
        return [(hit.ns, hit.path) for hit in hits], len(found.by_workspace)

    queries = ["router fjord", "planted apple trees behind the shed", "train to vienna", "on:2025-03-02 lamp"]
    every = [asked(query) for query in queries]
    monkeypatch.setattr(many_workspaces, "MOST_SEARCHED", 8)
    few = [asked(query) for query in queries]

    assert [searched for _, searched in every] == [30] * 4 and [searched for _, searched in few] == [8] * 4
    assert [hits for hits, _ in few] == [hits for hits, _ in every]
    assert few[1][0][0][0] == "other"


def test_a_question_is_moved_as_far_as_its_words_are_in_doubt(lab: Lab) -> None:
    index = lab.add(many(60))
    heard, _ = meaning.question_vector(lab.stores, "the train to the fjord")
    assert heard is not None and index.mirror is not None
    nearest = [chunk for chunk, _ in heard.nearest(index, 50, None, Filters())]

    def lead(vector: meaning.QuestionVector) -> float:
        cosines = vector.cosines(index, nearest)
        return float(cosines[meaning.NEAREST].mean() - cosines[meaning.LATER].mean())

    moved = heard.moved(index, nearest, 1.0)
    assert np.linalg.norm(moved.vector) == pytest.approx(1.0)
    assert lead(heard) < lead(heard.moved(index, nearest, 0.5)) < lead(moved)
    assert heard.moved(index, nearest, 0.0) is heard
    assert heard.moved(index, nearest[:20], 1.0) is heard, "none is far"
    # A workspace that was once asked in another language has vectors of the other model too.
    lab.stores.use_multilingual(Narrow())
    other = lab.stores.multilingual
    assert other is not None
    rows = lab.unembedded(other)
    ingest.save_vectors(lab.stores, other, rows, other.embedder.embed([row["text"] for row in rows]))
    for language, stays in (("", False), ("de", True)):
        both = replace(heard, foreign=meaning.ForeignVector(lab.stores, other, "the train to the fjord", language))
        assert both.in_foreign(index) is not None
        assert (both.moved(index, nearest, 1.0) is both) == stays
    index.mirror.drop(nearest[:1])
    assert heard.moved(index, nearest, 1.0) is heard, "one has gone"


def test_a_chunk_that_waits_for_the_other_model_is_unknown_not_judged_by_the_first(lab: Lab) -> None:
    index = lab.add(many(60))
    heard, _ = meaning.question_vector(lab.stores, "the train to the fjord")
    lab.stores.use_multilingual(Narrow())
    other = lab.stores.multilingual
    assert heard is not None and other is not None
    made, *waiting = lab.unembedded(other)
    ingest.save_vectors(lab.stores, other, [made], other.embedder.embed([made["text"]]))
    asked = replace(heard, foreign=meaning.ForeignVector(lab.stores, other, "der Zug zum Fjord", "de"))
    assert np.isnan(asked.cosines(index, [row["id"] for row in waiting])).all()
    assert [chunk for chunk, _ in asked.nearest(index, 50, None, Filters())] == [made["id"]]
    english = replace(heard, foreign=meaning.ForeignVector(lab.stores, other, "the train to the fjord", ""))
    assert not np.isnan(english.cosines(index, [row["id"] for row in waiting])).any()


def test_a_chunk_that_stands_out_in_meaning_is_never_none(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    index, ask = lab.add(many(40)), Ask("marble statue pillar", ("agent",), today=TODAY)
    found = find(lab.stores, [index], ask, parse(ask.query, TODAY, Filters()))
    margin = found.by_workspace[index.id].margin
    assert margin > 0
    for least, verdict in ((margin + 0.01, "none"), (margin - 0.01, "weak")):
        monkeypatch.setattr(certainty, "STANDS_OUT", least)
        assert search(lab.stores, ask, MAX_BYTES).verdict == verdict


def test_the_margin_is_that_of_chunks_that_are_there(lab: Lab) -> None:
    index = lab.add(many(40) | {"MEMORY.md": "Quagga okapi tapir.\n"})
    ask = Ask("quagga okapi tapir", ("agent",), today=TODAY)

    def margin() -> float:
        return find(lab.stores, [index], ask, parse(ask.query, TODAY, Filters())).by_workspace[index.id].margin

    before = margin()
    # Its text stays in the file, and with it its words and its vector.
    lab.stores.ledger.transact(lambda run: run.execute("UPDATE memories SET deleted = '2026' WHERE role = 'memory'"))
    assert margin() < before


# --- words that the index does not know -----------------------------------------------------------------------


def test_files_are_read_again_only_for_a_word_that_may_stand_in_them(
    wordless: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read = grep.read_note
    monkeypatch.setattr(grep, "read_note", lambda path, most: opened.append(path.name) or read(path, most))
    monkeypatch.setattr(grep, "_read_texts", SizedCache(0, len))
    index = wordless.add(NOTES)

    def look(*words: str) -> tuple[dict[str, str], int]:
        opened.clear()
        # At rest: the stamps of a file that was read right after a change say nothing.
        index.files = {path: row if not row.racy else replace(row, racy=0) for path, row in index.files.items()}
        return grep.holding(index, words, MAX_BYTES, 60), len(opened)

    day = "memory/2026-02-10.md"
    assert look("quetzal") == ({}, 2)
    assert look("quetzal", "zeppelin", "κόσμος", "日本語") == ({}, 0)
    assert look("quetzal", "fjord") == ({day: "fjord"}, 2)
    assert look("hall")[0] == {day: "hall"}, "too short to be known from its pieces"
    assert look("route") == ({}, 2), "a part of a word is none"
    wordless.save({day: "## Bird\n\nA Quetzal, 日本語 and ΚΌΣΜΟΣ.\n"})
    assert look("quetzal")[0] == {day: "quetzal"}
    assert look("κόσμοσ")[0] == {day: "κόσμοσ"}
    assert look("日")[0] == {day: "日"}
    index.files = {path: replace(row, racy=1) for path, row in index.files.items()}
    (index.workspace.root / day).write_text("A zeppelin.\n")
    assert grep.holding(index, ["zeppelin"], MAX_BYTES, 60) == {day: "zeppelin"}, "whatever its stamps say"
