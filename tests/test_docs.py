"""The documentation is true: its examples are executed, its commands exist, and nothing that exists is left out."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import typing
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import typer.main

from memd.cli.app import app
from memd.config import edit, load
from memd.config.schema import Settings
from memd.daemon.serving import events
from memd.errors import BY_CODE
from memd.protocol.methods import METHODS, base
from memd.protocol.wire import INTERNAL_ERROR, MAX_REQUEST, PROTOCOL
from tests import result_types
from tests.conftest import PATIENCE, ROOT, Home
from tests.test_models import make_model

PROTOCOL_PAGE = ROOT / "docs" / "protocol.md"
MANUAL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*MANUAL, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOME_IN_DOCS = "/home/me"


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return [body for info, body in FENCE.findall(text) if info == language]


def without_blocks(text: str) -> str:
    return FENCE.sub("", text)


def test_the_files_that_the_architecture_names_exist() -> None:
    """Written with their folders: relative to memd/, or to the repository."""
    page = without_blocks((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    named = set(re.findall(r"`([^`\s]+\.pyi?)`", page))
    missing = sorted(name for name in named if not any((base / name).is_file() for base in (ROOT / "memd", ROOT)))
    assert len(named) > 80 and not missing


@pytest.mark.parametrize(("page", "least"), [("reliability.md", 80), ("security.md", 20)])
def test_the_tests_that_a_page_names_exist(page: str, least: int) -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / page).read_text(encoding="utf-8")))
    missing = [f"{file}::{name}" for file, name in sorted(named) if not defines(ROOT / "tests" / file, name)]
    assert len(named) > least and not missing


def defines(file: Path, name: str) -> bool:
    """Whether a file of the tests has a test of this name."""
    found = file.is_file() and re.search(rf"^(def {name}\(|{name} = )", file.read_text(encoding="utf-8"), re.MULTILINE)
    return bool(found)


# --- the protocol -----------------------------------------------------------------------------------------------


def pairs(text: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each example: a request and its answer."""
    found = [json.loads(body) for body in blocks(text, "json")]
    assert len(found) % 2 == 0
    return list(zip(found[::2], found[1::2], strict=True))


def varying(text: str) -> set[str]:
    """The keys of which the page itself says that their values differ from run to run."""
    (listed,) = re.findall(r"differ from run to run: (.*?)\. ", text, re.DOTALL)
    return set(re.findall(r"`(\w+)`", listed))


