"""Turns texts into unit vectors."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memd.errors import ModelUnavailable
from memd.indexer.model import granite
from memd.indexer.model.pooling import MOST_TEXTS, Pooling, Vectors, batches, padded, pooled, unit

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from memd.config.schema import EmbeddingSettings

_MOST_CHARS = 64  # of a token; text beyond the last token the model can take is not even tokenised
_HINT = "Check embedding.model in the config; with embedding.provider = none memd searches text only."

_log = logging.getLogger(__name__)


class Embedder(Protocol):
    """A model that gives texts a place; all of its methods may be called from several threads."""

    @property
    def name(self) -> str:
        """What a person calls the model."""

    @property
    def fingerprint(self) -> str:
        """A hash that changes when the vectors would: weights, tokenizer, pooling, normalisation."""

    @property
    def dims(self) -> int:
        """The length of a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, of unit length unless the settings say otherwise; ModelUnavailable if it fails."""

    def count_tokens(self, text: str) -> int:
        """How many tokens the text is, however many the model takes."""


def load_embedder(settings: EmbeddingSettings, cache: Path) -> Embedder | None:
    """The embedder that the settings name, None where they want none; never downloads anything.

    `MEMD_TEST_EMBEDDER=hash` in the environment gives the HashEmbedder instead of a model. It is there for
    test runs only: its vectors know words, not meanings.
    """
    if settings.provider == "none":
        return None
    if os.environ.get("MEMD_TEST_EMBEDDER") == "hash":
        return HashEmbedder()
    if settings.model:
        return load_folder(_folder(settings.model), settings)
    return load_granite(cache, settings.threads)


def source_of(settings: EmbeddingSettings) -> str:
    """What it takes to load the same model again, for the ledger."""
    return json.dumps({name: getattr(settings, name) for name in ("model", "pooling", "normalize")})


def load_granite(cache: Path, threads: int, pack: Path | None = None) -> Embedder:
    """The model that comes with memd, in 8 bits where onnxruntime can run that, else in fp32."""
    model = granite.read_pack(pack or granite.find_pack())
    tokenizer = _tokenizer(model.tokenizer, granite.NAME)
    tokenizer.enable_truncation(granite.MAX_TOKENS)
    try:
        return _granite(model, granite.Precision.INT8, tokenizer, cache, threads)
    except ModelUnavailable as error:
        _log.warning("the 8-bit model cannot run, trying fp32: %s", error)
    return _granite(model, granite.Precision.FP32, tokenizer, cache, threads)


def _granite(
    pack: granite.Pack, precision: granite.Precision, tokenizer: Tokenizer, cache: Path, threads: int
) -> Embedder:
    """The built-in model in one precision; both give the same vectors but for rounding, so one fingerprint."""
    session = _session(granite.graph(pack, precision, cache), threads, granite.NAME)
    fingerprint = _digest(pack.sha256, "cls", "True", str(granite.MAX_TOKENS))
    return OnnxEmbedder(granite.NAME, fingerprint, session, tokenizer, Pooling.CLS)


def load_folder(folder: Path, settings: EmbeddingSettings) -> Embedder:
    """A model of the user's own: `model.onnx` (with its external data, if any) and `tokenizer.json`."""
    content = _read(folder / "tokenizer.json")
    tokenizer = _tokenizer(content, str(folder))
    if tokenizer.truncation is None:
        tokenizer.enable_truncation(granite.MAX_TOKENS)
    weights = [_file_digest(path) for path in _model_files(folder)]
    session = _session(folder / "model.onnx", settings.threads, str(folder))
    parts = (hashlib.sha256(content).hexdigest(), settings.pooling, str(settings.normalize))
    return OnnxEmbedder(
        folder.resolve().name,
        _digest(*weights, *parts),
        session,
        tokenizer,
        Pooling(settings.pooling),
        settings.normalize,
    )


