"""What a hook may do, read without loading what reads the whole config file: a hook is waited for.

A section of plain `name = value` lines is read right here; whatever else the file holds is left to `tomllib`, which
takes longer to load than a whole answer takes. `memd config check` says what is wrong; a hook uses the default instead.
"""

from __future__ import annotations

import os

from memd.config.paths import config_path_str

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULTS: dict[str, Any] = {
    "timeout_ms": 300,
    "start_ms": 1_000,
    "limit": 3,
    "confidence": 0.75,
    "capture": False,
    "extract": "",
    "extract_s": 30,
}
BOUNDS: dict[str, tuple[float, float]] = {
    "timeout_ms": (10, 60_000),
    "start_ms": (10, 60_000),
    "limit": (0, 20),
    "confidence": (0.6, 1.0),
    "extract_s": (1, 600),
}
ENV_PREFIX = "MEMD_HOOKS__"
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def settings() -> dict[str, Any]:
    """The settings in force; a value that makes no sense counts as not given."""
    given = {**_of_file(), **_of_environment()}
    return {name: _fitting(name, given.get(name), default) for name, default in DEFAULTS.items()}


def _fitting(name: str, value: Any, default: Any) -> Any:
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        return default
    low, high = BOUNDS.get(name, (0, 0))
    return value if name not in BOUNDS or low <= value <= high else default


def _of_environment() -> dict[str, Any]:
    names = {f"{ENV_PREFIX}{name}".upper(): name for name in DEFAULTS}
    return {names[key]: _from_text(raw, DEFAULTS[names[key]]) for key, raw in os.environ.items() if key in names}


def _from_text(raw: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return TRUTH.get(raw.lower())
        return type(default)(raw)
    except ValueError:
        return None


def _of_file() -> dict[str, Any]:
    try:
        with open(config_path_str(), "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError:
        return {}
    if b"hooks" not in data:
        return {}
    text = data.decode("utf-8", "replace")
    plain = None if '"""' in text or "'''" in text else _plain(text)
    return _parsed(text) if plain is None else plain


def _plain(text: str) -> dict[str, Any] | None:
    """The `[hooks]` section, when it is nothing but plain lines and the only place that speaks of hooks."""
    found: dict[str, Any] = {}
    inside = False
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("["):
            inside = line == "[hooks]"
            if not inside and "hooks" in line:
                return None
        elif inside and line and not line.startswith("#"):
            name, equals, raw = (part.strip() for part in line.partition("="))
            value = _value(raw)
            if not equals or value is None or name not in DEFAULTS:
                return None
            found[name] = value
        elif not inside and line.startswith(("hooks", '"hooks', "'hooks")):
            return None
    return found


def _value(raw: str) -> Any:
    """A plain value, or None for what takes a real parser."""
    if raw in ("true", "false"):
        return raw == "true"
    quote = raw[:1]
    if quote in ('"', "'"):
        inner = raw[1:-1]
        whole = len(raw) > 1 and raw[-1] == quote and quote not in inner
        return inner if whole and (quote == "'" or "\\" not in inner) else None
    digits = raw.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()) or raw.endswith(".") or raw.startswith("."):
        return None
    return float(raw) if "." in raw else int(raw)


def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    try:
        section = tomllib.loads(text).get("hooks", {})
    except tomllib.TOMLDecodeError:
        return {}
    return section if isinstance(section, dict) else {}
