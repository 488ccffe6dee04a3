"""Overviews without a question: the index card, every memory as a line, counts, and days."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from memd.exam import MANY, ProbePassage
from memd.indexer.query import lookup
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views.keys import AMONG, PLACE, listed, workspace_ids
from memd.lifecycle import packing
from memd.models import TIERS, Filters, JsonObject, grouped, pick

CARD_DAYS = 8
"""Days that an index card may have room for."""
CARD_NAMES = 60
"""Names of one sort that it may have room for."""
USED = 5
"""How many of the most and the least used memories `stats` names."""
DAY_HEADINGS = 8
"""Notes of a day that `timeline` names; the others are counted."""
DAY_KEYS = 3
"""`timeline` names the keys of a sort of action if a day has at most this many."""

KEPT = "memories m INDEXED BY memories_kept"
"""A covering index: counting 10,000 memories reads none of their rows."""
ON_CARD = f"m.workspace = :workspace AND m.file IS NOT NULL AND {lookup.ALIVE}"
SQL = queries(__file__, alive=lookup.ALIVE, is_pinned=lookup.IS_PINNED)


# --- the index card -----------------------------------------------------------------------------------------


def peek(stores: Stores, indexes: Indexes) -> JsonObject:
    """The content of the memory, as Markdown for a prompt."""
    text = packing.cards([_summary(stores.reader, index) for index in indexes])
    return {"text": text, "tokens": packing.tokens(text)}


def _summary(connection: Connection, index: WorkspaceIndex) -> packing.WorkspaceSummary:
    values = {"workspace": index.id, "days": CARD_DAYS, "names": CARD_NAMES}
    tiers = connection.execute(SQL["tiers"], values)
    days = connection.execute(SQL["last_days"], values).fetchall()
    dates = json.dumps([row["day"] for row in days])
    headings = grouped(connection.execute(SQL["day_headings"], {**values, "dates": dates}))
    return packing.WorkspaceSummary(
        index.workspace.ns,
        index.searched,
        dict(tiers.fetchall()),
        _names(connection, lookup.IS_PINNED, values),
        _names(connection, "m.role = 'memory' AND m.slug <> ''", values, headings=True),
        _names(connection, "m.role = 'topic'", values),
        [(row["day"], headings.get(row["day"], [])) for row in days],
        days[0]["total"] - len(days) if days else 0,
    )


def _names(connection: Connection, clause: str, values: JsonObject, headings: bool = False) -> packing.NameList:
    order = "m.importance DESC, m.date DESC, f.path, m.start_line LIMIT :names"
    wanted = f"{ON_CARD} AND {clause} ORDER BY {order}"
    keyed = lookup.keyed_rows(connection, "m.heading, COUNT(*) OVER () AS total", wanted, values)
    names = [row["heading"] if headings else key for key, row in keyed]
    return packing.NameList(names, keyed[0][1]["total"] if keyed else 0)


# --- every memory -------------------------------------------------------------------------------------------


def tree(stores: Stores, indexes: Indexes, path: str, offset: int, limit: int) -> JsonObject:
    """A page of the memories in the order of their files, without their texts."""
    # Files first: their index has the order.
    tables = "files f CROSS JOIN memories m ON m.file = f.id"
    below, values = lookup.conditions(Filters(path=path), expired=True)
    clause = f"f.workspace {AMONG} AND m.deleted IS NULL{below}"
    page = f"{clause} ORDER BY f.workspace, f.path, m.start_line LIMIT {limit} OFFSET {offset}"
    columns = (*PLACE, "kind", "tier", "date", "importance", "pinned")
    memories = listed(stores.reader, indexes, columns, page, tables, **values)
    values["workspaces"] = workspace_ids(indexes)
    total = _count(stores.reader, f"FROM {tables} WHERE {clause}", values)
    return {"memories": [{**memory, "pinned": bool(memory["pinned"])} for memory in memories], "total": total}


def dormant(stores: Stores, indexes: Indexes, limit: int) -> tuple[list[JsonObject], int]:
    """The dormant memories, longest first, and how many there are in all."""
    tables = f"{KEPT} JOIN files f ON f.id = m.file"
    clause = f"m.tier = 'dormant' AND m.deleted IS NULL AND m.workspace {AMONG}"
    longest = f"{clause} ORDER BY m.moved, m.workspace, f.path, m.start_line LIMIT {limit}"
    memories = listed(stores.reader, indexes, (*PLACE, "moved", "moved_by", "moved_why"), longest, tables)
    values = {"workspaces": workspace_ids(indexes)}
    return memories, _count(stores.reader, f"FROM {tables} WHERE {clause}", values)


# --- counts -------------------------------------------------------------------------------------------------


def stats(stores: Stores, indexes: Indexes, days: int = 0) -> JsonObject:
    """Counts of everything that is kept, and the bytes on disk; with `days`, the tiers at the end of each of them."""
    connection, values = stores.reader, {"workspaces": workspace_ids(indexes)}
    query = SQL["counts"].format(which=_versions_among(stores, indexes))
    counts: JsonObject = json.loads(connection.execute(query, values).fetchone()[0])
    return {
        "files": sum(index.searched for index in indexes),
        **counts,
        "vectors": sum(len(index.mirror) for index in indexes if index.mirror is not None),
        "most_used": _used(connection, indexes, "m.accesses > 0", "m.accesses DESC, m.accessed DESC"),
        "least_used": _used(connection, indexes, "1", "m.accesses, COALESCE(m.accessed, m.first_seen)"),
        "disk": _disk(stores.folder),
        "exams": [{"ns": index.workspace.ns, **row} for index in indexes for row in exam_trend(connection, index.id)],
        "tier_days": _tier_days(connection, values, counts["memories"]["tier"], days) if days else [],
    }


def _tier_days(connection: Connection, values: JsonObject, now: JsonObject, days: int) -> list[JsonObject]:
    """How many memories each tier had at the end of each of the last days (UTC), oldest first.

    Counted backwards from now, by what came, moved and went on each day.
    """
    today = datetime.now(UTC).date()
    since = str(today - timedelta(days - 1))
    changed: dict[str, Counter[str]] = {}
    for day, tier, many in connection.execute(SQL["tier_changes"], {**values, "since": since}):
        changed.setdefault(day, Counter())[tier] += many
    count, found = Counter(now), list[JsonObject]()
    for day in (str(today - timedelta(nth)) for nth in range(days)):
        found.append({"date": day, "tiers": {tier: max(0, count[tier]) for tier in TIERS}})
        count.subtract(changed.get(day, {}))
    return found[::-1]


def _versions_among(stores: Stores, indexes: Indexes) -> str:
    """The versions of these workspaces; of all of them without looking up any memory."""
    every = len(indexes) == _count(stores.reader, "FROM workspaces", {})
    return "1" if every else f"v.memory IN (SELECT id FROM memories WHERE workspace {AMONG})"


def _count(connection: Connection, clause: str, values: JsonObject) -> int:
    return int(connection.execute(f"SELECT COUNT(*) {clause}", values).fetchone()[0])


def _used(connection: Connection, indexes: Indexes, clause: str, order: str) -> list[JsonObject]:
    clause = f"+m.workspace {AMONG} AND {clause} ORDER BY {order}, m.id LIMIT {USED}"
    return listed(connection, indexes, ("heading", "tier", "accesses", "days", "accessed"), clause)


def _disk(folder: Path) -> dict[str, int]:
    """Bytes of all workspaces together."""
    stores = {"ledger": folder.glob("state.db*"), "text": (folder / "text").rglob("*"),
              "chroma": (folder / "chroma").rglob("*"), "backups": (folder / "backups").glob("*")}  # fmt: skip
    return {name: sum(_size(file) for file in files) for name, files in stores.items()}


def _size(file: Path) -> int:
    """0 for a folder, and for a file that has just gone."""
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:
        return 0


# --- days ---------------------------------------------------------------------------------------------------


def timeline(stores: Stores, indexes: Indexes, since: str, until: str, limit: int, only_counts: bool) -> JsonObject:
    """The days on which something was noted or done, newest first; with `only_counts` without the notes' headings."""
    values = {"workspaces": workspace_ids(indexes), "since": since, "until": until, "few": DAY_KEYS}
    notes = dict(stores.reader.execute(SQL["noted"], values))
    wanted = SQL["written"].format(which=_versions_among(stores, indexes)), SQL["moved"], SQL["done"]
    rows = [stores.reader.execute(query, values) for query in wanted]
    written, moves, actions = (grouped((row["day"], row) for row in some) for some in rows)
    days = sorted(notes.keys() | written.keys() | moves.keys() | actions.keys(), reverse=True)
    headings = {} if only_counts else _headings(stores.reader, indexes, days[:limit])
    shown = [
        {
            "date": day,
            "notes": notes.get(day, 0),
            "headings": headings.get(day, []),
            "written": {row["what"]: row["n"] for row in written.get(day, ())},
            "moves": {row["what"]: row["n"] for row in moves.get(day, ())},
            "actions": [
                {"what": row["what"], "count": row["n"], "keys": [key for key in json.loads(row["keys"]) if key]}
                for row in actions.get(day, ())
            ],
        }
        for day in days[:limit]
    ]
    return {"days": shown, "total": len(days)}


