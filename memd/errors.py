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

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(MemdError):
    """The caller asked for something that has no meaning."""

    code = "bad_params"
    rpc_code = -32602
    exit_code = 2


class BadRequest(UsageError):
    """The line is not a JSON-RPC request."""

    code = "bad_request"
    rpc_code = -32600


class BadJson(BadRequest):
    """The line is not JSON."""

    code = "bad_json"
    rpc_code = -32700


class UnknownMethod(UsageError):
    """No method has this name."""

    code = "unknown_method"
    rpc_code = -32601


class TooLarge(UsageError):
    """A request is larger than the wire takes."""

    code = "too_large"
    rpc_code = -32010


class ConfigError(UsageError):
    """The configuration is wrong; the message lists every problem."""

    code = "bad_config"
    rpc_code = -32011


class MalformedPatch(UsageError):
    """A text is no unified diff."""

    code = "malformed_patch"
    rpc_code = -32020


class UnknownWorkspace(UsageError):
    """No workspace has this name or holds this directory."""

    code = "unknown_workspace"
    rpc_code = -32012


class NotFound(MemdError):
    """The thing asked for does not exist."""

    code = "not_found"
    rpc_code = -32004
    exit_code = 1


class NoDaemon(MemdError):
    """No daemon answers and none could be started."""

    code = "no_daemon"
    rpc_code = -32003
    exit_code = 3
    retryable = True


class Refused(MemdError):
    """memd could do it and will not."""

    code = "refused"
    rpc_code = -32005
    exit_code = 5


class AlreadyRunning(Refused):
    """Another daemon holds the lock."""

    code = "already_running"
    rpc_code = -32006


class AlreadyExists(Refused):
    """The name is taken."""

    code = "already_exists"
    rpc_code = -32007


class UnsafePlace(Refused):
    """A directory or socket that someone else could tamper with."""

    code = "unsafe_place"
    rpc_code = -32008


class Conflict(Refused):
    """Someone else changed what was to be changed."""

    code = "conflict"
    rpc_code = -32016


class VersionConflict(Conflict):
    """The memory is not at the version that was expected."""

    code = "version_conflict"
    rpc_code = -32017


class ContextMismatch(Conflict):
    """A patch does not fit the text it was made for."""

    code = "context_mismatch"
    rpc_code = -32018


class SecretFound(Refused):
    """What was to be written looks like a key, a token or a password."""

    code = "secret"
    rpc_code = -32019


class Proposed(Refused):
    """It was not written: it waits for a person to accept it."""

    code = "proposed"
    rpc_code = -32022


class Busy(MemdError):
    """Too much at once; the same call may go through later."""

    code = "busy"
    rpc_code = -32009
    retryable = True


class StoreBroken(MemdError):
    """A store cannot be read."""

    code = "store_broken"
    rpc_code = -32013


class LedgerDamaged(StoreBroken):
    """`state.db` is damaged or gone; nothing is written to it."""

    code = "ledger_damaged"
    rpc_code = -32023


class DiskFull(MemdError):
    """There is no space left; if anything was changed all the same, the message names it."""

    code = "disk_full"
    rpc_code = -32014
    retryable = True


class LedgerMoved(MemdError):
    """`state.db` is no longer where it was opened; nothing is written."""

    code = "ledger_moved"
    rpc_code = -32021
    retryable = True


class ModelUnavailable(MemdError):
    """The embedding model is missing, changed or cannot run."""

    code = "model_unavailable"
    rpc_code = -32015


def _tree(cls: type[MemdError]) -> list[type[MemdError]]:
    return [cls] + [leaf for sub in cls.__subclasses__() for leaf in _tree(sub)]


def report(error: MemdError) -> int:
    """Say on standard error what happened and what to do; returns the exit code."""
    hint = f"\n  {error.hint}" if error.hint else ""
    print(f"memd: {error.message}{hint}", file=sys.stderr)
    return error.exit_code


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word; empty when no known word is similar."""
    import difflib

    similar = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{similar[0]}`?" if similar else ""


BY_CODE: dict[str, type[MemdError]] = {cls.code: cls for cls in _tree(MemdError)}
