"""Says in plain words why a passage did not come up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memd.protocol.safe_text import one_line


def told(passage: str, result: Mapping[str, Any]) -> str:
    """The verdict, the reasons, and the score beside that of the best hit."""
    shown = result["shown"]
    head = f"{one_line(passage)} is hit number {result['rank']}" if shown else f"{one_line(passage)} is not shown"
    lines = [head, *(f"  {one_line(reason)}" for reason in result["reasons"])]
    if result.get("best") and not (shown and result["rank"] == 1):
        lines += ["", *_beside(result)]
    return "\n".join(lines) + "\n"


def _beside(result: Mapping[str, Any]) -> list[str]:
    """Each part of the score, of this passage and of the best hit."""
    best = result["best"]
    names = list(dict.fromkeys((*best["parts"], *result["parts"])))
    wide = max(len("score"), *(len(name) for name in names))
    place = f"{one_line(best['path'])}:{best['start_line']}"
    rows = [(name, result["parts"].get(name, 0.0), best["parts"].get(name, 0.0)) for name in names]
    rows.append(("score", result["score"], best["score"]))
    title = f"  {'':<{wide}}  {'this':>8}  {'best':>8}  ({place})"
    return [title, *(f"  {name:<{wide}}  {mine:>8.3f}  {other:>8.3f}" for name, mine, other in rows)]
