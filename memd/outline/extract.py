"""Turns what a query found in a file into facts: symbols in their places, and names resolved as far as the file can."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from memd.outline import grammar
from memd.outline.facts import Facts, Import, Reference, Symbol
from memd.outline.grammar import SIGNATURE, Findings, Span
from memd.outline.language import Language
from memd.outline.regions import CALLABLE, CLASSES, Region, Regions
from memd.outline.scopes import Meaning

UNKNOWN = "?"
"""The first part of a name that is no name, as in `make().run`."""

ARROWS = re.compile(r"\s*(?:->|::|\?\.|!\.|\.)\s*")
ARGUMENTS = re.compile(r"<[^<>]*>")
WORD = re.compile(r"[^\W\d][\w$]*|[$][\w$]*")
DOTTED = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")
SUPER = re.compile(r"super\s*\([^()]*\)")


class Found(NamedTuple):
    """What is known of a name where it is used."""

    via: str
    target: int
    chain: tuple[str, ...]
    typed: int = 0


def extract(language: Language, suffix: str, source: bytes) -> Facts:
    """The facts of one file, given as UTF-8."""
    lines = max(1, source.count(b"\n") + (not source.endswith(b"\n")))
    found = grammar.find(language, suffix, source)
    if found.broken and language.mend is not None:
        again = grammar.find(language, suffix, language.mend(source))
        found = found if again.broken else again
    return _File(language, found, lines).facts()


class _File:
    """One file while its facts are being made."""

    def __init__(self, language: Language, found: Findings, lines: int) -> None:
        self.language = language
        self.found = found
        self.regions = Regions(found, language.open_classes)
        self.symbols = [Symbol("", "module", -1, 1, lines, "")]
        self.imports: list[Import] = []
        for region in self.regions.all:
            self._define(region)
        self._bind()

    def facts(self) -> Facts:
        problem = f"line {self.found.broken} cannot be parsed" if self.found.broken else ""
        references = tuple(dict.fromkeys(self._references()))
        package = " ".join(self.found.package.split())
        return Facts(self.language.name, package, tuple(self.symbols), tuple(self.imports), references, problem)

    def _define(self, region: Region) -> None:
        """Give a region its symbol; one that makes none has that of what is around it."""
        around, one = region.parent or self.regions.file, region.definition
        region.symbol = around.symbol
        holder = self.symbols[around.symbol].kind
        if one is None or region.kind == "impl" or (region.kind == "constant" and holder in CALLABLE):
            return
        owner = _owner(one.owner or around.owner)
        kind = "method" if region.kind == "function" and (owner or holder in CLASSES) else region.kind
        region.symbol = len(self.symbols)
        signature = " ".join(one.node.text.split())[:SIGNATURE].rstrip(" {:=")
        name, lines = _spelt(one.name), (one.node.line, one.node.end_line)
        self.symbols.append(Symbol(name, kind, around.symbol, *lines, signature, owner))
        if not owner:
            around.scope.bind(name, Meaning("symbol", region.symbol))

    # --- names ----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        for span in self.found.imports:
            region = self.regions.in_node(span.start)
            for one in self.language.imports(span.text):
                number = len(self.imports)
                named = (_spelt(one.module), _spelt(one.name), _spelt(one.alias))
                self.imports.append(Import(*named, span.line, region.symbol))
                name = one.alias or one.name or one.module.partition(".")[0]
                if self.language.names_module is not None and not one.alias and not one.name:
                    name = self.language.names_module(one.module)
                if name and name != "*":
                    region.scope.bind(_spelt(name), Meaning("import", number))
        for how, name, start, kind in sorted(self.found.bindings, key=lambda one: one.how == "part"):
            region = self.regions.in_node(start)
            if how == "part":
                self._bind_part(region, _spelt(name), kind)
                continue
            while how == "outer" and region.kind == "scope" and region.parent is not None:
                region = region.parent
            if how == "global":
                region.scope.elsewhere.add(_spelt(name))
            else:
                region.scope.bind(_spelt(name), Meaning("value", -1, kind))

    def _bind_part(self, region: Region, name: str, kind: str) -> None:
        """A part of the object itself, whose type is told, or is that of the variable that it is set to."""
        around, meaning = self._class_around(region), region.scope.meaning(kind)
        if meaning is not None and meaning.via == "value":
            kind = meaning.type
        if around is not None and kind:
            around.parts.setdefault(name, kind)

    def _references(self) -> Iterator[Reference]:
        for kind, span, names in self._used():
            # A type in a signature belongs to what it is the signature of; a call in one is made by whoever defines it.
            heads = kind in ("uses_type", "inherits", "implements")
            region = (self.regions.in_node if heads else self.regions.in_body)(span.start)
            source = region.symbol
            if kind == "decorates":
                source = self._decorated(span.end, region)
            elif region.kind == "impl" and (
                owner := self._resolve(self.regions.file, _owner(region.owner) or (UNKNOWN,))
            ):
                # A block for a type says what that type implements, where the type stands in the same file.
                source = owner.target if owner.via == "symbol" and not owner.chain else source
            for chain in names:
                found = self._resolve(region, chain)
                if found is not None and not (heads and found[:3] == ("symbol", source, ())):
                    yield Reference(kind, source, found.via, found.target, found.chain, span.line, found.typed)

    def _used(self) -> Iterator[tuple[str, Span, Iterable[tuple[str, ...]]]]:
        """The references with the names in them; an annotation is told as a whole, and nothing in it again."""
        told = 0
        for kind, span in self.found.references:
            if kind != "types" or self.language.types is None:
                yield kind, span, _names(kind, span.text)
            elif span.end > told and (types := self.language.types(span.text)) is not None:
                told = span.end
                yield "uses_type", span, [tuple(_spelt(part) for part in name.split(".")) for name in types]

    def _decorated(self, end: int, region: Region) -> int:
        """What follows a decorator: the first definition in the same place that begins after it."""
        at = bisect_left(self.regions.starts, end)
        following = (one for one in islice(self.regions.all, at, None) if one.definition and one.parent is region)
        return next((one.symbol for one in following), region.symbol)

    def _resolve(self, region: Region, chain: tuple[str, ...], tries: int = 3) -> Found | None:
        """What is known of a name here; None for a plain variable."""
        head, rest = chain[0], chain[1:]
        if head in self.language.supers:
            around = self._class_around(region)
            return Found("super", around.symbol, rest) if around and rest else None
        meaning = region.scope.meaning(head) if head != UNKNOWN else Meaning("value", -1)
        if head in self.language.selves and (meaning is None or meaning.via == "value"):
            return self._of_itself(region, rest, tries)
        if meaning is None:
            return Found("free", -1, chain)
        if meaning.via != "value":
            return Found(meaning.via, meaning.target, rest)
        if meaning.type and len(rest) == 1 and tries:
            typed = next(_names("inherits", meaning.type), None)
            found = self._resolve(region, typed + rest, tries - 1) if typed else None
            return found._replace(typed=1) if found else None
        return Found("value", -1, rest[-1:]) if rest else None

    def _of_itself(self, region: Region, rest: tuple[str, ...], tries: int) -> Found | None:
        """`self.a.b` is a part of a part, of which nothing is known but its name, unless the type of `self.a` is."""
        around = self._class_around(region)
        if len(rest) == 2 and around is not None and tries and (kind := around.part_type(rest[0])):
            typed = next(_names("inherits", kind), None)
            found = self._resolve(region, typed + rest[1:], tries - 1) if typed else None
            return found._replace(typed=1) if found else None
        if len(rest) != 1:
            return Found("value", -1, rest[-1:]) if rest else None
        if around is None:
            return Found("value", -1, rest)
        owner = _owner(around.belongs_to)
        if owner:
            return self._resolve(self.regions.file, owner + rest, tries - 1) if tries else None
        return Found("symbol", around.symbol, rest)

    def _class_around(self, region: Region) -> Region | None:
        """The class that a place is in, or the block or method that belongs to one."""
        found: Region | None = region
        while found is not None and found.kind not in CLASSES and not found.belongs_to:
            found = found.parent
        return found


def _names(kind: str, text: str) -> Iterator[tuple[str, ...]]:
    """The names in a piece of source, part by part: one, or for a type as many as it mentions."""
    plainly = text.split(".")
    if text.isascii() and all(map(str.isidentifier, plainly)):
        yield tuple(plainly)
        return
    if kind == "uses_type" and not WORD.fullmatch(text):
        for match in DOTTED.finditer(text):
            yield tuple(_spelt(part) for part in re.split(r"\s*\.\s*", match[0]))
        return
    plain = SUPER.sub("super()", text, count=1) if text.startswith("super") else text.strip("\"'")
    while plain != (plain := ARGUMENTS.sub("", plain)):
        continue
    parts = tuple(_spelt(part) for part in ARROWS.split(plain.strip().removeprefix("::").lstrip("*&")))
    if all(WORD.fullmatch(part) for part in parts[1:]) and (WORD.fullmatch(parts[0]) or parts[0] == "super()"):
        yield parts
    elif WORD.fullmatch(parts[-1]):
        yield UNKNOWN, parts[-1]


def _owner(text: str) -> tuple[str, ...]:
    """`*Manager` and `Vec<T>` belong to Manager and Vec."""
    return next(_names("inherits", text.strip().lstrip("*&(").partition("[")[0].rstrip(")")), ()) if text else ()


def _spelt(name: str) -> str:
    """Letters that look alike are one letter in a name."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)
