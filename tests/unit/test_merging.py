"""Two versions of a note become one: nothing that a side added is lost, nothing that nobody touched changes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from memd.notes.merging import Base, in_markers, likely_base, merge
from memd.notes.read import sides, without_markers

PATH = "memory/2026-02-15.md"
DAY = "# 2026-02-15\n\n## Garden\n\nTwo apple trees.\nA fence.\nA shed.\n"


def merged(ours: str, theirs: str, base: str = "", certain: bool = True) -> str:
    return merge(PATH, ours, theirs, Base(base, certain)).text


def test_lines_that_both_added_to_one_section_stay_in_it_with_their_fences():
    code = "\n```sh\nmake {}\n```\n"
    text = merged(DAY + code.format("hay"), DAY + code.format("jam"), DAY)
    assert text == DAY + code.format("hay") + code.format("jam")


def test_changes_of_different_lines_merge_and_of_the_same_line_do_not():
    ours, theirs = DAY.replace("Two", "Three"), DAY.replace("A shed.\n", "A red shed.\n")
    assert merged(ours, theirs, DAY) == ours.replace("A shed.", "A red shed.")
    theirs = DAY.replace("Two", "Four")
    found = merge(PATH, ours, theirs, Base(DAY))
    assert [clash.heading for clash in found.clashes] == ["Garden"]
    assert found.text == DAY.replace("Two apple trees.\n", "Three apple trees.\nFour apple trees.\n")
    marked = merge(PATH, ours, theirs, Base(DAY), both=in_markers).text
    assert sides(marked)[0].strip() == ours.strip() and sides(marked)[1].strip() == theirs.strip()
    assert "<<<<" not in without_markers(marked)


def test_what_one_side_removed_goes_unless_the_other_still_worked_on_it():
    long = DAY + "\n## Otter\n\nIt sleeps.\n"
    assert merged(long, DAY, long) == DAY == merged(DAY, long, long)
    worked = long.replace("sleeps", "swims")
    assert merged(worked, DAY, long) == worked == merged(DAY, worked, long)


def test_a_base_that_is_only_likely_removes_nothing():
    base, ours = DAY + "An old line.\n", DAY + "A new line.\n"
    assert merge(PATH, ours, DAY + "Theirs.\n", Base(base, certain=False)).clashes
    assert merged(DAY + "Ours.\n", DAY + "Theirs.\n", DAY, certain=False) == DAY + "Ours.\nTheirs.\n"


def test_machines_that_disagree_again_and_again_do_not_make_a_note_grow():
    versions = [DAY.replace("A fence.", f"Fence {nth}.") for nth in range(3)]
    for nth in range(60):
        one, other = nth % 3, (nth + 1) % 3
        mine = versions[one].replace(f"Fence {one}.", f"Fence {one}, painted {nth}.")
        theirs = versions[other].replace("A shed.\n", f"Shed {nth}.\n")
        versions[one] = versions[other] = merged(mine, theirs, DAY, certain=False)
    for text in versions:
        lines = [line for line in text.splitlines() if line]
        assert len(lines) == len(set(lines)), text


def test_a_code_block_that_both_changed_stays_whole_on_both_sides():
    ours, theirs = (DAY + f"\n```sh\nif {test}; then\n  make\nfi\n```\n" for test in ("true", "false"))
    text = merged(ours, theirs, DAY, certain=False)
    assert ours in text and "```sh\nif false; then\n  make\nfi\n```" in text


def test_our_own_text_that_a_synchroniser_put_aside_is_not_taken_for_the_base():
    first, local, remote = "## A\n\none", "## A\n\none\nlocal", "## A\n\none\nremote"
    assert likely_base([first, local, remote], remote, local) == first
    assert likely_base([first, local, remote], remote, local, older=True) == local
    assert likely_base([first, local], local, remote) == first
    assert likely_base([first], first, remote) == ""


def test_front_matter_line_ends_and_the_rest_of_the_note_stay():
    ours = ("---\ntags: [a]\n---\n" + DAY + "\n\n\n## Otter\n\nIt sleeps.").replace("\n", "\r\n")
    theirs = "---\ntags: [a]\npinned: true\n---\n" + DAY + "\n\n\n## Otter\n\nIt sleeps."
    assert merged(ours, theirs, ours) == theirs.replace("\n", "\r\n")
    assert merged(ours, ours.replace("\r\n", "\n"), ours) == ours


LINES = st.lists(st.sampled_from([f"line {letter}" for letter in "abcdefgh"]), max_size=5, unique=True)
NOTES = st.dictionaries(st.sampled_from(["Otter", "Weasel", "Garden", "Shed"]), LINES, max_size=4)


def note(sections: dict[str, list[str]]) -> str:
    return "# 2026-02-15\n" + "".join(
        f"\n## {name}\n\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items()
    )


@given(ours=NOTES, theirs=NOTES, base=NOTES, certain=st.booleans())
def test_no_line_is_lost_that_a_side_added(ours, theirs, base, certain):
    text = merged(note(ours), note(theirs), note(base), certain)
    kept = {name: part.splitlines() for name, part in parts(text)}
    for side in (ours, theirs):
        for name, lines in side.items():
            added = [line for line in lines if line not in base.get(name, ())]
            assert all(line in kept[name] for line in added), text


@given(ours=NOTES, base=NOTES)
def test_a_side_that_changed_nothing_changes_nothing(ours, base):
    assert merged(note(ours), note(base), note(base)) == note(ours)
    theirs = merged(note(base), note(ours), note(base))
    assert sorted(filter(None, theirs.splitlines())) == sorted(filter(None, note(ours).splitlines()))


@given(versions=st.lists(NOTES, min_size=3, max_size=5), past=st.lists(NOTES, max_size=3))
def test_of_many_copies_every_line_is_there_and_none_twice(versions, past):
    texts, history = [note(side) for side in versions], [note(side) for side in [*past, versions[0]]]
    for copy in texts[1:]:
        history.append(settled(history, copy))
    found = lines_of(history[-1])
    assert set(found) == {line for copy in texts for line in lines_of(copy)} and len(found) == len(set(found))
    for copy in texts:
        assert lines_of(settled(history, copy)) == found, "it is all there already"


def settled(history: list[str], copy: str) -> str:
    """The last text merged with a copy; what both began with is guessed as the daemon does it."""
    *known, ours, theirs = (dict(parts(text)) for text in (*history, copy))
    bases = {
        name: likely_base([text[name] for text in [*known, ours] if name in text], ours[name], theirs[name])
        for name in ours
        if name in theirs
    }
    base = "".join(f"## {name}\n{body}\n\n" for name, body in bases.items())
    return merged(history[-1], copy, base, certain=False)


def lines_of(text: str) -> list[tuple[str, str]]:
    return [(name, line) for name, part in parts(text) for line in part.splitlines() if line]


def test_the_lines_before_the_first_section_are_merged_where_only_one_side_has_sections():
    assert merged("# Day\n\nTea.\n", "# Day\n\n## Otter\n\nIt sleeps.\n", certain=False) == (
        "# Day\n\nTea.\n\n## Otter\n\nIt sleeps.\n"
    )


def test_a_line_that_one_version_has_twice_stays_twice_and_a_code_block_whole():
    code = "\n```sh\nmake {}\n```\n"
    ours, theirs = DAY + "Tea.\n" + code.format("hay"), DAY + "Milk.\nTea.\nTea.\n" + code.format("hay")
    text = merged(ours, theirs, DAY, certain=False)
    assert (text.count("Tea.\n"), text.count("Milk."), text.count(code.format("hay"))) == (2, 1, 1)
    theirs += code.format("jam").replace("make jam", "make hay\nmake jam")
    text = merged(ours, theirs, DAY, certain=False)
    assert text.count("```") == 4 and "```sh\nmake hay\nmake jam\n```" in text


def parts(text: str) -> list[tuple[str, str]]:
    """The sections of a note by their headings."""
    return [(heading, body) for part in text.split("\n## ")[1:] for heading, _, body in [part.partition("\n")]]
