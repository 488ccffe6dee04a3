"""The questions to an outline: a symbol, a file, a whole project, a map."""

import difflib
import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memd.errors import NotFound, Refused, UsageError, did_you_mean
from memd.models import grouped
from memd.outline import facts, grammar, languages
from memd.outline.outline import Outline
from memd.outline.project import Project, SymbolId
from memd.outline.relations import DEPTH, MAX_LINES, RELATIONS, Node, node_of, relation_trees, render
from memd.outline.resolve import RankedSymbol, Resolver
from memd.prose import estimate_tokens

KINDS = (*RELATIONS, "mentioned_in")
MAX_SKIPPED = 50
SEPARATORS = re.compile(r"\s*(?:::|->|[./#\\])\s*")
SUGGESTIONS = 5
MAX_COMPARED = 3_000


# --- trees --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SymbolTree:
    """The relation tree of one symbol, with what is needed to find the symbol in notes."""

    node: Node
    path: str
    segments: languages.Parts
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
    """The file, if it is about all symbols of one."""

    def skipped_files(self) -> list[dict[str, str]]:
        return skipped_files(self.skipped, self.file)

    def text(self) -> str:
        return render([tree.node for tree in self.trees], self.more, self.skipped.get(self.file, ""))


def trees(
    outline: Outline, name_of_language: str = "", name: str = "", file: str = "", *, depth: int = DEPTH,
    relations: Sequence[str] = (), omit_native: bool = False, whole: bool = True,
) -> SymbolTrees:  # fmt: skip
    """The tree of a symbol; without its name those of every symbol of a file, without that of a whole language.

    Without relations it has all of them. Unless `whole`, there are only as many symbols as a text can show.
    """
    for relation in relations:
        if relation not in KINDS:
            similar = did_you_mean(relation, KINDS)
            raise UsageError(f"there is no relation {relation!r}{similar}", f"there are: {', '.join(KINDS)}")
    language, family = _family(outline, name_of_language, file)
    known = family.project
    if file and file not in known.files:
        raise _absent(outline, known, file)
    paths = [file] if file else sorted(filter(language.takes, known.files))
    ids = find_symbol(known, name, language, file) if name else list(known.ids(paths))
    # Each symbol takes at least one line.
    shown = ids if whole else ids[:MAX_LINES]
    nodes = relation_trees(family, shown, depth, relations or KINDS, omit_native, set(ids))
    found = [
        SymbolTree(
            node, one.path, known.segments(one), one.number == facts.MODULE,
            len(known.named.get(known.symbol(one).name, ())) == 1,
        )
        for one, node in zip(shown, nodes, strict=True)
    ]  # fmt: skip
    return SymbolTrees(language.name, found, outline.skipped, len(ids) - len(shown), "" if name else file)


def _family(outline: Outline, name: str, file: str = "") -> tuple[languages.Language, Resolver]:
    language = outline.language_of(name, file)
    grammar.require(language)
    if file and languages.of_path(file) and not language.takes(file):
        raise UsageError(f"{file} is {languages.of_path(file)[-1].name}, not {language.name}")
    return language, outline.family(language)


def _absent(outline: Outline, project: Project, path: str) -> NotFound:
    """Why a file is not in the outline, and what may be meant."""
    if path in outline.skipped:
        return NotFound(f"{path} is not in the outline: {outline.skipped[path]}")
    if (outline.root / path).is_file():
        ignored = "git ignores it, or it is in a hidden folder or in one that builds make"
        hint = ignored if languages.of_path(path) else f"the outline knows {', '.join(languages.by_suffix())}"
        return NotFound(f"{path} is not in the outline", hint)
    near = difflib.get_close_matches(path, project.files, n=3, cutoff=0.5)
    return NotFound(f"there is no file {path}", f"did you mean {', '.join(near)}?" if near else "memd outline map")


def skipped_files(skipped: dict[str, str], first: str = "") -> list[dict[str, str]]:
    """The skipped files by path, up to a limit; `first` comes first, so that it is never cut off."""
    ordered = sorted(skipped.items(), key=lambda item: (item[0] != first, item[0]))
    return [{"path": path, "why": why} for path, why in ordered[:MAX_SKIPPED]]


# --- the map ------------------------------------------------------------------------------------------------


MAX_SIGNATURE = 160
"""Characters of a signature on the map."""


def project_map(outline: Outline, name: str, budget: int) -> dict[str, Any]:
    """The most important symbols within a budget of tokens, of one language or of all."""
    counts = dict(sorted(outline.counts().items()))
    if name:
        language, family = _family(outline, name)
        ranked = [[one for one in family.ranked if language.takes(one.id.path)]]
    else:
        _require_any([languages.known()[one] for one in counts])
        ranked = [family.ranked for family in outline.families.values()]
    entries, spent = within_budget(ranked, budget)
    return {
        "text": render_map(entries),
        "symbols": [_map_row(entry) for entry in entries],
        "tokens": spent,
        "left_out": sum(map(len, ranked)) - len(entries),
        "languages": counts,
        "skipped": skipped_files(outline.skipped),
    }


