"""Every parser of foreign bytes, fed what nobody meant to write: only the declared errors, bounded work, and what is
written can be read again.

What was found once stands as an example beside its property. `MEMD_SOAK=1` tries a hundred times as many.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from memd import exam
from memd.cli.hook import learned, recall
from memd.config import hooks, load
from memd.config.schema import Settings
from memd.errors import ConfigError, MemdError, Refused, UsageError
from memd.indexer.language.question import parse as parse_question
from memd.indexer.transfer import import_plan, import_sources
from memd.mcp import sdk_server
from memd.mcp.tools import check, tools_of
from memd.notes import document_process, merging, metadata, sessions, topics
from memd.notes.parse import in_one_go, parse, reparse
from memd.notes.read import SkippedFile
from memd.notes.secrets import masked, secrets_in
from memd.protocol import wire
from memd.protocol.methods import METHODS
from memd.protocol.methods.base import parse as parse_params
from tests.document_files import epub, pdf, word

EXAMPLES = 2_500 if os.environ.get("MEMD_SOAK") else 25
fuzzed = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
with_folder = settings(fuzzed, suppress_health_check=list(HealthCheck))


def pieces(*known: str, most: int = 30) -> st.SearchStrategy[str]:
    """Texts that are made of what a parser looks for, with anything in between."""
    return st.lists(st.sampled_from(known) | st.text(max_size=8), max_size=most).map("".join)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


# --- the wire and MCP lines ---------------------------------------------------------------------------------------

LINES = st.binary(max_size=200) | pieces(
    *('{"jsonrpc": "2.0"', ', "id": ', ', "method": ', ', "params": '),
    *("{", "}", "[", "]", '"ping"', "null", "1e999", "-0"),
    *('"\\ud800"', "\\", '"', "1", ":", ",", "NaN", "\u2028"),
    *("\x00", '"query"', '"initialize"', '"result"', '"error"'),
).map(lambda text: text.encode("utf-8", "surrogatepass"))  # fmt: skip


@fuzzed
@given(LINES)
def test_a_line_is_a_request_or_a_named_refusal_that_can_be_sent(line: bytes) -> None:
    try:
        request = wire.decode_request(line)
    except MemdError as error:
        assert wire.decode(wire.encode_error(None, error))["error"]["data"]["code"] == error.code
    else:
        assert wire.decode(wire.encode_result(request.id, request.params))["result"] == request.params


@fuzzed
@given(st.sampled_from(sorted(METHODS)), st.dictionaries(st.text(max_size=6), json_values, max_size=3), st.data())
def test_any_parameters_are_a_request_or_a_usage_error(
    method: str, params: dict[str, Any], data: st.DataObject
) -> None:
    known = METHODS[method].parameters
    if known:
        params |= data.draw(st.dictionaries(st.sampled_from(known), json_values, max_size=3))
    try:
        parse_params(METHODS[method], params)
    except UsageError as error:
        wire.encode_error(1, error)


@fuzzed
@given(LINES)
def test_a_line_of_mcp_is_a_message_or_refused_with_its_id(line: bytes) -> None:
    if isinstance(answer := sdk_server.parse(line), bytes):
        refusal = wire.decode(answer)
        assert refusal["error"]["code"] and set(refusal) == {"jsonrpc", "id", "error"}


@fuzzed
@given(st.sampled_from(list(tools_of("all", experimental=False).values())), st.data())
def test_any_arguments_of_a_tool_are_taken_or_refused_by_name(tool: Any, data: st.DataObject) -> None:
    names = st.sampled_from([*tool.parameters, "other"])
    try:
        check(tool.name, tool.parameters, data.draw(st.dictionaries(names, json_values, max_size=4)))
    except UsageError as error:
        assert tool.name in error.message or "must" in error.message


# --- notes --------------------------------------------------------------------------------------------------------

PATHS = st.sampled_from(["MEMORY.md", "memory/2026-02-15.md", "memory/topics/tea.md", "notes.md"])
MARKDOWN = pieces(
    *("# ", "## ", "### ", "\n", "\n\n", "\r\n", "\r", "---\n"),
    *("...\n", "```\n", "~~~", "> ", "- ", "1. ", "    ", "\t"),
    *("<!-- memd: ", "pinned tags=a,b", " -->", "<!--", "-->"),
    *("|", "|---|", "[[x]]", "[a](b.md)", "[x]: y\n", "#tag"),
    *("tags: [a, b]\n", "title: x\n", "pinned: true\n", "ttl: 3d\n"),
    *("_2026-02-15 10:00_\n", "===\n", "<div>", "\x00"),
    *("\ufeff", "\u2028", "\x85", "\x0c", "\\", "`", "*", "&amp;"),
)  # fmt: skip


@fuzzed
@given(PATHS, MARKDOWN)
def test_a_note_is_cut_into_what_it_says_whatever_it_is(path: str, text: str) -> None:
    note = parse(path, text, "2026-02-15")
    lines = text.split("\n")
    for memory in note.memories:
        for chunk in memory.chunks:
            assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
    head, pairs = merging.split(path, text)
    assert head + "".join(memory.text + after for memory, after in pairs) == text
    # What is known of the text before an edit changes nothing of what comes out.
    edited = text + "\n## More\n\nmore\n"
    before = in_one_go(reparse(path, text))
    assert in_one_go(reparse(path, edited, "", before)).note == parse(path, edited)


@fuzzed
@given(PATHS, MARKDOWN, MARKDOWN)
def test_an_import_merges_once_and_loses_nothing(path: str, text: str, other: str) -> None:
    incoming = merging.read_incoming(path, text.encode("utf-8", "replace"))
    merged = merging.merge_incoming(incoming, other.encode("utf-8", "replace"))
    assert merged.data is not None
    again = merging.merge_incoming(incoming, merged.data)
    assert again.data == merged.data and not again.added


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{nth}: &a{nth} [{','.join([f'*a{nth - 1}'] * 9)}]\n" for nth in range(1, 9)
)
"""Nine lists of nine, each nine times the one before: half a kilobyte that is a gigabyte when it is written out."""
YAML = pieces(
    *("tags: ", "title: ", "links: ", "pinned: ", "importance: "),
    *("ttl: ", "kind: ", "[", "]", "{", "}", "- ", "\n", "  "),
    *("&a ", "*a", "<<: ", "!!python/object:os.system ", "!!binary "),
    *("!!int ", "'", '"', "|\n", ">\n", "? ", ": ", ", "),
    *("0x", "1e999", "9" * 5_000, ".nan", "2026-02-15", "0001-01-01T00:00:00+23:59", "9999-12-31 23:59:59 -23:59"),
    *("2026-13-45", "12:99:99", "~", "yes", "\\ud800", '"\\ud800"'),
    *("\t", "# x", "%YAML 1.2\n", "--- ", "\x07", "\ufeff"),
    most=12,
)  # fmt: skip


@fuzzed
@example(BOMB + "links: [*a8]")
@example(BOMB + "tags: *a8")
@example("b0: &b0 {x: 1}\n" + "".join(f"b{n}: &b{n} {{<<: [{','.join([f'*b{n - 1}'] * 9)}]}}\n" for n in range(1, 9)))
@example("last_updated: 0001-01-01T00:00:00+23:59")
@example("title: !!int x")
@example("!!int ")
@given(YAML)
def test_front_matter_declares_something_or_warns(body: str) -> None:
    declared, warning = metadata.read_front_matter(f"---\n{body}\n---\ntext\n")
    assert len(repr(declared)) + len(warning) < 200_000
    parse("memory/topics/tea.md", f"---\n{body}\n---\ntext\n")


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.text(max_size=20),
        "tags": st.lists(st.text(min_size=1, max_size=8), max_size=3),
        "pinned": st.booleans(),
        "importance": st.floats(0, 1),
        "ttl": st.sampled_from(["3d", "none", ""]),
        "summary": st.text(max_size=20),
    },
)


@fuzzed
@given(YAML, FIELDS)
def test_front_matter_that_was_changed_is_read_back_and_the_text_stays(body: str, fields: dict[str, Any]) -> None:
    text = f"---\n{body}\n---\n\nThe text.\n"
    try:
        changed = metadata.with_front_matter(text, fields)
    except Refused:
        return
    assert changed.endswith("The text.\n")
    _, warning = metadata.read_front_matter(changed)
    if not metadata.read_front_matter(text)[1]:
        assert not warning or warning.startswith("`")


@fuzzed
@given(pieces("tags=", "pinned", "a,b", "importance=", "0.5", "ttl=", "3d", '"', "'", "\\", " ", "=", "-->", "links="))
@example("tags=>--")
def test_the_comment_under_a_heading_is_read_whatever_it_says(body: str) -> None:
    metadata.read_comment(f"<!-- memd: {body} -->")
    metadata.with_comment(f"## A\n<!-- memd: {body} -->\n\ntext\n", {"pinned": True})


@fuzzed
@given(st.sampled_from(sorted(document_process.READERS)), st.binary(max_size=400), st.integers(0, 4_000))
def test_a_document_has_a_text_or_a_reason(suffix: str, noise: bytes, at: int) -> None:
    whole = {".pdf": pdf("One", "Two"), ".docx": word(("Normal", "One")), ".epub": epub("Book", "<p>One</p>")}
    data = whole.get(suffix, b"<h1>One</h1><p>Two</p>")
    for broken in (noise, data[:at], data[:at] + noise + data[at:]):
        assert isinstance(document_process.text_of(suffix, broken, 1 << 20), bytes | SkippedFile)


# --- the topic index ------------------------------------------------------------------------------------------------

INDEX = pieces(
    *("# ", "## ", "General Project Knowledge", "Specialized Knowledge"),
    *("\n", "\r\n", "- ", "* ", "**tea**", "`tea`"),
    *("[tea](topics/tea.md)", ": ", " — ", "tea", "topic", "```\n", "\t", "  ", "x", "\u2028", "\\`", "(", ")"),
)  # fmt: skip


@fuzzed
@given(INDEX, st.sampled_from(["tea", "a: b", "-", "**x**"]), st.text(max_size=12))
def test_an_index_is_read_and_a_topic_comes_and_goes(text: str, topic: str, summary: str) -> None:
    topics.read_index(text)
    topics.general_of(text)
    topics.list_start(text)
    try:
        listed = topics.with_entry(text, topic, topics.clean_summary(summary or "x"))
    except MemdError:
        return
    assert topic in [entry.topic for entry in topics.read_index(listed).entries]
    assert topic not in [entry.topic for entry in topics.read_index(topics.without_entry(listed, topic)).entries]


@fuzzed
@given(st.text(max_size=10) | st.just("tea"), MARKDOWN)
def test_a_topic_is_read_whatever_its_file_says(name: str, text: str) -> None:
    assert topics.read_topic(name, "memory/topics/x.md", text, "2026-02-15").markdown()


# --- files to import ------------------------------------------------------------------------------------------------

RECORD = st.dictionaries(
    st.sampled_from(["key", "id", "name", "title", "content", "text", "tags", "kind", "importance", "created", "ttl"]),
    json_values
    | st.sampled_from(["../../etc/passwd", "a/b", ".hidden", "x" * 300, "\x00", "a\nb", "2026-02-15", "\u202e"]),
    max_size=6,
)


def gathered(file: Path) -> list[merging.IncomingFile] | None:
    try:
        return import_sources.gather([file], ["MEMORY.md"], file.parent / "w", 1 << 20)[0]
    except UsageError:
        return None


@with_folder
@example([{"content": "x", "created": "9999-12-31T23:59:59-23:59"}])
@example([{"content": "x", "created": 1e308}])
@example([{"content": "x", "importance": 10**400}])
@given(st.lists(RECORD, max_size=4))
def test_records_become_topics_with_names_that_lead_nowhere_else(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]
) -> None:
    file = tmp_path_factory.mktemp("in") / "records.jsonl"
    file.write_bytes(b"".join(wire_line(record) for record in records))
    found = gathered(file)
    assert found is not None
    for incoming in found:
        path = Path(incoming.path)
        assert not path.is_absolute() and ".." not in path.parts and path.parts[:2] == ("memory", "topics")
        assert "\n" not in incoming.path and len(path.name.encode()) < 250
        assert parse(incoming.path, incoming.data.decode()).memories or not incoming.items


def wire_line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


@with_folder
@given(st.sampled_from([".jsonl", ".json", ".md", ".mdk"]), st.binary(max_size=200) | MARKDOWN.map(str.encode) | LINES)
def test_any_file_is_ingested_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: bytes
) -> None:
    file = tmp_path_factory.mktemp("in") / f"any{suffix}"
    file.write_bytes(data)
    gathered(file)


EXPORT = st.fixed_dictionaries(
    {"memd_export": st.just(1)},
    optional={
        "workspaces": json_values
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "ns": json_values,
                    "gone": json_values,
                    "files": json_values
                    | st.lists(
                        st.dictionaries(
                            st.sampled_from(["path", "head", "modified", "base64", "memories"]),
                            json_values | st.just([{"slug": "a", "text": "b", "after": 7}]),
                        ),
                        max_size=2,
                    ),
                },
            ),
            max_size=2,
        ),
        "edges": json_values,
    },
)


@with_folder
@given(EXPORT | json_values)
def test_any_export_is_read_or_refused_by_name(tmp_path_factory: pytest.TempPathFactory, export: Any) -> None:
    file = tmp_path_factory.mktemp("in") / "export.json"
    file.write_text(json.dumps(export))
    try:
        import_plan.load(file)
    except UsageError as error:
        assert error.message


# --- transcripts and hooks ------------------------------------------------------------------------------------------

TALK = pieces(
    *("remember ", "always ", "we decided ", "the root cause was "),
    *("I will ", "path /etc/x ", ". ", "? ", "\n", "```\n"),
    *("<system-reminder>", "</system-reminder>", "<memd-memory>"),
    *("</memd-memory>", "- ", "| ", "# ", "**", "password: "),
    *("tag:x ", "-not ", '"', "since:2026 ", "path:", "(", "*", "“", "kind:", "\x1b[31m", "\u202e"),
)  # fmt: skip
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["user", "assistant", "system", 7]),
        "message": json_values
        | st.fixed_dictionaries({"role": st.just("user"), "content": TALK | st.lists(json_values, max_size=3)}),
        "content": TALK | json_values,
        "isMeta": json_values,
    },
)


@fuzzed
@given(st.lists(LINES | MESSAGE.map(lambda value: json.dumps(value).encode()), max_size=8))
def test_a_transcript_is_read_and_little_of_it_is_kept(lines: list[bytes]) -> None:
    kept = learned.worth_keeping(learned.utterances(lines))
    assert len(kept) <= learned.MAX_SENTENCES and all(len(text) <= learned.MAX_LENGTH for text in kept)
    assert not any(map(learned.looks_secret, kept))


@fuzzed
@given(
    st.lists(
        MESSAGE.map(
            lambda value: json.dumps({"sessionId": "s", "timestamp": "2026-03-01T10:00:00Z", **value}).encode()
        ),
        max_size=8,
    )
)
def test_a_session_becomes_a_note_with_a_section_for_each_exchange(lines: list[bytes]) -> None:
    found = sessions.read_transcript(lines)
    if found is not None and found.exchanges:
        text = sessions.note_of(found)
        note = parse(f"memory/sessions/{sessions.name_of(found)}.md", text)
        headings = [memory.heading for memory in note.memories if memory.slug]
        assert len(headings) == len(found.exchanges), text


@with_folder
@given(st.binary(max_size=400), st.integers(1, 5))
def test_the_tail_of_a_transcript_is_its_last_lines(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, count: int
) -> None:
    file = tmp_path_factory.mktemp("in") / "t.jsonl"
    file.write_bytes(data)
    assert learned.tail(str(file), count) == [line for line in data.split(b"\n") if line.strip()][-count:]


@fuzzed
@example("path:tag:x ")
@example("0(tag:x ")
@example("word*, ")
@given(TALK)
def test_a_prompt_is_plain_words_whatever_it_says(prompt: str) -> None:
    question = parse_question(recall.plain(prompt), date(2026, 2, 15))
    assert not question.filters and not question.phrases and not question.without and not question.prefixes


@fuzzed
@given(st.lists(st.tuples(TALK, TALK, TALK), min_size=1, max_size=4))
def test_no_memory_leaves_the_frame_of_a_hook(memories: list[tuple[str, str, str]]) -> None:
    shown = [
        recall.piece(
            nth,
            {
                "ns": heading,
                "path": path,
                "start_line": 1,
                "end_line": 2,
                "heading": heading,
                "text": text,
                "written_by": [path],
            },
            "",
        )
        for nth, (path, heading, text) in enumerate(memories, 1)
    ]
    text = recall.framed("About.", shown)
    assert text.count(f"<{recall.TAG}>") == 1 and text.count(f"</{recall.TAG}>") == 1
    assert text.startswith(f"<{recall.TAG}>\n") and text.endswith(f"\n</{recall.TAG}>")
    inner = text.removesuffix(f"\n</{recall.TAG}>").split("\n")[1:]
    assert all(not line or line == "About." or line.startswith((">", "[")) for line in inner)


# --- the config file ------------------------------------------------------------------------------------------------

TOML = pieces(
    *("[hooks]\n", "[server]\n", "[[workspace]]\n", "[rules]\n"),
    *("[jobs]\n", "[", "]", "\n", " = ", "=", "#", '"', "'", '"""'),
    *("limit", "capture", "timeout_ms", "confidence", "extract", "trust", "path", "ns", "globs", "reflect", "hooks."),
    *("true", "false", "3", "0.8", "-1", "1e400", "nan", '"~/notes"'),
    *('"x"', "[]", "{}", "['a']", "2026-02-15", "\\", "\t"),
)  # fmt: skip


