"""The text voice in numpy finds what Whoosh's own scorer finds, reads each segment once, and outlives commits."""

from __future__ import annotations

import gc
import itertools
import math
import os
import random
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from whoosh import query

from benchmarks.whoosh_scorer import (
    K1,
    B,
    Scores,
    bm25,
    lengths_of,
    mean_length,
    query_terms,
    search,
    search_by_whoosh,
    whoosh_idf,
)
from memd.errors import StoreBroken
from memd.indexer.store.lexicon import Lexicon
from memd.indexer.store.lines import number_of
from memd.indexer.store.postings import ENTRY, SETTLED, PostingCache
from memd.indexer.store.segment import SHORT, PostingList, Segment
from memd.indexer.store.text import LARGE, TextIndex, build, document
from memd.models import Chunk
from tests.faults.agreement import rounds
from tests.lab import join_segments

SAME = 1e-13
"""Each term's score is the same to the last bit; Whoosh adds the terms in an order of its own, and sums of some
twenty doubles in another order differ by less than this."""

WORDS = """backup server router kitchen garden ticket release naïve Zürich Straße größe ErsatzTV getUserById
os.path.join snake_case_name 192.0.2.18 8409 42 京都に行きました 数据库 ไทย привет мир it's e-mail the of and a to
réindex""".split()
INVENTED = [f"{one}{two}{three}" for one in ("ba", "dor", "lun") for two in ("ke", "mi", "ra") for three in ("x", "zu")]
FIELDS = ("heading", "body", "exact")


def chunk(text: str, *heading: str) -> Chunk:
    return Chunk(text, 1, 1, heading)


