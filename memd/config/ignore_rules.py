"""Rules by which files are left out, in the syntax of `.gitignore`: from the config file and from files of rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from memd.config.paths import bytes_at
from memd.models import Workspace

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MOST_BYTES = 1_000_000
"""A larger file of rules is refused."""
EXCLUDED = "excluded by "
"""How the reason begins."""


@dataclass(frozen=True, slots=True, eq=False)
class IgnoreRules:
    """The rules of one origin, which hold for what is below a folder."""

    origin: str
    prefix: str
    """The folder with a slash at its end; empty for the workspace itself."""
    spec: GitIgnoreSpec
    wrong: tuple[str, ...]
    """Lines that are no rules."""


def rules_in(root: Path, path: str, prefix: str) -> IgnoreRules | None:
    """The rules of a file for what is below a folder, None where there is no file; OSError when it cannot be read."""
    try:
        data = bytes_at(root / path, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # ValueError: a client may name a path that no file can have.
        return None
    if len(data) > MOST_BYTES:
        raise OSError(f"it has more than {MOST_BYTES:,} bytes")
    return parse_rules(path, prefix, tuple(data.decode("utf-8-sig", "replace").splitlines()))


@lru_cache(maxsize=1_000)
def parse_rules(origin: str, prefix: str, lines: tuple[str, ...]) -> IgnoreRules:
    """One line that is no rule does not take the others along."""
    # Loaded where there are rules: it takes longer than all else of this file.
    from pathspec import GitIgnoreSpec

    patterns: list[GitIgnoreSpecPattern] = []
    wrong: list[str] = []
    for line in lines:
        try:
            patterns += GitIgnoreSpec.from_lines([line]).patterns
        except (ValueError, re.error):
            wrong.append(line)
    return IgnoreRules(origin, prefix, GitIgnoreSpec(patterns), tuple(wrong))


@lru_cache(maxsize=10_000)
def ignored_by(path: str, rules: tuple[IgnoreRules, ...]) -> str:
    """Why a path is left out, empty when it is not: the last rules decide that have one for it. A folder ends with a
    slash; those above it are not looked at."""
    for some in reversed(rules):
        found = some.spec.check_file(path.removeprefix(some.prefix))
        if found.include is not None and found.index is not None:
            rule = str(some.spec.patterns[found.index].pattern)
            return f"{EXCLUDED}{some.origin}: {rule}" if found.include else ""
    return ""


MEMDIGNORE, GITIGNORE = ".memdignore", ".gitignore"


def rule_files(workspace: Workspace) -> tuple[str, ...]:
    """The names of the files that hold rules, the weaker first."""
    return (GITIGNORE, MEMDIGNORE) if workspace.gitignore else (MEMDIGNORE,)


class Exclusions:
    """The rules of a workspace, each file of rules read once; what the config file excludes no other file admits."""

    def __init__(self, workspace: Workspace) -> None:
        self.root = workspace.root
        self._names = rule_files(workspace)
        self.problems: dict[str, str] = {}
        """The files of rules that could not be read, and those with lines that are no rules."""
        configured = workspace.exclude
        self._configured = (parse_rules("`exclude` in the config", "", configured),) if configured else ()
        self._found: dict[str, tuple[IgnoreRules, ...]] = {}

    def hold_in(self, folder: str) -> bool:
        """Whether there is a rule at all for what stands in a folder."""
        return bool(self._configured or self._of_folder(folder))

    def why(self, path: str) -> str:
        """Why a file, or a folder with a slash at its end, is left out whose folder is not."""
        rules = self._of_folder(path.rstrip("/").rpartition("/")[0])
        return (self._configured and ignored_by(path, self._configured)) or (rules and ignored_by(path, rules)) or ""

    def why_in_all(self, path: str) -> str:
        """The same of a path whose folders may be left out, too."""
        parts = path.split("/")
        folders = ("/".join(parts[:nth]) + "/" for nth in range(1, len(parts)))
        return next(filter(None, map(self.why, (*folders, path))), "")

    def _of_folder(self, folder: str) -> tuple[IgnoreRules, ...]:
        """The rules for what stands in a folder, outer ones first."""
        if (known := self._found.get(folder)) is None:
            above = self._of_folder(folder.rpartition("/")[0]) if folder else ()
            known = self._found[folder] = (*above, *filter(None, (self._read(folder, name) for name in self._names)))
        return known

    def _read(self, folder: str, name: str) -> IgnoreRules | None:
        prefix = f"{folder}/" if folder else ""
        path = prefix + name
        try:
            rules = rules_in(self.root, path, prefix)
        except OSError as error:
            self.problems[path] = f"its rules do not hold: {error.strerror or error}"
            return None
        if rules is not None and rules.wrong:
            self.problems[path] = f"no rule, so it is passed over: {', '.join(rules.wrong)}"
        return rules
