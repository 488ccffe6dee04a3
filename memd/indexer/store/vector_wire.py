"""Messages between the daemon and the process that has Chroma: a JSON header and raw numbers, with their lengths."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from memd.child import receive_exactly

LENGTHS = struct.Struct("!II")

Header = dict[str, Any]


def write_message(link: socket.socket, header: Header, numbers: bytes = b"") -> None:
    text = json.dumps(header).encode()
    link.sendall(LENGTHS.pack(len(text), len(numbers)) + text + numbers)


def read_message(link: socket.socket) -> tuple[Header, bytes] | None:
    """The next message; None when the other end is closed."""
    try:
        lengths = LENGTHS.unpack(receive_exactly(link, LENGTHS.size))
        header, numbers = (receive_exactly(link, length) for length in lengths)
    except ConnectionError:
        return None
    return json.loads(header), bytes(numbers)
