"""What people ask every day, with the model that comes with memd, of some of the example notes and of an office's."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memd.config.load import load as load_settings
from memd.indexer.context.assemble import ContextTask, assemble
from memd.indexer.model.embedder import load_embedder
from memd.models import Answer, Ask
from tests.conftest import ROOT
from tests.lab import TODAY, Lab

EXAMPLES = ROOT / "examples/workspace"
USED = ("MEMORY.md", "memory/2025-09-02.md", "memory/2025-11-03.md", "memory/2026-01-12.md", "memory/2026-02-02.md",
        "memory/2026-02-15.md", "memory/topics/backup-strategy.md", "memory/roles/shared.md")  # fmt: skip
TICKETS = "".join(
    f"## Ticket {number}\n\nTICKET-{number} closed by Anna after the login fix was deployed.\n\n"
    for number in range(1980, 2000)
)
OFFICE = {
    "memory/2026-01-10.md": "## Pub\n\nAt the pub Jim told how ErsatzTV once played a whole night of ads and nobody"
    " noticed; ErsatzTV, he said, is like Jim: late, but cheerful.\n",
    "memory/2026-01-11.md": "## ErsatzTV\n\nSaturday schedule: cartoons from 07:00, films from 20:15. Sunday: sport.\n",
    "memory/2026-01-12.md": TICKETS,
    "memory/topics/deploying.md": "# Deploying\n\n## Credentials\n\nKeys for prod are kept in Vault, `kv/prod`;"
    " never in the repository.\n\n## Rollback\n\nRedeploy the tag before.\n",
    "memory/topics/network.md": "# Network\n\nThe gateway fjordland is at 100.114.23.7. The printer is in the hall.\n",
    **{
        f"memory/{TODAY - timedelta(days=ago)}.md": f"## Standup\n\n{text}\n"
        for ago, text in ((1, "Reviewed the parser."), (2, "Wrote the invoice."), (3, "Fixed the login page."))
    },
}
HEATING = {
    "memory/topics/heating.md": "# Heating\n\n## Pressure\n\nThe heating pump needs a pressure of 1.5 bar; the valve of"
    " the heating pump opens at 3 bar.\n\n## Valve\n\nThe valve of the heating pump was replaced in May.\n",
    "memory/2026-01-20.md": "## Parcel\n\nThe parcel from Linz had two brushes, a roll of tape and KX-4471.\n",
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One model for all tests here."""
    folder = Path(tempfile.mkdtemp(prefix="memd-"))
    settings = load_settings().embedding
    made = Lab(folder, load_embedder(settings, folder / "model"))
    made.add({path: (EXAMPLES / path).read_text() for path in USED}, "home")
    made.add(OFFICE, "office")
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def texts(answer: Answer) -> list[str]:
    return [hit.text for hit in answer.hits]


def test_the_example_of_the_readme_is_found_by_its_meaning(lab: Lab):
    answer = lab.ask("television for Tilda and Otto on weekend mornings", "home")
    assert (answer.verdict, answer.hits[0].key, answer.missing) == ("found", "2026-02-15#ersatztv", ("television",))
    assert lab.ask("tv schedule for saturday cartoons", "home").hits[0].key == "2026-02-15#ersatztv"


def test_an_answer_ends_where_the_evidence_ends(lab: Lab):
    answer = lab.ask("ErsatzTV", "home")
    assert {hit.key for hit in answer.hits} == {"2026-02-15#ersatztv"} and answer.near
    assert all(hit.score > 0 for hit in answer.hits)


@pytest.mark.parametrize(
    ("ns", "question", "said"),
    [
        ("home", "who is Maren", "- **Maren**: partner"),
        ("home", "when does the backup run", "- Backups: restic at 04:15"),
        ("office", "ErsatzTV schedule", "Saturday schedule"),
        ("office", "where do production secrets live", "kept in Vault"),
    ],
)
def test_the_best_hit_says_what_holds(lab: Lab, ns: str, question: str, said: str):
    answer = lab.ask(question, ns)
    assert answer.verdict != "none" and said in answer.hits[0].text


