"""`memd config init`, `show`, `set` and `check`; none of them needs a daemon."""

import os
import tomllib
from contextlib import suppress
from typing import Any

import typer

from memd.cli import console, daemon_calls, reports
from memd.cli.commands import service
from memd.cli.method_command import Args, command_group, own_command
from memd.config import edit, load, paths
from memd.config.declared import fields_of
from memd.config.schema import RULES, SECTIONS, WORKSPACE_KEYS, Settings
from memd.errors import ConfigError, NoDaemon

app = typer.Typer()
config_app = command_group(app, "config", "Writes, shows or checks the settings.")


@own_command(config_app, "config init")
def init(args: Args) -> None:
    """Writes a config file that shows every setting with its default."""
    file = edit.write_sample(args["force"])
    former = f"; the former one is {file}.before, with its workspaces" if args["force"] else ""
    console.show({"config": str(file)}, f"wrote {file}{former}", args["json"])


@own_command(config_app, "config show")
def show_settings(args: Args) -> None:
    """Shows the settings in force, and where each came from."""
    shown = _as_json(load.load())
    console.show(shown, _as_toml(shown), args["json"])


@own_command(config_app, "config set")
def set_setting(args: Args) -> None:
    """Writes one setting to the config file, and has a running daemon follow it.

    A daemon that embeds goes on with the model it has until another one has made its vectors.
    """
    name = args["name"]
    section, _, key = name.partition(".")
    edit.set_value(section, key, load.checked_value(name, args["value"]))
    result: dict[str, Any] = {"config": str(paths.config_file()), "changed": [], "restart": []}
    text = [f"{name} is set in {result['config']}"]
    if not service.open_network():
        with suppress(NoDaemon), daemon_calls.connect(start=False) as client:
            result |= client.reload()
            text.append(reports.reloaded(result))
    console.show(result, "\n".join(text), args["json"])


@own_command(config_app, "config check")
def check(args: Args) -> None:
    """Checks the config file and the environment; all problems at once."""
    file = paths.config_file()
    problems = load.Problems()
    workspaces = 0
    try:
        workspaces = len(load.load().workspaces)
    except ConfigError as error:
        problems.found += error.message.split("\n  ")[1:] or [error.message]
    if load.written_rules():
        # The daemon's program knows their language, and need not be running for it.
        problems.found += map(str, daemon_calls.run_without_daemon("--check-rules")["problems"])
    if args["json"]:
        console.json({"ok": not problems.found, "config": str(file), "problems": problems.found})
        raise typer.Exit(ConfigError.exit_code if problems.found else 0)
    problems.raise_if_any()
    where = str(file) if file.exists() else f"no config file (it would be {file}), so the defaults hold"
    console.line(f"all is well: {where}, {reports.count(workspaces, 'workspace')}")


def _source(given: dict[str, Any], section: str, name: str) -> str:
    variable = f"{load.ENV_PREFIX}{section}__{name}".upper()
    # The loader ignores case in names, so this does.
    if any(known.upper() == variable for known in os.environ):
        return f"${variable}"
    return str(paths.config_file()) if name in given.get(section, {}) else "default"


def _as_json(settings: Settings) -> dict[str, Any]:
    file = paths.config_file()
    given = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {
        "config": str(file),
        "settings": {
            section: {
                name: {"value": getattr(getattr(settings, section), name), "source": _source(given, section, name)}
                for name in fields_of(kind)
            }
            for section, kind in SECTIONS.items()
        },
        "rules": dict(settings.rules),
        "workspaces": [
            {"path": str(place.root)} | {name: getattr(place, name) for name in WORKSPACE_KEYS if name != "path"}
            for place in settings.workspaces
        ],
    }


def _as_toml(shown: dict[str, Any]) -> str:
    lines: list[str] = []
    for section, settings in shown["settings"].items():
        lines.append(f"[{section}]")
        for name, setting in settings.items():
            line = f"{name} = {edit.toml_value(setting['value'])}"
            lines.append(f"{line:<32}  # {setting['source']}")
        lines.append("")
    if shown["rules"]:
        rules = (f"{edit.toml_key(name)} = {edit.toml_value(text)}" for name, text in shown["rules"].items())
        lines += [f"[{RULES}]", *rules, ""]
    for workspace in shown["workspaces"]:
        lines += ["[[workspace]]", *(f"{name} = {edit.toml_value(value)}" for name, value in workspace.items()), ""]
    return "\n".join(lines).rstrip("\n")
