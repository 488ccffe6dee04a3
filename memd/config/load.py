"""Reads the settings and reports every problem at once, each with its place."""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from memd.config import paths
from memd.config.declared import TYPES, fields_of
from memd.config.hooks import value_from_text
from memd.config.ignore_rules import parse_rules
from memd.config.schema import RULES, SECTIONS, WORKSPACE_KEYS, Settings
from memd.errors import ConfigError, UsageError, did_you_mean
from memd.models import Workspace
from memd.prose import composed

ENV_PREFIX = "MEMD_"
NS = re.compile(r"[^\s/\\\x00-\x1f]{1,100}")


class Problems:
    """Collects what is wrong, so that the user can fix all of it at once."""

    def __init__(self, text: str = "") -> None:
        self.file = paths.config_file()
        self.lines = text.splitlines()
        self.found: list[str] = []

    def place(self, section: str, key: str, nth: int = 0) -> str:
        """The file with the line of a key in the nth table of this name."""
        line = line_of(self.lines, section, key, nth)
        return f"{self.file}:{line}" if line else str(self.file)

    def at(self, section: str, key: str, message: str, nth: int = 0) -> None:
        self.add(self.place(section, key, nth), message)

    def add(self, place: str, message: str) -> None:
        self.found.append(f"{place}: {message}")

    def raise_if_any(self, hint: str = "fix the lines above, then run: memd config check") -> None:
        if self.found:
            count = f"{len(self.found)} problem{'s' if len(self.found) > 1 else ''} in the configuration"
            raise ConfigError(f"{count}:\n  " + "\n  ".join(self.found), hint)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force."""
    text = _read()
    problems = Problems(text)
    data = _parse(text, problems)
    values = {name: _section(name, data.get(name, {}), problems) for name in SECTIONS}
    _unknown_sections(data, problems)
    rules = rules_of(data.get(RULES, {}), problems)
    workspaces = _workspaces(data.get("workspace", []), problems)
    for variable, raw in (os.environ if environ is None else environ).items():
        if variable.startswith(ENV_PREFIX) and "__" in variable:
            _override(values, variable[len(ENV_PREFIX) :].lower().replace("__", ".", 1), raw, f"${variable}", problems)
    problems.raise_if_any()
    sections = {name: SECTIONS[name](**some) for name, some in values.items()}
    return Settings(**sections, rules=rules, workspaces=workspaces)


def checked_value(dotted: str, text: str) -> Any:
    """The value of one setting that a person typed; ConfigError if it cannot be that."""
    problems, values = Problems(), {name: dict[str, Any]() for name in SECTIONS}
    _override(values, dotted, text, dotted, problems)
    problems.raise_if_any("nothing was changed; every setting: memd config show")
    section, _, key = dotted.partition(".")
    return values[section][key]


def rules_of(section: Any, problems: Problems) -> tuple[tuple[str, str], ...]:
    """The rules as written in the file; this only checks that they are texts."""
    if not isinstance(section, dict):
        problems.at("", RULES, f"`{RULES}` must be a section: [{RULES}]")
        return ()
    for name, text in section.items():
        if not isinstance(text, str):
            problems.at(RULES, name, f'`{RULES}.{name}` must be a rule, "on" or "off", not {text!r}')
    return tuple((name, text) for name, text in section.items() if isinstance(text, str))


def written_rules() -> tuple[tuple[str, str], ...]:
    """The rules in the config file, even if other parts of it are wrong."""
    ignored = Problems()
    try:
        return rules_of(_parse(_read(), ignored).get(RULES, {}), ignored)
    except ConfigError:
        return ()


def placed_rules(rule_problems: Iterable[tuple[str, str]]) -> list[str]:
    """Problems of rules, by name, each with its place in the config file."""
    problems = Problems(_read())
    for name, message in rule_problems:
        problems.at(RULES, name, message)
    return problems.found


def _read() -> str:
    file = paths.config_file()
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", "fix it, or move it away to use the defaults") from error


def _parse(text: str, problems: Problems) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        problems.add(f"{problems.file}:{line[1]}" if line else str(problems.file), f"this is not TOML: {error}")
        return {}


def line_of(lines: list[str], section: str, key: str, nth: int = 0) -> int:
    """The line of `key` in the nth table called `section`; 0 if it is not found."""
    inside, seen, header = section == "", -1, 0
    for number, line in enumerate(lines, 1):
        table = re.match(r"\s*\[\[?\s*([\w.\"'-]+)\s*\]", line)
        if table:
            named = table.group(1).strip("\"'") == section
            seen += named
            inside = named and seen == nth
            header = number if inside else header
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return header


def _unknown_sections(data: dict[str, Any], problems: Problems) -> None:
    known = [*SECTIONS, RULES, "workspace"]
    for name, value in data.items():
        if name not in known:
            section = name if isinstance(value, dict) else ""
            problems.at(section, name, f"unknown section `{name}`{did_you_mean(name, known)}")


def _section(name: str, section: Any, problems: Problems) -> dict[str, Any]:
    if not isinstance(section, dict):
        problems.at("", name, f"`{name}` must be a section: [{name}]")
        return {}
    values: dict[str, Any] = {}
    for key, value in section.items():
        _set(values, name, key, value, problems.place(name, key), problems)
    return values


def _override(values: dict[str, dict[str, Any]], dotted: str, text: str, place: str, problems: Problems) -> None:
    """A setting from the environment, which takes precedence over the file, or from a command."""
    section, _, key = dotted.partition(".")
    if section == RULES:
        problems.add(place, "rules are set in the config file: memd rule set NAME RULE")
    elif section not in SECTIONS:
        problems.add(place, f"unknown section `{section}`{did_you_mean(section, SECTIONS)}")
    else:
        setting = fields_of(SECTIONS[section]).get(key)
        value = value_from_text(text, TYPES[setting.type].__name__) if setting else text
        _set(values[section], section, key, value, place, problems)


def _set(values: dict[str, Any], section: str, key: str, value: Any, place: str, problems: Problems) -> None:
    """Check one value against its setting and keep it if it is right."""
    known = fields_of(SECTIONS[section])
    if key not in known:
        problems.add(place, f"unknown setting `{section}.{key}`{did_you_mean(key, known)}")
        return
    setting = replace(known[key], name=f"{section}.{key}")
    try:
        values[key] = setting.check(value)
    except UsageError as error:
        problems.add(place, error.message)


def _workspaces(tables: Any, problems: Problems) -> tuple[Workspace, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        problems.at("", "workspace", "workspaces are tables of their own: [[workspace]]")
        return ()
    workspaces = [workspace for nth, table in enumerate(tables) if (workspace := _workspace(table, nth, problems))]
    _refuse_twins(workspaces, problems)
    return tuple(workspaces)


def default_name(folder: Path) -> str:
    """The name of a workspace that was given none."""
    return re.sub(r"\s+", "-", composed(folder.name.strip()))


def _workspace(table: dict[str, Any], nth: int, problems: Problems) -> Workspace | None:
    before = len(problems.found)
    for key in table:
        if key not in WORKSPACE_KEYS:
            problems.at("workspace", key, f"unknown key `{key}`{did_you_mean(key, WORKSPACE_KEYS)}", nth)
    path = table.get("path")
    given = {"ns": default_name(Path(str(path))), **table}
    if not isinstance(path, str) or not path:
        problems.at("workspace", "path", "a workspace needs a `path`", nth)
        given.pop("path", None)
    for name, (right, wanted) in CHECKS.items():
        if name in given and not right(given[name]):
            problems.at("workspace", name, f"`{name}` must be {wanted}, not {given[name]!r}", nth)
    if len(problems.found) > before:
        return None
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    given |= {"project": str(Path(given["project"]).expanduser())} if "project" in given else {}
    return Workspace(root=Path(given.pop("path")).expanduser(), **given)


def glob_ok(glob: str) -> bool:
    parts = glob.split("/")
    return bool(glob) and not glob.startswith("/") and ".." not in parts and "\0" not in glob


def rule_ok(rule: str) -> bool:
    """Whether a rule for files that are left out can be understood."""
    return bool(rule.strip()) and not parse_rules("", "", (rule,)).wrong


def _place_ok(path: Any) -> bool:
    return isinstance(path, str) and Path(path).expanduser().is_absolute()


def _each(right: Callable[[str], object], value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and right(one) for one in value)


CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("path", "project"), (_place_ok, "absolute or begin with ~")),
    "ns": (lambda value: _each(NS.fullmatch, [value]), "a name without spaces or slashes"),
    "globs": (lambda value: bool(value) and _each(glob_ok, value), "a list of patterns inside the workspace"),
    "exclude": (partial(_each, rule_ok), "a list of patterns, as in a .gitignore"),
    "hooks_in": (partial(_each, NS.fullmatch), "a list of workspaces, by their names"),
    **dict.fromkeys(("follow", "gitignore", "shared"), (lambda value: isinstance(value, bool), "true or false")),
}
"""What each key of a workspace must be."""


def _refuse_twins(workspaces: list[Workspace], problems: Problems) -> None:
    seen: set[str | Path] = set()
    for nth, workspace in enumerate(workspaces):
        if workspace.ns in seen:
            problems.at("workspace", "ns", f"two workspaces are called `{workspace.ns}`", nth)
        if workspace.root in seen:
            problems.at("workspace", "path", f"{workspace.root} is listed twice", nth)
        seen |= {workspace.ns, workspace.root}
