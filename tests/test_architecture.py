"""The shape of the code, as docs/architecture.md draws it: floors, vendors, one sentence a file, short functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "memd"
FILES = sorted(PACKAGE.rglob("*.py"))

FLOORS = {
    "errors": 0, "version": 0, "models": 0, "timespans": 0, "failpoints": 0, "processes": 0, "installation": 0,
    "prose": 0,
    "config": 1, "child": 1,
    "notes": 2, "protocol": 2, "exam": 2, "lifecycle": 2, "outline": 2,
    "indexer": 3, "mcp": 3,
    "daemon": 4, "http_shell": 4,
    "cli": 5, "web": 5, "hub": 5,
}  # fmt: skip

BASICS = {"config", "models", "errors", "version", "installation", "processes", "prose", "timespans"}
FRONT_DOOR = {"protocol", *BASICS}
SEES = {
    "cli": FRONT_DOOR,
    "web": {"http_shell", *FRONT_DOOR},
    "hub": {"http_shell", "mcp", *FRONT_DOOR},
    "http_shell": BASICS,
    "mcp": {"protocol", *BASICS},
    "protocol": BASICS,
}
"""Rooms that may see less than everything below them."""

INDEXER = (
    *("language", "model", "store", "record", "indexing", "maintenance", "query"),
    *("views", "lifecycle", "writing", "context", "transfer"),
)
"""The rooms of the indexer: each sees only those before it."""

DAEMON = ("process", "watching", "serving", "writer", "readers", "embedding", "jobs", "handlers")
"""Those of the daemon, in the same way."""

OUTSIDE = {"indexer": {"__init__.py"}, "daemon": {"__init__.py", "__main__.py", "app.py", "offline.py"}}
"""Files that stand in no room: what starts a daemon sees all of them."""

VENDORS = {
    "whoosh": {"indexer/store/text.py"},
    "chromadb": {"indexer/store/chroma_process.py"},
    "watchdog": {"daemon/watching/inotify.py"},
    # One runs the jobs; the other reads cron lines, which the config file is checked for.
    "apscheduler": {"daemon/jobs/scheduler.py", "config/schedules.py"},
    # One finds blocks with their lines, the other makes HTML.
    "markdown_it": {"notes/blocks.py", "web/markdown.py"},
    "ruamel": {"notes/metadata.py"},
    "Stemmer": {"indexer/language/words.py"},
    # One edits memd's own config file, the other those of agents.
    "tomlkit": {"config/edit.py", "cli/connecting/toml_file.py"},
    "rapidfuzz": {"indexer/store/lexicon.py"},
    "regex": {"indexer/query/pattern.py"},
    "onnxruntime": {"indexer/model/onnx_graph.py", "indexer/model/embedder.py"},
    "tokenizers": {"indexer/model/embedder.py"},
    "httpx": {"indexer/store/chroma_server.py", "indexer/model/embedding_server.py"},
    "sentencepiece": {"indexer/model/multilingual.py"},
    "tree_sitter": {"outline/grammar.py"},
    "pathspec": {"config/ignore_rules.py"},
    **{name: {"notes/document_process.py"} for name in ("pypdf", "mammoth", "bs4", "markdownify")},
    "mcp": {"mcp/sdk_server.py"},
    "mcp_types": {"mcp/sdk_server.py"},
    "anyio": {"mcp/sdk_server.py"},
    "pydantic": {"mcp/sdk_server.py"},
    "jinja2": {"web/rendering.py"},
    # One serves both front doors, the other counts the connections of the hub.
    "uvicorn": {"http_shell.py", "hub/guard.py"},
    # Requests and answers are its words for them, all over the page and the hub and nowhere else.
    "starlette": {
        str(file.relative_to(PACKAGE))
        for file in FILES
        if {"web", "hub"} & set(file.parts) or file.stem == "http_shell"
    },
}

BROAD = {
    "daemon/writer/worker.py", "daemon/serving/server.py", "daemon/readers/process.py", "daemon/readers/pool.py",
    "daemon/embedding/thread.py", "daemon/jobs/scheduler.py", "indexer/store/vectors.py", "indexer/model/embedder.py",
    "cli/hook/__init__.py", "notes/document_process.py",
}  # fmt: skip
"""The outermost loops, which log and go on; a hook, which must not stop an agent; and vendors whose errors have no
name of their own, such as those that read broken documents."""

LONGEST = 700
"""A file is one idea, however many lines that takes; beyond this it is two."""

KNOWN_CIRCLES = frozenset({
})  # fmt: skip
"""Imports for type checking that close a circle: who imports, and what. This list only gets shorter."""

KNOWN_REPEATS: frozenset[str] = frozenset()
"""Names that more than one class has. This list only gets shorter: a name that no longer repeats is taken out."""


def name_of(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def module_of(file: Path) -> str:
    parts = ("memd", *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    """`memd.indexer.store.text` stands in `indexer`; the package itself is below every floor."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def room_of_file(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, wherever in it."""
    return tuple(ast.walk(tree_of(file)))


@cache
def imports_of(file: Path) -> tuple[str, ...]:
    """Every module that a file imports, wherever in it."""

    def found() -> Iterator[str]:
        for node in nodes_of(file):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                if node.module == "memd":
                    yield from (f"memd.{alias.name}" for alias in node.names)

    return tuple(found())


