"""Reads an ONNX export as people find it: which files it has, and what sentence-transformers' files say of its use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memd.errors import ModelUnavailable
from memd.indexer.model.pooling import Pooling
from memd.indexer.model.prepared_files import digest_of, digest_of_parts

if TYPE_CHECKING:
    from memd.config.schema import EmbeddingSettings

HINT = "Check embedding.path in the config; with embedding.provider = none memd searches text only."
MAX_TOKENS = 512
"""Of a model that does not say how many it takes."""
NAMES = ("model", "onnx/model", "onnx/model_quantized", "onnx/model_int8")
"""The graph, the first that there is, before any other `onnx/model*.onnx`: 8 bits suit a processor."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """A model as its files describe it, with what the settings change."""

    name: str
    graph: Path
    tokenizer: bytes
    pooling: Pooling
    most_tokens: int
    """0 where nothing says it."""
    prefixes: tuple[str, str]
    """The text before a note, and before a question."""
    projected: bool
    """Whether a layer follows the pooling, which the graph must contain."""
    fingerprint: str


def read_export(settings: EmbeddingSettings) -> OnnxExport:
    """The export that the settings name: its folder, or one of its graphs; ModelUnavailable if it is incomplete."""
    folder, graph = _places(settings.path or settings.model)
    tokenizer = _read(folder / "tokenizer.json", Path.read_bytes)
    modules = _json(folder, "modules.json", list)
    pooling = settings.pooling if settings.pooling != "auto" else _pooling(folder, modules)
    length = settings.max_tokens or int(_json(folder, "sentence_bert_config.json", dict).get("max_seq_length") or 0)
    prompts = _json(folder, "config_sentence_transformers.json", dict).get("prompts") or {}
    before_note = settings.document_prefix or prompts.get("document") or prompts.get("passage") or ""
    before_question = settings.query_prefix or prompts.get("query") or ""
    prefixes = before_note, before_question
    weights = [_read(path, digest_of) for path in sorted(graph.parent.glob(f"{graph.name}*")) if path.is_file()]
    said = [str(part) for part in (length, before_note) if part]
    parts = *weights, hashlib.sha256(tokenizer).hexdigest(), pooling, str(settings.normalize), *said
    return OnnxExport(
        folder.resolve().name, graph, tokenizer, Pooling(pooling), length or _shortest(folder), prefixes,
        any(str(one.get("type")).endswith(".Dense") for one in modules),
        digest_of_parts(*parts),
    )  # fmt: skip


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
