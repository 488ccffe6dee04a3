"""Turns texts into unit vectors: with the model that comes with memd, or an ONNX export."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from memd.config.schema import SERVERS, EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model import granite
from memd.indexer.model.onnx_graph import HINT, missing, onnx_errors, open_session
from memd.indexer.model.pooling import MOST_TEXTS, Pooling, Vectors, batches, encodable, padded, pooled, unit
from memd.indexer.model.prepared_files import TableFile, digest_of, digest_of_parts
from memd.indexer.model.scale import FITTED, Measured, ModelScale

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_MOST_CHARS = 64  # of a token: text beyond the last token that the model takes is not tokenised
TAKEN = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
POOLED_OUTPUT = "sentence_embedding"
"""The name that exports give to an output of one vector a text."""
MAX_TOKENS = 512
"""Of a model that does not say how many it takes."""
NAMES = ("model", "onnx/model", "onnx/model_quantized", "onnx/model_int8")
"""The graph, the first that there is, before any other `onnx/model*.onnx`: 8 bits suit a processor."""

LONG = 128
"""Tokens of a text; most chunks have fewer."""

T = TypeVar("T")


class Embedder(Protocol):
    """A model that turns texts into vectors; its methods may be called from several threads."""

    @property
    def name(self) -> str:
        """The name for people."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the vectors depend on: weights, tokenizer, pooling, normalisation."""

    @property
    def dims(self) -> int:
        """The length of a vector."""

    @property
    def scale(self) -> ModelScale:
        """How its cosines are read."""

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        """One row a text, of unit length unless the settings say otherwise; ModelUnavailable if it fails.

        `urgent`: somebody waits, and can do without; only a server takes so long that it matters.
        `question`: the texts are questions, which some models want to be told.
        """

    def count_tokens(self, text: str) -> int:
        """The number of tokens of a text, even if it is more than the model takes."""


def load_embedder(settings: EmbeddingSettings, cache: Path) -> Embedder:
    """The embedder that the settings name, which must not be `none`; never downloads anything.

    For tests, `MEMD_TEST_EMBEDDER` in the environment names another class: `module:Class`.
    """
    if settings.provider == "none":
        raise ModelUnavailable("no embedding model is configured", "set embedding.provider in the config")
    if settings.provider in SERVERS:
        # Not before it is needed: httpx takes a while to load.
        from memd.indexer.model.embedding_server import ServerEmbedder

        return ServerEmbedder(settings)
    if settings.provider == "local" and (double := os.environ.get("MEMD_TEST_EMBEDDER")):
        return pkgutil.resolve_name(double)()  # type: ignore[no-any-return]
    if settings.provider == "onnx" or settings.model:
        return load_export(settings)
    return load_granite(cache, settings.threads)


def load_granite(cache: Path, threads: int, pack: Path | None = None) -> Embedder:
    """The model that comes with memd."""
    model = granite.read_pack(pack or granite.find_pack())
    tokenizer = _tokenizer(model.tokenizer, granite.MODEL_NAME)
    tokenizer.enable_truncation(granite.MAX_TOKENS)
    session = open_session(granite.graph(model, cache), threads, granite.MODEL_NAME)
    fingerprint = digest_of_parts(granite.PACK_SHA256, "cls", "True", str(granite.MAX_TOKENS))
    tables = granite.word_tables(model)
    embedder = OnnxEmbedder(granite.MODEL_NAME, fingerprint, session, tokenizer, Pooling.CLS, tables=tables)
    embedder.scale = ModelScale(FITTED, FITTED)
    return embedder


# --- an ONNX export as people find it -----------------------------------------------------------------------------


