"""Writes ONNX graphs, and opens them.

A graph is a protobuf message with a few kinds of parts. They are written here, since the package onnx takes 25 MB and
most of a second to do so once; the numbers of fields and types are those of its `onnx.proto`.
"""

import itertools
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd import installation
from memd.errors import ModelUnavailable

HINT = "Check embedding.path in the config; with embedding.provider = none memd searches text only."
MICROSOFT = "com.microsoft"
CPUINFO = Path("/proc/cpuinfo")
VNNI = {"avx512_vnni", "avx_vnni"}
"""Processors with one of these multiply whole matrices of bytes in a third of the time that blocks take. Others that
could would let sums overflow (AVX2), or gain little (ARM)."""
BY_BLOCKS = None

_ZERO_POINT = 128  # MatMulNBits takes unsigned bytes around this
_INT8_ACTIVATIONS = 4  # 8-bit activations per block: on x86 a query takes 2 ms instead of 19, at cosine 0.9998

Loud = Sequence[int] | None
"""The columns that have much larger numbers than the others; `BY_BLOCKS` for a product that needs to be more exact."""
Shapes = Mapping[str, tuple[Any, Sequence[str | int | None]]]
"""The type and the axes of each input or output."""


Field = int | float | str | bytes

TYPES = {np.dtype(kind): number for kind, number in ((np.float32, 1), (np.uint8, 2), (np.int8, 3), (np.int64, 7))}
"""The numbers of the types of tensors."""
FLOAT, INT, INTS = 1, 2, 7
"""Those of the types of attributes."""


def message(*fields: tuple[int, Field]) -> bytes:
    """A protobuf message: its fields by their numbers."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Field) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % (1 << 64))
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have the eighth."""
    low = [value >> shift & 127 | 128 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*low[:-1], low[-1] & 127])


class GraphWriter:
    """Writes a graph node by node; each method returns the name of what it computes."""

    def __init__(self, name: str, inputs: Shapes, outputs: Shapes) -> None:
        self.kernel = kernel()
        self.serial = itertools.count()
        self.weights: set[str] = set()
        self.parts: list[bytes] = [message((2, name))]
        """Those of the graph: its nodes, its weights, and its ends."""
        for number, ends in ((11, inputs), (12, outputs)):
            self.parts += [_field(number, _end(end, *shape)) for end, shape in ends.items()]

    def content(self) -> bytes:
        """The graph as a file has it, in an old version that every onnxruntime reads."""
        opsets = [(8, message((1, domain), (2, version))) for domain, version in (("", 17), (MICROSOFT, 1))]
        return message((1, 8), *opsets, (7, b"".join(self.parts)))

    def node(
        self, kind: str, *inputs: str, outputs: Sequence[str] = (), domain: str = "", **attributes: float | list[int]
    ) -> str:
        """Add an operation; returns the name of its first output."""
        outputs = outputs or [self.fresh()]
        ends = [*((1, one) for one in inputs), *((2, one) for one in outputs)]
        values = [(5, _attribute(name, value)) for name, value in attributes.items()]
        self.parts.append(_field(1, message(*ends, (4, kind), *values, (7, domain))))
        return outputs[0]

    def fresh(self) -> str:
        """An unused name."""
        return f"t{next(self.serial)}"

    def weight(self, name: str, values: NDArray[Any]) -> str:
        """Add an array under its own name, once."""
        if name not in self.weights:
            self.weights.add(name)
            axes = [(1, size) for size in values.shape]
            self.parts.append(_field(5, message(*axes, (2, TYPES[values.dtype]), (8, name), (9, values.tobytes()))))
        return name

    def constant(self, values: list[int]) -> str:
        """A small list of integers."""
        return self.weight("const" + "_".join(map(str, values)), np.array(values, np.int64))

    def times(
        self, x: str, name: str, values: NDArray[Any], scales: NDArray[np.float32], bias: str, loud: Loud = ()
    ) -> str:
        """Weights times x plus bias, in 8 bits: each row of weights is blocks, and each block has a scale."""
        if self.kernel == "vnni" and loud is not BY_BLOCKS:
            return self._times_whole(x, name, (values * scales[..., None]).reshape(len(values), -1), bias, list(loud))
        rows, blocks, size = values.shape
        packed = (values.astype(np.int16) + _ZERO_POINT).astype(np.uint8)
        parts = self.weight(name, packed), self.weight(f"{name}.s", scales), "", "", bias
        shape = {"N": rows, "K": blocks * size, "bits": 8, "block_size": size, "accuracy_level": _INT8_ACTIVATIONS}
        return self.node("MatMulNBits", x, *parts, **shape, domain=MICROSOFT)

    def _times_whole(self, x: str, name: str, weights: NDArray[np.float32], bias: str, loud: list[int]) -> str:
        """The same with one scale for a row of weights, and one for all of x but its loud columns, which stay exact."""
        quiet, apart = np.ones(weights.shape[1], np.float32), ""
        if loud:
            quiet[loud] = 0
            columns = self.node("Gather", x, self.constant(loud), axis=-1)
            apart = self.node("MatMul", columns, self.weight(f"{name}.loud", weights[:, loud].T))
            x, weights = self.node("Mul", x, self.weight(f"{name}.quiet", quiet)), weights * quiet
        scales = (np.abs(weights).max(1) / 127).astype(np.float32)
        whole = self.weight(name, np.rint(weights / scales[:, None]).astype(np.int8).T)
        parts = whole, self.weight(f"{name}.s", scales), "", bias
        product = self.node("DynamicQuantizeMatMul", x, *parts, domain=MICROSOFT)
        return self.node("Add", product, apart) if loud else product


def _end(name: str, kind: Any, axes: Sequence[str | int | None]) -> bytes:
    """An input or an output: its name, its type and its shape."""
    sizes = [(1, b"" if axis is None else message((1 if isinstance(axis, int) else 2, axis))) for axis in axes]
    tensor = message((1, TYPES[np.dtype(kind)]), (2, message(*sizes)))
    return message((1, name), (2, message((1, tensor))))


def _attribute(name: str, value: float | list[int]) -> bytes:
    if isinstance(value, list):
        return message((1, name), *((8, one) for one in value), (20, INTS))
    if isinstance(value, int):
        return message((1, name), (3, value), (20, INT))
    return message((1, name), (2, value), (20, FLOAT))


def kernel() -> str:
    """How matrices are multiplied on this processor."""
    with suppress(OSError):
        if not VNNI.isdisjoint(CPUINFO.read_text().split()):
            return "vnni"
    return "blocks"


def open_session(graph: Path | bytes, threads: int, model: str) -> Any:
    """An onnxruntime session that keeps little memory, and whose idle threads sleep."""
    try:
        # Set before the import, which would start telemetry.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime
    except ImportError as error:
        raise missing("onnxruntime", error) from error
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with onnx_errors(model):
        source = graph if isinstance(graph, bytes) else str(graph)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"], enable_fallback=0)


@contextmanager
def onnx_errors(model: str) -> Iterator[None]:
    """onnxruntime's errors, which share no base class, as ModelUnavailable."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        yield
    except (
        state.EPFail, state.EngineError, state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf,
        state.NoModel, state.NoSuchFile, state.NotImplemented, state.RuntimeException, RuntimeError, ValueError,
    ) as error:  # fmt: skip
        reason = " ".join(str(error).split())
        raise ModelUnavailable(f"The embedding model {model} cannot run: {reason}", HINT) from error


def missing(library: str, error: ImportError) -> ModelUnavailable:
    return ModelUnavailable(f"The library {library} is missing: {error}.", installation.packages(library))
