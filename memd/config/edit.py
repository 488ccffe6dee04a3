"""Writes the config file: a sample of every setting, and workspaces added or removed in place."""

import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from memd.config import load, paths
from memd.config.declared import docs_of, fields_of
from memd.config.schema import RULES, RULES_DOC, SECTIONS, WORKSPACE_KEYS
from memd.errors import AlreadyExists, ConfigError, Refused, UnknownWorkspace
from memd.models import DEFAULT_GLOBS, Workspace


def sample() -> str:
    """Every setting, commented out with its default."""
    lines = [
        "# memd's settings. Every line is commented out and shows the default.",
        "# Precedence: defaults < this file < MEMD_SECTION__NAME in the environment < flags.",
        "# Check it with: memd config check",
        "",
    ]
    for name, section in SECTIONS.items():
        lines += [f"# {section.__doc__}", f"[{name}]"]
        docs = docs_of(section)
        for setting, spec in fields_of(section).items():
            lines += [f"# {docs.get(setting, '')}", f"# {setting} = {toml_value(spec.default)}"]
        lines.append("")
    lines += [f"# {RULES_DOC}", f"[{RULES}]", '# decay-unaccessed = "off"']
    lines += ['# old-chatter = "tag=chat idle>30d → archive"', ""]
    lines += ["# The directories that hold memory. `memd add DIR` writes these.", "# [[workspace]]"]
    for key, (doc, example) in WORKSPACE_KEYS.items():
        lines += [f"# # {doc}", f"# {key} = {toml_value(example)}"]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """How a value is written in TOML."""
    return str(tomlkit.item(value).as_string())


def toml_key(name: str) -> str:
    """How a name is written in TOML: quoted where it must be."""
    return str(tomlkit.key(name).as_string())


def write_sample(force: bool = False) -> Path:
    """Write every setting with its default; a file that was there is kept beside it."""
    file = paths.config_file()
    if file.exists() and not force:
        raise AlreadyExists(f"{file} exists already", "look at it with `memd config show`, or pass --force")
    if file.exists():
        file.replace(file.with_name("config.toml.before"))
    _write(sample())
    return file


def add_workspace(workspace: Workspace) -> None:
    """Append one `[[workspace]]`, leaving every other byte of the file alone."""
    text = _read()
    table: dict[str, Any] = {"path": str(workspace.root), "ns": workspace.ns}
    table |= {"globs": list(workspace.globs)} if workspace.globs != DEFAULT_GLOBS else {}
    table |= {"exclude": list(workspace.exclude)} if workspace.exclude else {}
    table |= {name: value for name in ("follow", "gitignore", "project") if (value := getattr(workspace, name))}
    longer = text + table_at_end(text, "[[workspace]]\n" + tomlkit.dumps(table))
    try:
        # A seventh of what tomlkit takes, which counts where there are a thousand workspaces.
        tomllib.loads(longer)
    except tomllib.TOMLDecodeError as error:
        _tables(_parse(text))
        why = f"no workspace can be added to {paths.config_file()}: {error}"
        raise ConfigError(why, "look at it: memd config check") from error
    _write(longer)


def set_value(section: str, name: str, value: Any) -> None:
    """Set one setting, keeping what else the file says."""
    document = _parse(_read())
    document.setdefault(section, tomlkit.table())[name] = value
    _write(tomlkit.dumps(document))


def table_at_end(text: str, table: str) -> str:
    """What is to be added to a file for one more table after an empty line, with the line endings of the file."""
    end = line_end(text)
    gap = "" if not text.strip() else end if text.endswith("\n") else end * 2
    return gap + table.replace("\n", end)


def line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def remove_workspace(ns: str) -> None:
    """Take a workspace out, also where hooks in it may tell of a shared one: its name may come to mean another."""
    document, names = _named_tables()
    if ns in names:
        for table in document["workspace"]:
            if ns in (allowed := table.get("hooks_in", ())):
                allowed.remove(ns)
        del document["workspace"][names.index(ns)]
        if len(names) == 1:
            del document["workspace"]
        _write(tomlkit.dumps(document))