def load_export(settings: EmbeddingSettings) -> Embedder:
    """The user's own model: an ONNX export with its tokenizer, used as sentence-transformers' files and the settings
    say; ModelUnavailable if it is incomplete."""
    folder, graph = _places(settings.path or settings.model)
    content = _read(folder / "tokenizer.json", Path.read_bytes)
    modules = _json(folder, "modules.json", list)
    pooling = settings.pooling if settings.pooling != "auto" else _pooling(folder, modules)
    length = settings.max_tokens or int(_json(folder, "sentence_bert_config.json", dict).get("max_seq_length") or 0)
    prompts = _json(folder, "config_sentence_transformers.json", dict).get("prompts") or {}
    before_note = settings.document_prefix or prompts.get("document") or prompts.get("passage") or ""
    before_question = settings.query_prefix or prompts.get("query") or ""
    weights = [_read(path, digest_of) for path in sorted(graph.parent.glob(f"{graph.name}*")) if path.is_file()]
    said = [str(part) for part in (length, before_note) if part]
    parts = *weights, hashlib.sha256(content).hexdigest(), pooling, str(settings.normalize), *said
    tokenizer, most_tokens = _tokenizer(content, str(graph)), length or _shortest(folder)
    if most_tokens or tokenizer.truncation is None:
        tokenizer.enable_truncation(most_tokens or MAX_TOKENS)
    session = open_session(graph, settings.threads, str(graph))
    projected = any(str(one.get("type")).endswith(".Dense") for one in modules)
    if projected and POOLED_OUTPUT not in {one.name for one in session.get_outputs()}:
        raise ModelUnavailable(f"{graph} lacks the layer after the pooling, and {POOLED_OUTPUT}.", HINT)
    name, fingerprint, prefixes = folder.resolve().name, digest_of_parts(*parts), (before_note, before_question)
    return OnnxEmbedder(name, fingerprint, session, tokenizer, Pooling(pooling), settings.normalize, prefixes)


def _places(name: str) -> tuple[Path, Path]:
    """The folder of an export and its graph."""
    if not name:
        raise ModelUnavailable("embedding.path does not say where the model is.", HINT)
    try:
        place = Path(name).expanduser()
    except RuntimeError as error:
        raise ModelUnavailable(f"The embedding model {name} cannot be found: {error}", HINT) from error
    if place.suffix == ".onnx":
        return (place.parent.parent if place.parent.name == "onnx" else place.parent), place
    if not place.is_dir():
        raise ModelUnavailable(f"The embedding model {place} cannot be found: there is no such folder.", HINT)
    usual = [place / f"{name}.onnx" for name in NAMES]
    graph = next((one for one in (*usual, *sorted(place.glob("onnx/model*.onnx"))) if one.is_file()), None)
    if graph is None:
        raise ModelUnavailable(f"The embedding model {place} has no model.onnx and no onnx/model*.onnx.", HINT)
    return place, graph


def _pooling(folder: Path, modules: list[Any]) -> str:
    """How the tokens' vectors become one; the first token's where nothing says it."""
    place = next((one["path"] for one in modules if str(one.get("type")).endswith(".Pooling")), "1_Pooling")
    known = _json(folder, f"{place}/config.json", dict)
    modes = [name.removeprefix("pooling_mode_") for name, on in known.items() if on is True and "pooling_mode" in name]
    names = {"cls_token": "cls", "mean_tokens": "mean"}
    mode = "+".join(names.get(name, name) for name in modes) or str(known.get("pooling_mode") or Pooling.CLS)
    if mode not in list(Pooling):
        raise ModelUnavailable(f"The embedding model {folder} wants the pooling {mode}; memd has cls and mean.", HINT)
    return mode


def _shortest(folder: Path) -> int:
    """The length of a model that has fewer positions than most; 0 for others."""
    positions = int(_json(folder, "config.json", dict).get("max_position_embeddings") or MAX_TOKENS)
    return positions if positions < MAX_TOKENS else 0


def _json(folder: Path, name: str, kind: type[T]) -> T:
    """A file that may be there; empty if it is not."""
    if not (folder / name).is_file():
        return kind()
    content = _read(folder / name, lambda path: json.loads(path.read_bytes()))
    if not isinstance(content, kind):
        raise ModelUnavailable(f"{folder / name} is not what sentence-transformers writes.", HINT)
    return content


