"""How sure an answer is: what the best hit has of the question, and how near the nearest note is. Pure.

The numbers are a logistic fit on questions put to the right notes against questions of other notes, on four collections
that count alike; docs/retrieval.md has the figures. A question whose words are all in the best hit is never called
unknown.
"""

import math

WEAK, FOUND = 0.02, 0.6
"""Below the first the verdict is "none", from the second on it is "found". The first is low on purpose: a "none" hides
what was found, and notes often say it in quite other words."""

STANDS_OUT = 0.16
"""The nearest chunk that is so much nearer than most of the next ones is at least weak. Fitted by `make fit` on the
fitting half of benchmarks/other_words: .16 by 40 English questions, .23 by 60 for the model of other languages."""

BOTH = (2.0, 5.5, 14.0, -10.2)
WORDS_ONLY = (5.3, 7.8, 0.0, -5.9)
MEANING_ONLY = (0.0, 0.0, 21.0, -10.5)
"""The weights of: the words that any note has, the words that the best hit has, the nearest meaning; and a constant."""

TRANSLATED = (0.0, 0.0, 20.0, -7.6)
"""The same where question and hit are in two languages, and share no words. Half of XQuAD's questions are between
.39 and .65 near to notes that answer them in another language; to other notes .19 in the middle, a tenth above .30."""

ALL_WORDS = 0.999
BELOW_FOUND = FOUND - 0.01


def confidence(
    known: float | None, had: float, near: float | None, unsure: bool = False, translated: bool = False
) -> float:
    """From 0 to 1, by the shares of the question's words that any note and the best hit have, and by the meaning.

    `known` is None when words were not searched, `near` when meaning was not. If it is `unsure` whether
    the question's words are those that were found, the answer is never more than weak. One that is `translated` goes by
    the meaning alone.
    """
    weights = TRANSLATED if translated else MEANING_ONLY if known is None else WORDS_ONLY if near is None else BOTH
    evidence = weights[0] * (known or 0.0) + weights[1] * had + weights[2] * (near or 0.0) + weights[3]
    sure = 1 / (1 + math.exp(-max(-50.0, min(50.0, evidence))))
    sure = max(sure, FOUND) if had >= ALL_WORDS else sure
    return round(min(sure, BELOW_FOUND) if unsure else sure, 3)


def verdict(found: bool, sure: float) -> str:
    if not found or sure < WEAK:
        return "none"
    return "found" if sure >= FOUND else "weak"
