"""Tells what looks like a key, a token or a password, without ever repeating it. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("a private key", r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY(?: BLOCK)?-----"),
        ("an AWS key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
        ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
        ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("an API key", r"\bsk-(?:ant-|proj-|live-)?[A-Za-z0-9_-]{20,}"),
        ("a Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("a Google API key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
        ("an npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a PyPI token", r"\bpypi-AgEIcHlwaS[A-Za-z0-9_-]{20,}"),
        ("a JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
        ("a password in a URL", r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:(?![*x]+@|\$|<|\{)[^\s:/@]{3,}@"),
    )
)
NAMED = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase)?|secret|token|api[_ -]?key|access[_ -]?key|client[_ -]?secret|auth(?:orization)?)\b"
    r"[\"'`*]*\s*(?:[:=]|\bis\b)\s*[\"'`*]*(?:bearer\s+)?(?P<value>[^\s\"'`*,;]{8,})"
)
"""A word that names a secret, with something behind it that could be one."""

PLACEHOLDER = re.compile(
    r"(?i)^(?:[*x.…_-]+|<.*>?|\$.*|\{.*|%.*|(?:your|my|the|some|changeme|example|placeholder|redacted|hidden|none|null)\b.*)"
)
LEAST_BITS = 3.0
"""Bits a character: words of a language have less, what a generator made has more."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Where something stands that looks like a secret, and what it looks like."""

    line: int
    kind: str


def secrets_in(text: str) -> list[Secret]:
    """Every line that seems to hold a secret, once each."""
    found = [Secret(number, kind) for number, line in enumerate(text.split("\n"), 1) for kind in _kinds(line)]
    return list({secret.line: secret for secret in reversed(found)}.values())[::-1]


def _kinds(line: str) -> Iterator[str]:
    for kind, pattern in PATTERNS:
        if pattern.search(line):
            yield kind
    for named in NAMED.finditer(line):
        value = named["value"]
        if not PLACEHOLDER.match(value) and _mixed(value) and _bits(value) >= LEAST_BITS:
            yield "a password or token"


def _mixed(value: str) -> bool:
    """Letters and digits or signs together, as hardly any word has them."""
    return any(char.isalpha() for char in value) and any(not char.isalpha() for char in value.rstrip(".:!?)"))


def _bits(value: str) -> float:
    counts = Counter(value)
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())
