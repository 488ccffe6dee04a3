"""What a person gives a writing command: a text, from the words or from standard input, and the time of day."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from memd.cli import pages, say
from memd.errors import UsageError
from memd.protocol.client import Client

STDIN = "-"


def text_of(words: list[str] | None) -> str:
    """The words, or with `-` what stands on standard input."""
    text = standard_input("text") if words == [STDIN] else " ".join(words or ())
    if not text.strip():
        raise UsageError("there is nothing to write down", "give a text, or - to read it from standard input")
    return text


def standard_input(what: str) -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the {what} is not UTF-8 (byte {error.start + 1})", "convert it first: iconv -t UTF-8"
        ) from None


def now() -> str:
    """The local time, to the minute: whoever writes decides which day it is."""
    return time.strftime("%Y-%m-%dT%H:%M")


def aimed(caller: Client, ns: str | None, workspace: Any, **params: Any) -> dict[str, Any]:
    """What a writing call needs: the parameters that have a value, the workspace that is meant, and who writes."""
    return {"who": "cli", **asked(caller, ns, workspace, **params)}


def asked(caller: Client, ns: str | None, workspace: Any, **params: Any) -> dict[str, Any]:
    """The parameters that have a value, with the workspace that is meant."""
    kept = {name: value for name, value in params.items() if value is not None and value is not False}
    return pages.aimed(caller, {"ns": ns, "workspace": workspace}, kept)


def tell(result: Mapping[str, Any], line: str, json: bool) -> None:
    """Say what was written, and where a text was put that could not be joined."""
    for copy in result["conflicts"]:
        say.note(f"someone else changed the file at the same moment; their text is in {copy}")
    if json:
        say.json(result)
    else:
        say.line(line)