def share_workspace(ns: str, hooks_in: Iterable[str] = (), off: bool = False) -> None:
    """Have a workspace answer along with the others, also in the hooks of some; or with none of them any more."""
    document, names = _named_tables()
    if unknown := [one for one in (ns, *hooks_in) if one not in names]:
        raise UnknownWorkspace(f"no workspace is called {unknown[0]}", f"there are: {', '.join(names) or 'none yet'}")
    table = document["workspace"][names.index(ns)]
    allowed = dict.fromkeys((*table.pop("hooks_in", ()), *hooks_in))
    table.pop("shared", None)
    if not off:
        table.update({"shared": True} | ({"hooks_in": [*allowed]} if allowed else {}))
    _write(tomlkit.dumps(document))


def _named_tables() -> tuple[tomlkit.TOMLDocument, list[str]]:
    """What the config file says, and the names of its workspaces."""
    document = _parse(_read())
    return document, [table.get("ns") or load.default_name(Path(str(table.get("path")))) for table in _tables(document)]


Change = Callable[[Mapping[str, str]], Mapping[str, str | None]]
"""From the rules of the file to those to write; None removes one."""


def write_rules(change: Change) -> tuple[tuple[str, str], ...]:
    """Write or remove rules, each in its place; returns all rules that the file has afterwards."""
    text = _read()
    document = _parse(text)
    problems = load.Problems(text)
    rules = dict(load.rules_of(document.unwrap().get(RULES, {}), problems))
    problems.raise_if_any()
    for name, rule in change(rules).items():
        if name not in rules and rule is not None:
            document = _parse(_with_rule(tomlkit.dumps(document), name, rule))
        elif name in rules and rule is not None:
            document[RULES][name] = rule
        elif name in rules:
            del document[RULES][name]
            if not document[RULES].as_string().strip():
                del document[RULES]
    _write(tomlkit.dumps(document))
    return load.rules_of(document.unwrap().get(RULES, {}), problems)


def _with_rule(text: str, name: str, rule: str) -> str:
    """The file with one more rule after the others: rules are tried in the order of the file."""
    before = _meaning(text)
    rules = before.get(RULES, {})
    after = {**before, RULES: {**rules, name: rule}}
    # A multi-line string may look like a table or a key: take the first edit that has the right meaning.
    return next(edit for edit in _edits(text, list(rules), name, rule) if _meaning(edit) == after)


def _edits(text: str, known: list[str], name: str, rule: str) -> Iterator[str]:
    """Where a rule could go: after the last one, in a new table at the end, or where tomlkit puts it."""
    entry = f"{name} = {toml_value(rule)}\n"
    lines = text.splitlines(keepends=True)
    at = load.line_of(lines, RULES, known[-1] if known else "")
    yield "".join([*lines[:at], entry.replace("\n", line_end(text)), *lines[at:]])
    yield text + table_at_end(text, f"[{RULES}]\n{entry}")
    document = tomlkit.parse(text)
    document[RULES][name] = rule
    yield tomlkit.dumps(document)


def _meaning(text: str) -> dict[str, Any]:
    """The values of a TOML text; empty if it is not TOML."""
    try:
        return dict(tomlkit.parse(text).unwrap())
    except TOMLKitError:
        return {}


def _read() -> str:
    """The text of the config file with its line endings; empty if there is none."""
    return (paths.bytes_of(paths.config_file()) or b"").decode("utf-8")


def _parse(text: str) -> tomlkit.TOMLDocument:
    """The file as a document; a broken file is not touched."""
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigError(f"{paths.config_file()} is not TOML: {error}", "fix it first: memd config check") from error


def _tables(document: tomlkit.TOMLDocument) -> AoT:
    """The `[[workspace]]` tables; refuses a list in one line, which nothing can be added to."""
    tables = document.get("workspace", AoT([]))
    if not isinstance(tables, AoT):
        raise Refused("the config file lists its workspaces in one line", "write each as a [[workspace]] table")
    return tables


def _write(text: str) -> None:
    file = paths.config_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    rights = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600
    paths.replace_file(file, text.encode("utf-8"), rights)
