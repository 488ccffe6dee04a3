"""The languages, one file each; a new file here is a new language."""

import importlib
import pkgutil
from functools import cache
from pathlib import PurePosixPath

from memd.errors import UsageError, did_you_mean
from memd.outline.language import Language


@cache
def known() -> dict[str, Language]:
    """Every language by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    tables: list[Language] = [importlib.import_module(f"{__name__}.{name}").TABLE for name in names]
    return {table.name: table for table in tables}


@cache
def by_suffix() -> dict[str, tuple[Language, ...]]:
    """The languages of each suffix; the one that takes any file comes last."""
    tables = sorted(known().values(), key=lambda table: (table.sniff is None, table.name))
    suffixes = dict.fromkeys(suffix for table in tables for suffix in table.grammars)
    return {suffix: tuple(table for table in tables if suffix in table.grammars) for suffix in suffixes}


def of_source(suffix: str, source: bytes) -> Language:
    """The language of a file, by its suffix; if several have it, by its content."""
    *rarer, usual = by_suffix()[suffix]
    return next((table for table in rarer if table.sniff and table.sniff.search(source)), usual)


def of_path(path: str) -> tuple[Language, ...]:
    """The possible languages of a file; none for what is no source."""
    return by_suffix().get(PurePosixPath(path).suffix.lower(), ())


def named(name: str) -> Language:
    """The language with this name, alias or suffix."""
    wanted = name.strip().lower()
    for table in known().values():
        if wanted == table.name or wanted in table.aliases or f".{wanted}" in table.grammars:
            return table
    similar = did_you_mean(wanted, known())
    raise UsageError(f"the outline does not know the language {name!r}{similar}", f"it knows: {', '.join(known())}")
