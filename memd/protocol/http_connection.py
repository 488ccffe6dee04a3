"""One connection to a hub: the same lines as on the socket, each write a request of HTTP and its lines the answer.

Loaded only where an address of a hub is given: `http.client` and `ssl` take longer to import than a question takes.
"""

import os
import ssl
import stat
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import SplitResult, urlencode, urlsplit

from memd.config import paths
from memd.config.addresses import is_loopback_host
from memd.errors import Busy, NoDaemon, Refused, UnsafePlace, UsageError, in_shell
from memd.protocol.connection import MAX_REPLY, Closed, silent
from memd.version import __version__

RPC = "/rpc"
HEADERS = {"Content-Type": "application/json", "User-Agent": f"memd/{__version__}"}
"""The same in every request."""
IDLE_SECONDS = 30.0
"""A connection that was idle for longer is opened anew: the hub, or a proxy before it, may be about to close it."""


class HttpConnection:
    """A connection to the hub that speaks in lines."""

    def __init__(self, url: str, timeout: float, token: str | None, about: dict[str, str]) -> None:
        """`about` goes into the address: what a greeting would say on the socket."""
        self._url = url
        self._timeout = timeout
        self._token = token or _token()
        parts = _checked(url)
        query = f"?{urlencode(about)}" if about else ""
        self._path = f"{parts.path.rstrip('/').removesuffix(RPC)}{RPC}{query}"
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.netloc.rpartition("@")[2], timeout=timeout)
        self._lines: list[bytes] | None = []
        """Those of the answer that were not taken yet; None before it was read."""
        self._used = 0.0

    def close(self) -> None:
        self._http.close()

    def send(self, data: bytes) -> None:
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._http.close()
        if self._http.sock is None:
            self._connect()
        try:
            self._http.request("POST", self._path, data, {"Authorization": f"Bearer {self._token}", **HEADERS})
        except TimeoutError:
            raise silent(self._timeout) from None
        except (OSError, HTTPException):
            raise Closed from None
        self._lines = None

    def line(self, patience: float | None) -> bytes:
        """The next line of the answer; NoDaemon when nothing comes for `patience` seconds."""
        if self._lines is None:
            self._lines = self._answer(patience)
        if not self._lines:
            raise Closed
        return self._lines.pop(0)

    def _connect(self) -> None:
        try:
            self._http.connect()
        except ssl.SSLCertVerificationError as error:
            why = f"the certificate of {self._url} is not trusted: {error.verify_message}"
            raise Refused(why, "name the authority that signed it: export SSL_CERT_FILE=FILE") from None
        except OSError as error:
            raise NoDaemon(f"{self._url} cannot be reached: {error.strerror or error}", "is the hub up?") from None

    def _answer(self, patience: float | None) -> list[bytes]:
        if self._http.sock is not None:
            self._http.sock.settimeout(patience)
        try:
            response = self._http.getresponse()
            body = response.read(MAX_REPLY)
        except TimeoutError:
            self.close()
            raise silent(patience or 0) from None
        except (OSError, HTTPException):
            raise Closed from None
        self._used = time.monotonic()
        if response.headers.get_content_type() != "application/json":
            said = f"{self._url} answered {response.status} {response.reason}"
            if response.status in (502, 503, 504):
                raise Busy(said, "the hub, or the proxy before it, is overloaded or just starting: try again")
            raise NoDaemon(said, "is it the address of a hub?")
        return body.splitlines()


def _checked(url: str) -> SplitResult:
    parts = urlsplit(url)
    try:
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        host = ""
    if not host:
        raise UsageError(f"{url} is no address of a hub", "for example https://memory.example.org")
    if parts.scheme != "https" and not is_loopback_host(host):
        raise Refused(f"{url} is not encrypted: anyone on the way could read the token", "use https://")
    return parts


def _token() -> str:
    """From the environment, else from a file of this user's alone; never from a command, which everyone can see."""
    if token := os.environ.get("MEMD_TOKEN", "").strip():
        return token
    file = Path(os.environ.get("MEMD_TOKEN_FILE") or paths.config_file().with_name("token")).expanduser()
    try:
        with file.open() as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise UnsafePlace(f"others can read the token in {file}", f"close it: chmod 600 {in_shell(file)}")
            return opened.read().strip()
    except FileNotFoundError:
        raise UsageError("the hub needs a token, and there is none", f"give it as MEMD_TOKEN, or in {file}") from None
