"""The questions to an outline: a symbol, a file, a whole project, a map."""

import difflib
import heapq
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from memd.errors import NotFound, Refused, UsageError, did_you_mean
from memd.outline import grammar, languages
from memd.outline.facts import MODULE
from memd.outline.languages import Language, Parts
from memd.outline.outline import LanguageFamily, Outline, RankedSymbol
from memd.outline.project import Project, SymbolId
from memd.outline.relations import DEPTH, MAX_LINES, RELATIONS, Node, relation_trees, render
from memd.outline.resolve import Resolver
from memd.prose import estimate_tokens

KINDS = (*RELATIONS, "mentioned_in")
MAX_SKIPPED = 50
SEPARATORS = re.compile(r"\s*(?:::|->|[./#\\])\s*")
SUGGESTIONS = 5
MAX_COMPARED = 3_000


# --- trees --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Which relations of symbols are wanted, and how deep."""

    language: str = ""
    depth: int = DEPTH
    relations: tuple[str, ...] = ()
    """Empty for all."""
    omit_native: bool = False
    whole: bool = True
    """Whether every symbol is wanted, or only as many as a text can show."""

    def kinds(self) -> tuple[str, ...]:
        for relation in self.relations:
            if relation not in KINDS:
                similar = did_you_mean(relation, KINDS)
                raise UsageError(f"there is no relation {relation!r}{similar}", f"there are: {', '.join(KINDS)}")
        return self.relations or KINDS


@dataclass(frozen=True, slots=True)
class SymbolTree:
    """The relation tree of one symbol, with what is needed to find the symbol in notes."""

    node: Node
    path: str
    segments: Parts
    whole_file: bool
    alone: bool
    """Whether no other symbol of the project has its bare name."""


@dataclass(frozen=True, slots=True)
class SymbolTrees:
    """The answer to a question about symbols."""

    language: str
    trees: list[SymbolTree]
    skipped: dict[str, str]
    more: int = 0
    """Symbols without a tree, because a text would not show it."""
    file: str = ""
    """The file in question, if there is one."""

    def skipped_files(self) -> list[dict[str, str]]:
        return skipped_files(self.skipped, self.file)

    def text(self) -> str:
        return render([tree.node for tree in self.trees], self.more, self.skipped.get(self.file, ""))


def symbol(outline: Outline, options: TreeOptions, name: str, file: str = "") -> SymbolTrees:
    """The tree of one symbol."""
    options.kinds()
    language, family = _family(outline, options.language, file)
    if file:
        _must_have(outline, language, file)
    ids = find_symbol(family.project, name, lambda path: outline.in_language(path, language), file)
    return _trees(outline, language, family, ids, options)


def file(outline: Outline, options: TreeOptions, path: str) -> SymbolTrees:
    """The trees of every symbol of a file."""
    options.kinds()
    language, family = _family(outline, options.language, path)
    _must_have(outline, language, path)
    return replace(_trees(outline, language, family, list(family.project.ids([path])), options), file=path)


def project(outline: Outline, options: TreeOptions) -> SymbolTrees:
    """The trees of every symbol of a language."""
    options.kinds()
    language, family = _family(outline, options.language)
    paths = sorted(path for path in family.project.files if outline.in_language(path, language))
    return _trees(outline, language, family, list(family.project.ids(paths)), options)


def _family(outline: Outline, name: str, file: str = "") -> tuple[Language, LanguageFamily]:
    language = outline.language_of(name, file)
    grammar.require(language)
    if file and languages.of_path(file) and not outline.in_language(file, language):
        raise UsageError(f"{file} is {languages.of_path(file)[-1].name}, not {language.name}")
    return language, outline.family(language)


def _must_have(outline: Outline, language: Language, path: str) -> None:
    files = outline.family(language).project.files
    if path in files:
        return
    if path in outline.skipped:
        raise NotFound(f"{path} is not in the outline: {outline.skipped[path]}")
    if (outline.root / path).is_file():
        ignored = "git ignores it, or it is in a hidden folder or in one that builds make"
        hint = ignored if languages.of_path(path) else f"the outline knows {', '.join(languages.by_suffix())}"
        raise NotFound(f"{path} is not in the outline", hint)
    near = difflib.get_close_matches(path, files, n=3, cutoff=0.5)
    raise NotFound(f"there is no file {path}", f"did you mean {', '.join(near)}?" if near else "memd outline map")


