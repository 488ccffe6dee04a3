"""The promised surface of memd, a line a thing: what docs/stability.md says stays through 1.x.

python release/surface.py           adds what is new to release/surface.txt; it never takes a line away
python release/surface.py --check   fails when something was taken away, or when something new is not written down yet
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main

FILE = Path(__file__).with_name("surface.txt")
sys.path.insert(0, str(FILE.parent.parent))

HEAD = """\
# What docs/stability.md promises, a line a thing. `make surface` adds what is new. A line is taken out by hand, for a
# major version, after a minor one has warned.
"""

REQUIRED = " required"


def today() -> set[str]:
    """Everything that the code at hand offers."""
    return {*_wire(), *_errors(), *_commands(), *_settings(), *_tools(), *_python()}


def promised() -> set[str]:
    return {line for line in FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}


def taken_away(now: set[str]) -> list[str]:
    """The promises that no longer hold. Something that is new and must be given breaks who does not give it."""
    then = promised()
    gone = [line for line in then - now if not line.endswith(REQUIRED)]
    demanded = [line for line in now - then if line.endswith(REQUIRED) and line.rpartition(".")[0] in then]
    return sorted([*(f"gone: {line}" for line in gone), *(f"demanded: {line}" for line in demanded)])


# --- the wire -----------------------------------------------------------------------------------------------------


def _wire() -> Iterator[str]:
    methods, base = import_module("memd.protocol.methods"), import_module("memd.protocol.methods.base")
    yield f"protocol {import_module('memd.protocol.wire').PROTOCOL}"
    yield f"export {import_module('memd.indexer.transfer.export').SCHEMA}"
    for name, method in methods.METHODS.items():
        yield f"method {name}"
        yield from _parameters(f"method {name}", base.parameters_of(name))
        yield from _fields(f"result {name}", method.result)
    yield from (f"event {kind}" for kind in import_module("memd.daemon.serving.events").KINDS)


def _parameters(owner: str, parameters: dict[str, Any]) -> Iterator[str]:
    for name, spec in parameters.items():
        yield f"{owner}.{name} {spec.type}"
        yield from (f"{owner}.{name} takes {choice}" for choice in spec.choices)
        yield f"{owner}.{name}{REQUIRED if spec.required else ' optional'}"


def _fields(owner: str, kind: Any) -> Iterator[str]:
    """The fields of an answer, also inside lists and objects; `always` where it is never left out."""
    if typing.is_typeddict(kind):
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            left_out = typing.get_origin(hint) is typing.NotRequired
            inner = typing.get_args(hint)[0] if left_out else hint
            yield f"{owner}.{name} {_kind(inner)}"
            if not left_out:
                yield f"{owner}.{name} always"
            yield from _fields(f"{owner}.{name}", inner)
    else:
        for inner in typing.get_args(kind):
            yield from _fields(owner, inner)


def _kind(hint: Any) -> str:
    """A type as JSON knows it."""
    if typing.is_typeddict(hint):
        return "object"
    inner = sorted(map(_kind, typing.get_args(hint)))
    if typing.get_origin(hint) is list:
        return f"list of {inner[0]}"
    if typing.get_origin(hint) is dict:
        return "object"
    return " or ".join(inner) if inner else str(getattr(hint, "__name__", hint))


def _errors() -> Iterator[str]:
    errors = import_module("memd.errors")
    for code, error in errors.BY_CODE.items():
        yield f"error {code} {error.__name__} wire {error.rpc_code} exit {error.exit_code}"


# --- the command line ---------------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    group: Any = typer.main.get_command(import_module("memd.cli.app").app)
    yield from _options("command memd", group)
    for name, command in group.commands.items():
        for inner, one in getattr(command, "commands", {"": command}).items():
            yield from _options(f"command memd {name} {inner}".rstrip(), one)


def _options(owner: str, command: Any) -> Iterator[str]:
    yield owner
    for option in command.params:
        names = (
            [option.name.upper()] if option.param_type_name == "argument" else [*option.opts, *option.secondary_opts]
        )
        for name in names:
            takes = "switch" if getattr(option, "is_flag", False) else "value"
            yield f"{owner} {name} {takes}"
            yield from (f"{owner} {name} takes {choice}" for choice in getattr(option.type, "choices", ()))


# --- settings, tools, Python --------------------------------------------------------------------------------------


def _settings() -> Iterator[str]:
    schema, declared = import_module("memd.config.schema"), import_module("memd.config.declared")
    for section, settings in schema.SECTIONS.items():
        for name, spec in declared.fields_of(settings).items():
            yield f"setting {section}.{name} {spec.type}"
            yield from (f"setting {section}.{name} takes {choice}" for choice in spec.choices)
    yield from (f"setting workspace.{key}" for key in schema.WORKSPACE_KEYS)


def _tools() -> Iterator[str]:
    for tool in import_module("memd.mcp.tools").TOOLS:
        yield f"tool {tool.name}"
        yield from _parameters(f"tool {tool.name}", tool.parameters)


def _python() -> Iterator[str]:
    memd = import_module("memd")
    for name in ("Client", "AsyncClient"):
        client = getattr(memd, name)
        yield from (f"python memd.{name}({parameter})" for parameter in inspect.signature(client).parameters)
        yield from (f"python memd.{name}.{method}" for method in vars(client) if not method.startswith("_"))
    yield from (f"python memd.{name}" for name in memd.__all__)
    for method in import_module("memd.protocol.method_table").METHODS.values():
        yield f"python Client.{method.python_name}"
        for nth, argument in enumerate(method.args, 1):
            yield f"python Client.{method.python_name} argument {nth} {argument}"


def main(check: bool) -> int:
    now = today()
    if check:
        new = sorted(now - promised())
        print("\n".join([*taken_away(now), *(f"new: {line}" for line in new)]) or "the surface is as promised")
        return 1 if new or taken_away(now) else 0
    then = promised() if FILE.exists() else set()
    FILE.write_text(HEAD + "".join(f"{line}\n" for line in sorted(then | now)), encoding="utf-8")
    print(f"{FILE.name}: {len(then | now)} lines, {len(now - then)} new")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
