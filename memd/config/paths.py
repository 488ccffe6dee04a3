"""Where memd keeps its config, state and socket (XDG, or all under `MEMD_HOME`).

Imports little: `memd query` needs only the path of the socket. So paths are text in here, and `pathlib`, which takes
as long to import as Python takes to start, is loaded only by the functions that return a `Path`.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from memd.errors import UnsafePlace, UsageError, in_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_SOCKET_BYTES = 103 if sys.platform == "darwin" else 107
"""The kernel's limit on the path of a Unix socket."""


def _xdg(variable: str, fallback: str) -> str:
    base = os.environ.get(variable)
    # The XDG specification says that relative paths must be ignored.
    if base and base.startswith("/"):
        return base
    home = os.path.expanduser("~")  # noqa: PTH111
    if not home.startswith("/"):
        raise UnsafePlace("this user has no home directory", "name a place for its files: export MEMD_HOME=DIR")
    return f"{home}/{fallback}"


def _config_home() -> str:
    return _xdg("XDG_CONFIG_HOME", ".config")


def _in_home(name: str, otherwise: str) -> str:
    """A place under `MEMD_HOME`, made absolute; where that is not set, another."""
    home = os.environ.get("MEMD_HOME")
    return os.path.abspath(os.path.expanduser(f"{home}/{name}")) if home else otherwise  # noqa: PTH100, PTH111


def _state() -> str:
    return _in_home("state", f"{_xdg('XDG_STATE_HOME', '.local/state')}/memd")


def _run() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return _in_home("run", f"{runtime}/memd" if runtime.startswith("/") else f"{_state()}/run")


def socket_path_str() -> str:
    """`socket_path()` without loading `pathlib`."""
    return f"{_run()}/memd.sock"


def config_path_str() -> str:
    """`config_file()` without loading `pathlib`."""
    return _in_home("config.toml", f"{_config_home()}/memd/config.toml")


def config_file() -> Path:
    return _path(config_path_str())


def state_dir() -> Path:
    return _path(_state())


def own_notes(ns: str) -> Path:
    """Where the notes of a workspace are that nobody gave a directory; beside the state, not in it."""
    workspaces = _in_home("workspaces", f"{_xdg('XDG_DATA_HOME', '.local/share')}/memd/workspaces")
    return _path(f"{workspaces}/{ns.replace(':', '-')}")


def run_dir() -> Path:
    """The private directory of the socket."""
    return _path(_run())


def socket_path() -> Path:
    return _path(socket_path_str())


def lock_file() -> Path:
    return state_dir() / "memd.lock"


def log_path_str() -> str:
    """`log_file()` without loading `pathlib`."""
    return f"{_state()}/memd.log"


def log_file() -> Path:
    return _path(log_path_str())


def unanswered_dir() -> Path:
    """Where a client remembers writes that had no answer."""
    return state_dir() / "unanswered"


def unit_dir() -> Path:
    """Where systemd looks for this user's units; never under `MEMD_HOME`."""
    return _path(_config_home()) / "systemd" / "user"


def _path(text: str) -> Path:
    from pathlib import Path

    return Path(text)


def check_notes_place(place: Path) -> None:
    """Refuse a directory of which notes are the least: the whole disk, a home, what memd's own state is in."""
    homes = (_path(os.path.expanduser("~")).resolve(), _path("/root"), _path("/home/any"))  # noqa: PTH111
    for own, what in (*((home, "whole home directories") for home in homes), (state_dir().resolve(), "memd's state")):
        if place == own or place in own.parents:
            raise UsageError(f"{place} has {what} in it", "add the directory that holds your notes: memd add ~/notes")


def check_socket_length(path: Path) -> None:
    """Refuse a path that is too long for the kernel."""
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_BYTES:
        why = f"the socket's path has {length} bytes and the kernel takes {MAX_SOCKET_BYTES}: {path}"
        raise UnsafePlace(why, "use a shorter directory: export MEMD_HOME=~/.memd, or set XDG_RUNTIME_DIR")


def private_dir(path: Path) -> Path:
    """Create `path` if it is missing and make sure that nobody else can change what is in it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise UnsafePlace(f"{path} is a symbolic link", f"remove it: rm {in_shell(path)}")
    check_owner(path, path)
    if stat.S_IMODE(found.st_mode) & 0o077:
        why = f"{path} can be used by others (mode {stat.S_IMODE(found.st_mode):04o})"
        raise UnsafePlace(why, f"close it: chmod 700 {in_shell(path)}")
    return path


def check_owner(place: Path, folder: Path) -> None:
    """Refuse what another user owns in a folder of memd's, such as a backup that was copied back with sudo."""
    owner, me = place.lstat().st_uid, os.getuid()
    if owner != me:
        mine = me or folder.lstat().st_uid == me
        how = f"take it over: sudo chown -R {me} {in_shell(folder)}" if mine else "run memd as that user, without sudo"
        raise UnsafePlace(f"{place} belongs to uid {owner}, not to you (uid {me})", how)


def is_utf8(name: str) -> bool:
    """Whether a file name can be written down; Linux allows any bytes in it."""
    return name.encode("utf-8", "replace").decode() == name


def bytes_of(file: Path) -> bytes | None:
    """A file's bytes; None where there is none."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def bytes_at(file: Path, max_bytes: int) -> bytes:
    """A file's bytes, at most one more than `max_bytes`; OSError for a pipe or a link."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        return opened.read(max_bytes + 1)


def remove_old(folder: Path, seconds: float) -> None:
    """Remove the files of a folder that were not written to for so long."""
    for file in folder.iterdir():
        if time.time() - file.stat().st_mtime > seconds:
            file.unlink(missing_ok=True)


def replace_file(file: Path, data: bytes | Iterable[bytes], rights: int, follow: bool = True) -> None:
    """Write a file in one step: a reader sees the old bytes or the new ones. A link stays, and its target is replaced;
    without `follow` the file takes its place."""
    target = file.resolve() if follow and file.is_symlink() else file
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            os.fchmod(out.fileno(), rights)
            out.writelines([data] if isinstance(data, bytes) else data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except OSError as error:
        error.filename, error.filename2 = str(target), None
        raise
    finally:
        temporary.unlink(missing_ok=True)