@with_folder
@example("[hooks]\nlimit = 5\n[hooks.x]\n")
@given(TOML | st.text(max_size=60))
def test_any_config_file_is_read_or_every_problem_is_told_and_hooks_agree(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMD_HOME", str(home))
        (home / "config.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            loaded: Settings | None = load.load(environ={})
        except ConfigError:
            loaded = None
        told = hooks.settings()
    if loaded is not None:
        assert told == asdict(loaded.hooks)


# --- secrets --------------------------------------------------------------------------------------------------------

HOLDING = pieces(
    *("password", ": ", " = ", "is ", "token", "hunt" + "er2x9"),
    *("gh" + "p_", "x1Y2" * 10, "\n", "-" * 5, "BEGIN ", "END "),
    *("RSA PRIVATE KEY", "postgres://", "a:", "@", "b.c", "Bearer "),
    *('"', "`", "|", "> ", "A1b+" * 16, "curl -u ", " "),
)  # fmt: skip


@fuzzed
@example("password: 01234º|01234º")
@given(HOLDING)
def test_what_was_masked_holds_no_secret_and_has_the_same_lines(text: str) -> None:
    safe = masked(text)
    assert safe.count("\n") == text.count("\n")
    assert secrets_in(safe) == []
    assert masked(safe) == safe


@fuzzed
@given(pieces('{"query": ', '"x"', "}", "\n", "- q: ", "expect: ", "path: ", "key: ", ":", "[", "]", "#", "  "))
def test_questions_of_an_exam_are_read_or_named(text: str) -> None:
    exam.read_questions(text)
