"""What a question's words earn: shares of a whole, whatever the words are and however common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from memd.indexer.language.words import words
from memd.indexer.query.wording import WordMatches, match_words
from memd.indexer.store.postings import Postings
from memd.indexer.store.text import TextIndex
from memd.models import Chunk

TEXTS = {
    1: "We build the shed. The build is slow.",
    2: "build, build and build",
    3: "The rebuild took long, self-care helps.",
    4: "ErsatzTV plays on the TV in the hall at 10.0.0.1 port 8409.",
    5: "The TV is broken, says Zoë on the road trip.",
    6: "東京タワーに行きました",
    7: "",
    8: "builder buildings rebuilding overbuilt",
}
WORDS = [
    "build",
    "rebuild",
    "builder",
    "tv",
    "ErsatzTV",
    "10.0.0.1",
    "port",
    "bilud",
    "nowhere",
    "東京",
    "zoe",
    "the",
    "10",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextIndex]:
    made = TextIndex(tmp_path_factory.mktemp("text") / "index")
    made.apply([(number, Chunk(text, 1, 1, ("Notes",))) for number, text in TEXTS.items()], ())
    yield made
    made.close()


def of(tmp_path: Path, *texts: str) -> TextIndex:
    made = TextIndex(tmp_path / "index")
    made.apply([(nth, Chunk(text, 1, 1, ())) for nth, text in enumerate(texts, 1)], ())
    return made


def question_words(postings: Postings, text: str, prefixes: Sequence[str] = ()) -> WordMatches:
    return match_words(postings, list(words(text)), [list(words(prefix)) for prefix in prefixes])


def earned(heard: WordMatches) -> dict[int, float]:
    return dict(zip(heard.postings.chunks.tolist(), heard.earned.tolist(), strict=True))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=8), st.lists(st.sampled_from(["buil", "re", "東京", "zzz"]), max_size=2)
)
def test_a_share_is_never_more_than_the_whole(index: TextIndex, asked: list[str], prefixes: list[str]):
    heard = question_words(index.postings(), " ".join(asked), prefixes)
    assert heard.earned.min() >= 0 and heard.earned.max() <= 1
    assert 0 <= heard.known <= 1
    docs = np.arange(heard.postings.size)
    sections = heard.of_sections(docs, docs % 3, 3)
    assert (sections >= 0).all() and (sections <= 1).all()
    for chunk in TEXTS:
        assert 0 <= heard.had_by(chunk) <= 1


def test_a_part_of_a_word_never_outweighs_the_word_however_common_it_is(tmp_path: Path):
    index = of(tmp_path, *[f"We build wall {number}." for number in range(40)], "The rebuild took a year.")
    shares = earned(question_words(index.postings(), "build"))
    assert 0 < shares[41] < min(share for chunk, share in shares.items() if chunk != 41)


def test_a_longer_word_that_is_asked_for_counts_in_full_beside_its_part(index: TextIndex):
    for question in ("build rebuild", "rebuild build"):
        heard = question_words(index.postings(), question)
        whole = {form for word in heard.matches if word.share == 1.0 for form in word.forms}
        assert {"build", "rebuild"} <= whole
        assert heard.had_by(3) > 0.4


def test_an_identifier_counts_in_full_after_a_piece_of_it(index: TextIndex):
    heard = question_words(index.postings(), "the TV of ErsatzTV")
    assert heard.had_by(4) == pytest.approx(1)
    assert heard.had_by(5) < 0.5


def test_a_repeated_word_is_one_word(index: TextIndex):
    once, twice = (
        question_words(index.postings(), "build xyzzy"),
        question_words(index.postings(), "build xyzzy Build XYZZY xyzzy"),
    )
    assert (twice.weight, twice.missing, twice.known) == (once.weight, once.missing, once.known)


def test_pieces_of_an_identifier_or_a_number_are_not_the_thing_itself(tmp_path: Path):
    index = of(tmp_path, "The TV is broken.", "One is 1, zero is 0, ten is 10.", "The road was long, the trip short.")
    for question, chunk in (("ErsatzTV", 1), ("10.0.0.1", 2)):
        heard = question_words(index.postings(), question)
        assert heard.known < 0.9 and heard.had_by(chunk) < 0.9
    assert question_words(index.postings(), "road-trip").had_by(3) == pytest.approx(1)


@pytest.mark.parametrize("asked", ["1899", "1,899", "1.899"])
def test_a_number_is_the_same_however_its_digits_are_grouped(tmp_path: Path, asked: str):
    texts = "Paid 1,899 EUR.", "Paid 1.899 EUR.", "Paid 1899 EUR.", "Version 1, serial 899."
    index = of(tmp_path, *texts, *["A line like any other."] * 60)
    heard = question_words(index.postings(), asked)
    assert [heard.had_by(chunk) == pytest.approx(1) for chunk in range(1, 5)] == [True, True, True, False]
    assert not heard.absent


@pytest.mark.parametrize(("noted", "asked"), [("Müller", "Mueller"), ("Loewe", "Löwe"), ("Äpfel", "AEPFEL")])
def test_an_umlaut_and_its_two_letters_are_one(tmp_path: Path, noted: str, asked: str):
    index = of(tmp_path, f"Call {noted} on Friday.", f"On Friday {asked.lower()}@example.org wrote.", "A poet calls.")
    heard = question_words(index.postings(), f"{asked} friday")
    assert [heard.had_by(chunk) for chunk in (1, 2, 3)] == [1, 1, 0] and not heard.absent
    assert question_words(of(tmp_path / "other", "Ein großer Pott.").postings(), "poet").missing == ["poet"]


def test_an_irregular_form_is_found_and_is_not_what_is_written(tmp_path: Path):
    index = of(tmp_path, "We met in May.", "We meet in June.", "Nobody came.")
    heard = question_words(index.postings(), "met")
    assert [heard.had_by(chunk) for chunk in (1, 2, 3)] == [1, 1, 0]
    assert [heard.has_as_written(chunk) for chunk in (1, 2, 3)] == [True, False, False]
    assert question_words(of(tmp_path / "other", "Nobody came.").postings(), "met").missing == ["met"]


def test_known_is_what_any_chunk_has_and_had_by_what_one_has(index: TextIndex):
    heard = question_words(index.postings(), "port broken nowhere")
    assert 0.5 < heard.known < 1
    assert 0 < heard.had_by(4) < heard.known
    assert heard.had_by(4) + heard.had_by(5) == pytest.approx(heard.known)
    assert (heard.had_by(2), heard.had_by(999)) == (0, 0)
    assert heard.missing == ["nowhere"]
    assert question_words(index.postings(), "").known == 0


def test_a_word_that_is_spelled_right_is_not_read_as_another(tmp_path: Path):
    index = TextIndex(tmp_path / "text")
    index.apply([(1, Chunk("We must remember the match.", 1, 1, ()))], ())
    heard = question_words(index.postings(), "december march remembre")
    assert heard.corrected == {"remembre": ["remember"]} and heard.missing == ["december", "march"]


def test_a_slip_counts_less_than_the_word_and_is_told(index: TextIndex):
    right, wrong = question_words(index.postings(), "broken"), question_words(index.postings(), "brokne")
    assert wrong.corrected == {"brokne": ["broken"]} and not right.corrected
    assert wrong.had_by(5) == right.had_by(5), "that it was only guessed is for the verdict to say"
    assert 0 < earned(wrong)[5] < earned(right)[5]


def test_a_heading_counts_as_two_mentions_for_every_chunk_below_it(tmp_path: Path):
    index = TextIndex(tmp_path / "index")
    chunks = [Chunk("salt", 1, 1, ("Dishwasher",)), Chunk("dishwasher", 1, 1, ()), Chunk("heat", 1, 1, ("Boiler",))]
    index.apply(list(enumerate(chunks, 1)), ())
    shares = earned(question_words(index.postings(), "dishwasher"))
    assert shares[1] > shares[2] > shares[3] == 0


def test_a_text_that_has_all_words_is_the_one_that_is_written_so_and_not_what_stands_below_one_of_them(tmp_path: Path):
    made = TextIndex(tmp_path / "index")
    below = [(nth, Chunk("A central station.", 1, 1, ("Topics",))) for nth in range(1, 9)]
    made.apply([*below, (9, Chunk("Many topics central to geology.", 1, 1, ("Rocks",)))], ())
    postings = made.postings()
    assert postings.chunks[question_words(postings, "topics central").written].tolist() == [9]
    assert len(question_words(postings, "topics station").written) == len(below)


def test_a_beginning_finds_every_word_that_begins_so(index: TextIndex):
    heard = question_words(index.postings(), "", ["Build"])
    assert {chunk for chunk, share in earned(heard).items() if share} == {1, 2, 8}
    assert heard.known == 1
    missing = question_words(index.postings(), "", ["xyz"])
    assert (missing.missing, missing.known, missing.weight > 0) == (["xyz"], 0, True)


def test_a_beginning_in_a_script_without_spaces(index: TextIndex):
    assert {chunk for chunk, share in earned(question_words(index.postings(), "", ["東京"])).items() if share} == {6}


def test_an_empty_index_has_nothing_and_says_so(tmp_path: Path):
    heard = question_words(TextIndex(tmp_path / "index").postings(), "build", ["re"])
    assert (heard.earned.size, heard.known, heard.had_by(1)) == (0, 0, 0)
    assert heard.of_sections(np.zeros(0, np.int64), np.zeros(0, np.int64), 0).size == 0
