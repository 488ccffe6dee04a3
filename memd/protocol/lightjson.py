"""JSON by the parser and writer inside the standard `json` package, without importing the package.

`import json` brings regular expressions and enums along, which takes longer than Python itself takes to
start; a command that asks one question would spend half of its time there. Pythons whose `json` is built
differently get the package.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

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
    """What the parser of `json` reads its rules from."""

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
    return make_scanner(rules), make_encoder(
        None, _cannot_write, encode_basestring, None, ":", ",", False, False, False
    )


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
