"""How fast each model is by each way of multiplying matrices that this processor has, in turn, and how near they are.

python benchmarks/kernels.py [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from figures import Figure, median, noise, table
from store import say

from memd.indexer.model import granite, multilingual, onnx_graph
from memd.indexer.model.embedder import Embedder, load_granite

SENTENCE = "The heating of the office in Vienna was repaired on Tuesday by the same company as last year. "
FOREIGN = "Die Heizung im Wiener Büro wurde am Dienstag von derselben Firma wie im letzten Jahr repariert. "
QUESTION, CHUNK = 45, 480
"""Characters: about 10 and 105 tokens."""
TEXTS = 20


def texts(sentence: str, length: int) -> list[str]:
    """Different ones, each of this length."""
    return [f"{nth}. {sentence * 8}"[:length] for nth in range(TEXTS)]


def by_kernel(load: Callable[[Path], Embedder], place: Path) -> dict[str, Embedder]:
    """The model by blocks, and as this processor does it."""
    models: dict[str, Embedder] = {}
    for kernel in dict.fromkeys(("blocks", onnx_graph.kernel())):
        with ExitStack() as stack:
            for module in (granite, multilingual, onnx_graph):
                stack.enter_context(patch.object(module, "kernel", lambda name=kernel: name))
            models[kernel] = load(place / kernel)
    return models


def measure(name: str, models: dict[str, Embedder], sentence: str, rounds: int) -> list[Figure]:
    """The CPU time of a text for each kernel, the middle of some rounds in turn."""
    figures = []
    for what, length in (("a question", QUESTION), ("a chunk", CHUNK)):
        asked, spent = texts(sentence, length), {kernel: list[float]() for kernel in models}
        for _ in range(rounds):
            for kernel, model in models.items():
                spent[kernel].append(_spent(model, asked))
        figures += [Figure(f"{name}, {what}, {kernel}", median(values)) for kernel, values in spent.items()]
    first, *others = (model.embed(texts(sentence, CHUNK)) for model in models.values())
    figures += [
        Figure(f"{name}, least cosine to blocks", float(np.sum(first * one, axis=1).min()), "") for one in others
    ]
    return figures


def _spent(model: Embedder, asked: Sequence[str]) -> float:
    began = time.process_time()
    for text in asked:
        model.embed([text])
    return (time.process_time() - began) / len(asked) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    before = noise()
    with tempfile.TemporaryDirectory() as place:
        say("building the graphs")
        english = by_kernel(partial(load_granite, threads=1), Path(place, "english"))
        foreign = by_kernel(multilingual.load, Path(place, "foreign"))
        figures = measure("granite", english, SENTENCE, options.rounds)
        figures += measure("other languages", foreign, FOREIGN, options.rounds)
    print("\n" + table("CPU time of a text on one core", figures))
    print(f"The machine before: {before}; after: {noise()}.")
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
