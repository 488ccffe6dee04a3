"""JSON-RPC 2.0, one object a line: what client and daemon share, and all that they share.

JSON is read and written by what is inside of the standard `json` package, without importing the package: that brings
regular expressions and enums along, which takes longer than Python itself takes to start, and a command that asks one
question would spend half of its time there. Pythons whose `json` is built differently get the package.
"""

from __future__ import annotations

import time

from memd.errors import BY_CODE, BadJson, BadRequest, MemdError, TooLarge, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

PROTOCOL = 1
"""Grows when a client of the old number could misunderstand the new daemon."""
MAX_REQUEST = 1 << 20
"""The longest request line in bytes, its newline included."""
MAX_DEPTH = 100
"""How deep the lists and objects of a request may stand in each other; how deep Python reads depends on its version."""
TOO_DEEP = "the line is not usable JSON: it is nested too deep"
INTERNAL_ERROR = -32603


class RpcRequest:
    """One call from a client; without an `id` in the line it wants no answer."""

    __slots__ = ("id", "method", "params", "wants_answer")

    def __init__(self, method: str, params: dict[str, Any], request_id: str | float | None, wants_answer: bool) -> None:
        self.method = method
        self.params = params
        self.id = request_id
        self.wants_answer = wants_answer


class RateLimit:
    """How fast one caller may call, a connection to the daemon or a token of the hub: an allowance that fills up by
    the second and is used up by calls."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._seen = clock()

    def allows(self) -> bool:
        """Whether one more call is within the pace; it counts as made then."""
        now = self._clock()
        self._left = min(self._per_second, self._left + (now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def decode(line: bytes) -> Any:
    """The JSON value of one line; BadJson whatever is wrong with it."""
    try:
        return loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadJson(f"the line is not UTF-8: byte {error.start} is {line[error.start]:#04x}") from error
    except RecursionError:
        # Without the chain of causes: printing a thousand frames helps nobody.
        raise BadJson(TOO_DEEP) from None
    except ValueError as error:
        raise BadJson(f"the line is not JSON: {error}") from error


def decode_request(line: bytes) -> RpcRequest:
    """Read one request line. BadJson, BadRequest or TooLarge, and nothing else, when it is not one."""
    if len(line) > MAX_REQUEST:
        raise TooLarge(f"a request may have {MAX_REQUEST} bytes, this one has {len(line)}")
    value = decode(line)
    if _depth(value) > MAX_DEPTH:
        raise BadJson(TOO_DEEP)
    if not isinstance(value, dict):
        raise BadRequest("a request is one JSON object a line", 'for example {"id": 1, "method": "ping"}')
    if value.get("jsonrpc", "2.0") != "2.0":
        raise BadRequest('`jsonrpc` must be "2.0"')
    method, params, request_id = value.get("method"), value.get("params"), value.get("id")
    if not isinstance(method, str):
        raise BadRequest("`method` must be text, such as `ping`")
    if not (params is None or isinstance(params, dict)):
        raise BadRequest("`params` must be an object with named parameters")
    if request_id is not None and as_id(request_id) is None:
        raise BadRequest("`id` must be text or a number")
    return RpcRequest(method, params or {}, request_id, "id" in value)


def as_id(value: Any) -> str | float | None:
    """The id of a request; None for what can be none."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _depth(value: Any) -> int:
    """How deep lists and objects stand in each other; not counted much further than they may."""
    depth, level = 0, [value]
    while depth <= MAX_DEPTH and (level := [one for one in level if isinstance(one, dict | list)]):
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def encode(message: Mapping[str, Any]) -> bytes:
    """One message as one line."""
    # Half of a surrogate pair, as in a file name that is not UTF-8 and is kept as Python keeps it, becomes the standard
    # escape \udcXX.
    return dumps(message).encode("utf-8", "backslashreplace") + b"\n"


def encode_request(request_id: int, method: str, params: dict[str, Any] | None) -> bytes:
    try:
        line = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
    except ValueError:
        raise UsageError("a number must be finite: `nan` and `inf` are none", "") from None
    if len(line) > MAX_REQUEST:
        why = f"the request has {len(line)} bytes and the daemon takes {MAX_REQUEST}"
        raise TooLarge(why, "ask for less at once, or name a file")
    return line


def encode_result(request_id: str | float | None, result: dict[str, Any]) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: str | float | None, error: BaseException) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error_object(error)})


def encode_notification(method: str, params: dict[str, Any]) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def error_object(error: BaseException) -> dict[str, Any]:
    """An error as the wire carries it. One that memd does not know gives away its type and no more."""
    if isinstance(error, MemdError):
        data = {"code": error.code, "hint": error.hint, "retryable": error.retryable}
        return {"code": error.rpc_code, "message": error.message, "data": data}
    data = {"code": MemdError.code, "hint": "the log tells more: memd logs", "retryable": False}
    return {"code": INTERNAL_ERROR, "message": f"the daemon made a mistake ({type(error).__name__})", "data": data}


def raise_error(error: Any) -> NoReturn:
    """Raise the error that a daemon sent, as the class it was there."""
    sent: dict[str, Any] = error if isinstance(error, dict) else {}
    data: Any = sent.get("data")
    data = data if isinstance(data, dict) else {}
    kind = BY_CODE.get(str(data.get("code")), MemdError)
    raise kind(str(sent.get("message") or "the daemon reported an error"), str(data.get("hint") or ""))


# --- JSON ---------------------------------------------------------------------------------------------------------

WHITESPACE = " \t\r\n"


def _finite(text: str) -> float:
    """A number, unless it is too large to be one: infinity has no place in JSON."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _cannot_write(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class _Rules:
    """The rules for the parser of `json`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = staticmethod(_finite)
    parse_int = int
    parse_constant = staticmethod(_no_constant)
    memo: dict[str, str] = {}  # noqa: RUF012 (the parser keeps its own; this is the name it looks for)


def _built_in() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any, int], Any]]:
    from _json import encode_basestring, make_encoder, make_scanner

    rules: Any = _Rules
    writer = make_encoder(None, _cannot_write, encode_basestring, None, ":", ",", False, False, False)
    return make_scanner(rules), writer


def _package() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any, int], Any]]:
    import json

    reader: Any = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
    writer = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return reader.scan_once, lambda value, _: writer.encode(value)


try:
    _scan, _write = _built_in()
except (ImportError, AttributeError, TypeError):
    _scan, _write = _package()


def loads(text: str) -> Any:
    """The value that `text` spells. ValueError when it is not JSON, RecursionError when it is too deep."""
    text = text.strip(WHITESPACE)
    try:
        value, end = _scan(text, 0)
    except StopIteration as nothing:
        raise ValueError(f"no value at character {nothing.value}") from None
    except SystemError:
        # The parser wants to raise an error of the package, which was never imported; this imports it and raises that.
        _package()
        value, end = _scan(text, 0)
    if end != len(text):
        raise ValueError(f"more than one value (the first ends at character {end})")
    return value


def dumps(value: Any) -> str:
    """`value` as JSON on one line."""
    return "".join(_write(value, 0))


def read_beside(module: str, name: str) -> Any:
    """The value in a file that lies beside a module, given that module's `__file__`."""
    with open(f"{module.rpartition('/')[0]}/{name}", encoding="utf-8") as file:  # noqa: PTH123
        return loads(file.read())