def test_memory_is_counted_while_another_thread_opens_segments_and_reads_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, counted = TextIndex(tmp_path / "text"), Segment.memory
    for number in (1, 2):
        text.apply([(number, chunk("smew"))], ())
    text.postings()
    first, _ = text._segments._open.values()
    text.apply([(3, chunk("smew"))], ())

    def elsewhere(work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    class Words(list[str]):
        def __len__(self) -> int:
            elsewhere(lambda: first.lexicon("exact"))
            return super().__len__()

    def memory(segment: Segment) -> int:
        elsewhere(text.postings)
        return counted.__get__(segment)  # type: ignore[no-any-return]

    monkeypatch.setattr(first.lexicon("body"), "words", Words(["smew"]))
    monkeypatch.setattr(Segment, "memory", property(memory))
    assert text.memory > 0 and len(text._segments._open) == 3 and len(first._lexicons) == 2


def test_words_that_a_small_index_is_asked_for_do_not_pile_up(tmp_path: Path) -> None:
    """Each takes a list in each segment, also where nothing has the word."""
    index = TextIndex(tmp_path / "text")
    index.apply([(number, chunk(f"note {number}")) for number in range(1, 101)], ())
    for nth in range(10_000):
        index.postings().of("body", f"word{nth}")
    assert index.postings()._lists.total < 550_000


def test_a_small_segment_takes_little_memory(tmp_path: Path) -> None:
    index = TextIndex(tmp_path / "text")
    for number in range(1, 21):
        index.apply([(number, chunk(f"note {number}"))], ())
    index.close()
    tracemalloc.start()
    opened = TextIndex(tmp_path / "text").postings()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(opened.segments) == 20 and taken / 20 < 25_000


def test_only_large_segments_keep_their_files_open(tmp_path: Path) -> None:
    index = TextIndex(tmp_path / "text")
    before = len(os.listdir("/dev/fd"))
    for number in range(1, 21):
        index.apply([(number, chunk(f"note {number}"))], ())
        assert index.postings().frequency("exact", "note") == number
    assert len(os.listdir("/dev/fd")) == before
    index.apply([(number, chunk(" ".join(f"a{number * each}" for each in range(99)))) for number in range(21, 200)], ())
    assert index.postings().frequency("exact", "note") == 20 and len(os.listdir("/dev/fd")) == before + 3
    index.close()
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


def test_what_edits_delete_does_not_pile_up(tmp_path: Path) -> None:
    """Where the writer never rests, mostly small segments are joined; those that edits emptied must count as such."""
    index = TextIndex(tmp_path / "text")
    live = list(range(1, 1_001))
    index.apply([(number, chunk(f"note {number}")) for number in live], ())
    rng = random.Random(4)
    for nth in range(400):
        gone = [live.pop(rng.randrange(len(live))) for _ in range(6)]
        new = list(range(2_000 + nth * 6, 2_006 + nth * 6))
        index.apply([(number, chunk(f"note {number}")) for number in new], gone)
        live += new
        if index.small > 30 or index.large > 10:
            join_segments(index, 10)
    assert index.ids() == set(live)
    assert index.postings().size < 2_600, "3,400 were added"
    index.close()


def test_only_what_a_killed_writer_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoosh names segments at random: one in 3,300 has "tmp" in its name."""
    monkeypatch.setattr("whoosh.codec.base.Segment._random_id", classmethod(lambda cls, size=16: "5tmp0000000000000"))
    index = TextIndex(tmp_path / "text")
    index.apply([(1, chunk("a wren"))], ())
    index.close()
    for name in ("seal.json.tmp", "_MAIN_2.toc.1700000000.5", "MAIN_0123456789abcdef.pst"):
        (index.folder / name).write_bytes(b"torn")
    index = TextIndex(index.folder)
    index.verify()
    assert index.ids() == {1}
    names = {file.name.partition(".")[0] for file in index.folder.iterdir()}
    assert names == {"MAIN_5tmp0000000000000", "_MAIN_1", "format", "seal"}, "the rest is gone"
    index.close()


def sizes(index: TextIndex) -> list[int]:
    return [segment.size for segment in index.postings().segments]


def test_small_segments_are_joined_and_large_ones_only_where_there_are_too_many(tmp_path: Path) -> None:
    index, numbers = TextIndex(tmp_path / "text"), itertools.count(1)
    for size in (2_000, 300, 5, LARGE, LARGE + 1, 5):
        index.apply([(next(numbers), chunk("note")) for _ in range(size)], ())
    assert (index.large, index.small) == (3, 3)
    join_segments(index, 3)
    assert sizes(index) == [2_000, 300, 2 * LARGE + 11], "one that is no larger than all small ones goes with them"
    index.apply([(next(numbers), chunk("note"))], ())
    join_segments(index, 3)
    assert sizes(index) == [2_000, 300, 2 * LARGE + 11, 1]
    join_segments(index, 2)
    assert sizes(index) == [2_000, 300 + 2 * LARGE + 12]
    assert index.ids() == set(range(1, next(numbers)))
    index.close()


def test_a_segment_counts_by_what_is_left_of_it(tmp_path: Path) -> None:
    """Else what edits delete would stay in large segments for long."""
    index = TextIndex(tmp_path / "text")
    index.apply([(number, chunk("note")) for number in range(1, 1_101)], ())
    index.apply([(number, chunk("note")) for number in range(2_000, 2_300)], range(101, 1_101))
    index.apply([(3_000, chunk("note"))], ())
    assert (index.large, index.small) == (1, 2)
    join_segments(index, 1)
    assert sizes(index) == [101, 300]
    index.close()


def test_what_goes_while_segments_are_joined_stays_gone(tmp_path: Path) -> None:
    """A segment of which nothing is left is gone from the index, and keeps the others from nothing."""
    index = TextIndex(tmp_path / "text")
    for number in (1, 2, 3):
        index.apply([(number, chunk("wren")), (10 + number, chunk("wren"))], ())
    pieces, fresh = index.pieces(1), tmp_path / "fresh"
    build(fresh, (), index.folder, pieces)
    index.apply([(4, chunk("wren"))], [1, 11, 2])
    assert index.adopt(fresh, pieces)
    assert sizes(index) == [6, 1] and index.ids() == {12, 3, 13, 4}
    index.verify()
    assert not index.adopt(fresh, pieces)
    index.close()


def made(count: int, seed: int = 1, first: int = 1) -> list[tuple[int, Chunk]]:
    """Chunks of one to 300 words, a few of them in most chunks and most of them in few; some without a heading."""
    rng = random.Random(seed)
    pool = WORDS + INVENTED
    often = [1 / (rank + 1) for rank in range(len(pool))]
    texts = [" ".join(rng.choices(pool, often, k=rng.choice((1, 5, 40, 40, 300)))) for _ in range(count)]
    headings = [" ".join(rng.choices(pool, k=rng.randint(0, 3))) for _ in range(count)]
    return [(first + nth, chunk(texts[nth], headings[nth])) for nth in range(count)]


def questions(count: int = rounds(20, 60)) -> list[str]:
    rng = random.Random(3)
    asked = [" ".join(rng.choices([*WORDS, *INVENTED, "nowhere"], k=rng.randint(1, 8))) for _ in range(count)]
    return [*asked, "nowhere", "", "...", "the of and"]


@pytest.fixture
def index(tmp_path: Path):
    opened = TextIndex(tmp_path / "text")
    yield opened
    opened.close()


def assert_as_whoosh(index: TextIndex) -> None:
    """All matches and their scores are Whoosh's; what is asked for first comes first.

    Whoosh is asked for everything: asked for ten it skips blocks and now and then a hit that belongs among the ten.
    """
    for question in questions():
        terms, exact = query_terms(question)
        whoosh, mine = search_by_whoosh(index, terms, exact, None), search(index, terms, exact, None)
        scores = dict(whoosh)
        assert len(scores) == len(mine) == len(dict(mine)), question
        for (_, theirs), (number, score) in zip(whoosh, mine, strict=True):
            # Place by place the scores agree, and each chunk has its own: two may only change places as equals.
            assert math.isclose(score, theirs, rel_tol=SAME), question
            assert math.isclose(score, scores[number], rel_tol=SAME), question
        assert search(index, terms, exact, 10) == mine[:10]


@pytest.mark.parametrize(("matcher", "settled"), [(query.Or.DEFAULT_MATCHER, SETTLED), (query.Or.ARRAY_MATCHER, 10)])
def test_the_ranking_is_that_of_whoosh(index: TextIndex, matcher: int, settled: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(query.Or, "matcher_type", matcher)
    monkeypatch.setattr("memd.indexer.store.postings.SETTLED", settled)
    assert_as_whoosh(index)
    chunks = made(400)
    index.apply(chunks[:250], ())
    assert_as_whoosh(index)
    for start in range(250, 400, 15):
        index.apply(chunks[start : start + 15], ())
    assert_as_whoosh(index)
    index.apply((), [number for number, _ in chunks if number % 7 == 0])
    assert_as_whoosh(index)
    before = len(index.postings().segments)
    join_segments(index)
    assert len(index.postings().segments) < before
    assert_as_whoosh(index)
    index.apply(made(20, seed=9, first=1_000), range(1, 400))
    assert_as_whoosh(index)


@pytest.mark.parametrize("documents", [SHORT, SHORT + 1, 9_000])
def test_short_and_long_lists_are_read_by_whoosh_too(index: TextIndex, documents: int):
    chunks = [(number, chunk("backup " * (1 + number % 3) + "router", "server")) for number in range(1, documents + 1)]
    index.apply(chunks, ())
    assert_as_whoosh(index)
    assert [index.postings().frequency(field, "router") for field in ("body", "exact")] == [documents, documents]


def test_the_arrays_hold_what_was_put_in(index: TextIndex):
    chunks = dict(made(120))
    index.apply(list(chunks.items())[:70], ())
    index.apply(list(chunks.items())[70:], ())
    index.apply((), range(10, 30))
    for gone in range(10, 30):
        del chunks[gone]
    postings = index.postings()
    assert postings.count == len(chunks)
    assert sorted(postings.chunks[postings.live].tolist()) == sorted(chunks)
    for field in FIELDS:
        held = {number: Counter(document(one)[0][field]) for number, one in chunks.items()}
        for term in {term for counts in held.values() for term in counts}:
            docs, weights = postings.of(field, term)
            told = dict(zip(postings.chunks[docs].tolist(), weights.tolist(), strict=True))
            assert told == {number: counts[term] for number, counts in held.items() if term in counts}
            assert postings.frequency(field, term) == len(told)
        lengths = dict(zip(postings.chunks.tolist(), lengths_of(postings, field).tolist(), strict=True))
        for number, counts in held.items():
            # One byte a length: exact for short ones, some percent too long for others.
            assert counts.total() <= lengths[number] <= counts.total() * 1.04 + 1
        if field == "body":
            assert postings.lengths.tolist() == lengths_of(postings, field).tolist()
            mean = sum(lengths[number] for number in chunks) / len(chunks)
            assert math.isclose(postings.mean_length, mean, rel_tol=1e-9)


def test_the_lines_of_a_chunk_stay_its_own_when_segments_are_joined(index: TextIndex):
    text = "# Port {0}\n\n- Host {0}: nas\n- What about it?\n\n1. Ana: I left at 10:30 yesterday"
    chunks = {number: chunk(text.format(f"w{number}"), "server") for number in range(1, 120)}
    for start in range(0, 120, 6):
        index.apply(list(chunks.items())[start : start + 6], ())
    index.apply((), range(7, 20))
    assert len(index.postings().segments) > 8
    for _ in range(2):
        postings = index.postings()
        docs = np.flatnonzero(postings.live)
        firsts, ends = postings.line_spans(docs)
        for doc, first, end in zip(docs.tolist(), firsts.tolist(), ends.tolist(), strict=True):
            made = document(chunks[int(postings.chunks[doc])])[1]
            lines = postings.lines(np.arange(first, end))
            assert lines.sizes.tolist() == [len(line.terms) for line in made]
            assert lines.labels.tolist() == [line.label for line in made]
            assert lines.flags.tolist() == [line.flags for line in made]
            assert lines.terms.tolist() == [number_of(term) for line in made for term in line.terms]
        index.verify()
        join_segments(index)
    assert len(index.postings().segments) == 1
    assert postings.lines(np.array([-1])).sizes.tolist() == [0]


def test_an_empty_index_has_empty_arrays(index: TextIndex):
    postings = index.postings()
    assert (postings.count, postings.size, postings.lexicon("body"), len(postings.lengths)) == (0, 0, [], 0)
    assert postings.mean_length == mean_length(index, postings, "body") == 1.0
    assert search(index, ["backup"], ["backup"], 5) == []


def test_what_is_cached_cannot_be_written(index: TextIndex):
    index.apply(made(20), ())
    postings = index.postings()
    docs, weights = postings.of("exact", "backup")
    for array in (docs, weights, postings.chunks, postings.lengths):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


# --- the lexicon --------------------------------------------------------------------------------------------


@pytest.fixture
def words(index: TextIndex) -> TextIndex:
    index.apply([(1, chunk("rebuild the builder, building builds")), (2, chunk("build certificate 8409"))], ())
    index.apply([(3, chunk("build certificates ZÜRICH 京都 bild")), (4, chunk("Certificate built abuild"))], ())
    index.apply([(5, chunk("buildings forgotten"))], ())
    index.apply((), [5])
    return index


def test_a_part_of_many_words_is_found_without_a_copy_for_each() -> None:
    """Each look-up of one place used to copy where all words begin: 7 s for a question at 300,000 chunks."""
    words = sorted(f"{nth:05}{'moor' if nth % 25 == 0 else 'fen'}" for nth in range(50_000))
    lexicon = Lexicon(words, np.ones(len(words), np.int64))
    lexicon.warm()
    tracemalloc.start()
    found = lexicon.containing("oo")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [words[nth] for nth in found] == [word for word in words if "oo" in word] and len(found) == 2_000
    assert most < 4 * len(words)


def test_the_lexicon_is_every_word_in_order(words: TextIndex):
    lexicon = words.postings().lexicon("exact")
    assert lexicon == sorted(set(lexicon))
    assert {"rebuild", "builder", "zürich", "京", "8409", "abuild"} <= set(lexicon)


def test_words_by_their_beginning_and_by_a_part(words: TextIndex):
    postings = words.postings()
    assert postings.starting("exact", "buil", 10) == ["build", "builder", "building", "builds", "built"]
    assert postings.starting("exact", "buil", 2) == ["build", "builder"]
    assert postings.starting("exact", "zür", 10) == ["zürich"]
    assert postings.starting("exact", "buildi", 10) == ["building"], "what only a deleted chunk has is no word"
    assert postings.containing("exact", "uild", 10) == ["build", "abuild", "builder", "building", "builds", "rebuild"]
    assert postings.containing("exact", "uild", 1) == ["build"]
    assert postings.containing("exact", "", 10) == postings.containing("exact", "\n", 10) == []
    assert postings.starting("exact", "xyz", 10) == postings.containing("exact", "xyz", 10) == []
    assert postings.containing("nothing", "a", 10) == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("certifcate", ["certificate", "certificates"]),
        ("certificaet", ["certificate", "certificates"]),
        ("cretifciate", ["certificate"]),
        ("biuld", ["build", "bild"]),
        ("guild", []),
        ("build", ["bild", "builds", "built"]),
        ("bil", []),
        ("8408", []),
        ("forgoten", []),
        ("zurich", ["zürich"]),
    ],
)
def test_near_spellings(words: TextIndex, typed: str, meant: list[str]):
    assert words.postings().near("exact", typed, 5) == meant


# --- commits ------------------------------------------------------------------------------------------------


def overwrite(file: Path) -> None:
    file.write_bytes(bytes(len(file.read_bytes())))


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize(("settled", "runs"), [(2, 2), (SETTLED, 2)])
def test_a_commit_leaves_what_was_read_of_other_segments(
    index: TextIndex, settled: int, runs: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memd.indexer.store.postings.SETTLED", settled)
    monkeypatch.setattr("memd.indexer.store.text.HELD", 0)
    index.apply([(1, chunk("wren goshawk", "Birds")), (2, chunk("wren"))], ())
    (file,) = index.folder.glob("*.pst")
    before = search(index, ["wren"], ["wren"], None)
    assert {number for number, _ in before} == {1, 2}
    overwrite(file)
    index.apply([(3, chunk("wren", "Birds"))], [2])
    assert len(index.postings().runs) == runs
    assert {number for number, _ in search(index, ["wren"], ["wren"], None)} == {1, 3}
    with pytest.raises(StoreBroken):
        search(index, ["goshawk"], [], None)


def test_joined_segments_are_let_go(index: TextIndex):
    for number in range(1, 10):
        index.apply([(number, chunk("wren"))], ())
    search(index, ["wren"], ["wren"], None)
    old = [segment.id for segment in index.postings().segments]
    join_segments(index)
    search(index, ["wren"], ["wren"], None)
    (new,) = (segment.id for segment in index.postings().segments)
    held = {segment for key in index._segments.lists._values for segment in key[0]}
    assert new not in old
    assert held == set(index._segments._open) == {new}


def test_postings_can_be_read_after_their_files_were_removed(index: TextIndex):
    for number in range(1, 9):
        index.apply([(number, chunk(f"wren bird{number}"))], ())
    before = index.postings()
    index.apply((), [3])
    join_segments(index)
    assert sorted(before.chunks[before.of("exact", "wren").docs].tolist()) == list(range(1, 9))
    assert before.starting("exact", "bird", 9) == [f"bird{number}" for number in range(1, 9)]
    assert index.postings().frequency("exact", "wren") == 7
    assert index.postings().frequency("exact", "bird3") == 0


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [("*.pst", overwrite), ("*.pst", halve), ("*.trm", overwrite), ("*.trm", halve), ("*.toc", overwrite),
     ("*number.col", Path.unlink), ("*number.col", halve)],
)  # fmt: skip
def test_a_torn_file_is_told(index: TextIndex, pattern: str, damage: Callable[[Path], object]):
    index.apply(made(60), ())
    index.verify()
    (file,) = index.folder.glob(pattern)
    damage(file)
    with pytest.raises(StoreBroken):
        index.verify()
    with pytest.raises(StoreBroken):
        for word in WORDS:
            search(index, *query_terms(word), None)


def test_a_torn_lexicon_is_told(index: TextIndex, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memd.indexer.store.text.HELD", 0)
    index.apply(made(60), ())
    postings = index.postings()
    (file,) = index.folder.glob("*.trm")
    overwrite(file)
    with pytest.raises(StoreBroken):
        postings.starting("exact", "b", 5)


def test_searching_while_a_writer_commits(index: TextIndex):
    """There is always one wren; a search sees the one of the last commit before it, or a later one."""
    index.apply([(1, chunk("wren", "Birds")), *made(50, first=1_000)], ())
    done, latest, wrong = threading.Event(), [1], []

    def ask_on(ask: Callable[[], Sequence[int]]) -> None:
        try:
            while not done.is_set():
                least = latest[0]
                found = ask()
                if len(found) != 1 or found[0] < least:
                    wrong.append((least, found))
        except (StoreBroken, OSError, AssertionError) as error:
            wrong.append(error)

    def by_score() -> list[int]:
        return [number for number, _ in search(index, ["wren"], ["wren"], 5)]

    def by_word() -> list[int]:
        postings = index.postings()
        assert postings.starting("exact", "wre", 3) == postings.containing("exact", "ren", 3) == ["wren"]
        return postings.chunks[postings.of("heading", "bird").docs].tolist()

    def by_whoosh() -> list[int]:
        return [number for number, _ in search_by_whoosh(index, ["wren"], ["wren"], 5)]

    # One that is let go is closed, and whoever got it before goes on with it.
    earlier = TextIndex(index.folder)

    def by_count() -> list[int]:
        assert earlier.count() == index.count() == 51
        earlier.verify()
        return by_score()

    asked = (by_score, by_word, by_whoosh, by_count)
    threads = [threading.Thread(target=ask_on, args=(ask,)) for ask in asked]
    for thread in threads:
        thread.start()
    for number in range(2, 42):
        index.apply([(number, chunk("wren", "Birds"))], [number - 1])
        latest[0] = number
        if number % 10 == 0:
            join_segments(index)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- the parts ----------------------------------------------------------------------------------------------


def test_kept_lists_are_bounded_and_the_last_asked_stay():
    def held(length: int) -> PostingList:
        return PostingList(np.zeros(length, np.int32), np.zeros(length, np.uint16))

    kept: PostingCache[str] = PostingCache(3 * (250 + ENTRY))
    for name in "abc":
        kept.get(name, lambda: held(250))
    kept.get("a", lambda: pytest.fail("it was kept"))
    kept.get("d", lambda: held(250))
    kept.get("a", lambda: pytest.fail("it was asked for last but one"))
    read: list[str] = []
    kept.get("b", lambda: read.append("b") or held(250))
    assert read == ["b"]
    assert kept.total <= kept.most
    kept.get("huge", lambda: held(5_000))
    assert list(kept._values) == ["huge"]
    kept.keep(lambda key: False)
    assert kept.total == 0


def test_the_lists_of_a_segment_go_when_it_is_joined_and_not_before(index: TextIndex, monkeypatch: pytest.MonkeyPatch):
    """A commit that adds one goes through none of the lists: readers follow ten commits a second."""
    looked: list[int] = []
    keep = PostingCache.keep
    monkeypatch.setattr(PostingCache, "keep", lambda lists, wanted: looked.append(keep(lists, wanted) or 1))

    def listed() -> int:
        index.postings().of("body", "kestrel")
        return len(index._segments.lists._values)

    for number in range(1, 13):
        index.apply([(number, chunk("kestrel"))], ())
        assert (listed(), looked) == (number, [])
    join_segments(index)
    assert listed() < 12 and looked


def test_a_term_earns_by_the_formula():
    lengths = np.array([10, 0, 40], np.float32)
    earned = bm25(np.array([0, 2]), np.array([1.0, 3.0]), lengths, 25.0, 100, 2)
    idf = math.log(100 / 3) + 1
    assert (whoosh_idf(100, 2), K1, B) == (idf, 1.2, 0.75)
    assert np.allclose(earned, [idf * 2.2 / (1 + 1.2 * (0.25 + 0.3)), idf * 6.6 / (3 + 1.2 * (0.25 + 1.2))])


def test_the_best_come_first_and_equals_in_order():
    scores = Scores(6)
    scores.add(np.array([0, 1, 3, 4]), np.array([1.0, 2.0, 2.0, 1.0]))
    scores.add(np.array([4, 5]), np.array([0.5, 1.0]), weight=2.0)
    docs, sums = scores.best(None)
    assert (docs.tolist(), sums.tolist()) == ([1, 3, 4, 5, 0], [2.0, 2.0, 2.0, 2.0, 1.0])
    for limit in range(6):
        assert scores.best(limit)[0].tolist() == [1, 3, 4, 5, 0][:limit]


def test_each_document_has_its_language(tmp_path: Path) -> None:
    index = TextIndex(tmp_path / "text")
    texts = ["The backup runs at night.", "Die Sicherung läuft jede Nacht und ist grün.", "京都に行きました。"]
    for number in range(1, 10):
        index.apply([(number, chunk(texts[number % 3]))], [])
    index.apply((), [3])
    for segments in (8, 1):
        postings = index.postings()
        assert len(postings.segments) == segments
        docs = postings.places(np.array([1, 2, 3, 5, 6]))
        assert postings.languages[docs].tolist() == [b"de", b"ja", b"", b"ja", b""], "3 is gone"
        join_segments(index)
    index.close()
