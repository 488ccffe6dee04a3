"""The queries beside the modules: each is one that SQLite takes, and that its module asks."""

from __future__ import annotations

import re
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from memd.indexer.store.ledger import Ledger
from memd.indexer.store.queries import queries

PACKAGE = Path(__file__).parents[2] / "memd"
FILES = [file for file in sorted(PACKAGE.rglob("*.sql")) if "-- name: " in file.read_text()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_sqlite_takes_every_query(file, tmp_path):
    module = import_module(".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts))
    assert module.SQL
    with closing(Ledger(tmp_path / "state.db")) as ledger, closing(ledger.unshared_connection()) as connection:
        for table in getattr(module, "SHADOWED", ()):
            connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM main.{table}")
        for name, query in module.SQL.items():
            complete = query.format(which="1")
            numbered = max(map(int, re.findall(r"\?(\d+)", complete)), default=complete.count("?"))
            names = dict.fromkeys(re.findall(r":(\w+)", complete))
            assert connection.execute(f"EXPLAIN {complete}", names or (None,) * numbered).fetchone(), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_its_module_asks_every_query_and_no_other(file):
    asked = set(re.findall(r'SQL\["(\w+)"\]', file.with_suffix(".py").read_text()))
    assert asked == set(queries(str(file)))


def test_parts_and_lists_are_filled_in(tmp_path):
    (tmp_path / "some.sql").write_text(
        "-- What it is for.\n\n-- name: one\nSELECT 1\nWHERE {alive}\n\n"
        "-- name: two\n-- Why.\nSELECT a FROM t WHERE a AMONG :names AND b AMONG ?2\n"
    )
    assert queries(str(tmp_path / "some.py"), alive="x IS NULL") == {
        "one": "SELECT 1\nWHERE x IS NULL",
        "two": "-- Why.\nSELECT a FROM t WHERE a IN (SELECT value FROM json_each(:names))"
        " AND b IN (SELECT value FROM json_each(?2))",
    }
