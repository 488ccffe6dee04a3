"""The collections in a real Chroma server: followed, missed while it is away, and never written by two homes."""

from __future__ import annotations

import http.server
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memd.config.schema import VectorsSettings
from memd.errors import StoreBroken
from memd.indexer.store.chroma import ChromaServer as ServerHost
from memd.protocol.client import Client
from tests.conftest import Home
from tests.faults.agreement import eventually, shown
from tests.test_chroma_process import has_chroma

WAIT = 120
"""Seconds that a busy machine may take to load Chroma."""


class RunningChroma:
    """`chroma run` on loopback, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self.folder)]
        place = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen([*command, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self.answers, WAIT)

    def answers(self) -> bool:
        with socket.socket() as link:
            return link.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def chroma() -> Iterator[RunningChroma]:
    folder = Path(tempfile.mkdtemp(prefix="memd-chroma-"))
    server = RunningChroma(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def configure(home: Home, workspace: Path, chroma: RunningChroma) -> None:
    home.collections = True
    home.configure(
        f'[vectors]\nengine = "server"\nurl = "{chroma.url}"\n\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    )


def in_step(client: Client) -> bool:
    findings = {finding["name"]: finding for finding in client.doctor()["findings"]}
    return bool(findings["agent: vectors"]["state"] == "ok")


def test_it_is_followed_missed_while_it_is_away_and_caught_up_with(
    home: Home, workspace: Path, chroma: RunningChroma
) -> None:
    configure(home, workspace, chroma)
    with home.start() as client:
        client.sync(vectors=True)
        eventually(lambda: in_step(client), WAIT)
        assert client.status()["degraded"] == [] and not has_chroma(home)
        assert not (home.state / "chroma").exists()
        chroma.kill()
        (workspace / "MEMORY.md").write_text("## New\n\nthe missed merlin\n")
        client.sync(vectors=True)
        assert "merlin" in shown(client, "merlin", mode="vector") and "apple" in shown(client, "apple trees")
        eventually(lambda: client.status()["degraded"] == ["collections"], WAIT)
        assert "apple" in shown(client, "planted apple trees", mode="vector")
        assert not in_step(client)
        chroma.start()
        eventually(lambda: in_step(client), WAIT)
        assert client.status()["degraded"] == []


def test_a_copied_home_refuses_to_write_where_the_first_one_does(
    home: Home, workspace: Path, chroma: RunningChroma
) -> None:
    configure(home, workspace, chroma)
    with home.start() as client:
        client.sync(vectors=True)
        eventually(lambda: in_step(client), WAIT)
    home.stop()
    other = Home(home.path.parent / "o")
    shutil.copytree(home.path, other.path, ignore=shutil.ignore_patterns("run"))
    configure(other, workspace, chroma)
    try:
        with other.start() as client:
            (workspace / "MEMORY.md").write_text("## New\n\nthe second swift\n")
            client.sync(vectors=True)
            eventually(lambda: client.status()["degraded"] == ["collections"], WAIT)
            (trouble,) = client.status()["degraded_details"]
            assert "belongs to another memd" in trouble["why"] and socket.gethostname() in trouble["why"]
            assert "swift" in shown(client, "swift", mode="vector"), "what it cannot write it knows all the same"
        other.stop()
        assert other.run("doctor", "--fix").returncode == 0, "it is taken over when somebody says so"
        with home.start() as client:
            eventually(lambda: client.status()["degraded"] == ["collections"], WAIT)
    finally:
        other.close()


# Without a server


SETTINGS = VectorsSettings(engine="server", url="http://192.0.2.1:8000", headers_env="CHROMA_HEADERS")


def test_plain_http_to_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreBroken, match="lets others read and change vectors"):
        ServerHost(SETTINGS, tmp_path, "ledger").open()


def test_headers_come_from_the_environment_and_are_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Recorder(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("authorization", ""))
            self.send_error(401, "Bearer a-secret-token is wrong")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings = replace(SETTINGS, url=f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(StoreBroken, match="no headers in"):
            ServerHost(settings, tmp_path, "ledger").open()
        monkeypatch.setenv("CHROMA_HEADERS", "Authorization: Bearer a-secret-token\nX-Team: tea")
        with pytest.raises(StoreBroken, match="cannot be used") as error:
            ServerHost(settings, tmp_path, "ledger").open()
        server.shutdown()
    assert seen[0] == "Bearer a-secret-token" and "a-secret-token" not in error.value.message
