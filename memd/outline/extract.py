"""Turns the captures of a file into facts: nested symbols, and references resolved within the file.

Regions are definitions and other nodes with names of their own; their scopes say what a name means at a position.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from memd.outline import grammar
from memd.outline.facts import CLASSES, MODULE, Facts, ImportFact, Reference, Symbol
from memd.outline.languages import Language, Parts, annotation_types, repair

CALLABLE = frozenset({"function", "method"})
Span = tuple[int, int]
UNKNOWN = "?"
"""Stands for a first part that is no name, as in `make().run`."""

ARROWS = re.compile(r"\s*(?:->|::|\?\.|!\.|\.)\s*")
ARGUMENTS = re.compile(r"<[^<>]*>")
WORD = re.compile(r"[^\W\d][\w$]*|[$][\w$]*")
DOTTED = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")
PATH = re.compile(r"\w+(?:::\w+)+")
SUPER = re.compile(r"super\s*\([^()]*\)")


class ResolvedName(NamedTuple):
    """The file's knowledge of a name; the fields are those of `Reference`."""

    via: str
    target: int
    chain: Parts
    typed: int = 0


def extract(language: Language, suffix: str, source: bytes) -> Facts:
    """The facts of one file, given as UTF-8."""
    lines = max(1, source.count(b"\n") + (not source.endswith(b"\n")))
    captures = grammar.capture(language, suffix, source)
    if captures.error_line and language.name == "python":
        repaired = grammar.capture(language, suffix, repair(source))
        captures = captures if repaired.error_line else repaired
    return _Extraction(language, captures, lines).facts()


