"""Builds the image of deploy/Dockerfile without a registry or a network, and tries the services of deploy/compose.yaml.

It stands on the Debian that `release/try.sh 12` makes, with the wheels of the lock. Needs buildah, podman, and caddy,
which is run in a container as the proxy that does TLS. The options of each container are those that compose.yaml gives
it; hub and proxy share a network that is nothing but a loopback.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release import deb
from release.deb import ROOT

DEBIAN, WHEELS = ROOT / "build/root-bookworm", ROOT / "build/wheels-3.11"
BASE, IMAGE = "localhost/memd-base", "localhost/memd"
HOST = "localhost"
SERVICES = YAML(typ="safe").load(ROOT / "deploy/compose.yaml")["services"]
NAMES = ("daemon", "hub", "proxy")
VOLUMES = ("state", "notes", "certificates")
PATIENCE = 120.0
ASK = """
import json, ssl, sys, urllib.request
token, path, body = sys.argv[1:]
trusted = ssl.create_default_context(cafile="/data/caddy/pki/authorities/local/root.crt")
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
request = urllib.request.Request(f"https://localhost:8443{path}", body.encode() or None, headers)
print(urllib.request.urlopen(request, context=trusted, timeout=30).read().decode())
"""
"""A client on another machine, which trusts the certificate of the proxy."""


def main() -> None:
    deb.download("3.11", WHEELS)
    build(DEBIAN, WHEELS)
    clean()
    try:
        attempt()
    finally:
        clean()
    print("image: passed")


def build(base: Path, wheels: Path) -> None:
    empty = run("buildah", "from", "scratch")
    run("buildah", "add", "--quiet", empty, str(base), "/")
    run("buildah", "commit", "--quiet", "--rm", empty, BASE)
    arguments = [f"BASE={BASE}", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels"]
    run(
        *("buildah", "build", "--format", "docker", "--isolation", "chroot", "--pull-never"),
        *(part for one in arguments for part in ("--build-arg", one)),
        *("--volume", f"{wheels}:/wheels:ro", "--ignorefile", "deploy/Dockerfile.dockerignore"),
        *("--file", "deploy/Dockerfile", "--tag", IMAGE, "."),
    )
    (about,) = json.loads(run("podman", "image", "inspect", IMAGE))
    say(f"built: {about['Size'] / 1e6:.0f} MB on a base of {du(base)} MB, user {about['User']}")


def attempt() -> None:
    """What a team does with it, and what the comments of deploy/ promise."""
    for volume in VOLUMES:
        run("podman", "volume", "create", f"memd-try-{volume}")
    start("daemon")
    eventually("the daemon is healthy", lambda: healthy("daemon"))
    inside("daemon", "sh", "-c", "printf '# Memory\\n\\n## Kettle\\n\\nIt whistles at nine.\\n' > /notes/MEMORY.md")
    inside("daemon", "memd", "add", "/notes", "--ns", "notes")
    token = inside("daemon", "memd", "token", "add", "anna", "--ns", "notes", "--write", "--json")
    secret = json.loads(token)["token"]
    say("a volume with notes, a token")
    start("hub", "--network", "none", MEMD_HOSTS=HOST)
    caddy = run("sh", "-c", "command -v caddy")
    start("proxy", "--network", f"container:{container('hub')}", "--volume", f"{caddy}:{caddy}:ro", MEMD_HOSTS=HOST)
    eventually("the hub is healthy", lambda: healthy("hub"))
    eventually("TLS by the proxy", lambda: '"ok": true' in ask(secret, "/health"))
    confined()
    question = {"jsonrpc": "2.0", "id": 1, "method": "query", "params": {"query": "whistles", "ns": "notes"}}
    assert "MEMORY.md" in ask(secret, "/rpc", json.dumps(question))
    say("a question from another machine is answered")
    run("podman", "rm", "--force", "--time", "20", container("daemon"))
    eventually("the hub is unhealthy without its daemon", lambda: not healthy("hub"))
    start("daemon")
    eventually("both are healthy with a new one", lambda: healthy("daemon") and healthy("hub"))
    assert "MEMORY.md" in ask(secret, "/rpc", json.dumps(question))
    say("which has the volumes of the former")


def confined() -> None:
    """Neither runs as root, nor can write but into its volumes, nor has the daemon a network."""
    for name in ("daemon", "hub"):
        assert inside(name, "id", "-u").strip() == "10001"
        assert "CapEff:\t0000000000000000" in inside(name, "cat", "/proc/1/status")
        for place in ("/", "/opt/memd", *(["/var/lib/memd"] if name == "hub" else [])):
            with suppress(subprocess.CalledProcessError):
                inside(name, "sh", "-c", f"touch {place}/written 2> /dev/null")
                sys.exit(f"{name} can write to {place}")
    networks = inside("daemon", "ls", "/sys/class/net").split()
    assert networks == ["lo"], networks
    say("without root, with a read-only root, the daemon without a network")


def start(name: str, *more: str, **variables: str) -> None:
    """Run a service as compose.yaml says; `more` stands for its networks."""
    service = SERVICES[name]
    image = IMAGE if service["image"] == "memd" else BASE
    given = [*more]
    for option, flag in (("pids_limit", "--pids-limit"), ("mem_limit", "--memory")):
        given += [flag, str(service[option])] if option in service else []
    for option, flag in (("cap_drop", "--cap-drop"), ("security_opt", "--security-opt"), ("tmpfs", "--tmpfs")):
        given += [part for one in service.get(option, ()) for part in (flag, one)]
    given += ["--read-only"] if service.get("read_only") else []
    given += ["--network", service["network_mode"]] if "network_mode" in service else []
    given += [part for one in service["volumes"] for part in ("--volume", f"memd-try-{one}")]
    given += [part for key in service.get("environment", {}) for part in ("--env", f"{key}={variables['MEMD_HOSTS']}")]
    if "healthcheck" in service:
        given += ["--health-cmd", json.dumps(service["healthcheck"]["test"][1:])]
    run("podman", "run", "--detach", "--name", container(name), *given, image, *command_of(name, service))


def command_of(name: str, service: dict[str, Any]) -> list[str]:
    """Its command; the proxy has a certificate of its own, as no authority can be asked, and another port."""
    if name != "proxy":
        return list(service.get("command", ()))
    said = service["command"].replace("${MEMD_HOSTS}", f"{HOST}:8443").replace("hub:", "127.0.0.1:")
    return ["env", "XDG_DATA_HOME=/data", "HOME=/data", *said.split(), "--internal-certs"]


def container(name: str) -> str:
    return f"memd-try-{name}"


def healthy(name: str) -> bool:
    return subprocess.run(["podman", "healthcheck", "run", container(name)], capture_output=True).returncode == 0


def ask(token: str, path: str, body: str = "") -> str:
    return inside("proxy", "python3", "-c", ASK, token, path, body)


def inside(name: str, *command: str) -> str:
    return run("podman", "exec", container(name), *command)


def eventually(what: str, holds: Any) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        with suppress(subprocess.CalledProcessError):
            if holds():
                return say(what)
        if time.monotonic() > until:
            for name in NAMES:
                subprocess.run(["podman", "logs", container(name)], check=False)
            sys.exit(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(1)


def clean() -> None:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["podman", "rm", "--force", "--time", "5", *map(container, reversed(NAMES))], check=False, **quiet)
    subprocess.run(["podman", "volume", "rm", "--force", *map(container, VOLUMES)], check=False, **quiet)


def du(folder: Path) -> str:
    return run("du", "-sm", str(folder)).split()[0]


def say(what: str) -> None:
    print(f"== {what}", flush=True)


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
