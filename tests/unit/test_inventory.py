"""Pages of all memories: those of one page are read by its days, and together they are the whole list."""

from __future__ import annotations

from pathlib import Path

from memd.indexer.views.inventory import list_memories
from memd.models import Filters
from tests.lab import Lab


def test_pages_together_are_the_whole_list(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    days = {
        f"memory/2026-02-{day:02}.md": "".join(f"## {day}-{n}\n\nword\n\n" for n in range(day % 4))
        for day in range(1, 20)
    }
    indexes = [lab.add(days, "one"), lab.add({**days, "memory/a.md": "## b\n\n_2026-02-03 10:00_\n\nword\n"}, "two")]

    def listed(filters: Filters, sort: str, offset: int, limit: int) -> list[tuple[str, str, str]]:
        found = list_memories(lab.stores, indexes, filters, sort, offset, limit)
        assert found["total"] == len(every)
        return [(row["ns"], row["key"], row["time"]) for row in found["memories"]]

    # What every memory passes is a filter, too: then all are read.
    all_of_them = Filters(path="memory")
    every = list(range(list_memories(lab.stores, indexes, all_of_them, "newest", 0, 1)["total"]))
    for sort in ("newest", "oldest"):
        whole = listed(all_of_them, sort, 0, 1_000)
        assert len(whole) == len(every) > 50
        for size in (1, 7, 1_000):
            pages = [row for at in range(0, len(whole) + size, size) for row in listed(Filters(), sort, at, size)]
            assert pages == whole
    lab.close()
