"""The outline against Python's own `ast`, on code that nobody here wrote: the standard library and three packages.

`make outline-agrees` compares every file; a usual run every file of the packages and some hundred of the library.
"""

from __future__ import annotations

import ast
import importlib.util
import sysconfig
import warnings
from pathlib import Path

import pytest

from memd.outline.project import Project, SymbolId, Use
from memd.outline.resolve import Resolver
from memd.outline.sources import facts_of
from tests.faults.agreement import SOAK
from tests.outline_oracle import Module

LIBRARY = Path(sysconfig.get_path("stdlib"))
EVERY_NTH = 1 if SOAK else 7
ENOUGH = 0.95
HUGE = 1 << 30


def package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def sources(where: str) -> list[Path]:
    """The files to compare, always the same ones."""
    root = LIBRARY if where == "library" else package(where)
    files = sorted(one for one in root.rglob("*.py") if "site-packages" not in one.relative_to(root).parts)
    return files[::EVERY_NTH] if where == "library" else files


def accepted(file: Path) -> Module | None:
    """What `ast` says of a file; None for one that it does not accept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            return None
    return Module(tree)


class Read:
    """The outline of one module by itself."""

    def __init__(self, file: Path) -> None:
        self.project = Project()
        self.facts = facts_of(".py", file.read_bytes(), HUGE)
        self.project.put("m.py", self.facts)

    def name(self, number: int) -> str:
        return ".".join(self.project.segments(SymbolId("m.py", number))[1:])

    def definitions(self) -> set[tuple[str, str, int]]:
        every = enumerate(self.facts.symbols)
        return {(symbol.kind, self.name(number), symbol.line) for number, symbol in every if number}

    def imports(self) -> list[tuple[str, str, str, int]]:
        return [(one.module, one.name, one.alias, one.line) for one in self.facts.imports]

    def calls(self) -> set[tuple[str, str, int]]:
        """The calls that are certain to stay within the module."""
        resolver, found = Resolver(self.project), set()
        for number, one in enumerate(self.facts.references):
            meant = resolver.meaning(Use("m.py", number))
            if one.kind == "calls" and meant.how == "scope":
                found |= {(self.name(one.source), self.name(target.number), one.line) for target in meant.targets}
        return found


@pytest.mark.parametrize("where", ["library", "chromadb", "typer", "watchdog"])
def test_definitions_imports_and_calls_are_those_of_ast(where: str) -> None:
    agreed = differed = compared = 0
    for file in sources(where):
        told = accepted(file)
        if told is None:
            continue
        compared += 1
        read = Read(file)
        assert read.definitions() == told.definitions, file
        assert sorted(read.imports()) == sorted(told.imports), file
        calls = read.calls()
        agreed += len(calls & told.calls)
        differed += len(calls ^ told.calls)
    assert compared > 10, f"only {compared} files of {where} were compared"
    print(f"\n{where}: {compared} files, {agreed} calls agree, {differed} differ")
    assert agreed / (agreed + differed) >= ENOUGH


def test_a_difference_would_be_noticed(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("import os\nclass A:\n    def f(self): self.g()\n    def g(self): os.getcwd()\n")
    told, read = accepted(file), Read(file)
    assert told is not None
    assert read.definitions() == told.definitions == {("class", "A", 2), ("method", "A.f", 3), ("method", "A.g", 4)}
    assert read.imports() == told.imports == [("os", "", "", 1)]
    assert read.calls() == told.calls == {("A.f", "A.g", 3)}
    file.write_text("import sys\nclass A:\n    def f(self): g()\n    def g(self): pass\n")
    other = accepted(file)
    assert other is not None
    assert other.imports != told.imports and other.calls == set() != told.calls


def test_a_call_of_a_constant_and_of_a_function_named_cls_are_calls_of_what_they_name(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "import fractions\nF = fractions.Fraction\n"
        "class A:\n    MAKE = F\n    def f(self):\n        def cls(): F(1)\n        cls()\n        self.MAKE()\n"
        "    @classmethod\n    def g(cls): cls().f()\n"
    )
    told, read = accepted(file), Read(file)
    assert told is not None
    assert read.calls() == told.calls == {("A.f.cls", "F", 6), ("A.f", "A.f.cls", 7), ("A.f", "A.MAKE", 8)}
