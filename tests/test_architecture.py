"""The shape of the code, as docs/architecture.md draws it: floors, vendors, one sentence a file, short functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "memd"
FILES = sorted(PACKAGE.rglob("*.py"))

FLOORS = {
    "errors": 0, "models": 0, "failpoints": 0,
    "config": 1,
    "notes": 2, "protocol": 2, "exam": 2, "lifecycle": 2, "outline": 2,
    "indexer": 3, "mcp": 3,
    "daemon": 4,
    "cli": 5,
}  # fmt: skip

SEES = {"cli": {"protocol", "config", "models", "errors"}, "protocol": {"config", "errors"},
        "mcp": {"protocol", "config", "models", "errors"}}  # fmt: skip
"""Rooms that may see less than everything below them."""

INDEXER = (
    *("language", "model", "store", "record", "intake", "upkeep", "asking"),
    *("views", "living", "actions", "contexts", "transfer"),
)
"""The rooms of the indexer: each sees only those before it."""

VENDORS = {
    "whoosh": {"indexer/store/text.py"},
    "chromadb": {"indexer/store/vectors.py"},
    "watchdog": {"daemon/watcher.py"},
    "apscheduler": {"daemon/scheduler.py"},
    "markdown_it": {"notes/blocks.py"},
    "ruamel": {"notes/declared.py"},
    "Stemmer": {"indexer/language/words.py"},
    "tomlkit": {"config/edit.py"},
    "rapidfuzz": {"indexer/store/lexicon.py"},
    "regex": {"indexer/asking/pattern.py"},
    "onnx": {"indexer/model/granite.py"},
    "onnxruntime": {"indexer/model/embedder.py"},
    "tokenizers": {"indexer/model/embedder.py"},
    "tree_sitter": {"outline/grammar.py"},
    "pathspec": {"outline/sources.py"},
    "mcp": {"mcp/service.py", "mcp/session.py"},
    "mcp_types": {"mcp/service.py", "mcp/session.py"},
    "anyio": {"mcp/session.py"},
    "pydantic": {"mcp/session.py"},
}

BROAD = {
    "daemon/worker.py", "daemon/server.py", "daemon/embedding.py", "daemon/scheduler.py", "indexer/store/vectors.py",
    "indexer/model/embedder.py", "cli/hook/__init__.py",
}  # fmt: skip
"""The outermost loops, which log and go on; a hook, which must not stop an agent; and two vendors whose errors have no
name of their own."""


def name_of(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def room_of(module: str) -> str:
    """`memd.indexer.store.text` stands in `indexer`; the package itself is below every floor."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def imports_of(file: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "memd":
                yield from (f"memd.{alias.name}" for alias in node.names)


def room_of_file(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_imports_only_from_floors_below_its_own(file: Path):
    room = room_of_file(file)
    if room in ("__init__", "__main__"):
        return
    for module in imports_of(file):
        target = room_of(module) if module.startswith("memd") else ""
        if not target or target == room or target.startswith("__"):
            continue
        assert FLOORS[target] < FLOORS[room], f"{name_of(file)} imports {module}"
        assert target in SEES.get(room, {target}), f"{name_of(file)} may not see {module}"


@pytest.mark.parametrize("file", [file for file in FILES if room_of_file(file) == "indexer"], ids=name_of)
def test_a_room_of_the_indexer_sees_only_those_before_it(file: Path):
    parts = file.relative_to(PACKAGE).parts
    if len(parts) == 2:
        assert parts[1] == "__init__.py", f"{name_of(file)} stands in no room"
        return
    for module in imports_of(file):
        seen = module.split(".")[2:3] if module.startswith("memd.indexer.") else []
        for room in seen:
            assert INDEXER.index(room) <= INDEXER.index(parts[1]), f"{name_of(file)} imports {module}"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_one_vendor_one_file(file: Path):
    for module in imports_of(file):
        vendor = module.split(".")[0]
        if vendor in VENDORS:
            assert name_of(file) in VENDORS[vendor], f"{name_of(file)} imports {vendor}"


def test_there_are_no_import_cycles():
    def module_of(file: Path) -> str:
        parts = ("memd", *file.relative_to(PACKAGE).with_suffix("").parts)
        return ".".join(part for part in parts if part != "__init__")

    def at_import(file: Path) -> Iterator[str]:
        """What is imported when the file is: not for type checking, not inside a function."""
        for node in tree_of(file).body:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    modules = {module_of(file): file for file in FILES}
    graph = {name: {m for m in at_import(file) if m in modules and m != name} for name, file in modules.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path, name))
        if name not in done:
            for target in sorted(graph[name]):
                # A package's own __init__ is above its modules only where it imports them.
                visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_says_what_it_is_and_is_no_longer_than_it_should_be(file: Path):
    assert ast.get_docstring(tree_of(file)), f"{name_of(file)} has no docstring"
    assert len(file.read_text().splitlines()) <= 350


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_functions_are_short(file: Path):
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # A command's options stand in its signature; what counts is what it does.
            assert node.end_lineno - node.body[0].lineno < 40, f"{name_of(file)}: {node.name}"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_only_the_outermost_loops_catch_everything(file: Path):
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException")
            rolls_back = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
            assert not broad or rolls_back or name_of(file) in BROAD, f"{name_of(file)}:{node.lineno}"
