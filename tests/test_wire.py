"""The wire: every line is understood or refused by name, and what goes in comes out."""

import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from memd import errors
from memd.errors import BadJson, BadRequest, MemdError, TooLarge
from memd.protocol import wire
from memd.protocol.safe_text import neutralise, one_line

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.binary())
def test_any_bytes_are_a_request_or_a_named_refusal(line):
    with contextlib.suppress(BadRequest):
        wire.decode_request(line)


@given(json_values)
def test_any_json_is_a_request_or_a_named_refusal(value):
    with contextlib.suppress(BadRequest):
        wire.decode_request(json.dumps(value).encode())


@given(json_values)
def test_light_json_is_json(value):
    assert wire.loads(json.dumps(value)) == value
    assert json.loads(wire.dumps(value)) == value


@given(st.text())
def test_light_json_refuses_what_json_refuses(text):
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            wire.loads(text)
    else:
        if expected == expected and expected not in (float("inf"), float("-inf")):
            assert wire.loads(text) == expected


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters())))
def test_a_message_is_one_line_and_comes_back_whole(params):
    """Also with halves of surrogate pairs, which stand for file names that are not UTF-8."""
    line = wire.encode_request(7, "query", params)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    request = wire.decode_request(line)
    assert (request.id, request.method, request.params, request.wants_answer) == (7, "query", params, True)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"{",
        b"nonsense",
        b'{"method": "ping"} {"method": "ping"}',
        b'\xff\xfe{"method": "ping"}',
        b'{"id": NaN, "method": "ping"}',
        b'{"id": -Infinity, "method": "ping"}',
        b'{"id": 1e999, "method": "ping"}',
        b'{"id": ' + b"9" * 4301 + b', "method": "ping"}',
        b"[" * 100_000,
        b'{"method": "ping", "params": ' + b'{"a":' * 50_000,
        b'{"method": "a\nb"}',
    ],
    ids=lambda line: repr(line[:40]),
)
def test_what_is_not_json_is_refused(line):
    with pytest.raises(BadJson):
        wire.decode_request(line)


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'"ping"',
        b"7",
        b"null",
        b"{}",
        b'{"id": 1}',
        b'{"id": 1, "method": 7}',
        b'{"id": 1, "method": null}',
        b'{"id": 1, "method": "ping", "params": [1]}',
        b'{"id": 1, "method": "ping", "params": "x"}',
        b'{"id": {}, "method": "ping"}',
        b'{"id": true, "method": "ping"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'[{"id": 1, "method": "ping"}]',
    ],
)
def test_json_that_is_not_a_request_is_refused(line):
    with pytest.raises(BadRequest) as caught:
        wire.decode_request(line)
    assert not isinstance(caught.value, BadJson)


def test_a_line_may_have_a_mebibyte_and_no_more():
    frame = b'{"id": 1, "method": "ping", "params": {"x": "%s"}}'
    fits = frame % (b"x" * (wire.MAX_REQUEST - len(frame) + 2))
    assert len(fits) == wire.MAX_REQUEST
    assert wire.decode_request(fits).method == "ping"
    with pytest.raises(TooLarge):
        wire.decode_request(fits + b" ")
    with pytest.raises(TooLarge):
        wire.encode_request(1, "query", {"query": "x" * wire.MAX_REQUEST})


def test_a_request_by_hand_needs_little():
    request = wire.decode_request(b' {"id": "a", "method": "ping"}\r\n')
    assert (request.id, request.params, request.wants_answer) == ("a", {}, True)
    assert not wire.decode_request(b'{"method": "ping"}').wants_answer
    assert wire.decode_request(b'{"method": "ping", "params": null}').params == {}


@pytest.mark.parametrize("kind", errors.BY_CODE.values(), ids=lambda kind: kind.code)
def test_every_error_crosses_the_wire_as_itself(kind):
    sent = wire.decode(wire.encode_error(3, kind("it broke", "mend it")))
    assert sent["error"]["code"] == kind.rpc_code
    assert sent["error"]["data"] == {"code": kind.code, "hint": "mend it", "retryable": kind.retryable}
    with pytest.raises(MemdError) as caught:
        wire.raise_error(sent["error"])
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("it broke", "mend it")


def test_an_unknown_error_gives_away_its_type_only():
    told = wire.error_object(RuntimeError("what the user wrote"))
    assert "RuntimeError" in told["message"] and "what the user wrote" not in str(told)


@pytest.mark.parametrize("broken", [None, 7, "no", {}, {"message": None, "data": "x"}, {"data": {"code": "odd"}}])
def test_a_broken_error_is_still_an_error(broken):
    with pytest.raises(MemdError):
        wire.raise_error(broken)


def test_what_cannot_be_sent_is_not_sent():
    for value in (float("nan"), float("inf"), object(), b"bytes"):
        with pytest.raises((TypeError, ValueError)):
            wire.encode({"value": value})


UNSAFE = [0x00, 0x07, 0x08, 0x0D, 0x1B, 0x7F, 0x9B, 0xAD, 0x61C, 0x200B, 0x200D, 0x200F, 0x202E, 0x2066, 0x2069]
UNSAFE += [0x2028, 0xFEFF, 0xE0041, 0xE0100]


@pytest.mark.parametrize("code", UNSAFE, ids=hex)
def test_unsafe_characters_do_not_reach_a_terminal(code):
    shown = neutralise(f"a{chr(code)}b")
    assert chr(code) not in shown and shown.startswith("a") and shown.endswith("b")


@given(st.text())
def test_safe_text_is_safe_and_keeps_its_lines(text):
    shown = neutralise(text)
    assert neutralise(shown) == shown
    assert not any(ord(char) < 32 and char not in "\t\n" for char in shown)
    assert len(one_line(text).splitlines()) <= 1


def test_ordinary_text_stays_as_it_is():
    for text in ("plain", "Grüße, 世界, שלום, नमस्ते", "two\nlines\tand a tab", "1 ≠ 2 → ok ✅ ❤️"):
        assert neutralise(text) == text


def test_a_python_without_the_built_in_parser_reads_and_writes_the_same():
    scan, write = wire._package()
    assert scan('{"a":[1.5,"é"]}', 0) == ({"a": [1.5, "é"]}, 15)
    assert "".join(write({"a": [1.5, "é"]}, 0)) == wire.dumps({"a": [1.5, "é"]}) == '{"a":[1.5,"é"]}'
    with pytest.raises(ValueError, match="NaN is not JSON"):
        scan("NaN", 0)
