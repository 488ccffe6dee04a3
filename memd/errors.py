"""Every error memd speaks of: what it is on the wire, how a command exits, what a person can do.

MemdError                 failed                exit 6
├── UsageError            bad_params            exit 2
│   ├── BadRequest        bad_request               a line that is not JSON-RPC
│   ├── UnknownMethod     unknown_method
│   ├── TooLarge          too_large
│   ├── ConfigError       bad_config                all problems of a config file at once
│   ├── MalformedPatch    malformed_patch
│   └── UnknownWorkspace  unknown_workspace
├── NotFound              not_found             exit 1
├── NoDaemon              no_daemon             exit 3
├── Refused               refused               exit 5
│   ├── AlreadyRunning    already_running
│   ├── AlreadyExists     already_exists
│   ├── UnsafePlace       unsafe_place              a directory that others can write to
│   ├── Conflict          conflict                  someone else changed it
│   │   ├── VersionConflict  version_conflict
│   │   └── ContextMismatch  context_mismatch       a patch that does not fit
│   ├── SecretFound       secret                    needs `allow_secret`
│   └── Proposed          proposed                  it waits for a person, as `server.trust` says
├── Busy                  busy                  exit 6, worth trying again
├── StoreBroken           store_broken          exit 6
│   └── LedgerDamaged     ledger_damaged            `memd doctor --fix` mends it
├── DiskFull              disk_full             exit 6, worth trying again
├── LedgerMoved           ledger_moved          exit 6, worth trying again
└── ModelUnavailable      model_unavailable     exit 6
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class MemdError(Exception):
    """Something failed; `hint` says what a person can do about it."""

    code = "failed"
    rpc_code = -32000
    exit_code = 6
    retryable = False

    def __init_subclass__(cls, **told: str | int) -> None:
        """The differences from the error above it."""
        for name, value in told.items():
            setattr(cls, name, value)

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(MemdError, code="bad_params", rpc_code=-32602, exit_code=2):
    """The caller asked for something that has no meaning."""


class BadRequest(UsageError, code="bad_request", rpc_code=-32600):
    """The line is not a JSON-RPC request."""


class BadJson(BadRequest, code="bad_json", rpc_code=-32700):
    """The line is not JSON."""


class UnknownMethod(UsageError, code="unknown_method", rpc_code=-32601):
    """No method has this name."""


class TooLarge(UsageError, code="too_large", rpc_code=-32010):
    """A request is larger than the wire takes."""


class ConfigError(UsageError, code="bad_config", rpc_code=-32011):
    """The configuration is wrong; the message lists every problem."""


class MalformedPatch(UsageError, code="malformed_patch", rpc_code=-32020):
    """A text is no unified diff."""


class UnknownWorkspace(UsageError, code="unknown_workspace", rpc_code=-32012):
    """No workspace has this name or holds this directory."""


class NotFound(MemdError, code="not_found", rpc_code=-32004, exit_code=1):
    """The thing asked for does not exist."""


class NoDaemon(MemdError, code="no_daemon", rpc_code=-32003, exit_code=3, retryable=True):
    """No daemon answers and none could be started."""


class Refused(MemdError, code="refused", rpc_code=-32005, exit_code=5):
    """memd could do it and will not."""


class AlreadyRunning(Refused, code="already_running", rpc_code=-32006):
    """Another daemon holds the lock."""


class AlreadyExists(Refused, code="already_exists", rpc_code=-32007):
    """The name is taken."""


class UnsafePlace(Refused, code="unsafe_place", rpc_code=-32008):
    """A directory or socket that someone else could tamper with."""


class Conflict(Refused, code="conflict", rpc_code=-32016):
    """Someone else changed what was to be changed."""


class VersionConflict(Conflict, code="version_conflict", rpc_code=-32017):
    """The memory is not at the version that was expected."""


class ContextMismatch(Conflict, code="context_mismatch", rpc_code=-32018):
    """A patch does not fit the text it was made for."""


class SecretFound(Refused, code="secret", rpc_code=-32019):
    """A text that was to be written looks like a key, a token or a password."""


class Proposed(Refused, code="proposed", rpc_code=-32022):
    """It was not written: it waits for a person to accept it."""


class Busy(MemdError, code="busy", rpc_code=-32009, retryable=True):
    """Too much at once; the same call may go through later."""


class StoreBroken(MemdError, code="store_broken", rpc_code=-32013):
    """A store cannot be read."""


class LedgerDamaged(StoreBroken, code="ledger_damaged", rpc_code=-32023):
    """`state.db` is damaged or gone; nothing is written to it."""


class DiskFull(MemdError, code="disk_full", rpc_code=-32014, retryable=True):
    """There is no space left; if anything was changed all the same, the message names it."""


class LedgerMoved(MemdError, code="ledger_moved", rpc_code=-32021, retryable=True):
    """`state.db` is no longer where it was opened; nothing is written."""


class ModelUnavailable(MemdError, code="model_unavailable", rpc_code=-32015):
    """The embedding model is missing, changed or cannot run."""


def _tree(cls: type[MemdError]) -> list[type[MemdError]]:
    return [cls] + [leaf for sub in cls.__subclasses__() for leaf in _tree(sub)]


def report(error: MemdError) -> int:
    """Say on standard error what happened and what to do; returns the exit code."""
    print(f"memd: {error.message}", *([f"  {error.hint}"] if error.hint else []), sep="\n", file=sys.stderr)
    return error.exit_code


def in_shell(name: object) -> str:
    """A name or a path as one types it in the command of a hint; `shlex` would quote each `#` and `ü`."""
    import shlex

    word = str(name)
    plain = word[:1] not in "#~-" and all(char.isalnum() or char in "_@%+=:,./#~-" for char in word)
    return word if plain else shlex.quote(word)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word; empty when no known word is similar."""
    import difflib

    similar = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{similar[0]}`?" if similar else ""


BY_CODE: dict[str, type[MemdError]] = {cls.code: cls for cls in _tree(MemdError)}
