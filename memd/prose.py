"""Texts as every floor reads them: lines, sentences, code blocks, rough tokens; in data, and in a transcript."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line with its end; only a line feed ends one."""
SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？；])\s*|\n+")
"""The gap behind a sentence."""
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
CODE_BLOCK = re.compile(r"(?ms)^[ \t]*(```|~~~)[^`\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)")
"""A fenced code block; one that is not closed goes on to the end."""
CHARACTERS_PER_TOKEN = 4
"""On average."""


def composed(text: str) -> str:
    """The text with letters and their signs as one character each: macOS and some editors write them apart."""
    return unicodedata.normalize("NFC", text)


class CodeFence:
    """Follows a text line by line, into its code blocks and out of them."""

    def __init__(self) -> None:
        self.open = ""
        """The fence of the block that is open."""

    def holds(self, line: str) -> bool:
        """Whether the next line belongs to a code block."""
        edge = FENCE.match(line)
        if not self.open:
            self.open = edge[1] if edge else ""
            return bool(edge)
        if edge and edge[1].startswith(self.open) and not line[edge.end() :].strip():
            self.open = ""
        return True


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Data with every text in it changed; the names of fields are memd's own, and stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [with_texts(entry, change) for entry in value]
    return {name: with_texts(entry, change) for name, entry in value.items()} if isinstance(value, dict) else value


def value_at(value: Any, *names: str) -> Any:
    """The value at the end of a path through JSON objects; None where it does not lead so far."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def flat_line(text: str) -> str:
    """The words of a text on one line, one space between two."""
    return " ".join(text.split())


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a text is to a language model."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


# --- messages of a transcript ---------------------------------------------------------------------------------

ASIDE = ("isMeta", "isSidechain", "isApiErrorMessage", "isCompactSummary")
"""Marks of lines that neither the person nor this agent wrote."""
INSERTED = re.compile(
    r"<(system-reminder|memd-memory|environment_context|user_instructions|permissions[\w -]*|local-command-[a-z]+"
    r"|command-[a-z]+|task-notification)>.*?(?:</\1>|\Z)"
    r"|\A# AGENTS\.md instructions for .*|\ACaveat: The messages below.*",
    re.DOTALL,
)
"""Text that programs put into a person's messages."""


def said(content: Any, kind: str = "text") -> str:
    """The words of a message, without tool calls, thoughts and what programs put in."""
    blocks = content if isinstance(content, list) else [{"type": kind, "text": content}]
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == kind)
    return INSERTED.sub("", "\n\n".join(text for text in texts if isinstance(text, str))).strip()
