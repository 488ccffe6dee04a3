"""The settings of hooks, read without loading the modules that read the whole config file: an agent waits for a hook.

A `[hooks]` section of plain `name = value` lines is read here; anything else is left to `tomllib`, which takes longer
to load than a hook takes to answer. `memd config check` reports what is wrong; a hook uses the default instead.
"""

from __future__ import annotations

import os

from memd.config.paths import config_path_str

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SETTINGS: dict[str, tuple[Any, ...]] = {
    "timeout_ms": (300, 10, 60_000),
    "start_ms": (1_000, 10, 60_000),
    "limit": (3, 0, 20),
    "confidence": (0.75, 0.6, 1.0),
    "capture": (False,),
    "extract": ("",),
    "extract_s": (30, 1, 600),
}
"""The default of each setting, and the bounds of those that are numbers."""
DEFAULTS = {name: default for name, (default, *_) in SETTINGS.items()}
BOUNDS = {name: bounds for name, (_, *bounds) in SETTINGS.items() if bounds}
ENV_PREFIX = "MEMD_HOOKS__"
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def settings() -> dict[str, Any]:
    """The settings in force; a value of the wrong type or out of bounds is ignored."""
    values = {**_from_file(), **_from_environment()}
    return {name: values[name] if _valid(name, values.get(name)) else default for name, default in DEFAULTS.items()}


def is_set(name: str) -> bool:
    """Whether a person has said anything about a setting."""
    return name in _from_file() or name in _from_environment()


def _valid(name: str, value: Any) -> bool:
    kind = type(DEFAULTS[name])
    if type(value) is not kind and not (kind is float and type(value) is int):
        return False
    low, high = BOUNDS.get(name, (value, value))
    return bool(low <= value <= high)


def _from_environment() -> dict[str, Any]:
    given = {name: os.environ.get(f"{ENV_PREFIX}{name}".upper()) for name in DEFAULTS}
    return {name: value_from_text(raw, type(DEFAULTS[name]).__name__) for name, raw in given.items() if raw is not None}


def value_from_text(raw: str, kind: str) -> Any:
    """A value from the environment; text that does not fit its type stays text, which the check refuses."""
    try:
        return TRUTH[raw.lower()] if kind == "bool" else {"int": int, "float": float, "str": str}[kind](raw)
    except (KeyError, ValueError):
        return raw


def _from_file() -> dict[str, Any]:
    try:
        with open(config_path_str(), "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError:
        return {}
    if b"hooks" not in data:
        return {}
    text = data.decode("utf-8", "replace")
    plain = None if '"""' in text or "'''" in text else _read_plain(text)
    return _parse(text) if plain is None else plain


def _read_plain(text: str) -> dict[str, Any] | None:
    """The `[hooks]` section, if it has only plain lines and hooks are set nowhere else; else None."""
    values: dict[str, Any] = {}
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
            values[name] = value
        elif not inside and line.startswith(("hooks", '"hooks', "'hooks")):
            return None
    return values


def _value(raw: str) -> Any:
    """A plain value, or None for one that needs a real parser."""
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


def _parse(text: str) -> dict[str, Any]:
    import tomllib

    try:
        section = tomllib.loads(text).get("hooks", {})
    except tomllib.TOMLDecodeError:
        return {}
    return section if isinstance(section, dict) else {}
