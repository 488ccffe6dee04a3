"""Plain rules for what is worth keeping of a conversation: wishes, decisions, causes and facts. Pure.

It would rather miss something than fill the notes: a sentence is kept when it says that it matters, or when it states
something one could look up again. Plans, politeness, questions and whatever looks like a secret are left out.
"""

import re
from collections.abc import Iterable, Iterator

from memd.cli.hook.transcript import Said

SHORTEST, LONGEST = 20, 400
MOST = 12
"""Things that are kept of one turn; the last ones, since they are the newest."""

FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
NOT_PROSE = re.compile(r"^\s*(?:[#>|]|[-=*_]{3,}\s*$)")
MARKER = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
BORDER = re.compile(r"(?<=[.!?。！？])\s+(?=[^\Wa-z_]|[\"'“(`*])")
STRESS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")


def _spoken(*ways: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)\b(?:{'|'.join(ways)})\b")


WISH = _spoken(
    "remember", "keep in mind", "don'?t forget", "for the record", "take note", "note that", "make a note",
    "from now on", "in future", "always", "never", "(?:i|we)(?:'d)? prefer", "i (?:like|hate)", "my name is",
    "call me", "by convention", "our (?:rule|policy)",
)  # fmt: skip
"""What a person says when it should last."""
DECISION = _spoken(
    "decided", "decision", "we(?:'ll| will) (?:use|keep|go with)", "let'?s (?:use|keep|go with|stick (?:to|with))",
    "going with", "settled on", "agreed (?:to|that|on)", "chose", "chosen", "instead of", "rather than",
    "won'?t (?:use|support)", "deprecated",
)  # fmt: skip
CAUSE = _spoken(
    "root cause", "turn(?:s|ed) out", "caused by", "fixed (?:by|it by|in)", "gotcha", "lesson", "learned that",
    "(?:the|this) (?:bug|problem|issue|error|failure|cause|reason|fix|culprit|workaround|trick) (?:was|is)",
    "works? (?:only|now) (?:if|when|because|with)", "must be (?:set|run|called|started)",
    "fails? (?:if|when|unless|because)",
)  # fmt: skip
STATES = _spoken(
    # Not "run" or "use": so begins what someone is told to do.
    "is", "are", "was", "were", "lives?", "listens?", "runs", "stands", "stored", "located", "configured", "set to",
    "uses", "requires?", "needs", "takes", "defaults?", "expires?", "starts", "ends", "means", "points? to",
    "called", "named", "costs?", "measured",
)  # fmt: skip
CONCRETE = re.compile(
    # A path, a file, an address, a port, a version, a day, a variable, a number of something.
    r"(?<![\w/])(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]*)*"
    r"|\b[\w-]+\.(?:py|rs|ts|tsx|js|go|md|toml|json|ya?ml|sql|sh|db|cfg|ini)\b"
    r"|https?://\S+|\b\d{1,3}(?:\.\d{1,3}){3}\b|\bports? \d+|\bv?\d+\.\d+(?:\.\d+)?\b|\b\d{4}-\d\d-\d\d\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\$\d"
    r"|\b\d[\d,.]* ?(?:ms|s|seconds?|minutes?|hours?|days?|[KMGT]i?B|MHz|GHz|euros?|rows?|files?|users?|times)\b"
    r"|\b\d[\d,.]* ?[%€]"
)
PLAN = re.compile(
    r"(?i)^(?:(?:ok(?:ay)?|sure|great|perfect|good|now|next|first|then|finally|alright|so|and|but)[,.!:]?\s+)*(?:"
    r"i(?:'ll| will|'m going to| am going to|'d like to| need to| should| can| could| want to)|let me|let us"
    r"|let'?s (?:see|look|check|start|first|try|run)|now (?:i|let)|looking at|checking|running|reading|searching"
    r"|here(?:'s| is| are)|shall i|should i|would you|do you|can you|could you|thanks?|thank you"
    r"|you'?re (?:right|welcome)|sounds good|done)\b"
)
"""How an agent says what it is about to do, and other things that are over when the turn is."""

SECRET = re.compile(
    r"(?i)pass(?:word|wd|phrase|code)|passwort|kennwort|contraseña|secret|credential|(?:api|private|access)[ _-]?key"
    r"|\btokens?\b|bearer|authorization|-----BEGIN|://[^\s/@]+:[^\s/@]+@"
    r"|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|eyJ|hf_|npm_)"
)
LONG = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
"""What is as long as a key; a path or a hyphenated name is not meant."""


def learned(conversation: Iterable[Said]) -> list[str]:
    """What is worth keeping, each thing once, in the order it was said."""
    found = {folded(text): text for one in conversation for text in _of(one)}
    return list(found.values())[-MOST:]


def tidy(lines: Iterable[str]) -> list[str]:
    """What somebody else found: one line each, nothing twice, nothing that looks like a secret."""
    flat = (" ".join(MARKER.sub("", line).split()) for line in lines)
    found = {folded(text): text[:LONGEST] for text in flat if folded(text) and not looks_secret(text)}
    return list(found.values())[-MOST:]


def folded(text: str) -> str:
    """A sentence without case, signs and spaces: two that differ only in these say the same."""
    return "".join(char for char in text.casefold() if char.isalnum())


def looks_secret(text: str) -> bool:
    """More cautious than memd's own look, which comes after it: here nobody is asked."""
    return bool(SECRET.search(text)) or any(map(_made, LONG.findall(text)))


def _made(word: str) -> bool:
    """Long, with letters and digits, and not made of words that are joined."""
    parts = [part for part in re.split(r"[/_=+-]", word) if part]
    mixed = [part for part in parts if re.search(r"\d", part) and re.search(r"[A-Za-z]", part)]
    return any(len(part) >= 12 for part in mixed)


def _of(one: Said) -> Iterator[str]:
    for sentence in sentences(one.text):
        asks = sentence.endswith(("?", "？", ":"))
        fits = SHORTEST <= len(sentence) <= LONGEST and not asks
        if fits and _lasts(one.who, sentence) and not looks_secret(sentence):
            yield sentence


def _lasts(who: str, sentence: str) -> bool:
    """What a person wants counts however it is said; of the rest only what is no plan."""
    wanted = who == "user" and any(cue.search(sentence) for cue in (WISH, DECISION, CAUSE))
    return wanted or (not PLAN.match(sentence) and _tells(sentence))


def _tells(sentence: str) -> bool:
    """Whether a sentence tells of a decision, a cause, or a fact that has something concrete in it."""
    if DECISION.search(sentence) or CAUSE.search(sentence):
        return True
    return bool(STATES.search(sentence)) and bool(CONCRETE.search(sentence))


def sentences(text: str) -> Iterator[str]:
    """The sentences of what is prose: no code, no tables, no headings, no quotations."""
    for line in FENCED.sub("\n", text).splitlines():
        if NOT_PROSE.match(line):
            continue
        for sentence in BORDER.split(STRESS.sub(r"\2", MARKER.sub("", line)).strip()):
            flat = " ".join(sentence.split())
            if flat:
                yield flat
