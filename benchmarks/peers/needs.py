"""Part `needs`: what an installation weighs, and what it asks of a network, seen in a namespace that has none.

Called as a program it is the inside of that namespace: it answers name look-ups itself and writes them down.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import corpus
import embedder
from context import Context, workplace
from installing import Environment
from processes import Failed, Peer, Worker
from worker import load

CHUNKS = 60
PATIENCE = 300.0
SET_FLAGS, UP = 0x8914, 0x41
QUESTION = "which thermostat was calibrated"


def measure(peer: Peer, context: Context) -> dict[str, Any]:
    """With memd's model on loopback, and once more with whatever the rival takes by default."""
    loopback = _offline(peer, own_model=False)
    own = _offline(peer, own_model=True) if peer.rival.loopback else loopback
    return {**peer.environment.facts, "offline": loopback, "offline_own_model": own}


def _offline(peer: Peer, own_model: bool) -> dict[str, Any]:
    told = json.dumps({
        "name": peer.name, "adapter": str(peer.adapter), "settings": peer.settings, "own_model": own_model,
        "root": str(peer.environment.root), "python": str(peer.environment.python),
    })  # fmt: skip
    inside = ["unshare", "--map-root-user", "--net", "--mount", "--kill-child", sys.executable, __file__, told]
    try:
        done = subprocess.run(inside, capture_output=True, text=True, timeout=3 * PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"no namespace without network: {error}") from error
    if done.returncode:
        raise Failed(f"no namespace without network: {done.stderr[-300:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(told: dict[str, Any]) -> None:
    names = _answer_names()
    rival = load(Path(told["adapter"]))
    place = Environment(Path(told["root"]), Path(told["python"]), "", {})
    peer = Peer(told["name"], Path(told["adapter"]), rival, told["settings"], place)
    with workplace() as folder, embedder.served(rival) as model:
        corpus.write(folder / "notes", CHUNKS)
        url = "" if told["own_model"] else model.url
        try:
            with Worker(peer, folder / "notes", folder, url, PATIENCE) as worker:
                worker.call("index")
                said = "works" if worker.ask(QUESTION, 5) else "finds nothing"
        except Failed as error:
            said = f"fails: {error}"
    print(json.dumps({"said": said, "looked_up": sorted(names)}))


def _answer_names() -> set[str]:
    """Loopback up, this process the only name server; what is asked for is noted and said not to exist."""
    with socket.socket() as plain:
        fcntl.ioctl(plain, SET_FLAGS, struct.pack("16sh22x", b"lo", UP))
    with workplace() as folder:
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        target = Path("/etc/resolv.conf").resolve()
        subprocess.run(["mount", "--bind", folder / "resolv.conf", target], check=True)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    names: set[str] = set()
    threading.Thread(target=_serve, args=(server, names), daemon=True).start()
    return names


def _serve(server: socket.socket, names: set[str]) -> None:
    while True:
        asked, sender = server.recvfrom(512)
        labels, at = [], 12
        while asked[at]:
            labels.append(asked[at + 1 : at + 1 + asked[at]].decode("ascii", "replace"))
            at += asked[at] + 1
        names.add(".".join(labels))
        server.sendto(asked[:2] + b"\x81\x83" + asked[4:6] + b"\0" * 6 + asked[12 : at + 5], sender)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
