"""The tokens of the hub: one small file, private to this user, that has what each token may do and never the token.

The daemon changes it for `memd token`, the hub reads it. A token is 256 random bits, so its plain digest gives nothing
away.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from memd.config import paths
from memd.config.schedules import UNITS
from memd.errors import AlreadyExists, NotFound, StoreBroken, UnsafePlace, UsageError, in_shell

PREFIX = "memd_"
"""By it a scanner for secrets knows a token that was left lying about."""
TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,39}")
SPAN = re.compile(r"(\d{1,5})([smhdwy])")
SECONDS = {**UNITS, "y": 365 * 86_400}


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The rights of a token's holder."""

    name: str
    digest: str
    ns: tuple[str, ...]
    """The workspaces that it is for."""
    write: bool
    created: int
    expires: int | None
    """Seconds since 1970; None: never."""

    @property
    def who(self) -> str:
        """The author of what is written with it."""
        return f"hub:{self.name}"

    @property
    def expired(self) -> bool:
        return self.expires is not None and time.time() >= self.expires


def add(name: str, ns: tuple[str, ...], *, write: bool, expires: int | None = None) -> tuple[AccessToken, str]:
    """Make a token: what it may do, and itself, which is kept nowhere."""
    if not TOKEN_NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a token", "up to 40 letters, digits, dots, dashes and @")
    if not ns:
        raise UsageError("a token is for one or more workspaces", "name them: --ns TOKEN_NAME")
    secret = PREFIX + secrets.token_urlsafe(32)
    with _changing() as tokens:
        if name in tokens:
            raise AlreadyExists(f"there is a token `{name}` already", f"first: memd token revoke {in_shell(name)}")
        token = AccessToken(name, digest_of(secret), tuple(dict.fromkeys(ns)), write, int(time.time()), expires)
        tokens[name] = token
    return token, secret


def revoke(name: str) -> AccessToken:
    """From the next request on nobody is let in with it; returns what it was."""
    with _changing() as tokens:
        if name not in tokens:
            raise NotFound(f"there is no token `{name}`", "see which there are: memd token list")
        return tokens.pop(name)


def withdraw(ns: str) -> list[str]:
    """Take a workspace from every token: its name may become another directory's; returns the tokens' names."""
    if not any(ns in token.ns for token in all_tokens()):
        return []
    with _changing() as tokens:
        having = [token for token in tokens.values() if ns in token.ns]
        for token in having:
            left = tuple(one for one in token.ns if one != ns)
            tokens[token.name] = replace(token, ns=left)
            if not left:
                del tokens[token.name]
    return [token.name for token in having]


def all_tokens() -> list[AccessToken]:
    return list(_read(file()).values())


def find(secret: str) -> AccessToken | None:
    """The token that this is; None where it is none, was revoked or has expired. Each request reads the file."""
    digest = digest_of(secret)
    return next((token for token in all_tokens() if token.digest == digest and not token.expired), None)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def file() -> Path:
    return paths.state_dir() / "hub" / "tokens.json"


def moment(text: str) -> int:
    """`30d`, or a day to come such as `2027-01-31`, as seconds since 1970."""
    now = until = int(time.time())
    if found := SPAN.fullmatch(text):
        until += int(found[1]) * SECONDS[found[2]]
    else:
        with suppress(ValueError, OverflowError):
            until = int(time.mktime(time.strptime(text, "%Y-%m-%d")))
    if until <= now:
        raise UsageError(f"{text!r} is no time to come", "give a span or a day: 12h, 30d, 1y, 2027-01-31")
    return until


@contextmanager
def _changing() -> Iterator[dict[str, AccessToken]]:
    """The tokens by name, to be changed; one process at a time."""
    folder = paths.private_dir(paths.private_dir(paths.state_dir()) / "hub")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tokens = _read(file())
        yield tokens
        rows = {"tokens": [asdict(token) for token in tokens.values()]}
        paths.replace_file(file(), json.dumps(rows, indent=1).encode(), 0o600)


def _read(place: Path) -> dict[str, AccessToken]:
    try:
        with place.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise UnsafePlace(f"{place} can be used by others", f"close it: chmod 600 {in_shell(place)}")
            rows = json.load(opened)["tokens"]
        return {row["name"]: AccessToken(**{**row, "ns": tuple(row["ns"])}) for row in rows}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        hint = "make the tokens anew: remove it, then memd token add"
        raise StoreBroken(f"{place} cannot be read: {error}", hint) from None
