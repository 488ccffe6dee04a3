"""Fits the margin from which a chunk stands out, on one half of the questions in other words; judges it on the other.

python benchmarks/fit.py [FOLDER] [--keep DIR] [--strangers FOLDER...] [--set SECTION.NAME=VALUE]

The margin decides between `weak` and `none`. The greatest one is chosen, so that most strangers are told `none`, with
which each model hides at most a tenth of what its notes answer; the standard error counts as hidden, since a half has
40 to 60 questions a model. It decides nothing about `found`, whose limits are only checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from other_words import FOLDER
from reliability import ELSEWHERE, LEFT_OUT, OWN, Asked, arguments, ask_all, shares, table

from memd.indexer.query import certainty

MODELS = {"the model": ("en",), "the model of other languages": ("de", "ja", "zh")}
HIDDEN = 0.10
"""The most of the answerable questions that may be called `none`."""
BELIEVED = {LEFT_OUT: 0.30, ELSEWHERE: 0.02}
"""The most of the questions without an answer that may be called `found`."""
MARGINS = [step / 100 for step in range(31)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, metavar="FOLDER", help="questions with halves")
    options = parser.parse_args()
    asked = ask_all([options.folder], options)
    fitting, judging = ([one for one in asked if one.half in (half, "")] for half in ("fit", "judge"))
    chosen = {}
    for model, languages in MODELS.items():
        own = [one for one in fitting if one.kind == OWN and one.group in languages]
        chosen[model] = max(margin for margin in MARGINS if hidden(own, margin) <= HIDDEN)
        print(f"{model} ({', '.join(languages)}; {len(own)} questions): {chosen[model]:.2f}")
    margin = min(chosen.values())
    print(f"certainty.STANDS_OUT: {margin:.2f} is chosen, {certainty.STANDS_OUT:.2f} is set\n")
    for half, some in (("fitted on", fitting), ("judged on", judging)):
        for which, one in (("set", certainty.STANDS_OUT), ("chosen", margin)):
            print(f"### {half}, {which}: {one:.2f}\n\n{table(some, lambda each: each.group, one)}\n")
        print("\n".join(aims(some, margin)) + "\n")


def hidden(own: Sequence[Asked], margin: float) -> float:
    """The share of answerable questions called `none`, and its standard error."""
    share = shares(own, margin)["none"]
    return share + math.sqrt(share * (1 - share) / len(own))


def aims(asked: Sequence[Asked], margin: float) -> list[str]:
    """The limits, and what was measured."""
    limits = [(OWN, "none", HIDDEN), *((kind, "found", most) for kind, most in BELIEVED.items())]
    told = []
    for kind, verdict, most in limits:
        share = shares([one for one in asked if one.kind == kind], margin)[verdict]
        told.append(f"{kind}: {verdict} {share:.3f}, at most {most:.2f}: {'met' if share <= most else 'NOT MET'}")
    return told


if __name__ == "__main__":
    main()
