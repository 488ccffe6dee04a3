"""Puts a file on a branch of git with a commit, for review, without touching the checkout or its index."""

import os
import subprocess
import tempfile
from pathlib import Path

from memd.errors import AlreadyExists, MemdError, Refused, in_shell
from memd.models import JsonObject

QUIET = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "commit.gpgsign=false")
"""Settings by which git runs no program that the repository's own settings name."""
GIT_SECONDS = 30.0
TRUNK = "refs/remotes/origin/HEAD"


def commit_on_branch(root: Path, path: str, data: bytes, branch: str, message: str) -> JsonObject:
    """Commit one file to a new branch. Nothing is checked out, and nothing is pushed.

    It is made upon the newest commit that is known of the shared branch, else upon the checkout's.
    """
    if _git(root, "rev-parse", "--is-inside-work-tree", check=False) != "true":
        raise Refused(f"{root} is in no git repository", "set one up: memd workspace init --git")
    if _git(root, "rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False):
        raise AlreadyExists(f"there is a branch {branch} already", "give it another name: --branch NAME")
    base = _git(root, "rev-parse", "--verify", "-q", TRUNK, check=False) or _git(root, "rev-parse", "HEAD", check=False)
    if not base:
        raise Refused("the repository has no commit yet", "commit something first")
    where = _git(root, "rev-parse", "--show-prefix") + path
    blob = _git(root, "hash-object", "-w", "--no-filters", "--stdin", data=data)
    known = _git(root, "rev-parse", "--verify", "-q", f"{base}:{where}", check=False)
    if known == blob:
        raise AlreadyExists(f"{path} says the same already", f"look at it: git show {base[:12]}:{where}")
    with tempfile.TemporaryDirectory(prefix="memd-") as folder:
        index = f"{folder}/index"
        _git(root, "read-tree", base, index=index)
        _git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{where}", index=index)
        tree = _git(root, "write-tree", index=index)
    commit = _git(root, "commit-tree", tree, "-p", base, "-m", message)
    _git(root, "update-ref", f"refs/heads/{branch}", commit, "")
    return {"branch": branch, "commit": commit, "base": base, "path": path, "changed": bool(known)}


def _git(root: Path, *arguments: str, check: bool = True, data: bytes = b"", index: str = "") -> str:
    env = {**os.environ, **({"GIT_INDEX_FILE": index} if index else {})}
    command = ["git", "-C", str(root), *QUIET, *arguments]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=GIT_SECONDS, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MemdError(f"git could not be run: {error}", "is it installed? git --version") from None
    if done.returncode and check:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else done.returncode
        raise MemdError(f"git {arguments[0]} failed: {why}", f"git -C {in_shell(root)} status")
    return done.stdout.decode(errors="replace").strip() if not done.returncode else ""