def sections(text: str) -> dict[str, str]:
    """The page's methods, each with what it says of it."""
    parts = re.split(r"^### `([a-z_.]+)`$", text.partition("\n## Methods\n")[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented_parameters(section: str) -> list[str]:
    table = re.search(r"^\| parameter \|.*?\n\n", section, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| `(\w+)` \|", table.group(), re.MULTILINE) if table else []


def save(file: Path, text: str, root: Path) -> None:
    """Save at once, as an editor does: a daemon must not see the file before its text."""
    (root / "saved").write_text(text, encoding="utf-8")
    (root / "saved").replace(file)


def write_files(text: str, root: Path) -> None:
    """The files that the page shows, made real."""
    for info, body in FENCE.findall(text):
        language, _, path = info.partition(" ")
        if language == "markdown":
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            save(root / path, body, root)


def placed(value: Any, root: Path) -> Any:
    """A value of the page with its home put where the test has it."""
    return json.loads(json.dumps(value).replace(HOME_IN_DOCS, str(root)))


def differences(told: Any, got: Any, loose: set[str], where: str = "", types_only: bool = False) -> Iterator[str]:
    """Where an answer is not what the page says."""
    if isinstance(told, dict) and isinstance(got, dict):
        for key, value in told.items():
            if key not in got:
                yield f"{where}.{key} is missing"
            else:
                only = types_only or (key in loose and where != "")
                yield from differences(value, got[key], loose, f"{where}.{key}", only)
    elif isinstance(told, list) and isinstance(got, list):
        if len(told) != len(got) and not types_only:
            yield f"{where} has {len(got)} entries, not {len(told)}: {got}"
        for nth, (one, other) in enumerate(zip(told, got, strict=False)):
            yield from differences(one, other, loose, f"{where}[{nth}]", types_only)
    elif types_only:
        if None not in (told, got) and kind(told) != kind(got):
            yield f"{where} is {got!r}, not {kind(told)}"
    elif told != got:
        yield f"{where} is {got!r}, not {told!r}"


def kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@pytest.fixture
def documented(home: Home) -> Home:
    """A daemon on the workspace that the protocol's page describes."""
    root = home.path.parent
    write_files(PROTOCOL_PAGE.read_text(encoding="utf-8"), root)
    for command in (
        "init -q",
        "config user.name me",
        "config user.email me@example.org",
        "commit -qm notes --allow-empty",
    ):
        subprocess.run(["git", "-C", root / "agent", *command.split()], check=True)
    make_model(root / "models" / "bge-small", seed=1, dims=16)
    home.configure(
        f'[[workspace]]\npath = "{root}/agent"\nns = "agent"\n\n[outline]\nenabled = true\n\n'
        '[server]\ntrust = "propose"\ntrusted = "socket mcp:example"\n'
    )
    home.start().sync(vectors=True)
    return home


class Bare:
    """A bare socket: lines out, lines in."""

    def __init__(self, home: Home) -> None:
        import socket

        self._link = socket.socket(socket.AF_UNIX)
        self._link.settimeout(PATIENCE)
        self._link.connect(str(home.socket))
        self._lines = self._link.makefile("rb")

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._link.close()

    def send(self, request: dict[str, Any]) -> None:
        self.send_line(json.dumps(request))

    def send_line(self, line: str) -> None:
        self._link.sendall(line.encode() + b"\n")

    def line(self) -> dict[str, Any]:
        return dict(json.loads(self._lines.readline()))


@pytest.mark.linux  # an example says that inotify watches
def test_every_example_of_the_protocol_is_answered_as_documented(documented: Home) -> None:
    """From top to bottom over one connection: requests are sent, `md` files saved, and every line compared.

    Every result is also held against the type that its method declares.
    """
    text, root = PROTOCOL_PAGE.read_text(encoding="utf-8"), documented.path.parent
    loose = varying(text)
    asked: dict[str, Any] | None = None
    seen = set()
    with ExitStack() as stack:
        link = stack.enter_context(Bare(documented))
        for info, body in FENCE.findall(text):
            language, _, path = info.partition(" ")
            if path and language in ("md", "text"):
                save(root / path, body, root)
            elif info == "json" and asked is None:
                asked = placed(json.loads(body), root)
                link.send(asked)
            elif info in ("json", "json pushed"):
                got = link.line()
                wrong = list(differences(placed(json.loads(body), root), got, loose))
                assert not wrong, f"{asked}\n{wrong}\n{json.dumps(got, ensure_ascii=False)}"
                if asked is not None and "result" in got:
                    mistyped = result_types.wrong(got["result"], METHODS[asked["method"]].result, asked["method"])
                    assert not mistyped, mistyped
                    seen.add(asked["method"])
                if asked is not None and asked["method"] == "mcp.open":
                    # That connection speaks another protocol from here on.
                    link = stack.enter_context(Bare(documented))
                asked = None
    assert seen == METHODS.keys()


def test_a_wrong_example_would_be_noticed() -> None:
    told = {"id": 1, "result": {"pid": 7, "hits": [{"path": "a", "id": 3}]}}
    same = {"id": 1, "result": {"pid": 8, "hits": [{"path": "a", "id": 4, "new": 1}], "more": 1}}
    assert not list(differences(told, same, {"pid", "id"}))
    for wrong in (
        {"id": 2, "result": same["result"]},
        {"id": 1, "result": {"pid": "8", "hits": same["result"]["hits"]}},  # type: ignore[index]
        {"id": 1, "result": {"pid": 8, "hits": []}},
        {"id": 1, "result": {"pid": 8, "hits": [{"path": "b", "id": 4}]}},
        {"id": 1, "error": {}},
    ):
        assert list(differences(told, wrong, {"pid", "id"})), wrong


def test_every_method_is_documented_with_an_example_and_nothing_else_is() -> None:
    found = sections(PROTOCOL_PAGE.read_text(encoding="utf-8"))
    assert sorted(found) == sorted(METHODS)
    for method, section in found.items():
        assert pairs(section), method
        assert {request["method"] for request, _ in pairs(section)} == {method}
        assert documented_parameters(section) or "No parameters." in section, method


IN_EVERY_ANSWER = base.Shown.__annotations__.keys() | base.Fresh.__annotations__.keys()


def answer_fields(kind: Any) -> set[str]:
    """The names of the fields of a type and of what it holds; not of those that every answer has."""
    found = set().union(*map(answer_fields, typing.get_args(kind)))
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        found |= hints.keys() - IN_EVERY_ANSWER
        found = found.union(*map(answer_fields, hints.values()))
    return found


def test_every_field_of_an_answer_is_told_with_its_method() -> None:
    page = PROTOCOL_PAGE.read_text(encoding="utf-8")
    for method, section in sections(page).items():
        told = set(re.findall(r"[`\".](\w+)[`\"]", section))
        assert answer_fields(METHODS[method].result) <= told, method
    general = page[: page.index("## Methods")] + sections(page)["query"]
    assert set(re.findall(r"`(\w+)`", general)) >= IN_EVERY_ANSWER


def test_a_method_takes_the_parameters_that_the_page_lists_and_no_others(documented: Home) -> None:
    """A parameter of the wrong type is refused as such; one that does not exist is refused as unknown."""
    found = sections(PROTOCOL_PAGE.read_text(encoding="utf-8"))
    everything = {name for section in found.values() for name in documented_parameters(section)} | {"as_of", "force"}
    needed = {"query": {"query": "x"}, "context": {"query": "x"}, "grep": {"pattern": "x"}, "bus": {"query": "x"}}
    needed |= {
        "history": {"key": "x"},
        "diff": {"key": "x"},
        "note": {"text": "x"},
        "save": {"text": "x"},
        "write": {"section": "x", "text": "x"},
        "recent": {"role": "x"},
    }
    needed |= {"import": {"path": "/nowhere/at/all"}, "job.run": {"name": "x"}}
    needed |= {"rule.set": {"name": "x", "rule": "tag=x -> archive"}, "rule.rm": {"name": "x"}}
    needed |= {"token.add": {"name": "x", "ns": "agent"}, "token.revoke": {"name": "x"}}
    topic = {"topic": "x"}
    needed |= {"topic.refine": topic, "topic.forget": topic, "topic.recall": topic}
    needed |= {"topic.memorize": {**topic, "summary": "x", "content": "x"}, "topic.set_general": {"content": "x"}}
    needed["why_not"] = {"file": "MEMORY.md", "query": "x"}
    needed |= {"outline.symbol": {"symbol": "x"}, "outline.file": {"file": "x.py"}}
    needed["workspace.add"] = {"path": "/nowhere/at/all"}
    for method, section in found.items():
        known = set(documented_parameters(section))
        names = sorted(everything - {"progress"})
        # A connection a method, not one for all: so many calls in a row are more than one connection may make.
        with Bare(documented) as link:
            wrong = ({**needed.get(method, {}), name: {"of": "the wrong type"}} for name in names)
            calls = zip(names, wrong, strict=True)
            link.send_line("\n".join(json.dumps({"id": name, "method": method, "params": one}) for name, one in calls))
            answers = {answer["id"]: answer for answer in (link.line() for _ in names)}
        for name in names:
            message = answers[name]["error"]["message"]
            expected = f"`{name}` must be" if name in known else f"`{method}` has no parameter `{name}`"
            assert expected in message, (method, message)


def test_every_error_code_is_documented_with_its_number() -> None:
    text = PROTOCOL_PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (-\d{5}(?:, -\d{5})*) \|", text, re.MULTILINE))
    expected = {code: str(error.rpc_code) for code, error in BY_CODE.items()}
    expected["failed"] += f", {INTERNAL_ERROR}"
    assert rows == expected


def test_the_numbers_in_the_protocol_are_the_numbers_in_the_code() -> None:
    text = PROTOCOL_PAGE.read_text(encoding="utf-8")
    assert f"it is {PROTOCOL}." in text
    assert f"{MAX_REQUEST:,} bytes" in text
    assert f"`server.max_clients` ({Settings().server.max_clients:,})" in text
    assert f"`server.calls_per_second` ({Settings().server.calls_per_second:,})" in text
    assert f"`index.max_file_kb` ({Settings().index.max_file_kb:,})" in text
    assert f"`server.line_timeout_s` ({Settings().server.line_timeout_s:g} seconds)" in text
    hello = next(told for request, told in pairs(text) if request["method"] == "hello")["result"]["limits"]
    assert f"{hello['query_chars']:,} characters" in text and f"| {hello['hits']} |" in text
    assert f"| {events.PER_CONNECTION} a connection, {events.IN_ALL} in all;" in text
    assert f"Up to {events.QUEUED:,} notifications" in text


def test_the_progress_notification_has_the_documented_shape(home: Home) -> None:
    (told,) = (json.loads(body) for body in blocks(PROTOCOL_PAGE.read_text(encoding="utf-8"), "json notification"))
    notes = home.path.parent / "many"
    (notes / "memory").mkdir(parents=True)
    for nth in range(2_100):
        (notes / "memory" / f"{nth}.md").write_text(f"## Note {nth}\n\nnumber {nth}\n")
    seen: list[dict[str, Any]] = []
    home.start().workspace_add(notes, on_progress=seen.append)
    assert seen, "an import of 2,100 files told nothing"
    for params in seen:
        assert not list(differences(told["params"], params, set(told["params"]), "params"))
        assert params["phase"] == "text" and 0 <= params["done"] <= params["total"] == 2_100


# --- the examples in shell and Python ---------------------------------------------------------------------------


def environment(home: Home, programs: Path) -> dict[str, str]:
    """A shell in which the documented paths lead to the test's daemon."""
    runtime = home.path.parent / "runtime"
    runtime.mkdir(exist_ok=True)
    if not (runtime / "memd").exists():
        (runtime / "memd").symlink_to(home.socket.parent)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**home.env, "XDG_RUNTIME_DIR": str(runtime), "PATH": path, "PYTHONPATH": str(ROOT)}


NETCAT = """#!/bin/sh
'''exec' {python} "$0" "$@"
'''
import socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[-1])
link.sendall(sys.stdin.buffer.read())
link.shutdown(socket.SHUT_WR)
while data := link.recv(65536):
    sys.stdout.buffer.write(data)
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """`nc`, where the machine has none that knows Unix sockets."""
    known = shutil.which("nc")
    usage = subprocess.run([known, "-h"], capture_output=True, text=True, check=False) if known else None
    if usage is None or "-U" not in usage.stdout + usage.stderr or "-N" not in usage.stdout + usage.stderr:
        shim = tmp_path / "nc"
        shim.write_text(NETCAT.format(python=shlex.quote(sys.executable)))
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def test_the_shell_examples_work(documented: Home, programs: Path) -> None:
    found = [body for page in MANUAL for body in blocks(page.read_text(encoding="utf-8"), "sh") if "nc -" in body]
    assert found
    for body in found:
        done = subprocess.run(
            ["sh", "-eu", "-c", body],
            env=environment(documented, programs),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["result"]["hits"][0]["key"] == "2026-02-15#ersatztv"


def test_the_examples_for_socat_and_node_work_where_these_are(documented: Home, programs: Path) -> None:
    text = PROTOCOL_PAGE.read_text(encoding="utf-8")
    (piped,) = (body for body in blocks(text, "sh") if "socat " in body)
    (node,) = blocks(text, "js")
    there = {name for name in ("socat", "node") if shutil.which(name)}
    if not there:
        pytest.skip("this machine has neither socat nor node")
    for name, command in (("socat", ["sh", "-eu", "-c", piped]), ("node", ["node", "-e", node])):
        if name in there:
            done = subprocess.run(
                command, env=environment(documented, programs), capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.returncode == 0 and "ErsatzTV" in done.stdout, f"{name}: {done.stderr}"


def test_the_python_examples_work(documented: Home, programs: Path) -> None:
    found = [(page.name, body) for page in MANUAL for body in blocks(page.read_text(encoding="utf-8"), "python")]
    assert {"README.md", "protocol.md"} <= {name for name, _ in found}
    for name, body in found:
        done = subprocess.run(
            [sys.executable, "-c", body],
            env=environment(documented, programs), capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, f"{name}:\n{body}\n{done.stderr}"
        assert done.stdout.strip(), f"{name} prints nothing:\n{body}"
        if "ErsatzTV" in body:
            assert "2026-02-15" in done.stdout


# --- commands -------------------------------------------------------------------------------------------------


def commands() -> dict[str, Any]:
    """Every command by its full name: `query`, `config init`, …"""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {f"{name} {sub}": one for sub, one in inner.items()} if inner else {name: command}
    return found


def named_commands(text: str) -> set[tuple[str, str]]:
    """What follows `memd` in code: the words, up to two of them."""
    code = [body for info, body in FENCE.findall(text) if info in ("console", "sh")]
    code += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", without_blocks(text))
    found = set()
    for piece in (re.sub(r" #.*", "", piece) for piece in code):
        for words in re.findall(r"(?:^|[\s|&;(])memd((?: +[a-z][a-z-]*)+)", piece, re.MULTILINE):
            first, *rest = words.split()
            found.add((first, rest[0] if rest else ""))
    return found


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_every_command_that_the_docs_name_exists(page: Path) -> None:
    known = commands()
    groups = {name.split()[0] for name in known if " " in name}
    for first, second in named_commands(page.read_text(encoding="utf-8")):
        if first in groups:
            assert not second or f"{first} {second}" in known, f"memd {first} {second}"
        else:
            assert first in known, f"memd {first}"


def test_every_flag_that_the_docs_name_exists() -> None:
    known = {flag for command in commands().values() for param in command.params for flag in (*param.opts, *param.secondary_opts)}  # fmt: skip # noqa: E501
    known |= {"--help", "--version", "--remote", "--install-completion", "--show-completion"}
    for page in MANUAL:
        text = page.read_text(encoding="utf-8")
        code = [body for info, body in FENCE.findall(text) if info in ("console", "sh")]
        code += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", without_blocks(text))
        for piece in code:
            for line in piece.splitlines():
                said = line.partition("#")[0]
                if re.match(r"(\$ )?memd ", said):
                    flags = set(re.findall(r"(?<=\s)--[a-z-]+", said))
                    assert flags <= known, f"{page.name}: {line}"


def text_of(node: ast.expr) -> str:
    """A text of the code; `X` stands for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "X"


def messages() -> Iterator[tuple[str, str]]:
    """Every text of the package that a user may read, with its file."""
    for file in sorted((ROOT / "memd").rglob("*")):
        text = file.read_text(encoding="utf-8") if file.suffix in (".py", ".toml", ".html") else ""
        nodes = list(ast.walk(ast.parse(text))) if file.suffix == ".py" else [ast.Constant(text)]
        is_help = file.parent.name in ("commands", "methods", "config")
        about_code = set() if is_help else {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant | ast.JoinedStr) and node not in about_code:
                yield file.name, text_of(node)


NAMED = re.compile(r"(?<![\w./-])memd +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?((?:(?!\bmemd\b)[^,;:()`\n])*)")
"""A command in a message, and what follows it as far as its flags may go."""
OF_MEMD = set("again and as at cannot had itself merge never nor observed on only out watched would wrote".split())
"""What follows the name `memd` in a sentence, as a verb in -s does."""


def test_every_command_and_flag_that_a_message_names_exists() -> None:
    known = commands()
    groups = {name.split()[0] for name in known if " " in name}
    for place, found in ((place, found) for place, text in messages() for found in NAMED.finditer(text)):
        first, second, rest = found.groups()
        said = f"{place}: {found[0]}"
        in_group = first in groups and f"{first} {second}" in known
        if not in_group and first not in known:
            verb = second if first in groups else first
            assert verb is None or verb in OF_MEMD or verb.endswith("s"), said
            continue
        options = known[f"{first} {second}" if in_group else first].params
        flags = {"--help", *(flag for option in options for flag in (*option.opts, *option.secondary_opts))}
        assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)) <= flags, said


