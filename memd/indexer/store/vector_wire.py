"""Messages between the daemon and the process that has Chroma: a JSON header and raw numbers, with their lengths."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LENGTHS = struct.Struct("!II")
PIECE = 1 << 20

Header = dict[str, Any]


def write_message(link: socket.socket, header: Header, numbers: bytes = b"") -> None:
    text = json.dumps(header).encode()
    link.sendall(LENGTHS.pack(len(text), len(numbers)) + text + numbers)


def read_message(link: socket.socket) -> tuple[Header, bytes] | None:
    """The next message; None when the other end is closed."""
    lengths = _exactly(link, LENGTHS.size)
    if lengths is None:
        return None
    header, numbers = (_exactly(link, length) for length in LENGTHS.unpack(lengths))
    return None if header is None or numbers is None else (json.loads(header), numbers)


def _exactly(link: socket.socket, length: int) -> bytes | None:
    parts = []
    while length:
        try:
            part = link.recv(min(length, PIECE))
        except ConnectionError:
            return None
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
