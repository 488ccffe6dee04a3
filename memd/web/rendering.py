"""Templates: every value in one is escaped, and loses what could fool a reader, unless it says otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from memd.protocol.safe_text import neutralise
from memd.version import __version__

HERE = Path(__file__).parent
STATIC = HERE / "static"


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    return neutralise(value) if isinstance(value, str) else "" if value is None else value


def exact(text: str) -> Markup:
    """A text as it is, for a field that will be sent back."""
    return escape(text)


def marked(text: str, marks: list[list[int]]) -> Markup:
    """A text with the words that were found in `<mark>`."""
    pieces, at = [], 0
    for begin, end in sorted((max(0, mark[0]), mark[1]) for mark in marks):
        if begin < at or end > len(text):
            continue
        pieces += [escape(neutralise(text[at:begin])), Markup("<mark>"), escape(neutralise(text[begin:end]))]
        pieces += [Markup("</mark>")]
        at = end
    return Markup("").join([*pieces, escape(neutralise(text[at:]))])


def excerpt(text: str, title: str, marks: list[list[int]]) -> Markup:
    """A piece of a memory without the heading that its title repeats, the words that were found in `<mark>`."""
    first, _, rest = text.partition("\n")
    if not (rest and first.startswith("#") and first.lstrip("#").strip() == title.strip()):
        return marked(text, marks)
    kept = rest.lstrip("\n")
    cut = len(text) - len(kept)
    return marked(kept, [[begin - cut, end - cut] for begin, end in marks if begin >= cut])


def times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number:,} times")


def address(path: str, /, **values: Any) -> str:
    """A path with the values that are there."""
    given = {name: value for name, value in values.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def memory_address(ns: str, key: str) -> str:
    return address("/memory", ns=ns, key=key)


def day_of(at: str | None) -> str:
    return (at or "")[:10]


def moment(at: str | None) -> str:
    """`2026-02-15 08:30`, in this machine's time."""
    if not at:
        return ""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return at


def ago(at: str | None) -> str:
    """`3 hours ago`."""
    if not at:
        return "never"
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return at
    seconds = (datetime.now(UTC) - then.astimezone(UTC)).total_seconds()
    return f"in {_span(-seconds)}" if seconds < -1 else f"{_span(seconds)} ago" if seconds >= 5 else "just now"


def _span(seconds: float) -> str:
    for unit, size in (("year", 31_536_000), ("month", 2_592_000), ("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count > 1)}"
    return f"{int(seconds)} s"


def count(number: float) -> str:
    """`12,345`."""
    return f"{number:,}"


@cache
def static(name: str) -> str:
    """The address of a static file, which changes with its content."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, finalize=_finalize,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters |= {"exact": exact, "ago": ago, "moment": moment, "day": day_of, "count": count, "times": times}
    made.globals |= {"address": address, "memory_address": memory_address, "static": static, "excerpt": excerpt}
    made.globals |= {"memd_version": __version__, "frame": "base.html"}
    return made


def render(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(values), status)


def refusal_page(status: int, why: str, hint: str = "") -> HTMLResponse:
    """A page for those who may not see any other."""
    return render("refused.html", {"why": why, "hint": hint}, status)
