"""Finds the symbol that someone means: by its whole name, or by any end of it that only one has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from memd.errors import NotFound, UsageError
from memd.outline.facts import MODULE
from memd.outline.language import Parts
from memd.outline.project import Id, Project

JOINTS = re.compile(r"\s*(?:::|->|[./#\\])\s*")
NEAR = 5
MOST_COMPARED = 3_000


def wanted_parts(text: str) -> Parts:
    """`outline.(*Manager).Register`, `a::b::c()` and `pkg.Class.method` part by part."""
    plain = re.sub(r"\(\s*\*?\s*([\w$]+)\s*\)", r"\1", text.strip()).removesuffix("()")
    plain = re.sub(r"<[^<>]*>", "", plain)
    return tuple(part for part in JOINTS.split(plain) if part)


def find(project: Project, text: str, within: Callable[[str], bool], file: str = "") -> list[Id]:
    """The definitions of one symbol; several where it is defined several times under one name."""
    wanted = wanted_parts(text)
    if not wanted:
        raise UsageError(f"{text!r} is no name of a symbol", "a name such as Class.method")
    found = [one for one in _ending(project, wanted) if within(one.path) and file in ("", one.path)]
    if not found:
        raise NotFound(f"no symbol is called {text}" + (f" in {file}" if file else ""), near(project, text, within))
    whole = [one for one in found if project.segments(one) == wanted]
    names: dict[str, list[Id]] = {}
    for one in sorted(whole or found):
        names.setdefault(project.qualified(one), []).append(one)
    if len(names) > 1:
        raise UsageError(f"{text} could be {len(names)} symbols", _told(project, names))
    return next(iter(names.values()))


def _ending(project: Project, wanted: Parts) -> Iterable[Id]:
    """Every symbol whose whole name ends in these parts; modules count too."""
    for one in project.named.get(wanted[-1], ()):
        if project.segments(one)[-len(wanted) :] == wanted:
            yield one
    modules = [*project.ending.get(wanted[-1], ()), ()]
    for path in (path for parts in modules for path in project.modules.get(parts, ())):
        if project.module_name(path)[-len(wanted) :] == wanted and not project.language(path).named_by_package:
            yield Id(path, MODULE)


def _told(project: Project, names: dict[str, list[Id]]) -> str:
    shown = [f"{name}  {ids[0].path}:{project.symbol(ids[0]).line}" for name, ids in list(names.items())[: 2 * NEAR]]
    more = len(names) - len(shown)
    return "say which:\n" + "\n".join(shown) + (f"\n… {more} more" if more else "")


def near(project: Project, text: str, within: Callable[[str], bool]) -> str:
    """Names that are spelt nearly so."""
    last = (wanted_parts(text) or ("",))[-1].casefold()
    names = [name for name, ids in project.named.items() if any(within(one.path) for one in ids)]
    like = [name for name in names if _alike(last, name.casefold())][:MOST_COMPARED]
    by_case = {name.casefold(): name for name in like}
    found = difflib.get_close_matches(last, list(by_case), n=NEAR, cutoff=0.6)
    return (
        f"did you mean {', '.join(by_case[name] for name in found)}?"
        if found
        else "memd outline map shows what there is"
    )


def _alike(wanted: str, name: str) -> bool:
    """A first look that costs little: nearly as long, and some letters at either end."""
    if wanted in name or name in wanted:
        return True
    return abs(len(wanted) - len(name)) < 4 and (wanted[:2] == name[:2] or wanted[-3:] == name[-3:])
