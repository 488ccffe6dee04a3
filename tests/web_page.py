"""The page under test: a real `memd web` beside a real daemon, and a visitor that sends what it is told to."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from memd.protocol.client import Client
from tests.conftest import NOTES, PATIENCE, Home, write_notes

HOSTILE = """# Memory

## <script>document.title='owned'</script> heading

<script>document.title='owned'</script> <img src=x onerror="document.title='owned'"> \u202etxet
[run](javascript:document.title='owned') [data](data:text/html,x) [file](file:///etc/passwd) [web](https://example.org/)
![picture](https://example.org/spy.png "title")

| a | b |
|---|--:|
| 1 | 2 |
"""
HOSTILE_KEY = "MEMORY#script-document-title-owned-script-heading"


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        raw = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return raw.decode()


@dataclass
class Visitor:
    """Speaks HTTP with the page; headers are what it is told, the cookie is kept."""

    port: int
    cookie: str = ""
    usual: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.origin = f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, None, headers)

    def post(self, path: str, form: dict[str, str] | None = None, **headers: str) -> Reply:
        typed = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin, **headers}
        return self.send("POST", path, urlencode(form or {}).encode(), typed)

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        """`Host=""` sends none; underscores in names of headers are dashes."""
        sent = {"Host": f"127.0.0.1:{self.port}", **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value:
                connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        reply = Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return reply

    def enter(self, token: str) -> Reply:
        reply = self.post("/enter", {"token": token})
        if reply.status == 303:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply


class Page:
    """A running `memd web`."""

    def __init__(self, home: Home, *flags: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "web", "--no-open", *flags], env=home.env, cwd=home.path,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None and self.process.stderr is not None
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise AssertionError(f"no address: {self.process.stderr.read()}")
        self.port = int(urlsplit(self.address).port or 0)
        self.token = urlsplit(self.address).fragment

    def visitor(self) -> Visitor:
        """One that has been let in."""
        visitor = Visitor(self.port)
        assert visitor.enter(self.token or self.new_token()).status == 303
        self.token = ""
        return visitor

    def new_token(self) -> str:
        """As `memd web` makes one."""
        made = "from memd.web import admission; print(admission.new_token(int(__import__('sys').argv[1])))"
        command = [sys.executable, "-c", made, str(self.port)]
        return subprocess.run(command, env=self.home.env, capture_output=True, text=True, check=True).stdout.strip()

    def close(self) -> tuple[str, str]:
        """Stop it; what else it printed."""
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)


@contextmanager
def page_of(home: Home, *flags: str) -> Iterator[Page]:
    page = Page(home, *flags)
    try:
        yield page
    finally:
        page.close()


@contextmanager
def tended_home() -> Iterator[tuple[Home, Path, Client]]:
    """A daemon with two workspaces: `agent`, and `odd`, whose note is hostile."""
    path = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(path / "h")
    home.path.mkdir()
    try:
        agent = write_notes(path / "agent", NOTES)
        with home.start() as client:
            client.workspace_add(str(agent))
            client.workspace_add(str(write_notes(path / "odd", {"MEMORY.md": HOSTILE})))
            client.sync(vectors=True)
            yield home, agent, client
    finally:
        home.close()
        shutil.rmtree(path, ignore_errors=True)
