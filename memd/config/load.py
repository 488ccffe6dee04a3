"""Reads the settings and reports every problem at once, each with its place."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any

from memd.config import paths
from memd.config.schema import RULES, SECTIONS, WORKSPACE_KEYS, Settings, settings_of
from memd.errors import ConfigError
from memd.models import DEFAULT_GLOBS, Workspace

ENV_PREFIX = "MEMD_"
TYPE_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
NS = re.compile(r"[^\s/\\\x00-\x1f]{1,100}")


class Problems:
    """Collects what is wrong, so that the user mends it in one go."""

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.found: list[str] = []

    def at(self, section: str, key: str, message: str, nth: int = 0) -> None:
        line = line_of(self.lines, section, key, nth)
        place = f"{self.file}:{line}" if line else str(self.file)
        self.found.append(f"{place}: {message}")

    def add(self, place: str, message: str) -> None:
        self.found.append(f"{place}: {message}")

    def raise_if_any(self) -> None:
        if self.found:
            count = f"{len(self.found)} problem{'s' if len(self.found) > 1 else ''} in the configuration"
            raise ConfigError(
                f"{count}:\n  " + "\n  ".join(self.found), "mend the lines above, then: memd config check"
            )


def load(overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force. `overrides` are flags, as `{"section.name": value}`."""
    file = paths.config_file()
    text = _read(file)
    problems = Problems(file, text)
    data = _parse(text, problems)
    values = {name: _section(name, data.get(name, {}), problems) for name in SECTIONS}
    _unknown_sections(data, problems)
    rules = rules_of(data.get(RULES, {}), problems)
    workspaces = _workspaces(data.get("workspace", []), problems)
    _environment(values, os.environ if environ is None else environ, problems)
    _overrides(values, overrides or {}, problems)
    problems.raise_if_any()
    sections = {name: SECTIONS[name](**given) for name, given in values.items()}
    return Settings(**sections, rules=rules, workspaces=workspaces)


def rules_of(given: Any, problems: Problems) -> tuple[tuple[str, str], ...]:
    """The rules as they stand in the file; only that they are texts is checked here."""
    if not isinstance(given, dict):
        problems.at("", RULES, f"`{RULES}` must be a section: [{RULES}]")
        return ()
    for name, text in given.items():
        if not isinstance(text, str):
            problems.at(RULES, name, f'`{RULES}.{name}` must be a rule, "on" or "off", not {text!r}')
    return tuple((name, text) for name, text in given.items() if isinstance(text, str))


def written_rules() -> tuple[tuple[str, str], ...]:
    """The rules in the config file, whatever else may be wrong with it."""
    unheard = Problems(paths.config_file(), "")
    try:
        return rules_of(_parse(_read(unheard.file), unheard).get(RULES, {}), unheard)
    except ConfigError:
        return ()


def placed_rules(found: Iterable[tuple[str, str]]) -> list[str]:
    """Problems of rules, by name, each with its place in the config file."""
    file = paths.config_file()
    problems = Problems(file, _read(file))
    for name, message in found:
        problems.at(RULES, name, message)
    return problems.found


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", "mend it, or move it away to use the defaults") from error


def _parse(text: str, problems: Problems) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        place = f"{problems.file}:{where.group(1)}" if where else str(problems.file)
        problems.add(place, f"this is not TOML: {error}")
        return {}