def test_a_note_of_this_moment_is_found_by_its_code_before_it_has_a_vector(lab: Lab):
    lab.save(
        {"memory/2026-02-18.md": "## Login\n\nTICKET-2005 closed by Anna after the login fix was deployed.\n"}, "office"
    )
    for question in ("TICKET-2005", "ticket-2005 closed", "what happened to TICKET-2005"):
        answer = lab.ask(question, "office")
        assert (answer.verdict, answer.hits[0].path) == ("found", "memory/2026-02-18.md"), question
    lab.embed()
    assert lab.ask("TICKET-2005", "office").hits[0].path == "memory/2026-02-18.md"


def test_a_code_that_no_note_has_is_named_and_makes_the_answer_weak(lab: Lab):
    answer = lab.ask("TICKET-0001", "office")
    assert answer.verdict != "found" and answer.missing == ("ticket-0001",)


def test_a_code_among_other_words_brings_the_note_that_has_it_first(lab: Lab):
    lab.add(HEATING, "heating")
    for question in ("KX-4471", "where is the valve KX-4471 of the heating"):
        assert lab.ask(question, "heating").hits[0].path == "memory/2026-01-20.md", question


def test_a_name_that_the_hits_do_not_have_makes_the_answer_weak(lab: Lab):
    assert lab.ask("which ticket was closed by Anna after the login fix", "office").verdict == "found"
    answer = lab.ask("which ticket was closed by Berta after the login fix", "office")
    assert (answer.verdict, answer.missing) == ("weak", ("berta",)) and "login fix" in answer.hits[0].text
    # Jim is known for other things.
    assert lab.ask("which ticket was closed by Jim after the login fix", "office").verdict == "weak"
    # Who writes everything small, or everything with capitals, shows no name.
    for plain in (
        "which ticket was closed by berta after the login fix",
        "Which Ticket Was Closed By Berta After The Login Fix",
    ):
        assert lab.ask(plain, "office").verdict == "found", plain


@pytest.mark.parametrize(
    ("part", "whole"), [("fjor", "fjordland"), ("ordlan", "fjordland"), ("100.114", "100.114.23.7")]
)
def test_a_part_of_a_word_is_found(lab: Lab, part: str, whole: str):
    for mode in ("hybrid", "text"):
        answer = lab.ask(part, "office", mode=mode)
        assert answer.verdict != "none" and whole in answer.hits[0].text


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("yesterday", "parser"),
        ("what did we do yesterday", "parser"),
        ("what did I fix 3 days ago", "login page"),
        ("on monday", "invoice"),
        ("what did we write on monday", "invoice"),
        ("what did we do on 15 February", "login page"),
    ],
)
def test_a_named_day_filters_first(lab: Lab, question: str, said: str):
    answer = lab.ask(question, "office")
    assert answer.verdict != "none" and len(answer.hits) == 1 and said in answer.hits[0].text


def test_where_the_named_day_has_nothing_everything_is_asked(lab: Lab):
    answer = lab.ask("which ErsatzTV schedule was there yesterday", "office")
    assert "Saturday schedule" in answer.hits[0].text


def test_a_context_begins_with_what_the_task_is_about_and_ends_where_relevance_drops(lab: Lab):
    task = ContextTask(Ask("plan the TV schedule", ("home",), today=TODAY), budget=2000)
    told = assemble(lab.stores, task).result
    assert [one["key"] for one in told["memories"] if one["phase"] != "pinned"] == ["2026-02-15#ersatztv"]
    assert told["memories"][0]["key"] == "2026-02-15#ersatztv" and "MEMORY#standing-rules · pinned" in told["text"]
    assert sum(one["tokens"] for one in told["memories"] if one["phase"] == "pinned") <= 500


def test_an_expired_memory_makes_nothing_known(lab: Lab):
    marker = "<!-- memd: ttl=1h -->"
    lab.save(
        {"memory/2026-02-01.md": f"## Door\n{marker}\n\nThe quokka code of the garage door is taped below.\n"}, "office"
    )
    lab.embed()
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE memories SET expires = '2026-02-01T00:00:00.000+00:00' WHERE expires IS NOT NULL")
    answer = lab.ask("quokka code of the garage door", "office")
    assert answer.verdict != "found" and not any("quokka" in text for text in texts(answer))
