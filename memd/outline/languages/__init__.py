"""The languages: one file here each, which holds its table; a new file is a new language."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from pathlib import PurePosixPath

from memd.errors import UsageError
from memd.outline.language import Language


@cache
def known() -> dict[str, Language]:
    """Every language by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    tables: list[Language] = [importlib.import_module(f"{__name__}.{name}").TABLE for name in names]
    return {table.name: table for table in tables}


@cache
def by_suffix() -> dict[str, tuple[Language, ...]]:
    """Which languages a file's ending can mean; the one that takes any file comes last."""
    found: dict[str, list[Language]] = {}
    for table in sorted(known().values(), key=lambda table: (table.sniff is None, table.name)):
        for suffix in table.grammars:
            found.setdefault(suffix, []).append(table)
    return {suffix: tuple(sorted(tables, key=lambda one: one.sniff is None)) for suffix, tables in found.items()}


def of_source(suffix: str, source: bytes) -> Language:
    """The language of a file, by its ending, and by what is in it where that does not decide."""
    *rarer, usual = by_suffix()[suffix]
    return next((table for table in rarer if table.sniff and table.sniff.search(source)), usual)


def of_path(path: str) -> tuple[Language, ...]:
    """The languages that a file can be in; none for what is no source."""
    return by_suffix().get(PurePosixPath(path).suffix.lower(), ())


def named(name: str) -> Language:
    """The language that someone means; another name of it will do."""
    wanted = name.strip().lower()
    for table in known().values():
        if wanted == table.name or wanted in table.aliases or f".{wanted}" in table.grammars:
            return table
    near = difflib.get_close_matches(wanted, list(known()), n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"the outline does not know the language {name!r}", f"{meant}it knows: {', '.join(known())}")
