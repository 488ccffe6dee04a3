"""The arithmetic around a model: batches of texts in, unit vectors out."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

MOST_TEXTS = 8  # larger batches gain nothing and cost memory
MOST_TOKENS = 512  # padded tokens at once: what a run leaves in the arena grows with this, speed does not


class Pooling(StrEnum):
    """How the vectors of a text's tokens become one."""

    CLS = "cls"
    MEAN = "mean"


def batches(lengths: Sequence[int], most: int = MOST_TEXTS) -> Iterator[list[int]]:
    """Batches of texts of about the same length, by their indices."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == most or (len(batch) + 1) * lengths[index] > MOST_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def padded(ids: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token ids padded to a rectangle, and the mask of the real ones."""
    longest = max(map(len, ids))
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in ids], np.int64)
    tokens = np.array([row + [0] * (longest - len(row)) for row in ids], np.int64)
    return tokens, mask


def pooled(output: NDArray[Any], mask: NDArray[np.int64], pooling: Pooling) -> Vectors:
    """One vector per text from a model's output, which may be pooled already."""
    output = output.astype(np.float32)
    if output.ndim == 2:
        return output
    if pooling is Pooling.CLS:
        return output[:, 0]
    total = (output * mask[..., None].astype(np.float32)).sum(axis=1)
    mean: Vectors = (total / mask.sum(axis=1, keepdims=True, dtype=np.float32)).astype(np.float32, copy=False)
    return mean


def encodable(text: str) -> str:
    """The text without lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def unit(rows: Vectors) -> Vectors:
    """The rows at length one; a row without a direction becomes the first axis."""
    lengths = np.linalg.norm(rows, axis=1)
    lost = ~np.isfinite(lengths) | (lengths == 0)
    axis = np.eye(1, rows.shape[1], dtype=np.float32)
    scaled: Vectors = np.where(lost[:, None], axis, rows / np.where(lost, 1, lengths)[:, None])
    return scaled.astype(np.float32)