QUOTED = ("in_shell(", "shlex.", "slug(")
NEED_NONE = {
    *("action", "number", "row['id']", "row['undone']", "result['action']", "more"),
    *("agent.name", "known.name", "row['what']", "command"),
    *("gone", "version", "forget", "back"),
    *("owner", "me"),
}
"""Numbers, names of agents and commands, and what is quoted already."""


IN_COMMAND = r"(?<![\w./-])(?:memd ([a-z-]+)|(?:ls|rm|mv|chmod|chown|git -C) ?-?\w*)(?: [^;:,`\n]*?)?⟦([^⟧]*)⟧"


def test_every_name_in_a_command_of_a_message_is_quoted_for_the_shell() -> None:
    """`memd get two & names` would run in the background."""
    wrong, known = set(), {name.split()[0] for name in commands()}
    for file in sorted((ROOT / "memd").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                filled = [f"⟦{ast.unparse(part.value)}⟧" if isinstance(part, ast.FormattedValue) else part.value
                          for part in node.values if isinstance(part, ast.FormattedValue | ast.Constant)]  # fmt: skip
                for found in re.finditer(IN_COMMAND, "".join(filled)):
                    ours = found[1] is None or found[1] in known
                    if ours and not found[2].startswith(QUOTED) and found[2] not in NEED_NONE:
                        wrong.add(f"{file.name}:{node.lineno}: {found[0]}")
    assert not wrong


def test_every_command_is_documented_and_has_help(home: Home) -> None:
    manual = "\n".join(page.read_text(encoding="utf-8") for page in MANUAL)
    for name, command in commands().items():
        assert re.search(rf"\bmemd {name}\b", manual), f"memd {name} is documented nowhere"
        assert command.help, f"memd {name} has no help"
    assert home.run("--help").returncode == 0


# --- the pages themselves ---------------------------------------------------------------------------------------


def test_every_part_of_the_benchmarks_is_named_by_a_page() -> None:
    """A part that no page names is one that nobody runs again."""
    command = [sys.executable, ROOT / "benchmarks" / "run.py", "--list"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    listed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    parts = [line.split()[0] for line in listed.splitlines()]
    manual = "\n".join(page.read_text(encoding="utf-8") for page in MANUAL)
    named = set(re.findall(r"(?:[Pp]art |\()`([a-z_]+)`", manual))
    named |= {word for words in re.findall(r'PARTS="?([a-z_ ]+)', manual) for word in words.split()}
    assert len(parts) > 20 and not set(parts) - named


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted(set(PAGES)), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(there), f"{target}: no such heading"


def test_the_configuration_page_is_what_the_schema_says() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import generate; print(generate.configuration(), end='')"],
        cwd=ROOT / "docs", env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert made.stdout == page, "docs/configuration.md is old; run: make docs"


def test_the_configuration_that_the_docs_show_is_accepted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMD_HOME", str(home.path))
    for page in MANUAL:
        for body in blocks(page.read_text(encoding="utf-8"), "toml"):
            home.configure(body)
            load.load(environ={})
    home.configure(edit.sample())
    assert load.load(environ={}) == Settings()
