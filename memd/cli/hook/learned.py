"""Finds the sentences of a conversation that are worth keeping: wishes, decisions, causes and facts. Pure.

The rules rather miss something than fill the notes: a sentence is kept if it says that it matters, or if it states
a fact that can be looked up again. Plans, politeness, questions and anything that looks like a secret are skipped.
"""

import re
from collections.abc import Iterable, Iterator

from memd.cli.hook.transcript import Utterance
from memd.prose import CODE_BLOCK

MIN_LENGTH, MAX_LENGTH = 20, 400
MAX_SENTENCES = 12
"""The most sentences that are kept; the last ones win, since they are the newest."""

NOT_PROSE = re.compile(r"^\s*(?:[#>|]|[-=*_]{3,}\s*$)")
MARKER = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
BORDER = re.compile(r"(?<=[.!?])\s+(?=[^\Wa-z_]|[\"'“(`*])|(?<=[。！？])\s*(?!$)")
HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
STRESS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")


def _phrases(*ways: str, han: str) -> re.Pattern[str]:
    """Phrases of English, and of Chinese and Japanese, where nothing stands between words."""
    return re.compile(rf"(?i)\b(?:{'|'.join(ways)})\b|{han}")


WISH = _phrases(
    "remember", "keep in mind", "don'?t forget", "for the record", "take note", "note that", "make a note",
    "from now on", "in future", "always", "never", "(?:i|we)(?:'d)? prefer", "i (?:like|hate)", "my name is",
    "call me", "by convention", "our (?:rule|policy)",
    han="记住|記住|记得|記得|别忘|別忘|不要忘|以后|以後|今后|今後|从现在起|從現在起|总是|總是|永远|永遠|从不|從不|我(?:们|們)?(?:更)?喜[欢歡]|叫我"
    "|我叫|覚えて|忘れないで|これからは|必ず|常に|いつも|決して|絶対に|方が好き|と呼んで|メモして",
)  # fmt: skip
"""Phrases of a person who wants something remembered."""
DECISION = _phrases(
    "decided", "decision", "we(?:'ll| will) (?:use|keep|go with)", "let'?s (?:use|keep|go with|stick (?:to|with))",
    "going with", "settled on", "agreed (?:to|that|on)", "chose", "chosen", "instead of", "rather than",
    "won'?t (?:use|support)", "deprecated",
    han="[决決]定|改用|[采採]用|[选選][择擇択]了|不再使用|而不是|弃用|棄用|に決め|こと(?:にし|になり)|の?代わりに|廃止",
)  # fmt: skip
CAUSE = _phrases(
    "root cause", "turn(?:s|ed) out", "caused by", "fixed (?:by|it by|in)", "gotcha", "lesson", "learned that",
    "(?:the|this) (?:bug|problem|issue|error|failure|cause|reason|fix|culprit|workaround|trick) (?:was|is)",
    "works? (?:only|now) (?:if|when|because|with)", "must be (?:set|run|called|started)",
    "fails? (?:if|when|unless|because)",
    han="原因(?:是|在于|在於|は)|根本原因|[问問][题題]在[于於]|[导導]致|修[复復]了|解[决決]了|教[训訓]|が原因|のせいで|回避策|修正しました"
    "|直りました|問題は",
)  # fmt: skip
STATES = _phrases(
    # Not "run" or "use": so begins what someone is told to do.
    "is", "are", "was", "were", "lives?", "listens?", "runs", "stands", "stored", "located", "configured", "set to",
    "uses", "requires?", "needs", "takes", "defaults?", "expires?", "starts", "ends", "means", "points? to",
    "called", "named", "costs?", "measured",
    han="是|位于|位於|需要|使用|[设設][置定]|[运運]行|[监監][听聽]|です|あります|にある|である|必要|動いて|使って|保存",
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
    r"|^(?:好的?|嗯|行|那么|那麼|现在|現在|接下来|接下來|首先)?[,，、。\s]*(?:我(?:来|來|会|會|将|將|要|先|再)|让我|讓我|请问|請問|谢谢|謝謝)"
    r"|^(?:はい|では|それでは|まず|次に|ありがとう|了解|承知)|(?:確認|調査|実行|検索)します。?$|みます。?$"
)
"""Announcements of an agent, and other remarks that mean nothing after the turn."""