def line_of(lines: list[str], section: str, key: str, nth: int = 0) -> int:
    """The line of `key` in the nth table called `section` (0 when it cannot be told)."""
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


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{near[0]}`?" if near else ""


def _unknown_sections(data: dict[str, Any], problems: Problems) -> None:
    known = [*SECTIONS, RULES, "workspace"]
    for name in data:
        if name not in known:
            problems.at(
                "" if not isinstance(data[name], dict) else name,
                name,
                f"unknown section `{name}`{_did_you_mean(name, known)}",
            )


def _section(name: str, given: Any, problems: Problems) -> dict[str, Any]:
    if not isinstance(given, dict):
        problems.at("", name, f"`{name}` must be a section: [{name}]")
        return {}
    known = {spec.name: spec for spec in settings_of(SECTIONS[name])}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            problems.at(name, key, f"unknown setting `{name}.{key}`{_did_you_mean(key, known)}")
            continue
        _keep(values, known[key], value, lambda message, key=key: problems.at(name, key, message), name)  # type: ignore[misc]
    return values


def _keep(values: dict[str, Any], spec: Field[Any], value: Any, complain: Callable[[str], None], section: str) -> None:
    """Check one value against its setting and keep it when it is right."""
    kind = str(spec.type)
    if kind == "float" and type(value) is int:
        value = float(value)
    if type(value).__name__ != kind:
        complain(f"`{section}.{spec.name}` must be {TYPE_NAMES[kind]}, not {value!r}")
        return
    bounds = spec.metadata
    if bounds["choices"] and value not in bounds["choices"]:
        wanted = " or ".join(f'"{choice}"' for choice in bounds["choices"])
        complain(
            f"`{section}.{spec.name}` must be {wanted}, not {value!r}" + _did_you_mean(str(value), bounds["choices"])
        )
    elif bounds["low"] is not None and not bounds["low"] <= value <= bounds["high"]:
        # Said this way round, it refuses what is not a number (`nan`) too.
        complain(f"`{section}.{spec.name}` must be between {bounds['low']:g} and {bounds['high']:g}, not {value!r}")
    elif bounds["problem"] and (wanted := bounds["problem"](value)):
        complain(f"`{section}.{spec.name}` must be {wanted}, not {value!r}")
    else:
        values[spec.name] = value


def _environment(values: dict[str, dict[str, Any]], environ: Mapping[str, str], problems: Problems) -> None:
    for variable, raw in environ.items():
        if not variable.startswith(ENV_PREFIX) or "__" not in variable:
            continue
        section, _, key = variable[len(ENV_PREFIX) :].lower().partition("__")
        _override(values, section, key, raw, f"${variable}", problems)


def _overrides(values: dict[str, dict[str, Any]], overrides: Mapping[str, Any], problems: Problems) -> None:
    for dotted, value in overrides.items():
        section, _, key = dotted.partition(".")
        _override(values, section, key, value, f"--{dotted}", problems)


def _override(
    values: dict[str, dict[str, Any]], section: str, key: str, raw: Any, place: str, problems: Problems
) -> None:
    if section == RULES:
        problems.add(place, "rules stand in the config file: memd rule set NAME RULE")
        return
    if section not in SECTIONS:
        problems.add(place, f"unknown section `{section}`{_did_you_mean(section, SECTIONS)}")
        return
    known = {spec.name: spec for spec in settings_of(SECTIONS[section])}
    if key not in known:
        problems.add(place, f"unknown setting `{section}.{key}`{_did_you_mean(key, known)}")
        return
    value = _from_text(raw, str(known[key].type)) if isinstance(raw, str) else raw
    _keep(values[section], known[key], value, lambda message: problems.add(place, message), section)


def _from_text(raw: str, kind: str) -> Any:
    """A value from the environment; what does not fit is left as text for the check to refuse."""
    try:
        if kind in ("int", "float"):
            return int(raw) if kind == "int" else float(raw)
    except ValueError:
        return raw
    if kind == "bool":
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(raw.lower(), raw)
    return raw


def _workspaces(given: Any, problems: Problems) -> tuple[Workspace, ...]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        problems.at("", "workspace", "workspaces are tables of their own: [[workspace]]")
        return ()
    found = [made for nth, entry in enumerate(given) if (made := _workspace(entry, nth, problems))]
    _no_twins(found, problems)
    return tuple(found)


def _workspace(entry: dict[str, Any], nth: int, problems: Problems) -> Workspace | None:
    before = len(problems.found)
    for key in entry:
        if key not in WORKSPACE_KEYS:
            problems.at("workspace", key, f"unknown key `{key}`{_did_you_mean(key, WORKSPACE_KEYS)}", nth)
    path, globs = entry.get("path"), entry.get("globs", list(DEFAULT_GLOBS))
    if not isinstance(path, str) or not path:
        problems.at("workspace", "path", "a workspace needs a `path`", nth)
    elif not Path(path).expanduser().is_absolute():
        problems.at("workspace", "path", f"`path` must be absolute or begin with ~, not {path!r}", nth)
    if not isinstance(globs, list) or not globs or not all(isinstance(glob, str) and glob_ok(glob) for glob in globs):
        problems.at("workspace", "globs", "`globs` must be a list of patterns inside the workspace", nth)
    if not isinstance(entry.get("follow", False), bool):
        problems.at("workspace", "follow", "`follow` must be true or false", nth)
    ns = entry.get("ns", Path(str(path)).name)
    if not isinstance(ns, str) or not NS.fullmatch(ns):
        problems.at("workspace", "ns", f"`ns` must be a name without spaces or slashes, not {ns!r}", nth)
    if len(problems.found) > before:
        return None
    return Workspace(ns, Path(str(path)).expanduser(), tuple(globs), entry.get("follow", False))


def glob_ok(glob: str) -> bool:
    parts = glob.split("/")
    return bool(glob) and not glob.startswith("/") and ".." not in parts and "\0" not in glob


def _no_twins(workspaces: list[Workspace], problems: Problems) -> None:
    seen_ns: dict[str, int] = {}
    seen_root: dict[Path, int] = {}
    for nth, workspace in enumerate(workspaces):
        if workspace.ns in seen_ns:
            problems.at("workspace", "ns", f"two workspaces are called `{workspace.ns}`", nth)
        if workspace.root in seen_root:
            problems.at("workspace", "path", f"{workspace.root} is listed twice", nth)
        seen_ns[workspace.ns] = seen_root[workspace.root] = nth
