"""Notes as HTML, and notes are hostile: no HTML of their own, no picture from elsewhere, no link but to the web."""

import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from memd.protocol.safe_text import neutralise

MAX_CHARACTERS = 60_000
"""Beyond this a note is cut: to draw a megabyte takes seconds, and nobody reads it here."""
SAFE_LINK = re.compile(r"(https?|mailto):", re.IGNORECASE)
OWN_COMMENT = re.compile(r"^[ \t]*<!--\s*memd:.*?-->[ \t]*\n?", re.MULTILINE)


class SafeRenderer(RendererHTML):
    """Draws links that lead to the web, and pictures that stand beside the note; others as the words for them."""

    def link_open(self, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
        token = tokens[index]
        href = str(token.attrGet("href") or "")
        token.attrs = {}
        if SAFE_LINK.match(href):
            token.attrs = {"href": href, "rel": "noreferrer noopener", "target": "_blank"}
        return self.renderToken(tokens, index, options, env)

    def td_open(self, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
        """A column's alignment as a class: the page allows no style of its own in an element."""
        style = str(tokens[index].attrs.pop("style", ""))
        if style:
            tokens[index].attrs["class"] = style.rpartition(":")[2]
        return self.renderToken(tokens, index, options, env)

    th_open = td_open

    def image(self, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
        token = tokens[index]
        src = str(token.attrGet("src") or "")
        alt = self.renderInlineAsText(token.children or [], options, env)
        if "image" in env and (own := env["image"](src)):
            return str(Markup('<img src="{}" alt="{}" loading="lazy">').format(own, alt))
        return str(Markup('<span class="picture">{}</span>').format(alt or src))


_OPTIONS = {"html": False, "breaks": True}
_MARKDOWN = MarkdownIt("commonmark", _OPTIONS, renderer_cls=SafeRenderer).enable(["table", "strikethrough"])
MARKED = "\ue000", "\ue001"
"""Stand around a word that was found while its text is drawn; notes have no use for these characters."""
MARKS = re.compile("[{}{}]|%EE%80%8[01]".format(*MARKED))
"""The same, as they are or as an address has them."""
TAG = re.compile(r"<[^>]*>")


def render(text: str, image: Callable[[str], str] | None = None) -> Markup:
    """A note as safe HTML; what memd declares in a comment is shown elsewhere on the page.

    `image` gives the page's own address of a picture, or nothing.
    """
    shown = OWN_COMMENT.sub("", neutralise(text[:MAX_CHARACTERS]))
    return Markup(_MARKDOWN.render(shown, {"image": image} if image else {}))


def render_marked(text: str, marks: list[list[int]]) -> Markup:
    """The same of a piece of a note, the words that were found in `<mark>`."""
    text = text.translate(dict.fromkeys(map(ord, MARKED), " "))
    # From the last: so the places of those before it stay what they are.
    for begin, end in sorted(marks, reverse=True):
        text = text[:begin] + MARKED[0] + text[begin:end] + MARKED[1] + text[end:]
    # Not inside a tag, where an address may have the word.
    drawn = TAG.sub(lambda tag: MARKS.sub("", tag.group()), render(text))
    return Markup(drawn.replace(MARKED[0], "<mark>").replace(MARKED[1], "</mark>"))


def without_heading(text: str, heading: str) -> str:
    """The text of a section without its first line, where the page shows that as its title or behind the file's."""
    first, _, rest = text.partition("\n")
    own = heading.rpartition(" › ")[2]
    return rest if first.lstrip("#").strip() == own.strip() and first.startswith("#") else text