def _trees(
    outline: Outline, language: Language, family: LanguageFamily, ids: list[SymbolId], options: TreeOptions
) -> SymbolTrees:
    # Each symbol takes at least one line.
    shown = ids if options.whole else ids[:MAX_LINES]
    nodes = relation_trees(family.resolver, shown, options.depth, options.kinds(), options.omit_native, ids)
    known = family.project
    trees = [
        SymbolTree(
            node, one.path, known.segments(one), one.number == MODULE,
            len(known.named.get(known.symbol(one).name, ())) == 1,
        )
        for one, node in zip(shown, nodes, strict=True)
    ]  # fmt: skip
    return SymbolTrees(language.name, trees, outline.skipped, len(ids) - len(shown))


def skipped_files(skipped: dict[str, str], first: str = "") -> list[dict[str, str]]:
    """The skipped files by path, up to a limit; `first` comes first, so that it is never cut off."""
    ordered = sorted(skipped.items(), key=lambda item: (item[0] != first, item[0]))
    return [{"path": path, "why": why} for path, why in ordered[:MAX_SKIPPED]]


# --- the map ------------------------------------------------------------------------------------------------


MAX_SIGNATURE = 160
"""Characters of a signature on the map."""


class MapEntry(NamedTuple):
    """A symbol on the map, with the resolver of its family."""

    resolver: Resolver
    symbol: RankedSymbol

    def line(self) -> str:
        """Where the symbol is, and its signature."""
        project, of = self.resolver.project, self.symbol.id
        symbol = project.symbol(of)
        owner = f"{project.segments(of)[-2]}: " if symbol.kind == "method" else ""
        long = len(symbol.signature) > MAX_SIGNATURE
        shown = f"{symbol.signature[: MAX_SIGNATURE - 1]}…" if long else symbol.signature
        return f"  {symbol.line}: {owner}{shown}"

    def row(self) -> Node:
        project, of = self.resolver.project, self.symbol.id
        symbol = project.symbol(of)
        return {"name": project.qualified(of), "kind": symbol.kind, "path": of.path, "line": symbol.line,
                "signature": symbol.signature, "referrers": self.symbol.referrers}  # fmt: skip


def project_map(outline: Outline, name: str, budget: int) -> dict[str, Any]:
    """The most important symbols within a budget of tokens, of one language or of all."""
    wanted = [languages.named(name)] if name else [languages.known()[one] for one in sorted(outline.counts())]
    if name:
        _family(outline, name)
    _require_any(wanted)
    families = [(outline.family(language), language) for language in wanted]
    ranked = [(family.resolver, family.ranked(language, outline.in_language)) for family, language in families]
    # A header can belong to two languages; without a language, each family counts once.
    unique = {id(resolver): (resolver, symbols) for resolver, symbols in ranked}
    entries, spent = within_budget(list(unique.values()), budget)
    total = sum(len(symbols) for _, symbols in unique.values())
    return {
        "text": render_map(entries),
        "symbols": [entry.row() for entry in entries],
        "tokens": spent,
        "left_out": total - len(entries),
        "languages": dict(sorted(outline.counts().items())),
        "skipped": skipped_files(outline.skipped),
    }


def _require_any(wanted: list[Language]) -> None:
    """Raise Refused if none of the languages can be parsed; one is enough for a map."""
    refused: list[Refused] = []
    for language in wanted:
        try:
            grammar.require(language)
        except Refused as error:
            refused.append(error)
    if wanted and len(refused) == len(wanted):
        raise refused[0]


def within_budget(ranked: list[tuple[Resolver, list[RankedSymbol]]], budget: int) -> tuple[list[MapEntry], int]:
    """The most important symbols that fit, with the paths of their files, and the tokens that they take."""
    entries: list[MapEntry] = []
    files: set[str] = set()
    spent = 0
    streams = [[(-one.weight, one.id, nth, one) for one in symbols] for nth, (_, symbols) in enumerate(ranked)]
    for _, _, nth, symbol in heapq.merge(*streams):
        entry, path = MapEntry(ranked[nth][0], symbol), symbol.id.path
        cost = estimate_tokens(entry.line() + "\n") + (0 if path in files else estimate_tokens(path + "\n"))
        if spent + cost > budget:
            break
        files.add(path)
        entries.append(entry)
        spent += cost
    return entries, spent