def _folder(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise ModelUnavailable(f"The embedding model {name} cannot be found: {error}", _HINT) from error


def _model_files(folder: Path) -> list[Path]:
    """The model and the files of weights beside it, which are named after it."""
    files = sorted(path for path in folder.glob("model.onnx*") if path.is_file())
    if folder / "model.onnx" not in files:
        raise ModelUnavailable(f"The embedding model {folder} has no model.onnx.", _HINT)
    return files


def _unreadable(path: Path, error: OSError | ValueError) -> ModelUnavailable:
    return ModelUnavailable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.", _HINT)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, error) from error


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _tokenizer(content: bytes, model: str) -> Tokenizer:
    """The tokenizer in `content`, set up so that it never pads."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads and a later fork do not agree
    try:
        from tokenizers import Tokenizer

        tokenizer: Tokenizer = Tokenizer.from_buffer(content)  # ValueError; from_file raises bare Exception
    except ImportError as error:
        raise ModelUnavailable(f"The library tokenizers is missing: {error}.", "pip install tokenizers") from error
    except ValueError as error:
        raise ModelUnavailable(f"The tokenizer of {model} is not valid: {error}", _HINT) from error
    tokenizer.no_padding()
    return tokenizer


def _session(graph: Path | bytes, threads: int, model: str) -> Any:
    """An onnxruntime session that keeps little memory and sleeps when it has nothing to do."""
    try:
        # Before the import: from then on it would send reports of its use.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime
    except ImportError as error:
        raise ModelUnavailable(f"The library onnxruntime is missing: {error}.", "pip install onnxruntime") from error
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with _onnx_errors(model):
        source = graph if isinstance(graph, bytes) else str(graph)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"], enable_fallback=0)


@contextmanager
def _onnx_errors(model: str) -> Iterator[None]:
    """onnxruntime's errors, which share no base class, as ModelUnavailable."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        yield
    except (
        state.EPFail,
        state.EngineError,
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NoModel,
        state.NoSuchFile,
        state.NotImplemented,
        state.RuntimeException,
        RuntimeError,
        ValueError,
    ) as error:
        reason = " ".join(str(error).split())
        raise ModelUnavailable(f"The embedding model {model} cannot run: {reason}", _HINT) from error


class OnnxEmbedder:
    """A model that onnxruntime runs; made only when a first run shows that it works."""

    def __init__(
        self,
        name: str,
        fingerprint: str,
        session: Any,
        tokenizer: Tokenizer,
        pooling: Pooling,
        normalize: bool = True,
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self._session = session
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._normalize = normalize
        self._inputs = _inputs(session, name)
        self._output: str = session.get_outputs()[0].name
        self._most_chars = _MOST_CHARS * int((tokenizer.truncation or {}).get("max_length", 512))
        self.dims = self._probe()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in the order of the texts."""
        rows = np.zeros((len(texts), self.dims), np.float32)
        ids = self._tokens(texts)
        for batch in batches([len(each) for each in ids], self._most_texts()):
            rows[batch] = self._run([ids[index] for index in batch])
        return unit(rows) if self._normalize else np.nan_to_num(rows)

    def count_tokens(self, text: str) -> int:
        """How many tokens the text is, those that mark its ends included."""
        (whole,) = self._encodings([text])
        inner = [part.special_tokens_mask.count(0) for part in (whole, *whole.overflowing)]
        return sum(inner) + self._tokenizer.num_special_tokens_to_add(False)

    def _probe(self) -> int:
        """Real texts, alone and together: every row must have one length, which is `dims`."""
        short, long = self._tokens(["probe", "another probe, which is longer"])
        alone, together = self._run([short]), self._run([long, short][: self._most_texts()])
        if alone.shape[1] != together.shape[1] or not alone.size:
            raise self._unusable("gives vectors whose length depends on the text")
        if not np.isfinite(together).all():
            raise self._unusable("gives numbers that are not finite")
        return int(alone.shape[1])

    def _unusable(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(f"The embedding model {self.name} {why}.", _HINT)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, at least one."""
        return [each.ids or [0] for each in self._encodings([text[: self._most_chars] for text in texts])]

    def _encodings(self, texts: Sequence[str]) -> list[Encoding]:
        try:
            return self._tokenizer.encode_batch([_encodable(text) for text in texts])
        except Exception as error:
            if type(error) is not Exception:  # tokenizers raises Exception itself, which has no other name
                raise
            raise self._unusable(f"has a tokenizer that fails: {error}") from error

    def _most_texts(self) -> int:
        """Without a mask the model cannot tell padding from text: then one at a time."""
        return MOST_TEXTS if "attention_mask" in self._inputs else 1

    def _run(self, ids: list[list[int]]) -> Vectors:
        """One run of the model, pooled."""
        tokens, mask = padded(ids)
        feeds = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        wanted = {name: feeds[name].astype(kind) for name, kind in self._inputs.items()}
        with _onnx_errors(self.name):
            (output,) = self._session.run([self._output], wanted)
        if not _one_a_text(output, mask):
            raise self._unusable("does not give one vector a text or a token")
        return pooled(output, mask, self._pooling)


class HashEmbedder:
    """Vectors from the words alone, for tests: each word is hashed to one of 64 places and a sign."""

    name = "hash"
    fingerprint = "hash-64-1"
    dims = 64

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; texts that share words are near each other."""
        rows = np.zeros((len(texts), self.dims), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in self._words(text):
                place = int.from_bytes(hashlib.blake2b(_encodable(word).encode(), digest_size=8).digest())
                row[place % self.dims] += 1 if place >> 63 else -1
        return unit(rows)

    def count_tokens(self, text: str) -> int:
        """The number of words."""
        return len(self._words(text))

    def _words(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())


def _inputs(session: Any, model: str) -> dict[str, str]:
    """What the model wants to be fed, and in which type of integer."""
    wanted = {each.name: "int32" if "int32" in each.type else "int64" for each in session.get_inputs()}
    unknown = set(wanted) - {"input_ids", "attention_mask", "token_type_ids"}
    if unknown or "input_ids" not in wanted:
        raise ModelUnavailable(
            f"The embedding model {model} takes {', '.join(sorted(wanted))};"
            " memd feeds input_ids, attention_mask and token_type_ids.",
            _HINT,
        )
    return wanted


def _one_a_text(output: Any, mask: NDArray[np.int64]) -> bool:
    """Whether an output holds a vector for each text (two axes) or for each of its tokens (three)."""
    if not isinstance(output, np.ndarray) or not np.issubdtype(output.dtype, np.floating):
        return False
    return output.ndim in (2, 3) and output.shape[: output.ndim - 1] == mask.shape[: output.ndim - 1]


def _encodable(text: str) -> str:
    """The text without lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
