"""Asks the daemon for the workspace that is meant, and page by page for what does not fit into one answer.

Light on purpose: `memd query` and `memd grep` load it.
"""

from __future__ import annotations

import os

from memd.errors import UnknownWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memd.protocol.client import Client

BUS_PAGE = 200
LIST_PAGE = 1_000
GREP_PAGE = 1_000
"""The most that one answer has."""


def working_directory() -> str | None:
    """None where it was removed under the shell, or has a name that is not text: no workspace is there."""
    try:
        here = os.getcwd()  # noqa: PTH109
        here.encode()
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    return here


def workspace_of(client: Client, directory: str | os.PathLike[str]) -> str | None:
    """The name of the innermost workspace that holds `directory`."""
    place = _with_slash(directory)
    known = client.call("workspace.list")["workspaces"]
    holding = [(len(root), entry["ns"]) for entry in known if place.startswith(root := _with_slash(entry["root"]))]
    return max(holding)[1] if holding else None


def must_be_workspace(client: Client, directory: str | os.PathLike[str]) -> str:
    """The same, or an error that says how to make it one."""
    name = workspace_of(client, directory)
    if name is None:
        raise UnknownWorkspace(f"{directory} is in no workspace", f"make it one: memd add {directory}")
    return name


def _with_slash(directory: str | os.PathLike[str]) -> str:
    return os.path.realpath(directory).rstrip("/") + "/"


def aimed(client: Client, given: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the workspace that was named, or with the directory that it may be around."""
    if given.get("ns"):
        return {**params, "ns": given["ns"]}
    if given.get("workspace"):
        return {**params, "ns": must_be_workspace(client, given["workspace"])}
    here = working_directory()
    return {**params, "cwd": here} if here else params


def gathered(
    client: Client, method: str, params: dict[str, Any], rows: str, limit: int | None, page: int
) -> dict[str, Any]:
    """One answer that has as many rows as were wanted: all of them for 0, the daemon's own number for None."""
    if limit is None:
        return client.call(method, params)
    result = client.call(method, {**params, "limit": min(limit or page, page)})
    wanted = min(limit or result["total"], result["total"])
    while len(result[rows]) < wanted:
        have = len(result[rows])
        more = client.call(method, {**params, "offset": have, "limit": min(wanted - have, page)})[rows]
        if not more:
            break
        result[rows] += more
    return result


def all_blocks(client: Client, params: dict[str, Any], limit: int) -> dict[str, Any]:
    """What `grep` finds, up to `limit` blocks, all for 0."""
    result = client.call("grep", {**params, "max_results": min(limit or GREP_PAGE, GREP_PAGE)})
    while result["next"] and (not limit or len(result["blocks"]) < limit):
        left = min(limit - len(result["blocks"]) if limit else GREP_PAGE, GREP_PAGE)
        more = client.call("grep", {**params, "max_results": left, "after": result["next"]})
        result["blocks"] += more["blocks"]
        result["next"] = more["next"]
    return result