def render_map(entries: list[MapEntry]) -> str:
    """The map as text: the most important file first, its symbols in the order of their lines."""
    files: dict[str, list[MapEntry]] = {}
    for entry in entries:
        files.setdefault(entry.symbol.id.path, []).append(entry)
    lines = []
    for path, symbols in files.items():
        lines += [path, *(entry.line() for entry in sorted(symbols, key=lambda entry: entry.symbol.id.number))]
    return "\n".join(lines)


# --- names of symbols ---------------------------------------------------------------------------------------


def name_parts(text: str) -> Parts:
    """The parts of `outline.(*Manager).Register`, `a::b::c()` or `pkg.Class.method`."""
    plain = re.sub(r"\(\s*\*?\s*([\w$]+)\s*\)", r"\1", text.strip()).removesuffix("()")
    plain = re.sub(r"<[^<>]*>", "", plain)
    return tuple(part for part in SEPARATORS.split(plain) if part)


def find_symbol(project: Project, text: str, within: Callable[[str], bool], file: str = "") -> list[SymbolId]:
    """The definitions of the symbol whose qualified name is `text` or, if only one does, ends in it."""
    parts = name_parts(text)
    if not parts:
        raise UsageError(f"{text!r} is no name of a symbol", "a name such as Class.method")
    ids = [one for one in _ending_in(project, parts) if within(one.path) and file in ("", one.path)]
    if not ids:
        raise NotFound(f"no symbol is called {text}" + (f" in {file}" if file else ""), suggest(project, text, within))
    exact = [one for one in ids if project.segments(one) == parts]
    names: dict[str, list[SymbolId]] = {}
    for one in sorted(exact or ids):
        names.setdefault(project.qualified(one), []).append(one)
    if len(names) > 1:
        raise UsageError(f"{text} could be {len(names)} symbols", _choices(project, names))
    return next(iter(names.values()))


def _ending_in(project: Project, parts: Parts) -> Iterable[SymbolId]:
    """Every symbol, modules included, whose qualified name ends in these parts."""
    for one in project.named.get(parts[-1], ()):
        if project.segments(one)[-len(parts) :] == parts:
            yield one
    modules = [*project.ending.get(parts[-1], ()), ()]
    for path in (path for module in modules for path in project.modules.get(module, ())):
        if project.module_name(path)[-len(parts) :] == parts and not project.language(path).named_by_package:
            yield SymbolId(path, MODULE)


def _choices(project: Project, names: dict[str, list[SymbolId]]) -> str:
    places = [(name, ids[0]) for name, ids in list(names.items())[: 2 * SUGGESTIONS]]
    shown = [f"{name}  {one.path}:{project.symbol(one).line}" for name, one in places]
    more = len(names) - len(shown)
    return "say which:\n" + "\n".join(shown) + (f"\n… {more} more" if more else "")


def suggest(project: Project, text: str, within: Callable[[str], bool]) -> str:
    """A hint with similar names."""
    last = (name_parts(text) or ("",))[-1].casefold()
    names = [name for name, ids in project.named.items() if any(within(one.path) for one in ids)]
    similar = [name for name in names if _roughly_similar(last, name.casefold())][:MAX_COMPARED]
    by_case = {name.casefold(): name for name in similar}
    near = difflib.get_close_matches(last, list(by_case), n=SUGGESTIONS, cutoff=0.6)
    hint = f"did you mean {', '.join(by_case[name] for name in near)}?"
    return hint if near else "memd outline map shows what there is"


def _roughly_similar(wanted: str, name: str) -> bool:
    """A cheap first test: nearly the same length, and some letters in common at either end."""
    if wanted in name or name in wanted:
        return True
    return abs(len(wanted) - len(name)) < 4 and (wanted[:2] == name[:2] or wanted[-3:] == name[-3:])
