"""Writes docs/configuration.md from the schema of the settings; `make docs` runs it and a test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

from memd.config.edit import toml_value
from memd.config.load import ENV_PREFIX, TYPE_NAMES
from memd.config.schema import SECTIONS, WORKSPACE_KEYS, settings_of
from memd.models import DEFAULT_GLOBS

TARGET = Path(__file__).with_name("configuration.md")

HEAD = """\
<!-- Written by docs/generate.py from memd/config/schema.py. To change it, change the schema, then run `make docs`. -->

# Configuration

Every setting has a default that works; memd needs no config file. `memd config init` writes one that shows every
setting commented out with its default, `memd config show` tells what is in force and where each value comes from,
`memd config check` lists everything that is wrong with it, each problem with file and line.

The daemon reads its settings when it starts. After a change: `memd restart`. Workspaces that `memd add` and
`memd remove` change, and rules that `memd rule` changes, are taken up at once.

## Which value counts

Defaults < config file < environment < flags; the later one wins. A setting `name` in `[section]` is
`MEMD_SECTION__NAME` in the environment, with two underscores: `MEMD_WATCH__SETTLE_MS=200`. Truth is `true`, `1` or
`yes`, and `false`, `0` or `no`. An unknown name or a value out of bounds is refused, never ignored.

The environment that counts is the daemon's. A daemon that runs as a service does not see what a shell exports; use the
config file there, or `systemctl --user edit memd`.

## Where things are

| | usually | with `MEMD_HOME=DIR` |
|---|---|---|
| config file | `$XDG_CONFIG_HOME/memd/config.toml`, else `~/.config/memd/config.toml` | `DIR/config.toml` |
| state: ledger, text index, vectors, log | `$XDG_STATE_HOME/memd/`, else `~/.local/state/memd/` | `DIR/state/` |
| socket | `$XDG_RUNTIME_DIR/memd/memd.sock`, else `run/memd.sock` in the state directory | `DIR/run/memd.sock` |

A relative path in an XDG variable is ignored, as its specification wants. `MEMD_HOME` is for trial runs and tests; the
systemd service does not use it. The directories of state and socket must belong to you and be closed to others
(mode 0700), and the socket's path may have 107 bytes; memd refuses to start otherwise and says how to mend it.
"""

WORKSPACES = """\
## Workspaces

`[[workspace]]`, once for each directory that holds memory. `memd add DIR` and `memd remove NAME` write these tables and
leave every other byte of the file as it was.
"""

RULES = """\
## Rules

`[rules]` holds what you decide about the [rules by which memories age](lifecycle.md#rules): `name = "rule"` is a rule
of your own, or a built-in one with another text; `name = "off"` and `name = "on"` switch a built-in one, and `off`
before a rule switches that one off. Your own are looked at before the built-in ones, in the order in which they stand.

```toml
[rules]
old-chatter = "tag=chat idle>30d → archive"
decay-unaccessed = "tier=stm age>72h access<5 → decay 0.97 floor 0.2"
prune-low-utility = "off"
```

`memd rule set` and `memd rule rm` write this table, leave every other byte of the file as it was, and hold at once.
After a change by hand: `memd restart`. A rule that cannot be read does not keep the daemon from starting: it is not
followed, and `memd status` and `memd config check` say so. Rules cannot be given in the environment.
"""

TAIL = """\
A name has no spaces and no slashes and at most 100 characters, and two workspaces share neither their name nor their
directory. A workspace that does not exist yet is fine: memd waits for it.

### Which files are memory

Without `globs`:

{globs}

Globs are relative to the workspace. `*` stays within one folder, `**/` is any number of folders, `?` is one
character. Hidden files and folders are left out unless a glob names them, and so are swap files, backups, conflict
copies and the folders `node_modules`, `__pycache__`, `venv` and `site-packages`. Symbolic links that lead out of the
workspace or to a folder are left out unless `follow = true`. Links that are left out, and files that are too large,
binary or unreadable, are listed by `memd status`.
"""


def configuration() -> str:
    """The whole page."""
    sections = [_section(name, section) for name, section in SECTIONS.items()]
    keys = "\n".join(f"| `{key}` | {doc} |" for key, doc in WORKSPACE_KEYS.items())
    globs = "\n".join(f"- `{glob}`" for glob in DEFAULT_GLOBS)
    workspaces = f"{WORKSPACES}\n| key | meaning |\n|---|---|\n{keys}\n"
    return "\n".join([HEAD, "## Settings\n", *sections, RULES, workspaces, TAIL.format(globs=globs)])


def _section(name: str, section: type[Any]) -> str:
    rows = "\n".join(_row(name, spec) for spec in settings_of(section))
    head = "| setting | type | default | allowed | meaning | environment |\n|---|---|---|---|---|---|"
    return f"### `[{name}]`\n\n{section.__doc__}\n\n{head}\n{rows}\n"


def _row(section: str, spec: Field[Any]) -> str:
    cells = [
        f"`{spec.name}`",
        TYPE_NAMES[str(spec.type)],
        f"`{toml_value(spec.default)}`",
        "; ".join(_allowed(spec)) or "any",
        spec.metadata["doc"],
        f"`{ENV_PREFIX}{section}__{spec.name}`".upper(),
    ]
    return "| " + " | ".join(cells) + " |"


def _allowed(spec: Field[Any]) -> Iterator[str]:
    if spec.metadata["choices"]:
        yield ", ".join(f"`{toml_value(choice)}`" for choice in spec.metadata["choices"])
    if spec.metadata["allowed"]:
        yield spec.metadata["allowed"]
    if spec.metadata["low"] is not None:
        yield f"{spec.metadata['low']:,} to {spec.metadata['high']:,}"


if __name__ == "__main__":
    TARGET.write_text(configuration(), encoding="utf-8")
