"""Looks for secrets in the files that are there already: where they stand and of what kind, never what they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from memd.indexer.indexing.scan import newest_first, scan
from memd.indexer.maintenance.doctor import DoctorFinding
from memd.models import Workspace
from memd.notes.read import SkippedFile, UnreadableFile, read
from memd.notes.secrets import secrets_in

SECONDS = 30.0
"""A look at a very large workspace ends after this; the newest files come first."""
MOST = 1_000
SHOWN = 100


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A line of a file that seems to hold a secret."""

    ns: str
    path: str
    line: int
    kind: str


@dataclass(slots=True)
class SecretScan:
    """What was found, and how much was looked at."""

    secrets: list[FoundSecret] = field(default_factory=list)
    files: int = 0
    total: int = 0
    unread: int = 0


def look(workspace: Workspace, max_bytes: int, until: float) -> SecretScan:
    """Every line of a workspace that seems to hold a secret, as far as time allows."""
    files = scan(workspace).files
    found = SecretScan(total=len(files))
    for path in newest_first(set(files), files):
        if time.monotonic() > until or len(found.secrets) >= MOST:
            break
        found.files += 1
        try:
            text = read(workspace.root / path, max_bytes).text
        except FileNotFoundError:
            continue
        except (SkippedFile, UnreadableFile):
            found.unread += 1
            continue
        found.secrets += [FoundSecret(workspace.ns, path, secret.line, secret.kind) for secret in secrets_in(text)]
    return found


def scan_workspaces(
    workspaces: Sequence[Workspace], max_bytes: int, seconds: float = SECONDS
) -> tuple[list[DoctorFinding], list[FoundSecret]]:
    """One finding a workspace, and every place."""
    until = time.monotonic() + seconds
    searches = [(workspace.ns, look(workspace, max_bytes, until)) for workspace in workspaces]
    secrets = [secret for _, search in searches for secret in search.secrets]
    return [_finding(ns, search) for ns, search in searches], secrets


def _finding(ns: str, search: SecretScan) -> DoctorFinding:
    name, looked = f"{ns}: secrets", _count(search.files, "file")
    if search.files < search.total:
        looked = f"the newest {search.files:,} of {search.total:,} files"
    if search.unread:
        looked += f", {search.unread:,} could not be read"
    if not search.secrets:
        state = "ok" if search.files == search.total else "warn"
        return DoctorFinding(name, state, f"none seen in {looked}", "memd doctor --secrets, when less is going on")
    places = [f"{secret.path}:{secret.line} {secret.kind}" for secret in search.secrets[:SHOWN]]
    if len(search.secrets) > SHOWN:
        places.append(f"and {len(search.secrets) - SHOWN:,} more; --json lists them")
    head = f"{_count(len(search.secrets), 'line')} in {looked} may hold one"
    return DoctorFinding(name, "warn", "\n".join([head, *places]), "take them out of the notes, and change the secrets")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
