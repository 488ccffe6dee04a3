"""One memory: its text, where it stands, its versions, what is near it; and how a person changes it."""

import asyncio
import difflib
import os
from functools import partial
from itertools import zip_longest
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from memd.errors import MemdError, NotFound, SecretFound, VersionConflict
from memd.models import is_document
from memd.protocol.async_client import AsyncClient
from memd.web import markdown
from memd.web.rendering import address, memory_address
from memd.web.visit import Visit

NEAR = 6
ASKED_CHARACTERS = 600
"""How much of a text is asked for when the page looks for what is near it in meaning."""


async def show(visit: Visit) -> Response:
    async with visit.client() as memory:
        found = await _get(memory, visit)
        past = await memory.history(found["key"], ns=found["ns"])
        related = await memory.related(found["key"], ns=found["ns"], limit=20)
        done = await memory.log(key=found["key"], ns=found["ns"], limit=20)
        near = await _near(memory, found)
    text = markdown.without_heading(found["text"], found["heading"])
    body = await asyncio.to_thread(markdown.render, text, partial(_image_address, found["ns"], found["path"]))
    return await visit.page(
        "memory.html", "search", memory=found, body=body, cut=len(text) > markdown.MAX_CHARACTERS,
        versions=past["versions"], related=related["memories"], near=near, entries=done["entries"],
        editors=_editors(found), fixed=visit.request.app.state.guard.read_only or is_document(found["path"]),
    )  # fmt: skip


async def _get(memory: AsyncClient, visit: Visit) -> dict[str, Any]:
    """The memory that the address names. To look is no use: nothing is counted, since a GET changes nothing."""
    key = visit.get("key")
    # A day alone would be all of its sections.
    return await memory.call("get", {"key": key if "#" in key else f"{key}#", "observe": False, **visit.scope})


async def _near(memory: AsyncClient, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Memories that say something like it; none where there is no model, or no word."""
    asked = " ".join(found["text"].split())[:ASKED_CHARACTERS].replace('"', " ")
    if not asked.strip("# -"):
        return []
    params = {"query": asked, "mode": "vector", "limit": NEAR + 4, "observe": False, "ns": found["ns"]}
    try:
        hits = (await memory.call("query", params))["hits"]
    except MemdError:
        return []
    others = {hit["key"]: hit for hit in reversed(hits) if hit["key"] != found["key"]}
    return list(reversed(others.values()))[:NEAR]


def _editors(found: dict[str, Any]) -> dict[str, str]:
    """Addresses that open the file in an editor."""
    file = f"{found['root']}/{found['path']}"
    code, obsidian = f"vscode://file{quote(file)}:{found['start_line']}", f"obsidian://open?path={quote(file, safe='')}"
    return {"VS Code": code, "Obsidian": obsidian}


# --- pictures beside a note -----------------------------------------------------------------------------------------

IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
"""Kinds that hold nothing but a picture."""


def _image_address(ns: str, note: str, src: str) -> str:
    """The address of a picture by the path that a note has for it; empty for one that is not in the workspace."""
    path = normpath(PurePosixPath(note).parent / unquote(src))
    inside = not (urlsplit(src).scheme or src.startswith(("/", "\\")) or path.startswith(".."))
    return address("/image", ns=ns, path=path) if inside and PurePosixPath(path).suffix.lower() in IMAGES else ""


async def image(visit: Visit) -> Response:
    """A picture of a workspace; no link leads out of it."""
    known = (await visit.clients.workspaces()).get(visit.ns)
    if known is None:
        raise HTTPException(404)
    root = Path(known["root"]).resolve()
    try:
        file = (root / visit.get("path")).resolve()
        shown = file.is_relative_to(root) and file.is_file() and os.access(file, os.R_OK)
    except (OSError, ValueError):
        # No file can have such a name.
        shown = False
    if not shown or file.suffix.lower() not in IMAGES:
        raise HTTPException(404)
    return FileResponse(file, media_type=IMAGES[file.suffix.lower()])


# --- editing --------------------------------------------------------------------------------------------------------


async def edit(visit: Visit) -> Response:
    async with visit.client() as memory:
        found = await _get(memory, visit)
    return await _editor(visit, found["key"], found["ns"], found["text"], found["version"] or 0)


async def save(visit: Visit) -> Response:
    """Write the text if the memory is still the one that was edited; whatever happens, the text stays on the page."""
    key, text = visit.get("key"), visit.get("text")
    version = visit.number("version", 0)
    secret = bool(visit.get("allow_secret"))
    try:
        async with visit.client() as memory:
            done = await memory.put(key, text, if_version=version, allow_secret=secret, **visit.scope)
    except VersionConflict:
        return await _conflict(visit, key, text)
    except MemdError as error:
        status = 503 if error.retryable else 400
        return await _editor(visit, key, visit.ns, text, version, error=error, status=status)
    return visit.back("put", done["action"], to=memory_address(done["ns"], done["key"] or key))


async def _conflict(visit: Visit, key: str, mine: str) -> Response:
    """Someone else changed it meanwhile: both texts, side by side, and the version that there is now."""
    async with visit.client() as memory:
        try:
            theirs = await _get(memory, visit)
        except NotFound:
            theirs = {"text": "", "version": 0}
    return await _editor(visit, key, visit.ns, mine, theirs["version"] or 0, status=409, theirs=theirs["text"])


async def _editor(
    visit: Visit, key: str, ns: str, text: str, version: int, *, status: int = 200, error: MemdError | None = None,
    theirs: str | None = None,
) -> Response:  # fmt: skip
    rows = None if theirs is None else side_by_side(theirs, text)
    return await visit.page(
        "edit.html", "search", code=status, key=key, edited_ns=ns, text=text, version=version, error=error,
        secret=isinstance(error, SecretFound), theirs=theirs, rows=rows,
    )  # fmt: skip


# --- versions -------------------------------------------------------------------------------------------------------


async def history(visit: Visit) -> Response:
    """Every version, and two of them side by side."""
    async with visit.client() as memory:
        past = await memory.history(visit.get("key"), **visit.scope)
        numbers = [row["version"] for row in past["versions"] if row["characters"] is not None]
        new = visit.number("new", numbers[0] if numbers else 0)
        old = visit.number("old", next((one for one in numbers if one < new), new))
        asked = {"key": past["key"], "ns": past["ns"], "observe": False}
        texts = {
            number: (await memory.call("get", {**asked, "version": number}))["text"]
            for number in {old, new} if number
        }  # fmt: skip
    rows = side_by_side(texts.get(old, ""), texts.get(new, "")) if old != new else []
    return await visit.page("history.html", "search", past=past, old=old, new=new, rows=rows, shown=texts.get(new, ""))


def side_by_side(old: str, new: str) -> list[dict[str, Any]]:
    """The lines of two texts beside each other; equal stretches are cut to what stands next to a change."""
    before, after = old.splitlines(), new.splitlines()
    rows: list[dict[str, Any]] = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(3):
        if rows:
            rows.append({"tag": "gap", "old": "", "new": "", "old_line": "", "new_line": ""})
        for tag, old_from, old_to, new_from, new_to in group:
            left = enumerate(before[old_from:old_to], old_from + 1)
            right = enumerate(after[new_from:new_to], new_from + 1)
            for (old_line, was), (new_line, now) in zip_longest(left, right, fillvalue=("", "")):
                rows.append({"tag": tag, "old": was, "new": now, "old_line": old_line, "new_line": new_line})
    return rows