def test_a_file_imports_only_from_floors_below_its_own():
    wrong = []
    for file in FILES:
        room = room_of_file(file)
        if room in ("__init__", "__main__"):
            continue
        for module in imports_of(file):
            target = room_of(module) if module.startswith("memd") else ""
            if not target or target == room or target.startswith("__"):
                continue
            if FLOORS[target] >= FLOORS[room]:
                wrong.append(f"{name_of(file)} imports {module}")
            if target not in SEES.get(room, {target}):
                wrong.append(f"{name_of(file)} may not see {module}")
    assert not wrong


@pytest.mark.parametrize(("floor", "rooms"), [("indexer", INDEXER), ("daemon", DAEMON)])
def test_a_room_sees_only_those_before_it(floor: str, rooms: tuple[str, ...]):
    wrong = []
    for file in FILES:
        parts = file.relative_to(PACKAGE).parts
        if room_of_file(file) != floor:
            continue
        if len(parts) == 2:
            if parts[1] not in OUTSIDE[floor]:
                wrong.append(f"{name_of(file)} stands in no room")
            continue
        for module in imports_of(file):
            seen = module.split(".")[2:3] if module.startswith(f"memd.{floor}.") else []
            for room in seen:
                if rooms.index(room) > rooms.index(parts[1]):
                    wrong.append(f"{name_of(file)} imports {module}")
    assert not wrong


def test_one_vendor_one_file():
    wrong = []
    for file in FILES:
        for module in imports_of(file):
            vendor = module.split(".")[0]
            if vendor in VENDORS and name_of(file) not in VENDORS[vendor]:
                wrong.append(f"{name_of(file)} imports {vendor}")
    assert not wrong


# --- circles ----------------------------------------------------------------------------------------------------

Graph = dict[str, set[str]]


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that an import may mean: `from a import b` is `a`, and `a.b` where that is one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING"


def graph_of(types: bool) -> Graph:
    """Who imports whom when it is imported itself, not inside a function; with `types`, for type checking as well."""

    def found(body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            yield from imported(node)
            if types and isinstance(node, ast.If) and for_types(node):
                yield from found(node.body)

    modules = {module_of(file): file for file in FILES}
    return {
        name: {m for m in found(tree_of(file).body) if m in modules and m != name} for name, file in modules.items()
    }


def circle_in(graph: Graph) -> str:
    """The first circle, written out; nothing where there is none."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> str:
        if name in path:
            return " → ".join((*path, name))
        if name not in done:
            for target in sorted(graph[name]):
                # A package's own __init__ is above its modules only where it imports them.
                if circle := visit(target, (*path, name)):
                    return circle
            done.add(name)
        return ""

    return next((circle for name in graph if (circle := visit(name, ()))), "")


def reaches(graph: Graph, start: str, end: str) -> bool:
    seen, ahead = set(), [start]
    while ahead:
        if (name := ahead.pop()) not in seen:
            seen.add(name)
            ahead += graph[name]
    return end in seen


def test_there_are_no_import_cycles():
    assert not circle_in(graph_of(types=False))


def test_there_are_no_import_cycles_for_type_checking_but_the_known_ones():
    graph = graph_of(types=True)
    closing = {(who, what) for who, what in KNOWN_CIRCLES if what in graph.get(who, ()) and reaches(graph, what, who)}
    assert closing == KNOWN_CIRCLES, "take these out of KNOWN_CIRCLES"
    assert not circle_in({name: {one for one in seen if (name, one) not in closing} for name, seen in graph.items()})


def test_an_import_for_type_checking_is_seen():
    (node,) = ast.parse("if TYPE_CHECKING:\n    from a import b").body
    (other,) = ast.parse("if typing.TYPE_CHECKING:\n    import a").body
    assert for_types(node) and for_types(other)
    assert not for_types(ast.parse("if sys:\n    import a").body[0])
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == "a → b → c → b"


# --- files, functions and names ---------------------------------------------------------------------------------


def test_a_file_says_what_it_is_and_is_no_longer_than_it_should_be():
    wrong = []
    for file in FILES:
        if not ast.get_docstring(tree_of(file)):
            wrong.append(f"{name_of(file)} has no docstring")
        if len(file.read_text().splitlines()) > LONGEST:
            wrong.append(f"{name_of(file)} is longer than {LONGEST} lines")
    assert not wrong


def test_functions_are_short():
    wrong = []
    for file in FILES:
        for node in nodes_of(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                # A command's options stand in its signature; what counts is what it does.
                assert node.end_lineno is not None
                if node.end_lineno - node.body[0].lineno >= 40:
                    wrong.append(f"{name_of(file)}: {node.name}")
    assert not wrong


def test_only_the_outermost_loops_catch_everything():
    wrong = []
    for file in FILES:
        for node in nodes_of(file):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException")
                rolls_back = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
                if broad and not rolls_back and name_of(file) not in BROAD:
                    wrong.append(f"{name_of(file)}:{node.lineno}")
    assert not wrong


def test_a_class_has_its_name_for_itself():
    every = Counter(node.name for file in FILES for node in nodes_of(file) if isinstance(node, ast.ClassDef))
    repeated = {name for name, times in every.items() if times > 1}
    assert not repeated - KNOWN_REPEATS, "a name that another class has already"
    assert not KNOWN_REPEATS - repeated, "take these out of KNOWN_REPEATS"