def _read(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or no JSON
        reason = getattr(error, "strerror", None) or error
        raise ModelUnavailable(f"{path} cannot be read: {reason}.", HINT) from error


# --- onnxruntime --------------------------------------------------------------------------------------------------


def _tokenizer(content: bytes, model: str) -> Tokenizer:
    """The tokenizer in `content`, without padding."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    try:
        from tokenizers import Tokenizer

        tokenizer: Tokenizer = Tokenizer.from_buffer(content)  # ValueError; from_file raises bare Exception
    except ImportError as error:
        raise missing("tokenizers", error) from error
    except ValueError as error:
        raise ModelUnavailable(f"The tokenizer of {model} is not valid: {error}", HINT) from error
    tokenizer.no_padding()
    return tokenizer


def _giving_back() -> Any:
    """Has a run give back what it took; by itself onnxruntime keeps as much as the longest text needs."""
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


class OnnxEmbedder(Measured):
    """A model that onnxruntime runs; the constructor runs it once to show that it works."""

    def __init__(
        self, name: str, fingerprint: str, session: Any, tokenizer: Tokenizer, pooling: Pooling, normalize: bool = True,
        prefixes: tuple[str, str] = ("", ""), tables: Mapping[str, TableFile] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.fingerprint = fingerprint
        self._session = session
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._normalize = normalize
        self._prefixes = prefixes
        """The text before a note, and before a question."""
        self._after_long = _giving_back()
        self._tables = tables or {}
        """The rows of each token that the model takes, by the input for them."""
        self._inputs = self._input_types()
        outputs = [one.name for one in session.get_outputs()]
        self._output = POOLED_OUTPUT if POOLED_OUTPUT in outputs else outputs[0]
        self._most_chars = _MOST_CHARS * int((tokenizer.truncation or {}).get("max_length", 512))
        self.dims = self._probe()

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        """One row a text, in the order of the texts."""
        rows = np.zeros((len(texts), self.dims), np.float32)
        ids = self._tokens([self._prefixes[question] + text for text in texts])
        for batch in batches([len(each) for each in ids], self._most_texts()):
            rows[batch] = self._run([ids[index] for index in batch])
        return unit(rows) if self._normalize else np.nan_to_num(rows)

    def beginning(self, text: str, tokens: int) -> str:
        """The part of a text that makes so many tokens, or all of it."""
        (encoded,) = self._encodings([text[: _MOST_CHARS * tokens]])
        return text[: encoded.offsets[tokens - 2][1]] if len(encoded.ids) > tokens else text

    def count_tokens(self, text: str) -> int:
        """The number of tokens, including those that mark the ends."""
        (whole,) = self._encodings([text])
        inner = [part.special_tokens_mask.count(0) for part in (whole, *whole.overflowing)]
        return sum(inner) + self._tokenizer.num_special_tokens_to_add(False)

    def _input_types(self) -> dict[str, str]:
        """The inputs of the model, with their integer types."""
        inputs = [each for each in self._session.get_inputs() if each.name not in self._tables]
        types = {each.name: "int32" if "int32" in each.type else "int64" for each in inputs}
        if "input_ids" not in types or types.keys() - TAKEN:
            taken = ", ".join(sorted(types))
            raise self._unusable(f"takes {taken}; memd feeds {', '.join(sorted(TAKEN))}")
        return types

    def _probe(self) -> int:
        """Embed real texts, alone and together: all vectors must have one length, which is `dims`."""
        short, long = self._tokens(["probe", "another probe, which is longer"])
        alone, together = self._run([short]), self._run([long, short][: self._most_texts()])
        if alone.shape[1] != together.shape[1] or not alone.size:
            raise self._unusable("gives vectors whose length depends on the text")
        if not np.isfinite(together).all():
            raise self._unusable("gives numbers that are not finite")
        return int(alone.shape[1])

    def _unusable(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(f"The embedding model {self.name} {why}.", HINT)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, at least one."""
        return [each.ids or [0] for each in self._encodings([text[: self._most_chars] for text in texts])]

    def _encodings(self, texts: Sequence[str]) -> list[Encoding]:
        try:
            return self._tokenizer.encode_batch([encodable(text) for text in texts])
        except Exception as error:
            if type(error) is not Exception:  # tokenizers raises Exception itself, which has no other name
                raise
            raise self._unusable(f"has a tokenizer that fails: {error}") from error

    def _most_texts(self) -> int:
        """One at a time without a mask: the model could not tell padding from text."""
        return MOST_TEXTS if "attention_mask" in self._inputs else 1

    def _run(self, ids: list[list[int]]) -> Vectors:
        """One run of the model, pooled."""
        tokens, mask = padded(ids)
        feeds = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        feeds["position_ids"] = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        inputs = {name: feeds[name].astype(kind) for name, kind in self._inputs.items()}
        inputs |= {name: table[tokens] for name, table in self._tables.items()}
        with onnx_errors(self.name):
            (output,) = self._session.run([self._output], inputs, self._after_long if tokens.shape[1] > LONG else None)
        if not _one_a_text(output, mask):
            raise self._unusable("does not give one vector a text or a token")
        return pooled(output, mask, self._pooling)


def _one_a_text(output: Any, mask: NDArray[np.int64]) -> bool:
    """Whether an output has a vector per text (two axes) or per token (three)."""
    if not isinstance(output, np.ndarray) or not np.issubdtype(output.dtype, np.floating):
        return False
    return output.ndim in (2, 3) and output.shape[: output.ndim - 1] == mask.shape[: output.ndim - 1]
