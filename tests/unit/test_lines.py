"""The line that answers best: windows that stay within their passage, labels, and the times that lines tell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import numpy as np
import pytest

from memd.indexer.language.lines import ASKS, NUMBERED, Line, cut, read_lines
from memd.indexer.language.question import parse
from memd.indexer.language.words import words
from memd.indexer.query import signals
from memd.indexer.query.signals import ReadChunks, best_lines
from memd.indexer.query.wording import Floats, match_words
from memd.indexer.store.lines import LinesBuilder, SegmentLines, lines_at
from memd.indexer.store.text import HELD, SegmentFiles, TextIndex
from memd.models import Chunk

NOW = date(2026, 2, 18)
DAY = date(2023, 5, 4)
TEXTS = [
    "The router is called fjord.",
    "Apple trees stand behind the shed.",
    "The rebuild of the shed, building by day.",
    "Port of the router: 8409.",
    "Nate painted the shed yesterday.",
    "Another rebuild.",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextIndex]:
    made = TextIndex(tmp_path_factory.mktemp("text") / "index")
    made.apply([(nth, Chunk(text, 1, 1, ())) for nth, text in enumerate(TEXTS, 1)], ())
    yield made
    made.close()


class Passage(NamedTuple):
    """A chunk's lines, with those beside it."""

    lines: tuple[str, ...]
    before: str = ""
    after: str = ""
    day: date | None = DAY


def best(index: TextIndex, question: str, passages: Sequence[Passage]) -> dict[str, Floats]:
    builder = LinesBuilder()
    for one in passages:
        builder.add([line(text) if text else Line([]) for text in (one.before, *one.lines, one.after, "")])
    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(builder.file())
        made = SegmentLines(SegmentFiles("/").open_file(file.name))
    held = np.array([len(one.lines) for one in passages])
    found = match_words(index.postings(), list(words(question)))
    texts = ["\n\n".join(one.lines) for one in passages]
    chunks = ReadChunks(
        [one.day for one in passages], np.zeros(len(passages), bool), lambda wanted: {nth: texts[nth] for nth in wanted}
    )
    run = lines_at([made], np.zeros(1, np.int64), np.arange(made.count))
    return best_lines(found, parse(question, NOW), chunks, run, held)


def line(text: str) -> Line:
    _, only = read_lines(text, "")[0]
    return only


def passage(*lines: str, before: str = "", after: str = "", day: date | None = DAY) -> Passage:
    return Passage(lines, before, after, day)


def part(index: TextIndex, question: str, name: str, *passages: Passage) -> list[float]:
    return best(index, question, passages)[name].tolist()


# Units


def test_a_chunk_is_cut_at_blank_lines_and_items_and_headings_are_no_lines():
    text = "## Network\n\nThe router.\nIts cable.\n\n- **Port:** 8409\n- Host: nas\n1. first\n\n#home is a tag"
    assert cut(text)[1] == [
        "The router.\nIts cable.", "- **Port:** 8409", "- Host: nas", "1. first", "#home is a tag",
    ]  # fmt: skip


def test_text_right_below_its_heading_is_a_line_too():
    assert cut("## Network\nThe router is fjord.\n\n### Deep\n\nMore.")[1] == [
        "The router is fjord.",
        "More.",
    ]
    assert cut("# A\n## B\nText.")[1] == ["Text."]
    assert cut("## Only a heading")[1] == ["## Only a heading"]


def test_a_long_paragraph_is_taken_in_pieces_that_lose_nothing():
    text = " ".join(f"Sentence number {nth} tells of thing {nth}." for nth in range(30))
    _, pieces = cut(text)
    assert len(pieces) > 3 and all(len(piece) <= 300 for piece in pieces)
    assert " ".join(pieces) == text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("**Port:** 8409", {"port"}),
        ("- **Port**: 8409", {"port"}),
        ("Nate: I moved", {"nate"}),
        ("2. Mother-in-law: called", {"mother-in-law", "mother", "in", "law"}),
        ("The router is at http://fjord", set()),
        ("at 10:30 we left", set()),
        ("no label here", set()),
    ],
)
def test_labels(text: str, label: set[str]):
    terms, count, flags = line(text)
    first = bool(flags & NUMBERED)
    assert set(terms[first : first + count]) == label


def test_a_line_that_asks():
    assert line("**Ana:** Where is the router? [photo: a router]").flags & ASKS
    assert not line("Is it? Yes, it is.").flags & ASKS


# Windows


def test_a_window_reaches_one_line_to_either_side_and_no_further(index: TextIndex):
    blank = "nothing of note"
    alone, near, far = part(
        index, "router fjord", "lines",
        passage("The router hums", blank, blank),
        passage("The router hums", "is called fjord", blank),
        passage("The router hums", blank, blank, "is called fjord"),
    )  # fmt: skip
    assert near > far
    assert near > alone