class _Extraction:
    """The extraction of one file's facts."""

    def __init__(self, language: Language, captures: grammar.Captures, lines: int) -> None:
        self.language = language
        self.captures = captures
        self.regions = Regions(captures, language.bare_members)
        self.symbols = [Symbol("", "module", -1, 1, lines, "")]
        self.imports: list[ImportFact] = []
        for region in self.regions.all:
            self._define(region)
        self._bind()

    def facts(self) -> Facts:
        line = self.captures.error_line
        problem = f"line {line} cannot be parsed" if line else ""
        references = tuple(dict.fromkeys(self._references()))
        package = " ".join(self.captures.package.split())
        return Facts(self.language.name, package, tuple(self.symbols), tuple(self.imports), references, problem)

    def _define(self, region: Region) -> None:
        """Give a region its symbol; without one of its own, it has that of the region around it."""
        around, one = region.parent or self.regions.file, region.definition
        region.symbol = around.symbol
        holder = self.symbols[around.symbol].kind
        if one is None or region.kind == "impl" or (region.kind == "constant" and holder in CALLABLE):
            return
        owner = _owner(one.owner or around.owner)
        kind = "method" if region.kind == "function" and (owner or holder in CLASSES) else region.kind
        region.symbol = len(self.symbols)
        signature = " ".join(one.node.text.split())[: grammar.SIGNATURE].rstrip(" {:=")
        name, lines = _normalized(one.name), (one.node.line, one.node.end_line)
        self.symbols.append(Symbol(name, kind, around.symbol, *lines, signature, owner))
        # Inside a class its name means the class, also where it has a constructor.
        if not owner and not (kind == "method" and name == self.symbols[around.symbol].name):
            around.scope.bind(name, Meaning("symbol", region.symbol))

    # --- names ----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        for start, _, _, line, names in self.captures.imports:
            region = self.regions.in_node(start)
            for one in names:
                if name := self.language.bound_name(one):
                    region.scope.bind(_normalized(name), Meaning("import", len(self.imports)))
                named = (_normalized(one.module), _normalized(one.name), _normalized(one.alias))
                self.imports.append(ImportFact(*named, line, region.symbol))
        for how, name, start, kind in sorted(self.captures.bindings, key=lambda one: one.how == "part"):
            region = self.regions.in_node(start)
            if how == "part":
                self._bind_part(region, _normalized(name), kind)
                continue
            while how == "outer" and region.kind == "scope" and region.parent is not None:
                region = region.parent
            if how == "global":
                region.scope.elsewhere.add(_normalized(name))
            else:
                region.scope.bind(_normalized(name), Meaning("value", -1, kind))

    def _bind_part(self, region: Region, name: str, kind: str) -> None:
        """A part of the object itself, with its given type or that of the variable assigned to it."""
        around, meaning = self._class_around(region), region.scope.meaning(kind)
        if meaning is not None and meaning.via == "value":
            kind = meaning.type
        if around is not None and kind:
            around.parts.setdefault(name, kind)

    def _references(self) -> Iterator[Reference]:
        for kind, span, names in self._used():
            # A type in a signature belongs to the definition; a call in it is made by the region around.
            heads = kind in ("uses_type", "inherits", "implements")
            region = (self.regions.in_node if heads else self.regions.in_body)(span.start)
            source = region.symbol
            if kind == "decorates":
                source = self._decorated(span.end, region)
            elif region.kind == "impl":
                # An `impl` block says what its type implements, if the type is in the same file.
                owner = self._resolve(self.regions.file, _owner(region.owner) or (UNKNOWN,))
                source = owner.target if owner and owner.via == "symbol" and not owner.chain else source
            for chain in names:
                name = self._resolve(region, chain)
                if name is not None and not (heads and name[:3] == ("symbol", source, ())):
                    yield Reference(kind, source, name.via, name.target, name.chain, span.line, name.typed)

    def _used(self) -> Iterator[tuple[str, grammar.NodeSpan, Iterable[Parts]]]:
        """The references with their names; an annotation or a path is one reference: nothing inside it is another."""
        done, every = 0, self.captures.references
        paths = {span.end for kind, span in every if kind == "uses_type" and PATH.fullmatch(span.text)}
        for kind, span in every:
            if kind == "uses_type" and span.end in paths and "::" not in span.text:
                continue
            if kind != "types":
                yield kind, span, _names(kind, span.text)
            elif span.end > done and (types := annotation_types(span.text)) is not None:
                done = span.end
                yield "uses_type", span, [tuple(_normalized(part) for part in name.split(".")) for name in types]

    def _decorated(self, end: int, region: Region) -> int:
        """The symbol that a decorator belongs to: the next definition in the same region."""
        at = bisect_left(self.regions.starts, end)
        following = (one for one in islice(self.regions.all, at, None) if one.definition and one.parent is region)
        return next((one.symbol for one in following), region.symbol)

    def _resolve(self, region: Region, chain: Parts, tries: int = 3) -> ResolvedName | None:
        """Resolve a name within the file; None for a plain variable."""
        head, rest = chain[0], chain[1:]
        if head in self.language.super_words:
            around = self._class_around(region)
            return ResolvedName("super", around.symbol, rest) if around and rest else None
        meaning = region.scope.meaning(head) if head != UNKNOWN else Meaning("value", -1)
        outside = head in self.language.path_words and self._class_around(region) is None
        if head in self.language.self_words and not outside and (meaning is None or meaning.via == "value"):
            return self._member_of_self(region, rest, tries)
        if meaning is None:
            return ResolvedName("free", -1, chain)
        if meaning.via != "value":
            return ResolvedName(meaning.via, meaning.target, rest)
        if meaning.type and len(rest) == 1 and tries:
            return self._member_of_type(region, meaning.type, rest, tries)
        return ResolvedName("value", -1, rest[-1:]) if rest else None

    def _member_of_type(self, region: Region, kind: str, rest: Parts, tries: int) -> ResolvedName | None:
        """Resolve a member of a value through the value's type."""
        typed = next(_names("inherits", kind), None)
        name = self._resolve(region, typed + rest, tries - 1) if typed else None
        return name._replace(typed=1) if name else None

    def _member_of_self(self, region: Region, rest: Parts, tries: int) -> ResolvedName | None:
        """Resolve `self.a`, and `self.a.b` if the type of `self.a` is known."""
        around = self._class_around(region)
        if len(rest) == 2 and around is not None and tries and (kind := around.part_type(rest[0])):
            return self._member_of_type(region, kind, rest[1:], tries)
        if len(rest) != 1 or around is None:
            return ResolvedName("value", -1, rest[-1:]) if rest else None
        owner = _owner(around.own_owner)
        if owner:
            return self._resolve(self.regions.file, owner + rest, tries - 1) if tries else None
        return ResolvedName("symbol", around.symbol, rest)

    def _class_around(self, region: Region) -> Region | None:
        """The class around a region, or the block or method that belongs to one."""
        found: Region | None = region
        while found is not None and found.kind not in CLASSES and not found.own_owner:
            found = found.parent
        return found


def _names(kind: str, text: str) -> Iterator[Parts]:
    """The names in a piece of source, in parts: one name, or all names in a type."""
    parts = tuple(text.split("."))
    if text.isascii() and all(map(str.isidentifier, parts)):
        yield parts
        return
    if kind == "uses_type" and not (WORD.fullmatch(text) or PATH.fullmatch(text)):
        for match in DOTTED.finditer(text):
            yield tuple(_normalized(part) for part in re.split(r"\s*\.\s*", match[0]))
        return
    plain = SUPER.sub("super()", text, count=1) if text.startswith("super") else text.strip("\"'")
    while plain != (plain := ARGUMENTS.sub("", plain)):
        continue
    parts = tuple(_normalized(part) for part in ARROWS.split(plain.strip().removeprefix("::").lstrip("*&")))
    if all(WORD.fullmatch(part) for part in parts[1:]) and (WORD.fullmatch(parts[0]) or parts[0] == "super()"):
        yield parts
    elif WORD.fullmatch(parts[-1]):
        yield UNKNOWN, parts[-1]


def _owner(text: str) -> Parts:
    """The type of an owner: `*Manager` is Manager, `Vec<T>` is Vec."""
    return next(_names("inherits", text.strip().lstrip("*&(").partition("[")[0].rstrip(")")), ()) if text else ()


