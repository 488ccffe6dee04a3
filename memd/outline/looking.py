"""What can be asked of an outline: a symbol, a file, a project, a map."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any

from memd.errors import NotFound, Refused, UsageError
from memd.outline import grammar, languages, naming, ranking, telling
from memd.outline.language import Language, Parts
from memd.outline.outline import Family, Outline
from memd.outline.project import Id
from memd.outline.relations import RELATIONS
from memd.outline.tree import DEPTH, Node, grow

MENTIONS = "mentioned_in"
KINDS = (*RELATIONS, MENTIONS)
MOST_TOLD = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """How a tree is wanted."""

    language: str = ""
    depth: int = DEPTH
    relations: tuple[str, ...] = ()
    """Empty for all."""
    omit_native: bool = False
    whole: bool = True
    """Whether every symbol is wanted, or only as many as a text can show."""

    def wanted(self) -> tuple[str, ...]:
        for one in self.relations:
            if one not in KINDS:
                near = difflib.get_close_matches(one, KINDS, n=1, cutoff=0.5)
                meant = f"did you mean {near[0]}? " if near else ""
                raise UsageError(f"there is no relation {one!r}", f"{meant}there are: {', '.join(KINDS)}")
        return self.relations or KINDS


@dataclass(frozen=True, slots=True)
class Entry:
    """One symbol that was asked for, with what is needed to find it in notes."""

    node: Node
    path: str
    segments: Parts
    whole_file: bool
    alone: bool
    """Whether its bare name can mean nothing else in the project."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to a question."""

    language: str
    entries: list[Entry]
    skipped: dict[str, str]
    more: int = 0
    """Symbols that have no entry, because nobody would see it."""
    file: str = ""
    """The file that was asked for, if one was."""

    def told_skipped(self) -> list[dict[str, str]]:
        return told_skipped(self.skipped, self.file)

    def text(self) -> str:
        return telling.told([entry.node for entry in self.entries], self.more, self.skipped.get(self.file, ""))


def symbol(outline: Outline, asked: Asked, name: str, file: str = "") -> Looked:
    """The tree of one symbol."""
    asked.wanted()
    language, family = _family(outline, asked.language, file)
    if file:
        _must_have(outline, language, file)
    found = naming.find(family.project, name, lambda path: outline.in_language(path, language), file)
    return _grown(outline, language, family, found, asked)


def file(outline: Outline, asked: Asked, path: str) -> Looked:
    """The trees of every symbol of a file."""
    asked.wanted()
    language, family = _family(outline, asked.language, path)
    _must_have(outline, language, path)
    return replace(_grown(outline, language, family, list(family.project.ids([path])), asked), file=path)


def project(outline: Outline, asked: Asked) -> Looked:
    """The trees of every symbol of a language."""
    asked.wanted()
    language, family = _family(outline, asked.language)
    paths = sorted(path for path in family.project.files if outline.in_language(path, language))
    return _grown(outline, language, family, list(family.project.ids(paths)), asked)


def _family(outline: Outline, name: str, file: str = "") -> tuple[Language, Family]:
    if name:
        # Wrong whatever the workspace has, and said before the workspace is looked at.
        languages.named(name)
    language = outline.language_meant(name, file)
    grammar.require(language)
    if file and languages.of_path(file) and not outline.in_language(file, language):
        raise UsageError(f"{file} is {languages.of_path(file)[-1].name}, not {language.name}")
    return language, outline.family(language)


def _must_have(outline: Outline, language: Language, path: str) -> None:
    family = outline.family(language)
    if path in family.project.files:
        return
    if path in outline.skipped:
        raise NotFound(f"{path} is not in the outline: {outline.skipped[path]}")
    if (outline.root / path).is_file():
        known = "git ignores it, or it lies in a hidden folder or one that builds make"
        why = known if languages.of_path(path) else f"the outline knows {', '.join(languages.by_suffix())}"
        raise NotFound(f"{path} is not in the outline", why)
    near = difflib.get_close_matches(path, family.project.files, n=3, cutoff=0.5)
    raise NotFound(f"there is no file {path}", f"did you mean {', '.join(near)}?" if near else "memd outline map")


def _grown(outline: Outline, language: Language, family: Family, found: list[Id], asked: Asked) -> Looked:
    every = found
    # Each symbol has a line at least.
    found = found if asked.whole else found[: telling.MOST_LINES]
    nodes = grow(family.linker, found, asked.depth, asked.wanted(), asked.omit_native, every)
    named = family.project.named
    entries = [
        Entry(
            node, one.path, family.project.segments(one), one.number == 0,
            len(named.get(family.project.symbol(one).name, ())) == 1,
        )
        for one, node in zip(found, nodes, strict=True)
    ]  # fmt: skip
    return Looked(language.name, entries, outline.skipped, len(every) - len(found))


def chart(outline: Outline, name: str, budget: int) -> dict[str, Any]:
    """The map: the most important symbols within a budget of tokens."""
    wanted = [languages.named(name)] if name else [languages.known()[one] for one in sorted(outline.counts())]
    if name:
        _family(outline, name)
    _need_any(wanted)
    ranked = [(outline.family(one).linker, outline.family(one).ranked(one, outline.in_language)) for one in wanted]
    # A header may be of two languages; it counts once.
    unique = {id(linker): (linker, every) for linker, every in ranked} if not name else dict(enumerate(ranked))
    chosen, spent = ranking.within_budget(list(unique.values()), budget)
    total = sum(len(every) for _, every in unique.values())
    return {
        "text": ranking.drawn(chosen),
        "symbols": [_charted(linker.project.qualified(one.id), linker, one) for linker, one in chosen],
        "tokens": spent,
        "left_out": total - len(chosen),
        "languages": dict(sorted(outline.counts().items())),
        "skipped": told_skipped(outline.skipped),
    }


def _need_any(wanted: list[Language]) -> None:
    """Refused where none of these can be parsed; one that can is enough for a map."""
    refused: list[Refused] = []
    for language in wanted:
        try:
            grammar.require(language)
        except Refused as error:
            refused.append(error)
    if wanted and len(refused) == len(wanted):
        raise refused[0]


def _charted(name: str, linker: Any, one: ranking.Ranked) -> Node:
    symbol = linker.project.symbol(one.id)
    return {"name": name, "kind": symbol.kind, "path": one.id.path, "line": symbol.line,
            "signature": symbol.signature, "referrers": one.referrers}  # fmt: skip


def told_skipped(skipped: dict[str, str], first: str = "") -> list[dict[str, str]]:
    """The first of them by path; `first` before all, so that whoever asked for it is told."""
    ordered = sorted(skipped.items(), key=lambda one: (one[0] != first, one[0]))
    return [{"path": path, "why": why} for path, why in ordered[:MOST_TOLD]]
