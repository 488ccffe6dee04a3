"""A method is declared once: everything else follows from the declaration, and the answers are what it says."""

from __future__ import annotations

import ast
import inspect
import tomllib
import typing
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from docs import generate
from memd.cli.app import MODULES
from memd.cli.method_command import COMMON, EVERY, method_command
from memd.daemon.handlers import HANDLERS
from memd.errors import TooLarge, UsageError
from memd.protocol.methods import METHODS, Request
from memd.protocol.methods.base import Fresh, Scoped, Text, doc, help_text, parameters_of, parse
from tests.conftest import ROOT
from tests.result_types import wrong
from tests.test_docs import commands

# --- what follows from a declaration --------------------------------------------------------------------------


@pytest.mark.parametrize("file", generate.GENERATED_FILES, ids=lambda file: file.name)
def test_what_is_generated_is_checked_in(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == generate.GENERATED_FILES[file](), "run: make docs"


def test_every_method_has_a_sentence_a_handler_and_documented_parameters() -> None:
    assert {declared.request for declared in METHODS.values()} == HANDLERS.keys()
    for name, declared in METHODS.items():
        assert declared.sentence.endswith("."), name
        assert set(declared.args) <= {one.python_name for one in parameters_of(name).values()}, name
        for parameter in parameters_of(name).values():
            assert parameter.about and not parameter.about.endswith("."), (name, parameter.name)


def names_in(node: ast.AST) -> list[str]:
    """The strings that stand directly in a list, a set, a tuple or as the keys of a dict."""
    inner = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return [one.value for one in inner if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def test_no_other_file_lists_methods() -> None:
    """Sets of methods, tables of handlers and the like would be a second declaration."""
    dotted = {name for name in METHODS if "." in name}
    for file in sorted((ROOT / "memd").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            listed = [name for name in names_in(node) if name in METHODS] if isinstance(
                node, ast.Dict | ast.Set | ast.List | ast.Tuple) else []  # fmt: skip
            few = len(listed) < 10 and sum(name in dotted for name in listed) < 2
            assert few, f"{file.relative_to(ROOT)}:{node.lineno} lists methods: {listed}"


class EchoResult(Fresh):
    """The answer of a method that only this test has."""

    text: str


@pytest.fixture
def echo() -> typing.Iterator[str]:
    """A method with a parameter of its own, declared as any other."""

    class Echo(Scoped, method="test.echo", args="text", result=EchoResult, reads=True):
        """Says the same again."""

        text: Annotated[Text, doc("what to say", max_length=20)]
        times: Annotated[int, doc("how often", ge=1, le=9)] = 1

    yield "test.echo"
    del METHODS["test.echo"]


def command_of(name: str) -> Any:
    """The command that a method makes."""
    app = typer.Typer(add_completion=False)

    @method_command(app, name)
    def show(result: Any, args: Any) -> None:
        pass

    return typer.main.get_command(app)


def test_a_new_parameter_is_one_edit(echo: str) -> None:
    """Validation, clients, options, flags of the fast path and the documentation follow from the field alone."""
    assert parse(METHODS[echo], {"text": "a", "times": 3}).times == 3 and parse(METHODS[echo], {"text": "a"}).times == 1
    with pytest.raises(UsageError, match="`times` must be a whole number from 1 to 9, not 10"):
        parse(METHODS[echo], {"text": "a", "times": 10})
    with pytest.raises(UsageError, match=r"`test.echo` has no parameter `time`; did you mean `times`\?"):
        parse(METHODS[echo], {"text": "a", "time": 1})
    with pytest.raises(UsageError, match=r"`test.echo` needs `text`"):
        parse(METHODS[echo], {"text": " "})
    with pytest.raises(TooLarge, match="may have 20 characters"):
        parse(METHODS[echo], {"text": "a" * 21})
    assert list(generate.client_signature(echo).parameters) == ["self", "text", "times", "ns", "cwd"]
    assert "`times`: how often" in help_text(echo)
    assert "def test_echo(self, text: str, *, times: int | None = None" in generate._stub(echo, "")
    assert "| `times` | whole number | `1` | how often |" in generate._table(echo)
    assert "times" in generate._light(METHODS[echo]) or inspect.getdoc(METHODS[echo].request)
    command = command_of(echo)
    text, times, *rest = command.params
    assert (text.param_type_name, text.required, times.opts) == ("argument", True, ["--times"])
    assert (times.type.min, times.type.max, times.help) == (
        1,
        9,
        "How often.",
    ) and command.help == "Says the same again."
    assert [one.opts[0] for one in rest] == ["--ns", "--workspace", "--no-start", "--json"]
    flags = generate._flags(command, echo)
    assert flags["values"]["--times"] == "times" and flags["params"] == ["times"]


def test_a_switch_turns_on_what_is_off() -> None:
    """So a parameter that is true or false defaults to false, unless its option can say both."""
    for name, command in commands().items():
        for one in (one for one in command.params if getattr(one, "is_flag", False)):
            assert one.default is False or one.secondary_opts, f"memd {name} {one.opts[0]} can never be turned off"


def test_only_parameters_of_the_method_are_suggested(echo: str) -> None:
    with pytest.raises(UsageError, match=r"`test.echo` has no parameter `progres`$"):
        parse(METHODS[echo], {"text": "a", "progres": True})
    with pytest.raises(UsageError, match=r"did you mean `progress`\?"):
        parse(METHODS["sync"], {"progres": True})


# --- the answers are what the declarations say; test_docs.py compares those of a real daemon ---------------------


def test_the_comparison_finds_what_is_wrong() -> None:
    result = METHODS["ping"].result
    fresh = {"clock": "c:1:2", "lag_ms": 0, "pending": 0, "degraded": []}
    assert not wrong({**fresh, "pong": True}, result, "ping")
    assert wrong({**fresh, "pong": 1}, result, "ping") and wrong(fresh, result, "ping")
    assert wrong({**fresh, "pong": True, "more": 1}, result, "ping")


def test_requests_are_not_shared_between_calls() -> None:
    assert parse(METHODS["query"], {"query": "x"}) is not parse(METHODS["query"], {"query": "x"})
    assert issubclass(METHODS["query"].request, Request)


def test_every_table_of_options_is_of_a_method_or_a_command() -> None:
    names_typed = {name for names in MODULES.values() for name in names.split()} | commands().keys()
    tables = tomllib.loads((ROOT / "memd" / "cli" / "options.toml").read_text(encoding="utf-8"))
    assert tables.keys() - METHODS.keys() - names_typed == {EVERY, COMMON}
    assert tables[EVERY].keys() <= {name for method in METHODS.values() for name in method.parameters}