def _map_line(entry: RankedSymbol) -> str:
    """Where the symbol is, and its signature."""
    project = entry.resolver.project
    symbol = project.symbol(entry.id)
    owner = f"{project.segments(entry.id)[-2]}: " if symbol.kind == "method" else ""
    long = len(symbol.signature) > MAX_SIGNATURE
    shown = f"{symbol.signature[: MAX_SIGNATURE - 1]}…" if long else symbol.signature
    return f"  {symbol.line}: {owner}{shown}"


def _map_row(entry: RankedSymbol) -> Node:
    node = node_of(entry.resolver, entry.id)
    del node["end_line"]
    return {**node, "referrers": entry.referrers}


def _require_any(wanted: list[languages.Language]) -> None:
    """Raise Refused if none of the languages can be parsed; one is enough for a map."""
    refused: list[Refused] = []
    for language in wanted:
        try:
            grammar.require(language)
        except Refused as error:
            refused.append(error)
    if wanted and len(refused) == len(wanted):
        raise refused[0]


def within_budget(ranked: list[list[RankedSymbol]], budget: int) -> tuple[list[RankedSymbol], int]:
    """The most important symbols that fit, with the paths of their files, and the tokens that they take."""
    entries: list[RankedSymbol] = []
    files: set[str] = set()
    spent = 0
    for entry in heapq.merge(*ranked, key=lambda one: (-one.weight, one.id)):
        path = entry.id.path
        cost = estimate_tokens(_map_line(entry) + "\n") + (0 if path in files else estimate_tokens(path + "\n"))
        if spent + cost > budget:
            break
        files.add(path)
        entries.append(entry)
        spent += cost
    return entries, spent


def render_map(entries: list[RankedSymbol]) -> str:
    """The map as text: the most important file first, its symbols in the order of their lines."""
    files = {entry.id.path: [entry.id.path] for entry in entries}
    for entry in sorted(entries, key=lambda entry: entry.id):
        files[entry.id.path].append(_map_line(entry))
    return "\n".join(line for lines in files.values() for line in lines)


# --- names of symbols ---------------------------------------------------------------------------------------


def name_parts(text: str) -> languages.Parts:
    """The parts of `outline.(*Manager).Register`, `a::b::c()` or `pkg.Class.method`."""
    plain = re.sub(r"\(\s*\*?\s*([\w$]+)\s*\)", r"\1", text.strip()).removesuffix("()")
    plain = re.sub(r"<[^<>]*>", "", plain)
    return tuple(part for part in SEPARATORS.split(plain) if part)


def find_symbol(project: Project, text: str, language: languages.Language, file: str = "") -> list[SymbolId]:
    """The definitions of the symbol whose qualified name is `text` or, if only one does, ends in it."""
    parts = name_parts(text)
    if not parts:
        raise UsageError(f"{text!r} is not the name of a symbol", "a name such as Class.method")
    ids = [one for one in _ending_in(project, parts) if language.takes(one.path) and file in ("", one.path)]
    if not ids:
        where = f" in {file}" if file else ""
        raise NotFound(f"no symbol is called {text}{where}", suggest(project, parts[-1].casefold(), language))
    exact = [one for one in ids if project.segments(one) == parts]
    names = grouped((project.qualified(one), one) for one in sorted(exact or ids))
    if len(names) > 1:
        raise UsageError(f"{text} could be {len(names)} symbols", _choices(project, names))
    return next(iter(names.values()))


def _ending_in(project: Project, parts: languages.Parts) -> Iterable[SymbolId]:
    """Every symbol, modules included, whose qualified name ends in these parts."""
    for one in project.named.get(parts[-1], ()):
        if project.segments(one)[-len(parts) :] == parts:
            yield one
    modules = [*project.ending.get(parts[-1], ()), ()]
    for path in (path for module in modules for path in project.modules.get(module, ())):
        if project.module_name(path)[-len(parts) :] == parts and not project.language(path).named_by_package:
            yield SymbolId(path, facts.MODULE)


def _choices(project: Project, names: dict[str, list[SymbolId]]) -> str:
    places = [(name, ids[0]) for name, ids in list(names.items())[: 2 * SUGGESTIONS]]
    shown = [f"{name}  {one.path}:{project.symbol(one).line}" for name, one in places]
    more = len(names) - len(shown)
    return "say which:\n" + "\n".join(shown) + (f"\n… {more} more" if more else "")


def suggest(project: Project, wanted: str, language: languages.Language) -> str:
    """A hint with names that are similar to one in lower case."""
    names = [name for name, ids in project.named.items() if any(language.takes(one.path) for one in ids)]
    similar = [name for name in names if _roughly_similar(wanted, name.casefold())][:MAX_COMPARED]
    by_case = {name.casefold(): name for name in similar}
    near = difflib.get_close_matches(wanted, list(by_case), n=SUGGESTIONS, cutoff=0.6)
    hint = f"did you mean {', '.join(by_case[name] for name in near)}?"
    return hint if near else "memd outline map shows what there is"


def _roughly_similar(wanted: str, name: str) -> bool:
    """A cheap first test: nearly the same length, and some letters in common at either end."""
    if wanted in name or name in wanted:
        return True
    return abs(len(wanted) - len(name)) < 4 and (wanted[:2] == name[:2] or wanted[-3:] == name[-3:])