def _headings(connection: Connection, indexes: Indexes, days: Sequence[str]) -> dict[str, list[JsonObject]]:
    """The first notes of each day, with their headings."""
    values = {"workspaces": workspace_ids(indexes), "days": json.dumps(days), "most": DAY_HEADINGS}
    rows = connection.execute(SQL["first_notes"], values).fetchall()
    ns = {index.id: index.workspace.ns for index in indexes}
    keyed = zip(lookup.keys_of(connection, rows), rows, strict=True)
    notes = ({"ns": ns[row["workspace"]], "key": key, **pick(row, "heading", "tier")} for key, row in keyed)
    return grouped(zip((row["date"] for row in rows), notes, strict=True))


# --- the nightly exam: the chunks that probes are made from, and the trend of the results -------------------


KEPT_EXAMS = 30
"""Results that are kept for a workspace: one a day, so about a month."""


def exam_passages(connection: Connection, workspace: int, ns: str) -> list[ProbePassage]:
    """The chunks of a workspace; of a very large one a part, chosen by content."""
    columns = ("path", "start_line", "end_line", "text", "date")
    selected, chosen = "c.start_line, c.end_line, c.text, m.date", "c.workspace = ? ORDER BY c.digest, c.id LIMIT ?"
    keyed = lookup.keyed_rows(connection, selected, chosen, (workspace, MANY), lookup.TABLES)
    return [ProbePassage(ns, key, *(row[name] for name in columns)) for key, row in keyed]


def keep_exam(connection: Connection, workspace: int, date: str, report: JsonObject) -> None:
    """Keep a result; a second one of a day replaces the first."""
    figures = (report["questions"], report["figures"]["recall@5"], report["p95_ms"])
    connection.execute(SQL["keep_exam"], (workspace, date, *figures))
    connection.execute(SQL["drop_exams"], (workspace, KEPT_EXAMS))


def exam_trend(connection: Connection, workspace: int, most: int = KEPT_EXAMS) -> list[JsonObject]:
    """The last results, newest first."""
    return [dict(row) for row in connection.execute(SQL["exams"], (workspace, most))]
