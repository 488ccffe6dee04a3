"""Templates: every value in one is escaped, and loses what could fool a reader, unless it says otherwise."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from memd.protocol.safe_text import neutralise
from memd.timespans import duration, in_unit, local_time, seconds_until
from memd.version import __version__
from memd.web.markdown import OWN_COMMENT, render_marked, without_heading

HERE = Path(__file__).parent
STATIC = HERE / "static"
SIGNS = re.compile(r"^[|:\s-]+$|^\s*(?:#{1,6}\s|[-*+]\s|>\s|\|)|[*`|]|\[(?=[^\]]*\]\()|\]\([^)]*\)", re.MULTILINE)
DRAWN = re.compile(r"\]\([^)]*\)|[*_`\[\]<>|#~]+|^\s*[-+]\s")
"""Signs that a page does not show as they are written."""
PASSAGE_WORDS = 8
WORDS: dict[str, dict[str, str]] = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    return neutralise(value) if isinstance(value, str) else "" if value is None else value


def excerpt(text: str, title: str, marks: list[list[int]]) -> Markup:
    """A piece of a memory without the heading that its title repeats, the words that were found in `<mark>`."""
    kept = without_heading(text, title).lstrip("\n") or text
    cut = len(text) - len(kept)
    return render_marked(kept, [[begin - cut, end - cut] for begin, end in marks if begin >= cut])


def plain(text: str) -> str:
    """A piece of a note in a line, without the signs of Markdown."""
    return " ".join(SIGNS.sub("", OWN_COMMENT.sub("", text)).split())


def passage(row: Mapping[str, Any]) -> str:
    """The part of an address by which a browser goes to a hit's words and marks them: a few, as the page shows them."""
    text, marks = row["text"], row["marks"] or [[0, 0]]
    line = text[text.rfind("\n", 0, marks[0][0]) + 1 :].partition("\n")[0]
    shown = max(DRAWN.split(line), key=len).split()[:PASSAGE_WORDS]
    return f"#:~:text={quote(' '.join(shown), safe='').replace('-', '%2D')}" if shown else ""


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


def ago(at: str | None) -> str:
    """`3 hours ago`."""
    if not at:
        return "never"
    try:
        ahead = seconds_until(at)
    except ValueError:
        return at
    passed = f"{in_unit(-ahead)} ago" if ahead <= -5 else "just now"
    return f"in {in_unit(ahead)}" if ahead > 1 else passed


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
    made.filters |= {"ago": ago, "moment": local_time, "day": day_of, "times": times, "count": "{:,}".format}
    # `exact`: a text as it is, for a field that will be sent back.
    made.filters |= {"exact": escape, "duration": duration, "plain": plain}
    made.globals |= {"address": address, "memory_address": memory_address, "static": static, "excerpt": excerpt}
    made.globals |= {"passage": passage, "memd_version": __version__, "frame": "base.html", "words": WORDS}
    return made


def render(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(values), status)


def refusal_page(status: int, why: str, hint: str = "") -> HTMLResponse:
    """A page for those who may not see any other."""
    return render("refused.html", {"why": why, "hint": hint}, status)
