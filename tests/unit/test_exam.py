"""The arithmetic of the exam, against figures worked out by hand; questions and probes as a user would write them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from benchmarks.places import NAMES, ScoredHit, area, fold, mean_length, sessions, turns
from memd import exam
from memd.exam import AnsweredQuestion, LineSpan, Probe, ProbePassage, mean, percentile, score
from memd.models import Hit

DAY = "memory/2026-02-15.md"
OTHER = "memory/2026-02-16.md"


def hit(start: int, end: int, length: int = 400, path: str = DAY) -> ScoredHit:
    return ScoredHit(LineSpan(path, start, end), length)


# --- covering -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "covered"),
    [
        (hit(9, 9), True),
        (hit(1, 9), True),
        (hit(10, 20), True),
        (hit(1, 8), False),
        (hit(11, 20), False),
        (hit(9, 10, path=OTHER), False),
        (hit(9, 10, length=1_200), True),
        (hit(9, 10, length=1_201), False),
    ],
)
def test_a_hit_covers_a_place_of_its_file_that_shares_a_line_unless_it_is_long(place: ScoredHit, covered: bool):
    assert turns([place], [LineSpan(DAY, 9, 10)])["any@5"] == float(covered)


# --- one question ---------------------------------------------------------------------------------------------


def test_every_figure_of_a_question_with_two_places():
    """Of two places the third hit covers one, the seventh the other."""
    hits = [hit(100 + nth, 100 + nth) for nth in range(9)]
    hits[2], hits[6] = hit(9, 12), hit(30, 33)
    told = turns(hits, [LineSpan(DAY, 9, 9), LineSpan(DAY, 30, 30)])
    assert told == pytest.approx(
        {
            "any@2k": 1, "all@2k": 0,  # five hits of 400 characters fit into 2,000
            "any@5": 1, "any@10": 1, "all@5": 0,
            "frac@5": 0.5, "frac@10": 1,
            "mrr": 1 / 3,
            "ndcg@10": (1 / math.log2(4) + 1 / math.log2(8)) / (1 + 1 / math.log2(3)),
        }
    )  # fmt: skip


def test_the_budget_is_two_thousand_characters_and_the_hit_that_breaks_it_is_not_read():
    wanted = [LineSpan(DAY, 9, 9)]
    assert turns([hit(1, 1, 1_000), hit(9, 9, 1_000)], wanted)["any@2k"] == 1
    assert turns([hit(1, 1, 1_000), hit(9, 9, 1_001)], wanted)["any@2k"] == 0
    # Reading stops there: a shorter hit further down does not slip in.
    assert turns([hit(1, 1, 1_000), hit(2, 2, 1_100), hit(9, 9, 100)], wanted)["any@2k"] == 0
    # A hit that is too long to cover anything is still paid for.
    assert turns([hit(1, 1, 1_900), hit(9, 9, 200)], wanted)["any@2k"] == 0


def test_one_hit_may_cover_all_places_and_a_place_gains_once():
    wanted = [LineSpan(DAY, 9, 9), LineSpan(DAY, 11, 11)]
    both = turns([hit(9, 12)], wanted)
    assert both["all@2k"] == both["all@5"] == both["frac@5"] == both["ndcg@10"] == 1
    twice = turns([hit(9, 9), hit(8, 10)], wanted)
    assert twice["frac@10"] == 0.5
    assert twice["ndcg@10"] == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_the_ideal_comes_from_what_was_wanted_and_not_from_what_came():
    wanted = [LineSpan(DAY, nth, nth) for nth in range(1, 4)]
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert turns([hit(1, 1)], wanted)["ndcg@10"] == pytest.approx(1 / ideal)
    assert turns([], wanted) == dict.fromkeys(NAMES, 0.0)


def test_more_than_ten_wanted_places_have_an_ideal_of_ten():
    assert score([frozenset({nth}) for nth in range(10)], [1] * 10, 12)["ndcg@10"] == pytest.approx(1)


def test_places_are_scored_on_the_first_ten_hits():
    hits = [hit(100 + nth, 100 + nth, 10) for nth in range(10)] + [hit(9, 9, 10)]
    told = turns(hits, [LineSpan(DAY, 9, 9)])
    assert told["mrr"] == told["any@10"] == told["any@2k"] == 0


# --- sessions -------------------------------------------------------------------------------------------------

SESSIONS = [LineSpan(DAY, 3, 20), LineSpan(DAY, 22, 40), LineSpan(OTHER, 3, 30)]


def test_hits_of_one_session_are_one_and_it_keeps_its_best_place():
    hits = [hit(5, 6), hit(9, 9), hit(4, 8, path=OTHER), hit(12, 14), hit(25, 30)]
    assert fold(hits, SESSIONS) == [hits[0], hits[2], hits[4]]
    told = sessions(hits, [LineSpan(DAY, 22, 40)], SESSIONS)
    assert told["mrr"] == pytest.approx(1 / 3)
    assert told["any@2k"] == 1


def test_a_hit_outside_every_session_stands_for_itself():
    hits = [hit(1, 1), hit(2, 2), hit(5, 6)]
    assert fold(hits, SESSIONS) == hits


def test_sessions_are_scored_on_all_hits_after_folding():
    hits = [hit(4 + nth, 4 + nth) for nth in range(15)] + [hit(25, 25)]
    told = sessions(hits, [LineSpan(DAY, 3, 20), LineSpan(DAY, 22, 40)], SESSIONS)
    assert told["frac@5"] == told["all@5"] == told["ndcg@10"] == 1


def test_a_session_whose_best_hit_is_too_long_is_not_covered():
    assert sessions([hit(5, 9, 1_300), hit(6, 6)], [LineSpan(DAY, 3, 20)], SESSIONS)["any@5"] == 0


# --- many questions -------------------------------------------------------------------------------------------


def test_averages_over_the_questions():
    assert mean([{"mrr": 1.0, "any@5": 1.0}, {"mrr": 0.5, "any@5": 0.0}]) == {"mrr": 0.75, "any@5": 0.5}
    assert mean([]) == {}


def test_the_mean_length_is_that_of_the_first_ten_hits():
    assert mean_length([[hit(1, 1, 100)] * 10 + [hit(1, 1, 9_000)], [hit(1, 1, 210)]]) == pytest.approx(110)
    assert mean_length([[]]) == 0


def test_percentiles_are_values_that_occurred():
    assert percentile([5, 1, 3, 2, 4], 0.5) == 3
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([], 0.5) == 0


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    assert area([0.9, 0.8], [0.1, 0.2]) == 1
    assert area([0.1, 0.2], [0.9, 0.8]) == 0
    assert area([0.5, 0.9], [0.5, 0.1]) == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert area([0.5], []) == 0


# --- a user's own questions -----------------------------------------------------------------------------------


def shown(start: int, end: int, text: str, path: str = DAY, key: str = "2026-02-15#ersatztv", **more: Any) -> Hit:
    return Hit(
        id=start, ns="agent", root="/home/me/agent", key=key, path=path, start_line=start, end_line=end, heading="",
        title="", text=text, score=1.0, kind="episodic", tier="stm", role="daily", tags=[], date="2026-02-15", ranks={},
        **more,
    )  # fmt: skip


TV = shown(3, 6, "## ErsatzTV\n\nSet up the ErsatzTV skill.\nThe API endpoint is port\n8409.")


@pytest.mark.parametrize(
    ("expected", "is_it"),
    [
        ({"expect": "memory/2026-02-15.md:6"}, True),
        ({"expect": "./memory/2026-02-15.md:6-9"}, True),
        ({"expect": "memory/2026-02-15.md"}, True),
        ({"expect": "/home/me/agent/memory/2026-02-15.md:3"}, True),
        ({"expect": "memory/2026-02-15.md:7"}, False),
        ({"expect": "memory/2026-02-16.md:6"}, False),
        ({"expect": {"file": DAY, "start": 5, "end": 5}}, True),
        ({"expect": "2026-02-15#ersatztv"}, True),
        ({"expect": "memory/2026-02-15.md#ersatztv"}, True),
        ({"expect": "2026-02-15#garden"}, False),
        ({"expect": "2026-02-15"}, False),
        ({"expect_text": "PORT 8409"}, True),
        ({"expect_text": "port 8410"}, False),
        ({"gold_turns": [{"id": "D1:3", "file": DAY, "start": 6, "end": 6}]}, True),
        ({"gold_turns": [], "gold_sessions": [{"file": DAY, "start": 7, "end": 30}]}, False),
    ],
)
def test_what_a_question_may_expect(expected: dict[str, Any], is_it: bool):
    (question,), problems = exam.read_questions(json.dumps({"question": "?", **expected}))
    assert not problems
    assert [one.matches(TV) for one in question.expected] == [is_it]
    assert exam.cover([TV], question.expected) == [frozenset({0}) if is_it else frozenset()]


def test_the_name_of_an_expected_file_may_have_a_sharp_sign():
    hit = shown(3, 6, "Set up", path="memory/a#b.md", key="a#b#set-up")
    for expected in ("a#b#set-up", "memory/a#b.md#set-up", "memory/a#b.md", "memory/a#b.md:3"):
        ((question,), _) = exam.read_questions(json.dumps({"question": "?", "expect": expected}))
        assert question.expected[0].matches(hit), expected
    for expected in ("a#set-up", "a#b", "b#set-up", "memory/a.md"):
        ((question,), _) = exam.read_questions(json.dumps({"question": "?", "expect": expected}))
        assert not question.expected[0].matches(hit), expected


def test_a_hit_that_is_too_long_is_found_and_covers_nothing():
    (question,), _ = exam.read_questions('{"question": "?", "expect_text": "needle"}')
    long = shown(1, 9, "needle " + "hay " * 300)
    assert question.expected[0].matches(long)
    assert exam.cover([long], question.expected) == [frozenset()]


def test_several_things_may_be_expected_and_the_same_one_counts_once():
    text = '{"question": "?", "expect": ["2026-02-15#ersatztv", "2026-02-15#ersatztv"], "expect_text": ["a", "b"]}'
    (question,), _ = exam.read_questions(text)
    assert [one.label for one in question.expected] == ["2026-02-15#ersatztv", '"a"', '"b"']


def test_lines_that_are_no_questions_are_named_and_the_others_are_kept():
    text = "\n".join(
        [
            "\ufeff# my exam",
            "",
            '{"question": "good", "expect": "k", "category": "c", "ns": "agent"}',
            '{"question": "good"',
            "[1]",
            '{"question": " ", "expect": "k"}',
            '{"question": "q"}',
            '{"question": "q", "expect": 3}',
            '{"question": "q", "expect_text": [""]}',
            '{"question": "q", "expect": "a.md:9-3"}',
            '{"question": "q", "gold_turns": [{"file": "a.md"}]}',
            '{"question": "' + "q" * 10_001 + '", "expect": "k"}',
            '{"question": "unanswerable", "scorable": false}',
            '{"query": "also good", "expect": "k"}\r',
        ]
    )
    found, problems = exam.read_questions(text)
    assert [(question.line, question.text) for question in found] == [(3, "good"), (14, "also good")]
    assert (found[0].category, found[0].ns) == ("c", "agent")
    assert [problem["line"] for problem in problems] == [4, 5, 6, 7, 8, 9, 10, 11, 12]
    for problem, word in zip(
        problems,
        ["not JSON", "object", "question", "expect", "expect", "expect_text", "backwards", "file", "10,000"],
        strict=True,
    ):
        assert word in problem["why"]


def test_the_report_names_what_was_missed_and_what_came_instead():
    asked, _ = exam.read_questions(
        '{"question": "one", "expect": "memory/2026-02-15.md:6", "category": "easy"}\n'
        '{"question": "two", "expect": "memory/2026-02-15.md:90"}\n'
        '{"question": "three", "expect": "memory/2026-02-15.md:90"}'
    )
    late = [shown(10 + nth, 10 + nth, "x") for nth in range(5)] + [shown(90, 90, "y")]
    told = exam.of_questions(
        asked, [AnsweredQuestion([TV], 1.0), AnsweredQuestion(late, 3.0), AnsweredQuestion([], 2.0)]
    )
    assert told["questions"] == 3 and told["missed"] == 2
    assert told["figures"]["any@5"] == pytest.approx(1 / 3, abs=1e-4)
    assert told["figures"]["any@10"] == pytest.approx(2 / 3, abs=1e-4)
    assert told["categories"] == {"easy": {"questions": 1, "figures": dict.fromkeys(NAMES, 1.0)}}
    assert (told["p50_ms"], told["p95_ms"]) == (2.0, 3.0)
    assert told["misses"] == [
        {"line": 2, "question": "two", "expected": [f"{DAY}:90"], "rank": 6, "first": f"{DAY}:10"},
        {"line": 3, "question": "three", "expected": [f"{DAY}:90"], "rank": None, "first": None},
    ]


# --- probes ---------------------------------------------------------------------------------------------------


def piece(nth: int, text: str, date: str = "2026-02-12", ns: str = "agent") -> ProbePassage:
    return ProbePassage(ns, f"{date}#{nth}", f"memory/{date}.md", nth * 10, nth * 10 + 5, text, date)


GARDEN = piece(1, "Planted two apple trees behind the shed with Robin on a cold afternoon.")
KITCHEN = piece(2, "The apple cake needs the cold oven and two hours of patience from everybody here.", "2026-02-13")
UNDATED = piece(3, "Robin likes short answers.", "")
PIECES = [GARDEN, KITCHEN, UNDATED]


def of_kind(kind: str, pieces: list[ProbePassage]) -> dict[ProbePassage, str]:
    return {probe.passage: probe.query for probe in exam.make_probes(pieces) if probe.kind == kind}


def test_a_term_probe_is_a_word_that_only_its_passage_has():
    for source, query in of_kind("term", PIECES).items():
        assert query in source.text.casefold()
        assert sum(query in other.text.casefold() for other in PIECES) == 1
    twins = [piece(nth, "only common words") for nth in (1, 2)]
    assert len(of_kind("term", twins)[exam.make_probes(twins)[0].passage].split()) == 2


def test_a_paraphrase_lost_words_and_with_them_the_rarest():
    made = of_kind("paraphrase", PIECES)
    assert UNDATED not in made, "a short sentence has nothing to lose"
    for source, query in made.items():
        left, all_words = query.split(), source.text.rstrip(".").split()
        assert len(left) == round((len(all_words) - 1) * 2 / 3)
        rest = iter(all_words)
        assert all(word in rest for word in left), "the order is kept"
    assert "afternoon" not in made[GARDEN], "the longest of its words that no other passage has"


def test_a_date_probe_names_the_day_and_a_word_that_others_have_too():
    made = of_kind("date", PIECES)
    assert set(made) == {GARDEN, KITCHEN}
    assert made[GARDEN] == "what happened on 12 February 2026, apple"
    assert made[KITCHEN].startswith("what happened on 13 February 2026, ")


def test_the_same_notes_give_the_same_probes_in_whatever_order_they_come():
    many = [
        piece(nth, f"Passage {nth} tells of thing{nth} and of that matter in some more words.", f"20{nth:02}-02-12")
        for nth in range(99)
    ]
    assert exam.make_probes(many) == exam.make_probes(many[::-1])
    assert len(exam.make_probes(many)) == 60
    assert {kind: len(of_kind(kind, many)) for kind in ("term", "paraphrase", "date")} == {
        "term": 20,
        "paraphrase": 20,
        "date": 20,
    }
    before, after = (set(of_kind("term", pieces)) for pieces in (many[:98], many))
    assert len(before & after) >= 19, "a new note does not change all the others' luck"


def test_passages_without_words_give_no_probes():
    assert exam.make_probes([piece(1, "--- *** 12 34"), piece(2, "")]) == []


def test_a_probe_is_answered_by_its_passage_its_twin_or_the_hit_that_it_was_folded_into():
    probe = Probe("term", "apple", GARDEN)
    there = {"path": GARDEN.path, "key": "2026-02-12#1"}
    assert probe.answered_by(shown(12, 20, "…", **there))
    assert probe.answered_by(shown(1, 2, GARDEN.text, path="elsewhere.md"))
    assert probe.answered_by(shown(1, 2, "…", also=[{"path": GARDEN.path, "start_line": 10, "end_line": 15}]))
    assert not probe.answered_by(shown(16, 20, "…", **there))
    assert not Probe("term", "apple", piece(1, GARDEN.text, ns="other")).answered_by(shown(12, 20, "…", **there))
    assert Probe("date", "…", GARDEN).answered_by(shown(16, 20, "…", **there)), "the day's memory is enough for a date"


def test_recall_is_told_by_kind():
    made = [Probe("term", "a", GARDEN), Probe("date", "b", GARDEN)]
    hits = [shown(90, 91, "x", path=GARDEN.path), shown(12, 12, "y", path=GARDEN.path)]
    told = exam.of_probes(made, [AnsweredQuestion(hits, 1.0), AnsweredQuestion([], 1.0)])
    assert told["figures"] == {"recall@1": 0.0, "recall@5": 0.5, "recall@10": 0.5}
    assert told["categories"]["term"]["figures"] == {"recall@1": 0.0, "recall@5": 1.0, "recall@10": 1.0}
    assert told["misses"] == [
        {"kind": "date", "question": "b", "expected": [f"{GARDEN.path}:10"], "rank": None, "first": None}
    ]