SECRET = re.compile(
    r"(?i)密[码碼]|口令|令牌|密[钥鑰]|パスワード|トークン|秘密鍵"
    r"|pass(?:word|wd|phrase|code)|passwort|kennwort|contraseña|secret|credential|(?:api|private|access)[ _-]?key"
    r"|\btokens?\b|bearer|authorization|-----BEGIN|://[^\s/@]+:[^\s/@]+@"
    r"|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|eyJ|hf_|npm_)"
)
LONG = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
"""A word as long as a key; `_looks_generated` excludes paths and hyphenated names."""


def worth_keeping(conversation: Iterable[Utterance]) -> list[str]:
    """The sentences worth keeping, each once, in order."""
    found = {folded(text): text for one in conversation for text in _kept_sentences(one)}
    return list(found.values())[-MAX_SENTENCES:]


def tidy(lines: Iterable[str]) -> list[str]:
    """Lines from the user's own command: trimmed, each once, without secrets."""
    flat = (" ".join(MARKER.sub("", line).split()) for line in lines)
    found = {folded(text): text[:MAX_LENGTH] for text in flat if folded(text) and not looks_secret(text)}
    return list(found.values())[-MAX_SENTENCES:]


def folded(text: str) -> str:
    """A sentence without case, punctuation and spaces, for comparison."""
    return "".join(char for char in text.casefold() if char.isalnum())


def looks_secret(text: str) -> bool:
    """Stricter than the daemon's check, which follows: nobody is asked before a hook saves."""
    return bool(SECRET.search(text)) or any(map(_looks_generated, LONG.findall(text)))


def _looks_generated(word: str) -> bool:
    """Whether a part of the word mixes letters and digits and is long."""
    parts = [part for part in re.split(r"[/_=+-]", word) if part]
    mixed = [part for part in parts if re.search(r"\d", part) and re.search(r"[A-Za-z]", part)]
    return any(len(part) >= 12 for part in mixed)


def _kept_sentences(one: Utterance) -> Iterator[str]:
    for sentence in sentences(one.text):
        asks = sentence.endswith(("?", "？", ":", "：", "吗。", "嗎。", "か。"))
        # A character of these scripts says as much as two or three letters.
        said = len(sentence) + 2 * len(HAN_OR_KANA.findall(sentence))
        fits = said >= MIN_LENGTH and len(sentence) <= MAX_LENGTH and not asks
        if fits and _is_worth_keeping(one.who, sentence) and not looks_secret(sentence):
            yield sentence


def _is_worth_keeping(who: str, sentence: str) -> bool:
    """A person's wishes, decisions and causes always count; anything else only if it is no plan."""
    wanted = who == "user" and any(cue.search(sentence) for cue in (WISH, DECISION, CAUSE))
    return wanted or (not PLAN.match(sentence) and _informs(sentence))


def _informs(sentence: str) -> bool:
    """Whether a sentence states a decision, a cause, or a fact with something concrete in it."""
    if DECISION.search(sentence) or CAUSE.search(sentence):
        return True
    return bool(STATES.search(sentence)) and bool(CONCRETE.search(sentence))


def sentences(text: str) -> Iterator[str]:
    """The sentences of the prose, without code, tables, headings and quotations."""
    for line in CODE_BLOCK.sub("\n", text).splitlines():
        if NOT_PROSE.match(line):
            continue
        for sentence in BORDER.split(STRESS.sub(r"\2", MARKER.sub("", line)).strip()):
            flat = " ".join(sentence.split())
            if flat:
                yield flat
