"""The form of a server's address, and when it is safe to send something there."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def url_problem(text: str) -> str:
    """The form that an address must have; empty if it is right, or left to the default."""
    try:
        parts = urlsplit(text)
        named = not text or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        named = False
    if not named or not text.isprintable() or " " in text:
        return "an address such as http://localhost:8000 or https://example.org/v1"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return "an address alone: keys and passwords come from the environment or a file"
    return ""


def variable_problem(text: str) -> str:
    """The form that the name of an environment variable must have; empty if it is right, or left out."""
    return "" if not text or _VARIABLE.fullmatch(text) else "the name of an environment variable, not what it holds"


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is named by; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback_host(host: str) -> bool:
    """Whether a name or an address is always this very machine."""
    return found.is_loopback if (found := ip_of(host)) else host == "localhost"


def is_loopback(url: str) -> bool:
    """Whether the address of a server is this very machine."""
    host = urlsplit(url).hostname or ""
    return is_loopback_host(host) or host.endswith(".localhost")


def is_exposed(url: str) -> bool:
    """Whether others could read what is sent there: another machine, without TLS."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)
