"""What says the same is one hit, and no file crowds out the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePosixPath
from sqlite3 import connect
from tempfile import TemporaryDirectory
from typing import Any

from memd.indexer.query import hits
from memd.indexer.query.hits import ALIKE, CROWDED, FREE
from memd.indexer.store.columns import ChunkPlace
from memd.indexer.store.text import TextIndex
from memd.models import Chunk, Workspace


class Index:
    """What folding looks at of a workspace: its words are in a text index."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.workspace = Workspace("agent", Path("/agent"))
        self.reader = connect(":memory:")
        self.reader.execute("CREATE TABLE memories (id, slug)")
        self.text: TextIndex


ONE, OTHER = Index(1), Index(2)
SENTENCE = "the backup of the photo archive on the old disk ran at night and took four long hours to finish"


@dataclass
class Candidate:
    """What folding looks at of a candidate."""

    text: str
    path: str = "a.md"
    score: float = 3.0
    index: Index = ONE
    ranks: dict[str, int] = field(default_factory=lambda: {"text": 1})
    parts: dict[str, float] = field(default_factory=dict)
    line: int = 1
    number: int = field(default_factory=count(1).__next__)

    @property
    def place(self) -> ChunkPlace:
        return ChunkPlace(self.path, PurePosixPath(self.path).stem, self.line, self.number, self.number, False, 0)


def fold(places: Sequence[Candidate], limit: int) -> list[tuple[Any, list[Any]]]:
    """Fold candidates whose texts are indexed."""
    with TemporaryDirectory() as folder:
        for index in (ONE, OTHER):
            index.text = TextIndex(Path(folder) / str(index.id))
            index.text.apply([(one.number, Chunk(one.text, 1, 1, ())) for one in places if one.index is index], ())
        given: Any = places
        folded: Any = hits.fold(given, limit)
        return list(folded)


def shown(places: Sequence[Candidate], limit: int = 8) -> list[tuple[str, int]]:
    """The path of each hit and how many say the same."""
    return [(place.path, len(also)) for place, also in fold(places, limit)]


def distinct(number: int) -> str:
    return " ".join(f"w{number}x{nth}" for nth in range(6))


def test_equals_and_near_equals_are_one_hit_that_lists_the_others_in_order():
    places = [
        Candidate(SENTENCE, "a.md", 3.0), Candidate(SENTENCE, "b.md", 2.9), Candidate(distinct(1), "c.md", 2.8),
        Candidate(SENTENCE.upper(), "d.md", 2.7),
    ]  # fmt: skip
    folded = fold(places, 8)
    assert [place.path for place, _ in folded] == ["a.md", "c.md"]
    assert [place.path for place in folded[0][1]] == ["b.md", "d.md"]


def test_how_many_words_may_differ():
    words = [f"word{nth}" for nth in range(40)]
    for changed, alike in ((0, True), (1, True), (2, True), (4, False), (20, False)):
        other = words[changed:] + [f"new{nth}" for nth in range(changed)]
        assert (len(shown([Candidate(" ".join(words)), Candidate(" ".join(other))])) == 1) is alike, changed
    assert ALIKE == 0.9


def test_a_part_of_a_text_is_not_the_text():
    assert shown([Candidate(SENTENCE), Candidate(" ".join(SENTENCE.split()[:9]), "b.md")]) == [("a.md", 0), ("b.md", 0)]


def test_the_same_line_under_another_heading_tells_something_else():
    staging, production = "## Staging\n\n**Port:** 8409", "## Production\n\n**Port:** 8409"
    assert shown([Candidate(staging), Candidate(production, "b.md")]) == [("a.md", 0), ("b.md", 0)]
    assert shown([Candidate(staging), Candidate(staging, "b.md")]) == [("a.md", 1)]


def test_what_has_no_words_is_compared_as_it_is():
    assert shown([Candidate("🎉"), Candidate("🚀", "b.md"), Candidate("🎉", "c.md")]) == [("a.md", 1), ("b.md", 0)]


def test_workspaces_are_not_folded_into_each_other():
    # A path alone would not say in which of them the other stands.
    assert shown([Candidate(SENTENCE), Candidate(SENTENCE, index=OTHER)]) == [("a.md", 0), ("a.md", 0)]


def test_equals_do_not_use_up_the_limit():
    places = [Candidate(SENTENCE, f"{nth}.md") for nth in range(5)] + [Candidate(distinct(1), "z.md")]
    assert shown(places, 2) == [("0.md", 4), ("z.md", 0)]


def test_a_file_gives_way_after_its_first_hits():
    crowd = [Candidate(distinct(nth), "a.md", 3.0, line=nth) for nth in range(8)]
    others = [Candidate(distinct(10 + nth), f"b{nth}.md", 3.0 - CROWDED / 2) for nth in range(2)]
    order = [path for path, _ in shown([*crowd, *others], 8)]
    assert order == ["a.md"] * FREE + ["b0.md", "b1.md"] + ["a.md"] * FREE
    far = [Candidate(distinct(20), "c.md", 1.0)]
    assert [path for path, _ in shown([*crowd[:5], *far], 8)][-1] == "c.md"


def test_the_same_file_name_in_another_workspace_is_another_file():
    mine = [Candidate(distinct(nth), line=nth) for nth in range(FREE)]
    theirs = [Candidate(distinct(10 + nth), index=OTHER, line=nth) for nth in range(FREE)]
    fold([*mine, *theirs], 8)
    assert {place.score for place in [*mine, *theirs]} == {3.0}


def test_small_scores_give_up_little():
    crowd = [Candidate(distinct(nth), "a.md", 1 / (61 + nth), line=nth) for nth in range(6)]
    worse = Candidate(distinct(9), "b.md", 1 / 100)
    assert [path for path, _ in shown([*crowd, worse], 8)] == ["a.md"] * 6 + ["b.md"]
    assert min(place.score for place in crowd) > 0


def test_a_list_that_nothing_ranked_keeps_its_order():
    listed = [Candidate(distinct(nth), "new.md", 1.0, ranks={}, line=nth) for nth in range(6)]
    listed.append(Candidate(distinct(9), "old.md", 1.0, ranks={}))
    assert [path for path, _ in shown(listed, 8)] == ["new.md"] * 6 + ["old.md"]


def test_nothing_gives_nothing():
    assert fold([], 8) == []


def test_ones_own_comes_before_the_teams_of_the_same_name_or_text():
    theirs, same = Candidate(distinct(1), "team/deploy.md", 3.0), Candidate(SENTENCE, "team/x.md", 2.5)
    ours, other, mine = (
        Candidate(distinct(2), "memory/deploy.md", 1.0),
        Candidate(distinct(3), "team/y.md", 2.0),
        Candidate(SENTENCE, "b.md", 1.5),
    )
    found = shown([theirs, same, other, mine, ours])
    assert found == [("memory/deploy.md", 0), ("team/deploy.md", 0), ("b.md", 1), ("team/y.md", 0)]
