"""What memd leaves on a machine beside the notes, and how to take it away."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from memd.config import load, paths
from memd.errors import ConfigError, Refused

COMPLETIONS = (".bash_completions/memd.sh", ".zfunc/_memd", ".config/fish/completions/memd.fish")


def places() -> list[Path]:
    """State, config and socket directory as far as they exist; refused when notes lie inside."""
    config = paths.config_file() if os.environ.get("MEMD_HOME") else paths.config_file().parent
    found = [place for place in (paths.state_dir(), config, paths.run_dir()) if place.exists()]
    for root in _roots():
        for place in found:
            if place.resolve() in (root, *root.parents):
                raise Refused(f"{root} holds notes and lies inside {place}", f"move the notes first: mv {root} ~/")
    return found


def _roots() -> list[Path]:
    try:
        return [workspace.root.resolve() for workspace in load.load().workspaces]
    except ConfigError as error:
        raise Refused(
            f"the config file cannot be read, so memd cannot tell where the notes are:\n  {error.message}",
            "mend it first: memd config check",
        ) from error


def remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=False)
    else:
        place.unlink(missing_ok=True)
    # What MEMD_HOME named was made for memd; it goes when nothing else is in it.
    home = os.environ.get("MEMD_HOME")
    if home and place.parent == paths.state_dir().parent and not any(place.parent.iterdir()):
        place.parent.rmdir()


def remove_completion() -> list[Path]:
    """What `memd --install-completion` wrote; the files that are gone now."""
    if os.environ.get("MEMD_HOME"):
        return []
    gone = [file for file in (Path.home() / name for name in COMPLETIONS) if file.is_file()]
    for file in gone:
        file.unlink()
        _unsource(Path.home() / ".bashrc", file)
    return gone


def _unsource(profile: Path, file: Path) -> None:
    """Take the line that loads `file` out of a shell's profile."""
    if not profile.is_file():
        return
    before = profile.read_text(encoding="utf-8", errors="surrogateescape")
    lines = before.splitlines(keepends=True)
    kept = [line for line in lines if line.strip() not in (f"source '{file}'", f"source {file}")]
    if len(kept) != len(lines):
        profile.write_text("".join(kept), encoding="utf-8", errors="surrogateescape")
