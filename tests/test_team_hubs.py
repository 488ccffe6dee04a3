"""The services of deploy/team.yaml as processes: two daemons and hubs, one Chroma server, a proxy that divides them."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from copy import copy
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from memd.errors import Refused
from tests.agents import MODERN, played
from tests.conftest import PATIENCE, ROOT, Home, write_notes
from tests.faults.agreement import eventually
from tests.hub_door import Hub
from tests.test_chroma_server import WAIT, RunningChroma

ROUTES = dict(
    re.findall(r"handle_path (/\w+)/\* \{\s*reverse_proxy ([\w-]+):8428", (ROOT / "deploy" / "Caddyfile").read_text())
)
"""The hub of each path, as the proxy is configured."""
SERVICES: dict[str, Any] = YAML(typ="safe").load((ROOT / "deploy" / "team.yaml").read_text())["services"]
PARTS = [path.removeprefix("/") for path in ROUTES]


class Proxy(BaseHTTPRequestHandler):
    """Does what Caddy is told to in deploy/Caddyfile: takes off the first part of the path, and passes on the rest."""

    protocol_version = "HTTP/1.1"
    ports: dict[str, int]
    """Where each hub listens."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, part, rest = self.path.split("/", 2)
        hub = HTTPConnection("127.0.0.1", self.ports[ROUTES[f"/{part}"]], timeout=PATIENCE)
        hub.request("POST", f"/{rest}", body, dict(self.headers))
        answer = hub.getresponse()
        said = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)
        hub.close()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Team:
    """The processes, and the address by which all of them are reached."""

    def __init__(self, place: Path, chroma: RunningChroma) -> None:
        self.homes, self.hubs, self.tokens = {}, {}, {}
        for part in PARTS:
            notes = write_notes(
                place / part, {"MEMORY.md": f"# Memory\n\n## Plans\n\nThe {part} plans the {part}fair.\n"}
            )
            home = self.homes[part] = Home(place / f"h-{part}")
            home.collections = True
            wanted = SERVICES[f"daemon-{part}"]["environment"]
            home.env |= {**wanted, "MEMD_VECTORS__URL": chroma.url}
            home.configure(f'[[workspace]]\npath = "{notes}"\nns = "{part}"\n')
            home.start().close()
            self.hubs[part] = Hub(home, "--no-start")
            self.tokens[part] = self.hubs[part].token("anna", "--ns", part, "--write")
        Proxy.ports = {f"hub-{part}": hub.port for part, hub in self.hubs.items()}
        self.proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()

    def through_proxy(self, part: str) -> Hub:
        """A part's hub, at the address that its users know."""
        seen = copy(self.hubs[part])
        seen.url = f"http://127.0.0.1:{self.proxy.server_address[1]}/{part}"
        return seen

    def close(self) -> None:
        self.proxy.shutdown()
        self.proxy.server_close()
        for part in self.homes:
            self.hubs[part].close()
            self.homes[part].close()


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    place = Path(tempfile.mkdtemp(prefix="memd-"))
    chroma = RunningChroma(place / "chroma")
    chroma.start()
    started = Team(place, chroma)
    yield started
    started.close()
    chroma.kill()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_asked_through_the_proxy_and_sees_only_its_own(team: Team, part: str) -> None:
    front, token = team.through_proxy(part), team.tokens[part]
    (other,) = set(PARTS) - {part}
    with front.client(token) as client:
        assert client.query(f"{part}fair")["hits"][0]["ns"] == part
        assert not client.query(f"{other}fair")["hits"]
        written = client.note(f"A note of {part}.")["path"]
    assert f"A note of {part}." in (team.homes[part].path.parent / part / written).read_text()
    with front.client(team.tokens[other]) as client, pytest.raises(Refused, match="unknown, revoked or expired"):
        client.query(f"{part}fair")

    async def scene() -> None:
        async with front.agent(token, mode=MODERN) as agent:
            found = await agent.call_tool("memory_search", {"query": f"{part}fair"})
            assert f"The {part} plans" in found.content[0].text

    played(scene)


def test_both_keep_their_collections_in_the_one_chroma_server(team: Team) -> None:
    for part, home in team.homes.items():
        with home.wait() as client:
            client.sync(vectors=True)

            def in_step(name: str = f"{part}: vectors") -> bool:
                states = {one["name"]: one["state"] for one in client.doctor()["findings"]}
                return bool(states[name] == "ok")

            eventually(in_step, WAIT)
            assert client.status()["degraded"] == []
        assert not (home.state / "chroma").exists()


def test_a_hub_keeps_nothing_and_a_part_that_is_down_takes_no_other_with_it(team: Team) -> None:
    down, up = PARTS
    team.homes[down].stop()
    with team.through_proxy(up).client(team.tokens[up]) as client:
        assert client.query(f"{up}fair")["hits"]
    team.hubs[down].close()
    team.homes[down].start().close()
    team.hubs[down] = Hub(team.homes[down], "--no-start")
    Proxy.ports[f"hub-{down}"] = team.hubs[down].port
    with team.through_proxy(down).client(team.tokens[down]) as client:
        assert client.query(f"{down}fair")["hits"]


def test_two_hubs_before_one_daemon_answer_alike(team: Team) -> None:
    part = PARTS[0]
    second = Hub(team.homes[part], "--no-start")
    try:
        with second.client(team.tokens[part]) as client, team.hubs[part].client(team.tokens[part]) as same:
            key = client.put("shared", "Written by one hub.", request_id="7")["key"]
            assert same.put("shared", "Written by one hub.", request_id="7")["repeated"]
            same.sync()
            assert same.get(key)["text"] == client.get(key)["text"]
    finally:
        second.close()


def test_the_compose_file_runs_these_and_nothing_else() -> None:
    daemons, hubs = ({name for name in SERVICES if name.startswith(kind)} for kind in ("daemon-", "hub-"))
    assert set(ROUTES.values()) == hubs and daemons == {f"daemon-{part}" for part in PARTS}
    assert SERVICES.keys() == daemons | hubs | {"proxy", "chroma"}
    for part in PARTS:
        assert SERVICES[f"daemon-{part}"]["command"] == ["memd", "daemon"]
        assert f"state-{part}:/var/lib/memd" in SERVICES[f"daemon-{part}"]["volumes"]
        assert SERVICES[f"hub-{part}"]["volumes"] == [f"state-{part}:/var/lib/memd:ro"]
    assert [name for name, one in SERVICES.items() if "ports" in one] == ["proxy"]
    assert all(one["cap_drop"] == ["ALL"] for name, one in SERVICES.items() if name != "proxy")
