"""How hits are shown: marks that fit, long texts cut around the match, links that open, remarks beside them."""

from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from memd import timespans
from memd.cli import console, daemon_calls, fast_search, hits, reports

HIT = {
    "id": 1, "ns": "agent", "key": "2026-02-15#tv", "path": "memory/2026-02-15.md", "start_line": 3, "end_line": 4,
    "heading": "Day › TV", "text": "alpha beta gamma", "score": 0.0327, "date": "2026-02-15", "ranks": {"text": 1},
    "also": [], "root": "/home/a b/ü",
}  # fmt: skip


def answer(*found, **more):
    return {"hits": list(found), "verdict": "found", "ns": ["agent"], "degraded": [], "pending": 0, **more}


def test_plain_is_a_line_and_the_text():
    shown = hits.written("text", answer(HIT), colour=False)
    assert shown == "memory/2026-02-15.md:3  2026-02-15#tv  Day\n  alpha beta gamma"


def test_what_is_missing_or_said_already_leaves_no_gap():
    shown = hits.written("text", answer({**HIT, "heading": "", "date": None}), colour=False)
    assert shown.startswith("memory/2026-02-15.md:3  2026-02-15#tv\n")
    topic = {**HIT, "key": "sour-dough", "path": "memory/topics/sour-dough.md", "heading": "Sour dough › Feeding"}
    assert hits.written("text", answer(topic), colour=False).startswith(
        "memory/topics/sour-dough.md:3  sour-dough  Feeding  2026-02-15\n"
    )
    assert "score 0.033" in hits.written("text", answer({**topic, "explain": {"text": 1.5}}), colour=False)


def test_a_heading_gives_way_to_the_width_of_a_terminal(monkeypatch):
    monkeypatch.setattr(console, "width", lambda: 60)
    long = {**HIT, "heading": "A heading of many words that goes on for longer"}
    first = hits.written("text", answer(long), colour=False).split("\n")[0]
    assert first.startswith("memory/2026-02-15.md:3  2026-02-15#tv  A heading") and first.endswith("…")
    assert len(first) <= 60


PASSAGE = (
    "## Kites\n\n"
    + " ".join(f"word{nth}" for nth in range(60))
    + "\n\n| a | b |\n|---|---|\n- the kestrel, the wren\n- last"
)


@pytest.mark.parametrize("width", [80, 120])
def test_a_hit_shows_three_lines_around_its_words(monkeypatch, width):
    monkeypatch.setattr(console, "width", lambda: width)
    at = PASSAGE.index("kestrel")
    shown = hits.written("text", answer({**HIT, "text": PASSAGE, "marks": [[at, at + 7]]}), colour=True).split("\n")[1:]
    assert len(shown) == 3 and all(len(line) <= width + len(hits.MATCH + hits.END) for line in shown)
    assert any(f"the {hits.MATCH}kestrel{hits.END}, the wren" in line for line in shown)
    assert "---" not in "".join(shown) and "Kites" not in "".join(shown)
    first = hits.written("text", answer({**HIT, "text": PASSAGE}), colour=False).split("\n")[1:]
    assert first[0].startswith("  word0 word1 ") and first[-1].endswith(" …") and len(first) == 3
    whole = hits.written("text", answer({**HIT, "text": PASSAGE}), colour=False, full=True)
    assert "## Kites" in whole and "- last" in whole


@given(st.text(max_size=400), st.integers(20, 100))
def test_a_snippet_is_text_in_order_and_no_wider_than_it_may_be(text, width):
    lines, _, _ = hits.snippet(text, [], width)
    assert len(lines) <= hits.LINES and all(0 < end - start <= width for start, end in lines)
    assert all(one[1] <= other[0] for one, other in pairwise(lines))


def test_the_link_is_a_proper_address():
    shown = hits.written("text", answer(HIT), colour=True)
    assert "/home/a%20b/%C3%BC/memory/2026-02-15.md\x1b\\" in shown


def test_overlapping_and_wild_marks_do_no_harm():
    marked = {**HIT, "marks": [[6, 10], [0, 8], [12, 99], [40, 50], [5, 5]]}
    shown = hits.written("text", answer(marked), colour=True)
    assert "\x1b[1;33malpha be\x1b[0m\x1b[1;33mta\x1b[0m g\x1b[1;33mamma\x1b[0m" in shown


@example("\n", [(0, 1)])
@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=5))
def test_marks_never_change_the_text(text, marks):
    plain = hits.written("text", answer({**HIT, "text": text}), colour=False, full=True)
    hit = {**HIT, "text": text, "marks": [list(mark) for mark in marks]}
    marked = hits.written("text", answer(hit), colour=True, full=True)
    bare = marked.split("\n", 1)[1].replace(hits.MATCH, "").replace(hits.END, "")
    expected = plain.split("\n", 1)[1]
    assert [line.rstrip() for line in bare.split("\n")] == [line.rstrip() for line in expected.split("\n")]


def test_a_long_text_is_shown_around_its_match():
    lines = [f"line {number}" for number in range(40)]
    lines[30] += " kestrel"
    text = "\n".join(lines)
    at = text.index("kestrel")
    shown = hits.written("text", answer({**HIT, "text": text, "marks": [[at, at + 7]]}), colour=False, full=True)
    assert "line 30 kestrel" in shown and "line 0\n" not in shown
    assert "  … 26 more lines: memd get 2026-02-15#tv" in shown


