"""Loads the queries of a module from the `.sql` file beside it: each stands behind a line `-- name: …`."""

import re
from pathlib import Path

NAMED = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
AMONG = re.compile(r"\bAMONG (\?\d*|:\w+)")


def queries(module: str, **parts: str) -> dict[str, str]:
    """The queries of a module, by name, with lists: give it `__file__`, and what its queries mean by `{part}`."""
    text = Path(module).with_suffix(".sql").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    _, *named = NAMED.split(with_lists(text))
    return {name: query.strip() for name, query in zip(named[::2], named[1::2], strict=True)}


def with_lists(query: str) -> str:
    """A query in which `AMONG :names` means: one of the values of a list, which is passed as JSON."""
    return AMONG.sub(r"IN (SELECT value FROM json_each(\1))", query)
