"""The names of memories and what they mention: kept when a memory is indexed, and looked up by name."""

import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from posixpath import splitext
from sqlite3 import Connection, Row

from memd.indexer.store.queries import queries
from memd.models import Memory, grouped
from memd.notes.metadata import SUFFIXES, folded, key_target, links_of
from memd.notes.names import own_heading

SQL = queries(__file__)

KEY, ALIAS, TITLE, TAG = range(4)
"""Ranks of a name; the first rank that has a match counts."""


# --- keeping, in the transaction that indexes a memory --------------------------------------------------------


def keep(connection: Connection, number: int, path: str, memory: Memory) -> bool:
    """Keep the names and mentions of a memory; returns whether they changed."""
    names = _names(path, memory)
    known = connection.execute("SELECT name, rank FROM names WHERE memory = ?", (number,)).fetchall()
    renamed = {row["name"]: row["rank"] for row in known} != names
    if renamed:
        connection.execute("DELETE FROM names WHERE memory = ?", (number,))
        rows = [(name, number, rank) for name, rank in names.items()]
        connection.executemany("INSERT INTO names (name, memory, rank) VALUES (?, ?, ?)", rows)
    return _keep_mentions(connection, number, path, memory) or renamed


def _keep_mentions(connection: Connection, number: int, path: str, memory: Memory) -> bool:
    links = {(link.rel, link.target): (link.origin, link.weight) for link in links_of(path, memory)}
    rows = connection.execute("SELECT * FROM mentions WHERE memory = ?", (number,)).fetchall()
    known = {(row["rel"], row["target"]): (row["origin"], row["weight"]) for row in rows}
    gone = [(number, *target) for target in known.keys() - links.keys()]
    new = [(number, *target, *values) for target, values in links.items() if known.get(target) != values]
    connection.executemany("DELETE FROM mentions WHERE memory = ? AND rel = ? AND target = ?", gone)
    connection.executemany(SQL["keep_mention"], new)
    return bool(gone or new)


def _names(path: str, memory: Memory) -> dict[str, int]:
    """Every name of a memory, with its best rank."""
    stem, declared = folded(_bare(PurePosixPath(path).name)), memory.declared
    titles = (memory.heading, own_heading(memory.heading)) if memory.slug else (memory.heading, declared.title)
    names = {f"#{folded(tag)}": TAG for tag in declared.tags}
    names |= {folded(title): TITLE for title in titles if title.strip()}
    names |= {folded(alias): ALIAS for alias in declared.aliases}
    key = f"{stem}#{memory.slug}" if memory.slug else stem
    # A link to a file with a `#` in its name is read as one to a heading.
    return {key_target(key): ALIAS} | names | {key: KEY}


def _bare(path: str) -> str:
    """A path without the suffix of a note."""
    stem, suffix = splitext(path)
    return stem if suffix.lower() in SUFFIXES else path


# --- finding ------------------------------------------------------------------------------------------------


def found_by_name(connection: Connection, workspace: int, targets: Iterable[str]) -> dict[str, int]:
    """The memory that each target names, if it is exactly one."""
    sought = {target: _sought(target) for target in targets}
    among = json.dumps(list({name for names in sought.values() for name in names}))
    rows = connection.execute(SQL["named"], (among, workspace))
    known = grouped((row["name"], row) for row in rows)
    matches = {target: _match(target, known) for target in sought}
    return {target: memory for target, memory in matches.items() if memory is not None}


def _sought(target: str) -> tuple[str, ...]:
    """The names to look up for a target: its key without folders, the same without the heading, and all of it."""
    base, _, slug = target.partition("#")
    stem = _bare(base.rpartition("/")[2])
    return (f"{stem}#{slug}" if slug else stem, stem, target)


def _match(target: str, known: dict[str, list[Row]]) -> int | None:
    base, _, slug = target.partition("#")
    by_key, by_file, by_name = (known.get(name, []) for name in _sought(target))
    keyed = _in_file(base, [row for row in by_key if row["rank"] == KEY])
    # A heading below `##` belongs to the memory of the whole file.
    keyed = keyed or (_in_file(base, [row for row in by_file if row["rank"] == KEY]) if slug else [])
    for rows in (keyed, *([row for row in by_name if row["rank"] == rank] for rank in (ALIAS, TITLE))):
        # Names in a front matter are kept for each section, and mean the file.
        only = rows if len(rows) == 1 else [row for row in rows if not row["slug"]]
        if rows:
            return only[0]["memory"] if len(only) == 1 else None
    return None


def _in_file(base: str, rows: list[Row]) -> list[Row]:
    """The rows of the file that a path names: by the whole path, else by the end of it."""
    if "/" not in base and base == _bare(base):
        return rows
    paths = [(row, folded(row["path"])) for row in rows]
    paths = [(row, path if base != _bare(base) else _bare(path)) for row, path in paths]
    exact = [row for row, path in paths if path == base]
    return exact or [row for row, path in paths if path.endswith(f"/{base}")]


def forms(connection: Connection, about: str) -> tuple[list[str], list[str]]:
    """Every name that a text may use for some memories; and the names of whole files, which may precede a `#`."""
    found = {name for (name,) in connection.execute(SQL["names"], (TAG, about))}
    whole: set[str] = set()
    for path, slug in connection.execute(SQL["placed"], (about,)):
        parts = PurePosixPath(folded(path)).parts
        bases = {"/".join(parts[at:]) for at in range(len(parts))}
        bases |= {_bare(base) for base in bases}
        found |= {f"{base}#{slug}" if slug else base for base in bases}
        whole |= bases if not slug else set()
    return sorted(found), sorted(whole)