def _normalized(name: str) -> str:
    """A name in NFKC, as Python compares names."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


# --- regions and scopes ------------------------------------------------------------------------------------


class Meaning(NamedTuple):
    """The meaning of a name in a scope: a symbol, an import, or a value with or without a known type."""

    via: str
    target: int
    type: str = ""


RANK = {"symbol": 2, "import": 1, "value": 0}


class Scope:
    """Names bound together; `open` if inner scopes see them, which is not so for a class body."""

    def __init__(self, parent: Scope | None, open_: bool = True) -> None:
        self.parent = parent
        self.open = open_
        self.names: dict[str, Meaning] = {}
        self.elsewhere: set[str] = set()
        """Names that this scope assigns but does not bind: global, nonlocal."""

    def bind(self, name: str, meaning: Meaning) -> None:
        """A definition wins over an import, an import over a value, a typed value over an untyped one."""
        known = self.names.get(name)
        if known is None or (RANK[meaning.via], bool(meaning.type)) > (RANK[known.via], bool(known.type)):
            self.names[name] = meaning

    def meaning(self, name: str) -> Meaning | None:
        scope: Scope | None = self
        while scope is not None:
            if (scope.open or scope is self) and name in scope.names and name not in scope.elsewhere:
                return scope.names[name]
            scope = scope.parent
        return None


@dataclass(slots=True, eq=False)
class Region:
    """A definition, or a node with its own names; `symbol` is its number, or that of the symbol around it."""

    kind: str
    scope: Scope
    parent: Region | None = None
    definition: grammar.Definition | None = None
    symbol: int = MODULE
    parts: dict[str, str] = field(default_factory=dict)
    """The known types of the parts of a class's objects."""

    def part_type(self, name: str) -> str:
        """The type of a part, from an assignment or from the class body."""
        declared = self.scope.names.get(name)
        return self.parts.get(name) or (declared.type if declared else "")

    @property
    def own_owner(self) -> str:
        """The type that this block or method itself belongs to."""
        return self.definition.owner if self.definition is not None else ""

    @property
    def owner(self) -> str:
        """The type that the `impl` block directly around belongs to."""
        at = self
        while at.kind == "scope" and at.parent is not None:
            at = at.parent
        return at.own_owner if at.kind == "impl" else ""


class Regions:
    """All regions of a file, outer ones first; a position can be looked up in nodes (with their heads) or in bodies."""

    def __init__(self, captures: grammar.Captures, bare_members: bool) -> None:
        known: list[tuple[Span, Span, grammar.Definition | None]]
        known = [((one.node.start, one.node.end), _body(one), one) for one in _distinct(captures.definitions)]
        known += [((one.start, one.end), (one.start, one.end), None) for one in captures.scopes]
        known.sort(key=lambda one: (one[0][0], -one[0][1]))
        self._nodes = [node for node, _, _ in known]
        self._bodies = [body for _, body, _ in known]
        self._around: list[int] = []
        """The number of the node around each, -1 for none; nodes are nested or disjoint."""
        self.starts = [start for start, _ in self._nodes]
        self.file = Region("module", Scope(None))
        self.all: list[Region] = []
        for nth, ((start, end), body, definition) in enumerate(known):
            self._around.append(next(self._holding(self._nodes, nth - 1, (start, start + 1)), -1))
            # A head is not part of the body: a lambda among the defaults, for example.
            parent = self._region(next(self._holding(self._bodies, self._around[nth], (start, end)), -1))
            kind = definition.kind if definition else "scope"
            own = body[0] < body[1] and kind != "impl"
            scope = Scope(parent.scope, kind not in CLASSES or bare_members) if own else parent.scope
            self.all.append(Region(kind, scope, parent, definition))

    def _holding(self, spans: list[Span], nth: int, span: Span) -> Iterator[int]:
        """The numbers of those that contain a span, from the one at `nth` outwards."""
        while nth >= 0:
            if spans[nth][0] <= span[0] and span[1] <= spans[nth][1]:
                yield nth
            nth = self._around[nth]

    def _region(self, nth: int) -> Region:
        return self.all[nth] if nth >= 0 else self.file

    def in_node(self, position: int) -> Region:
        """The innermost region that contains a position, in its head or its body."""
        nth = bisect_right(self.starts, position) - 1
        return self._region(next(self._holding(self._nodes, nth, (position, position + 1)), -1))

    def in_body(self, position: int) -> Region:
        """The region with the shortest body that contains a position: an arrow is around the body of its function."""
        holding = self._holding(self._bodies, bisect_right(self.starts, position) - 1, (position, position + 1))
        return self._region(min(holding, key=lambda nth: self._bodies[nth][1] - self._bodies[nth][0], default=-1))


def _body(one: grammar.Definition) -> Span:
    return (one.body.start, one.body.end) if one.body else (one.node.end, one.node.end)


def _distinct(definitions: list[grammar.Definition]) -> list[grammar.Definition]:
    """If two patterns match one name, the first in the query wins, unless only the other has a body."""
    found: dict[tuple[int, str], grammar.Definition] = {}
    for one in definitions:
        known = found.get((one.node.start, one.name))
        if known is None or (known.body is None and one.body is not None):
            found[one.node.start, one.name] = one
    return list(found.values())
