"""A memory's life follows its text through edits and renames, in whatever pieces memd comes to see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import Lab

OLD, NEW = "memory/2026-02-15.md", "memory/2026-02-18.md"
GARDEN, SHED = "## Garden\n\nTwo apple trees.\n", "## Shed\n\nThe roof leaks.\n"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.add({OLD: f"{GARDEN}\n{SHED}"})
    yield lab
    lab.close()


def lives(lab: Lab) -> dict[str, int]:
    rows = lab.stores.ledger.reader.execute("SELECT heading, id FROM memories WHERE gone IS NULL")
    return {row["heading"]: row["id"] for row in rows}


def test_a_renamed_file_that_is_empty_for_a_moment_keeps_them(lab: Lab) -> None:
    before = lives(lab)
    (lab.folder / "agent" / OLD).rename(lab.folder / "agent" / NEW)
    lab.save({})
    lab.save({NEW: ""})
    assert lives(lab) == {}
    lab.save({NEW: f"{GARDEN.replace('Garden', 'Orchard')}\n{SHED.replace('leaks', 'is mended')}"})
    assert lives(lab) == {"Orchard": before["Garden"], "Shed": before["Shed"]}


@pytest.mark.parametrize("seen", ["at once", "in two batches"])
@pytest.mark.parametrize("edited", [GARDEN.replace("Garden", "Orchard"), GARDEN.replace("Two", "Three")])
def test_a_file_that_is_renamed_and_edited_keeps_them(lab: Lab, seen: str, edited: str) -> None:
    before = lives(lab)
    (lab.folder / "agent" / OLD).unlink()
    if seen == "in two batches":
        lab.save({})
        assert lives(lab) == {}
    lab.save({NEW: f"{edited}\n{SHED}"})
    assert list(lives(lab).values()) == [before["Garden"], before["Shed"]]


def test_a_text_that_several_new_files_have_makes_none_of_them_the_old_one(lab: Lab) -> None:
    before = lives(lab)
    (lab.folder / "agent" / OLD).unlink()
    lab.save({NEW: f"## Garden\n\nNothing to do.\n\n{SHED}", "memory/2026-02-19.md": SHED})
    assert lives(lab)["Garden"] != before["Garden"]


def test_a_section_that_is_back_is_its_own_life_though_another_file_loses_an_equal_one(lab: Lab) -> None:
    """As a switch of branches is seen halfway."""
    other = OLD.replace("15", "16")
    lab.save({OLD: f"{GARDEN}\n{SHED}", other: f"{GARDEN}\n## Pond\n\nDeep.\n"})
    before = by_file(lab)
    lab.save({other: "## Pond\n\nDeep.\n"})
    lab.save({OLD: SHED, other: f"{GARDEN}\n## Pond\n\nDeep.\n"})
    lab.save({OLD: f"{GARDEN}\n{SHED}"})
    assert by_file(lab) == before


def by_file(lab: Lab) -> dict[tuple[str, str], int]:
    rows = lab.stores.ledger.reader.execute("SELECT f.path, m.slug, m.id FROM memories m JOIN files f ON f.id = m.file")
    return {(row["path"], row["slug"]): row["id"] for row in rows}