def test_folded_hits_and_explanations_are_listed():
    also = [{"path": "memory/b.md", "start_line": 9, "end_line": 9}]
    shown = hits.written("text", answer({**HIT, "also": also, "explain": {"text": 1.5}}), colour=False)
    assert "  also memory/b.md:9" in shown and "  text  1.5000" in shown


@pytest.mark.parametrize(
    ("result", "code", "said"),
    [
        (answer(HIT), 0, []),
        (answer(), 1, ["nothing found for “x” in agent"]),
        (
            answer(near=[HIT], verdict="none"),
            1,
            ["nothing found for “x” in agent", "to see the closest passage all the same, add --all"],
        ),
        (
            answer(near=[HIT, HIT], verdict="none"),
            1,
            ["nothing found for “x”", "to see the closest 2 passages all the same, add --all"],
        ),
        (answer(degraded=["vectors"]), 4, ["nothing found for “x” in agent", "degraded: vectors"]),
        (answer(HIT, degraded=["vectors"]), 0, ["degraded: vectors"]),
        (
            answer(HIT, degraded=["collections", "vectors"], unheard="it is loading"),
            0,
            ["degraded: collections, vectors (it is loading); how to repair it: memd status"],
        ),
        (answer(HIT, verdict="weak"), 0, ["these match weakly"]),
        (answer(HIT, verdict="weak", missing=["order-1"]), 0, ["these match weakly: no note has “order-1”"]),
        (answer(pending=3), 1, ["nothing found for “x” in agent", "3 pieces are still being indexed"]),
    ],
)
def test_verdicts_exit_and_are_said(result, code, said):
    assert fast_search.code_of(result["hits"], result) == code
    remarks = hits.remarks("x", result)
    assert len(remarks) == len(said) and all(line.startswith(start) for line, start in zip(remarks, said, strict=True))


def test_words_are_named_as_they_were_typed():
    result = answer(HIT, verdict="weak", missing=["grösse", "ip", "nas2"], corrected={"strasse": ["gasse"]})
    said = hits.remarks("Welche „Größe“ hat die IP, Straße?", result)
    assert said[0].startswith("no note has “Straße”; ")
    assert said[1] == "these match weakly: no note has “Größe”, “IP”, “nas2”"


@pytest.mark.parametrize(
    "args", [["--bogus", "x"], ["x", "--limit"], ["--limit=x", "a"], ["--limit", "201", "a"], ["--help"], ["-h", "x"],
             [], [" "], ["--sync=maybe", "x"], ["--ns=", "x"], ["-lx", "a"]],
    ids=" ".join,
)  # fmt: skip
def test_what_the_fast_way_does_not_understand_is_left_to_typer(args):
    assert fast_search.parse_query(args) is None


def test_the_fast_way_reads_flags_wherever_they_stand():
    asked = fast_search.parse_query(
        ["a", "--limit=3", "b", "-n", "agent", "--tags", "x,y", "--tags=z", "--json", "--", "--c", "-d"]
    )
    assert asked.query == "a b --c -d"
    assert asked.args == {"limit": 3, "ns": "agent", "tags": ["x", "y", "z"], "json": True}
    assert asked.params() == {"query": "a b --c -d", "limit": 3, "tags": ["x", "y", "z"]}
    assert fast_search.parse_query(["a", "--limit", "0"]).params()["limit"] == 0


def test_times_are_said_from_now_on_a_terminal_and_stay_the_same_in_a_pipe(monkeypatch):
    monkeypatch.setattr(timespans.time, "time", lambda: 1_000_000)
    before, after = "1970-01-12T13:40:00+00:00", "1970-01-12T14:05:00+00:00"
    assert reports.ago(before) == reports.moment(before) and reports.until(after) == reports.moment(after)
    monkeypatch.setattr(console, "on_terminal", lambda stream: True)
    assert (reports.ago(before), reports.ago(None), reports.until(after)) == ("7 min ago", "never", "in 18 min")


def test_progress_and_durations_read_well():
    assert (
        daemon_calls.progress_line("text", 5, 10, 4)
        == "indexing   [###############...............]  5/10  1/s, 4 s left"
    )
    assert daemon_calls.progress_line("text", 1, 10, 120).endswith("1/10  18 min left")
    assert daemon_calls.progress_line("vectors", 1200, 3400, 600).endswith("1200/3400  2/s, 18 min left")
    assert daemon_calls.progress_line("vectors", 0, 0, 0).startswith("embedding  [####")
    assert [timespans.duration(s) for s in (0.25, 42, 600, 7200, 11100, 200_000)] == [
        "0.2 s", "42 s", "10 min", "2 h", "3 h 5 min", "2 days",
    ]  # fmt: skip


def test_status_names_what_is_degraded_and_the_way_out():
    told = {
        "version": "1", "pid": 2, "uptime_s": 5, "workspaces": [], "jobs": [], "pending_files": 2, "eta_s": 30,
        "vectors_per_s": 30.0, "pending_vectors": 900,
        "model": {"provider": "local", "state": "failed", "note": "no such file"},
        "degraded": ["vectors"],
        "degraded_details": [{"what": "vectors", "why": "the model\x1b is gone", "fix": "memd config check"}],
    }  # fmt: skip
    shown = reports.status(told)
    assert "degraded  vectors: the model␛ is gone\n          → memd config check" in shown
    assert "pending   2 files and 900 vectors, 30 a second, about 30 s left" in shown
