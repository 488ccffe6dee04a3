"""The collections in a real Chroma server: followed, missed while it is away, and never written by two homes."""

from __future__ import annotations

import gc
import http.server
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import httpx
import pytest

from memd.config.schema import VectorsSettings
from memd.errors import StoreBroken
from memd.indexer.model.embedding_server import IN_FLIGHT
from memd.indexer.model.pooling import Vectors
from memd.indexer.store.chroma_server import ChromaServer as ServerHost
from memd.protocol.client import Client
from tests.conftest import Home
from tests.embedding_server import EmbeddingServer, words
from tests.faults.agreement import eventually, shown
from tests.lab import row
from tests.test_chroma_process import has_chroma

COOKBOOK = Path(__file__).parent.parent / "docs" / "cookbook.md"
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


@pytest.fixture
def chroma() -> Iterator[RunningChroma]:
    folder = Path(tempfile.mkdtemp(prefix="memd-chroma-"))
    server = RunningChroma(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def configure(home: Home, workspace: Path, chroma: RunningChroma, alone: str = "") -> None:
    """With the server as a copy, or with the vectors of some workspaces there alone."""
    home.collections = True
    home.configure(
        f'[vectors]\nengine = "server"\nurl = "{chroma.url}"\nworkspaces = "{alone}"\n\n'
        f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n'
    )


def rows(chroma: RunningChroma, **asked: Any) -> dict[str, dict[str, Any]]:
    """What any client of Chroma reads: the metadata of each document in the collections that memd made."""
    client = chromadb.HttpClient(host="127.0.0.1", port=chroma.port)
    found: dict[str, dict[str, Any]] = {}
    for collection in client.list_collections():
        if "-ws-" in collection.name:
            got = collection.get(include=["documents", "metadatas"], **asked)
            found.update(zip(got["documents"] or [], got["metadatas"] or [], strict=True))  # type: ignore[arg-type]
    return found


def kinds(chroma: RunningChroma, words: str) -> list[str]:
    return [told["kind"] for text, told in rows(chroma).items() if words in text]


def wipe(chroma: RunningChroma) -> None:
    client = chromadb.HttpClient(host="127.0.0.1", port=chroma.port)
    for collection in client.list_collections():
        client.delete_collection(collection.name)


def vectors_here(home: Home) -> int:
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        return int(ledger.execute("SELECT COUNT(*) FROM vectors WHERE length(vector)").fetchone()[0])


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
            assert "belong to another memd" in trouble["why"] and socket.gethostname() in trouble["why"]
            assert "swift" in shown(client, "swift", mode="vector"), "what it cannot write it knows all the same"
        other.stop()
        assert other.run("doctor", "--fix").returncode == 0, "it is taken over when somebody says so"
        with home.start() as client:
            eventually(lambda: client.status()["degraded"] == ["collections"], WAIT)
    finally:
        other.close()


def test_a_row_says_what_a_memory_is_and_goes_with_it(home: Home, workspace: Path, chroma: RunningChroma) -> None:
    configure(home, workspace, chroma)
    with home.start() as client:
        client.sync()
        client.put("tea", "Green tea, three minutes.", tags=["Drink"])
        client.sync(vectors=True)
        eventually(lambda: in_step(client), WAIT)
        (text,) = [text for text in rows(chroma) if "Green tea" in text]
        told = rows(chroma)[text]
        (hit,) = client.query("green tea", mode="text")["hits"]
        same = ("ns", "key", "path", "role", "kind", "tier")
        assert {name: told[name] for name in same} == {name: hit[name] for name in same}
        assert (told["first_line"], told["last_line"], told["tags"]) == (hit["start_line"], hit["end_line"], ["drink"])
        assert told["day"] == int(hit["date"].replace("-", "")) and told["language"] == "" and told["copies"] == 1
        assert text in rows(chroma, where={"tags": {"$contains": "drink"}})
        client.put("tea", kind="procedural")
        eventually(lambda: kinds(chroma, "Green tea") == ["procedural"], WAIT)
        client.rm("tea")
        eventually(lambda: kinds(chroma, "Green tea") == [], WAIT)


def test_langchain_reads_the_collection_as_the_cookbook_shows(
    home: Home, workspace: Path, chroma: RunningChroma
) -> None:
    pytest.importorskip("langchain_chroma", reason="langchain-chroma is not installed")
    (example,) = re.findall(r"```py\n(.*?)```", COOKBOOK.read_text(encoding="utf-8"), re.DOTALL)
    configure(home, workspace, chroma, alone="*")
    with home.start() as client:
        client.sync(vectors=True)
        eventually(lambda: in_step(client), WAIT)
    done = subprocess.run(
        [sys.executable, "-c", example.replace("port=8000", f"port={chroma.port}")],
        capture_output=True, text=True, timeout=WAIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "memory/2026-02-15.md" in done.stdout and "ErsatzTV" in done.stdout
    assert "memory/2026-02-14" not in done.stdout and "2026-02-1" in done.stdout


def test_a_copy_with_the_same_place_is_found_out_by_its_token(tmp_path: Path, chroma: RunningChroma) -> None:
    """As where a whole machine was copied: then nothing tells the two apart but who wrote last."""
    settings = VectorsSettings(engine="server", url=chroma.url)

    def opened(take_over: bool = False) -> ServerHost:
        host = ServerHost(settings, tmp_path, "ledger", take_over)
        host.open()
        return host

    first = opened()
    copied = (tmp_path / "chroma-owner").read_text()
    first.add("ws-1-model-1", [row("a" * 32, "one")])
    opened().add("ws-1-model-1", [row("b" * 32, "two")])
    with pytest.raises(StoreBroken, match="belong to another memd"):
        first.add("ws-1-model-1", [row("c" * 32, "three")])
    (tmp_path / "chroma-owner").write_text(copied)
    with pytest.raises(StoreBroken, match="belong to another memd"):
        opened()
    assert opened(take_over=True).look([]) == {"ws-1-model-1": 2}


def test_what_was_sent_is_freed(tmp_path: Path, chroma: RunningChroma) -> None:
    """A hundred thousand characters a call: no answer refers to itself, and so to them, until a collector comes by."""
    host = ServerHost(VectorsSettings(engine="server", url=chroma.url), tmp_path, "ledger")
    host.open()
    gc.collect()
    gc.disable()
    try:
        host.add("ws-1-model-1", [row("a" * 32, "one")])
        assert not [one for one in gc.get_objects() if isinstance(one, httpx.Response)]
    finally:
        gc.enable()


def test_a_wiped_server_is_noticed_while_nobody_writes(home: Home, workspace: Path, chroma: RunningChroma) -> None:
    configure(home, workspace, chroma)
    with home.start() as client:
        client.sync(vectors=True)
        eventually(lambda: in_step(client), WAIT)
        before = rows(chroma)
        wipe(chroma)
        eventually(lambda: rows(chroma) == before, 60)
        assert client.status()["degraded"] == []


# With the vectors in the server alone


def test_the_server_alone_has_the_vectors_and_answers(home: Home, workspace: Path, chroma: RunningChroma) -> None:
    questions = [("planted apple trees", {}), ("ErsatzTV channel", {}), ("apple", {"since": "2026-02-15"})]
    asked = [(text, {"mode": mode, **more}) for text, more in questions for mode in ("hybrid", "vector")]
    configure(home, workspace, chroma)
    with home.start() as client:
        client.sync(vectors=True)
        eventually(lambda: in_step(client), WAIT)
        exact = [places(client, text, more) for text, more in asked]
        assert vectors_here(home) > 0
        assert client.reload()["restart"] == []
        configure(home, workspace, chroma, alone="*")
        client.reload()
        eventually(lambda: vectors_here(home) == 0, WAIT)
        assert [places(client, text, more) for text, more in asked] == exact
        (workspace / "MEMORY.md").write_text("## New\n\nthe remote merlin\n")
        client.sync(vectors=True)
        eventually(lambda: "merlin" in shown(client, "remote merlin", mode="vector"), WAIT)
        eventually(lambda: vectors_here(home) == 0, WAIT)
        chroma.kill()
        answer = client.query("remote merlin")
        assert answer["degraded"] == ["vectors"] and "merlin" in answer["hits"][0]["text"]
        (workspace / "MEMORY.md").write_text("## New\n\nthe later lapwing\n")
        client.sync()
        assert "lapwing" in shown(client, "lapwing")
        chroma.start()
        eventually(lambda: client.query("lapwing")["degraded"] == [], WAIT)
        eventually(lambda: "lapwing" in shown(client, "later lapwing", mode="vector"), WAIT)
        eventually(lambda: vectors_here(home) == 0, WAIT)
        embedded = client.status()["embedded"]
        configure(home, workspace, chroma)
        client.reload()
        eventually(lambda: vectors_here(home) > 3, WAIT)
        assert "lapwing" in shown(client, "later lapwing", mode="vector")
        assert client.status()["embedded"] == embedded, "no text went through the model again"


def test_a_new_workspace_keeps_no_vector_that_the_server_has_while_others_are_made(
    home: Home, workspace: Path, chroma: RunningChroma
) -> None:
    (workspace / "MEMORY.md").write_text("".join(f"## Bird {nth}\n\nsmew {nth}\n\n" for nth in range(40)))
    held, made = threading.Event(), threading.Semaphore(2 * IN_FLIGHT)

    def embed(texts: Sequence[str]) -> Vectors:
        for text in texts:
            if "Bird" in text and not made.acquire(blocking=False):
                held.wait(WAIT)
        return words(texts)

    configure(home, workspace, chroma, alone="*")
    model = EmbeddingServer(embed)
    with (home.path / "config.toml").open("a") as config:
        config.write(f'\n[embedding]\nprovider = "ollama"\nurl = "{model.url}"\nbatch = 2\ntimeout_s = 600\n')
    try:
        with home.start() as client:
            # Some are made, all others are held back: those that the server took in are nowhere else.
            eventually(lambda: any("smew" in text for text in rows(chroma)) and vectors_here(home) == 0, WAIT)
            status = client.status()
            assert status["pending_vectors"] > 0 and 0 < status["workspaces"][0]["vectors"] < 40
            assert "smew" in shown(client, "smew", mode="vector"), "the server answers with what it has"
            held.set()
            client.sync(vectors=True)
            eventually(lambda: in_step(client) and vectors_here(home) == 0, WAIT)
            assert sum("smew" in text for text in rows(chroma)) == 40
    finally:
        held.set()
        model.stop()


def test_what_a_wiped_server_had_alone_is_made_again(home: Home, workspace: Path, chroma: RunningChroma) -> None:
    configure(home, workspace, chroma, alone="agent")
    with home.start() as client:
        client.sync(vectors=True)
        eventually(lambda: vectors_here(home) == 0 and in_step(client), WAIT)
        before = rows(chroma)
        wipe(chroma)
        answer = client.query("planted apple trees")
        assert answer["degraded"] == ["vectors"] and "apple" in answer["hits"][0]["text"]
        eventually(lambda: rows(chroma) == before and vectors_here(home) == 0, WAIT)
        eventually(lambda: client.query("planted apple trees")["degraded"] == [], WAIT)


def places(client: Client, text: str, more: dict[str, Any]) -> list[tuple[str, int]]:
    return [(hit["path"], hit["start_line"]) for hit in client.query(text, **more)["hits"]]


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
        with pytest.raises(StoreBroken, match="401") as error:
            ServerHost(settings, tmp_path, "ledger").open()
        server.shutdown()
    assert seen[0] == "Bearer a-secret-token" and "a-secret-token" not in error.value.message