def test_the_neighbouring_chunks_lines_count_for_the_first_and_the_last_line(index: TextIndex):
    line = "The router hums"
    passages = passage(line), passage(line, after="fjord"), passage(line, before="fjord")
    alone, after, before = part(index, "router fjord", "lines", *passages)
    assert after == before > alone


def test_passages_know_nothing_of_each_other(index: TextIndex):
    question = "router fjord shed"
    mixed = [
        passage("The router hums"), passage("fjord", after="shed"), passage("shed", before="router"),
        passage("nothing here", "nor here"), passage("router fjord shed"),
    ]  # fmt: skip
    together = best(index, question, mixed)
    for nth, one in enumerate(mixed):
        alone = best(index, question, [one])
        for name in (one.name for one in signals.OF_A_LINE):
            assert together[name][nth] == pytest.approx(alone[name][0]), (nth, name)


def test_shares_of_lines_never_exceed_the_whole(index: TextIndex):
    for question in ("build", "build rebuild", "shed shed trees", "port 8409", "router fjord nate apple"):
        lines = [passage(*[f"{question} {question} {text}" for text in TEXTS], before=question, after=question)]
        found = best(index, question, lines)
        assert 0 < found["lines"][0] <= 1 and 0 < found["line"][0] <= 1 + 1e-9


def test_one_line_is_best_in_all_parts_together(index: TextIndex):
    # The label stands in one line and the words in another: both are not added up.
    found = best(index, "router fjord", [passage("Router: off", "x", "y", "the router fjord")])
    assert (found["line"][0], found["label"][0]) == (pytest.approx(1), 0)


def test_no_words_found_is_no_error(index: TextIndex):
    found = best(index, "xyzzy plugh", [passage("The router hums", "x")])
    assert found["lines"].tolist() == [0] and found["line"].tolist() == [0]
    assert all(isinstance(values, np.ndarray) for values in found.values())


def test_a_whole_word_counts_as_one_beside_a_word_that_is_a_part_of_it(index: TextIndex):
    both, one = part(index, "build rebuild", "line", passage("build and rebuild"), passage("the rebuild"))
    assert both == pytest.approx(1)
    assert 0.4 < one < 0.7
    heard = match_words(index.postings(), list(words("build fjord")))
    (alone,) = part(index, "build fjord", "line", passage("building"))
    assert alone == pytest.approx(heard.matches[0].idf / heard.weight)


# Labels and times


def test_a_label_counts_where_the_question_names_it(index: TextIndex):
    passages = passage("**Port:** 8409"), passage("8409 of the port")
    assert part(index, "which port", "label", *passages) == [1, 0]
    assert part(index, "8409", "label", *passages) == [0, 0]


def test_a_line_that_tells_of_the_very_day(index: TextIndex):
    passages = (
        passage("Nate painted the shed yesterday."), passage("Nate painted the shed today."),
        passage("Nate painted the shed yesterday.", day=None),
    )  # fmt: skip
    assert part(index, "what did Nate paint on 3 May 2023", "told_date", *passages) == [1, 0, 0]
    assert part(index, "what did Nate paint", "told_date", *passages) == [0, 0, 0]


def test_a_question_about_time_likes_lines_that_name_one(index: TextIndex):
    passages = passage("The shed was painted last week."), passage("The shed was painted.")
    assert part(index, "when was the shed painted", "timed", *passages) == [1, 0]
    assert part(index, "who painted the shed", "timed", *passages) == [0, 0]


def test_terms_stay_in_the_file_and_one_that_was_cut_off_is_found_out(tmp_path: Path) -> None:
    builder, file = LinesBuilder(), tmp_path / "lines"
    for text in TEXTS * 100:
        builder.add([Line([]), line(text)])
    file.write_bytes(builder.file())
    assert file.stat().st_size > HELD
    made = SegmentLines(SegmentFiles(str(tmp_path)).open_file("lines"))
    made.verify(100 * len(TEXTS))
    every = lines_at([made], np.zeros(1, np.int64), np.arange(made.count))
    some = lines_at([made], np.zeros(1, np.int64), np.array([11, -1, 2, 3, 1]))
    starts = np.cumsum(every.sizes) - every.sizes
    wanted = [every.terms[starts[nth] :][: every.sizes[nth]] for nth in (11, 2, 3, 1)]
    assert some.terms.tolist() == np.concatenate(wanted).tolist() and some.sizes[1] == 0
    assert made.memory + 4 * len(every.terms) == file.stat().st_size
    os.truncate(file, file.stat().st_size - 4)
    with pytest.raises(ValueError, match="cut short"):
        made.verify(100 * len(TEXTS))
