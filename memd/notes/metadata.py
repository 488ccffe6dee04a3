"""Reads and writes what a note declares: front matter, the comment under a heading, #tags, ttl, links. Pure."""

import io
import re
import reprlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote

from memd.errors import Refused, UsageError
from memd.models import KINDS, RELATIONS, TIERS, Declared, Memory
from memd.notes.blocks import with_line_ends
from memd.notes.names import COMMENT, STAMP, head, slug
from memd.prose import LINE, flat_line

FRONT_MATTER = re.compile(
    r"---[^\S\n]*\n(?:[^\S\n]*\n)*"
    r"(?:(?=(?:[^\S\n]*(?:#[^\n]*)?\n)*[^\S\n]*(?:\{|(?!-\s)[^\s#][^\n]*?:\s)).*?\n)??(?:---|\.\.\.)[ \t\r]*(?:\n|\Z)",
    re.DOTALL,
)
"""It begins with a field: a text between two lines is none."""
MAX_FRONT_MATTER = 16 * 1024
MAX_DEPTH = 20
MAX_KEYS = 1_000
TAG = re.compile(r"(?<![\w/#&\\])(?<!\]\()(?<!\[\[)(?<!=[\"'])#([^\W\d_][\w/-]*)")
"""Not the target of a link or of an attribute, nor what a backslash makes a plain character."""
SPOKEN = re.compile(r"[ \t>*-]*(?:user|assistant|human|system|bot)\**:", re.IGNORECASE)
CODE = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n[ \t\r]*\n).)*?(?<!`)\1(?!`)", re.DOTALL)
"""Inline code: it ends with as many backticks as it began with."""
HEADING = re.compile(r" {0,3}(?:#{1,2}(?=\s|\Z)[^\n]*|[^\n]+\n {0,3}(?:=+|-+)[ \t\r]*)(?:\n|\Z)")
FIELD = re.compile(r"([\"']?)(?P<name>[^\s:\"'#-][^:\"'\n]*)\1[ \t]*:(?=\s|\Z)")
YAML_COMMENT = re.compile(r"[ \t]+#[^\"'\]\n]*$")
UNQUOTED = re.compile(r"[^\s\"'\\]+")
TTL = re.compile(r"(?P<number>\d{1,6})\s*(?P<unit>m|h|d|w|y)")
UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}

Fields = Mapping[str, Any]
"""Metadata by name; in an edit, None removes a field."""


# --- values -------------------------------------------------------------------------------------------------


def is_empty(value: Any) -> bool:
    """Whether a value declares nothing; the number 0 does."""
    return value is None or value is False or (isinstance(value, str | list | tuple) and not value)


def _text(value: Any) -> str:
    if value is None or isinstance(value, dict | list | bool):
        return ""
    # YAML can spell half of a character, which no store takes.
    return str(value).encode("utf-8", "replace").decode().strip()


def _texts(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    return tuple(text for entry in values if (text := _text(entry)))


def _tags(value: Any) -> tuple[str, ...]:
    return tuple(tag.lstrip("#") for tag in _texts(value) if tag.lstrip("#"))


def _one_of(values: Sequence[str]) -> Callable[[Any], str]:
    return lambda value: value if isinstance(value, str) and value in values else ""


def share(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= 1 and not isinstance(value, bool) else None


READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("title", "summary", "priority", "ttl", "last_updated"), _text),
    **dict.fromkeys(("aliases", "links", "files"), _texts),
    "tags": _tags, "kind": _one_of(KINDS), "tier": _one_of(TIERS), "importance": share,
    "pinned": lambda value: value is True,
}  # fmt: skip
"""How each field is read from a loose value."""


def _from_mapping(values: dict[Any, Any]) -> Declared:
    return Declared(**{name: read(values.get(name)) for name, read in READERS.items()})


def merge(file: Declared, section: Declared, tags: tuple[str, ...]) -> Declared:
    """A section's metadata over its file's; tags and files add up."""
    either = {name: getattr(file if is_empty(getattr(section, name)) else section, name) for name in READERS}
    either["tags"] = tuple(dict.fromkeys((*file.tags, *section.tags, *tags)))
    either["files"] = tuple(dict.fromkeys((*file.files, *section.files)))
    return Declared(**either)


# --- front matter -------------------------------------------------------------------------------------------


def front_matter_end(text: str) -> int:
    """The offset behind the front matter; 0 if there is none."""
    found = FRONT_MATTER.match(text)
    return found.end() if found else 0


def read_front_matter(text: str) -> tuple[Declared, str]:
    """The facts of a text's front matter, and a warning if it cannot be read."""
    body = text[: front_matter_end(text)].strip().removeprefix("---").removesuffix("---").removesuffix("...")
    if not body:
        return Declared(), ""
    if len(body) > MAX_FRONT_MATTER:
        return Declared(), f"front matter over {MAX_FRONT_MATTER // 1024} KB is not read"
    indent = max((len(line) - len(line.lstrip(" ")) for line in body.splitlines()), default=0)
    if max(body.count("["), body.count("{")) > MAX_DEPTH * 5 or indent > MAX_DEPTH * 2:
        return Declared(), "front matter is nested too deep"
    # Imported with the first front matter: most notes have none.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _bounded_constructor()
    yaml.allow_duplicate_keys = True
    try:
        loaded = yaml.load(body)
    except (YAMLError, ValueError, RecursionError) as error:
        return Declared(), f"front matter is not YAML ({str(error).splitlines()[0]})"
    except (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
        # What the library makes of a tag without a value, such as `!!int`.
        return Declared(), f"front matter is not YAML ({type(error).__name__})"
    return (_from_mapping(loaded), "; ".join(_unread(loaded))) if isinstance(loaded, dict) else (Declared(), "")


@cache
def _bounded_constructor() -> Any:
    """Keys that are merged (`<<`) from merged ones can be more than there is memory for."""
    from ruamel.yaml.constructor import ConstructorError, SafeConstructor

    class BoundedConstructor(SafeConstructor):
        def flatten_mapping(self, node: Any) -> Any:
            flattened = super().flatten_mapping(node)
            if len(node.value) > MAX_KEYS:
                raise ConstructorError(problem=f"it has more than {MAX_KEYS:,} keys", problem_mark=node.start_mark)
            return flattened

    return BoundedConstructor


def _unread(values: dict[Any, Any]) -> Iterator[str]:
    """Warnings about values that say nothing, and the first list with more than texts in it, as `- refines: other`."""
    for name, (wanted, is_one) in VALUES.items():
        if (value := values.get(name)) is not None and not is_one(value):
            yield f"`{name}` must be {wanted}, not {reprlib.aRepr.repr1(value, 1)[:40]}"
    for name in (name for name, read in READERS.items() if read in (_texts, _tags)):
        value = values.get(name)
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict | list):
                # Not all of it: an entry of aliases can be larger than memory when it is written out.
                shown = reprlib.aRepr.repr1(entry, 2)
                yield f"`{name}` has an entry that is not a text: {shown[:80]}; quote it"
                return


VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "ttl": ("a time such as 30d", lambda value: isinstance(value, str) and ttl_span(value) is not None),
    "importance": ("a number from 0 to 1", lambda value: share(value) is not None),
    "pinned": ("true or false", lambda value: isinstance(value, bool)),
}
"""What a field must be that is not a text, and whether a value is that."""


def to_yaml(values: Fields, flow: bool = False) -> str:
    """Metadata as lines of front matter, without empty fields; `flow` writes a list on one line."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 10_000
    yaml.default_flow_style = None if flow else False
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
            if not is_empty(value)}  # fmt: skip
    out = io.StringIO()
    yaml.dump(kept, out)
    return out.getvalue() if kept else ""


def with_front_matter(text: str, values: Fields) -> str:
    """The file with some fields of its front matter changed; every other line stays as it is."""
    end = front_matter_end(text)
    if not end:
        lines_of_yaml = to_yaml(values)
        return with_line_ends(f"---\n{lines_of_yaml}---\n\n", text) + text if lines_of_yaml else text
    first, *lines, last = LINE.findall(text[:end])
    for name, value in values.items():
        lines = _with_field(lines, name, value, text)
    changed = "".join((first, *lines, last))
    for front_matter in (text[:end], changed):
        if warning := read_front_matter(front_matter)[1]:
            raise Refused(f"the {warning}, so the file cannot be changed", "fix it in your editor first")
    return changed + text[end:]


def _with_field(lines: list[str], name: str, value: Any, text: str) -> list[str]:
    """Lines of front matter with one field set in its old place, or at the end."""
    if (span := _field_span(lines, name)) is None:
        return [*lines, with_line_ends(to_yaml({name: value}), text)]
    at, end = span
    if is_empty(value):
        return lines[:at] + lines[end:]
    one_line = end == at + 1
    comment = YAML_COMMENT.search(lines[at].rstrip()) if one_line else None
    new = to_yaml({name: value}, one_line and isinstance(value, list | tuple)).rstrip("\n")
    return [*lines[:at], with_line_ends(f"{new}{comment.group() if comment else ''}\n", text), *lines[end:]]


def _field_span(lines: Sequence[str], name: str) -> tuple[int, int] | None:
    """The lines of front matter that a field takes; None where it is not there."""
    at = next((at for at, line in enumerate(lines) if (match := FIELD.match(line)) and match["name"] == name), None)
    if at is None:
        return None
    end = at + 1
    for nth in range(at + 1, len(lines)):
        if lines[nth][:1] in (" ", "\t", "-"):
            end = nth + 1
        elif lines[nth].strip() and not lines[nth].startswith("#"):
            break
    return at, end


def with_tag_in_place(text: str, old: str, new: str, tags: Sequence[str]) -> str:
    """The file with one tag of its front matter replaced where it stands, so that these are its tags; without a change
    where that is not so simple."""
    end = front_matter_end(text)
    lines = LINE.findall(text[:end])
    for at in range(*(_field_span(lines, "tags") or (0, 0))):
        entry, comment, rest = re.split(r"((?:^|\s)#(?=\s)|$)", lines[at], maxsplit=1)
        entry = re.sub(rf"(?i)(?<=[\s,\[\"'#]){re.escape(old)}(?=[\s,\]\"']|$)", lambda _: new, entry)
        lines[at] = f"{entry}{comment}{rest}"
    changed = "".join(lines) + text[end:]
    return changed if read_front_matter(changed)[0].tags == tuple(tags) else text


# --- the comment under a heading ----------------------------------------------------------------------------


def read_comment(text: str) -> Declared:
    """The facts that `<!-- memd: pinned tags=a,b importance=0.8 -->` declares for its section."""
    match = COMMENT.search(text)
    values: dict[str, Any] = dict(_comment_values(match.group(1))) if match else {}
    if isinstance(values.get("pinned"), str):
        values["pinned"] = values["pinned"].lower() in ("true", "yes", "1")
    return _from_mapping(values)


def _comment_values(text: str) -> dict[str, str | bool]:
    """The words of a comment: `name=value`, or a name alone, which is True."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = (word.partition("=") for word in words)
    return {name: value if equals else True for name, equals, value in pairs}


def with_comment(section: str, changes: Fields) -> str:
    """A section with some fields of its comment changed; a comment without fields is removed."""
    match = COMMENT.search(section)
    values = {**(_comment_values(match.group(1)) if match else {}), **changes}
    words = [_word(name, value) for name, value in values.items() if name not in changes or not is_empty(value)]
    comment = f"<!-- memd: {' '.join(words)} -->"
    if match and words:
        return section[: match.start()] + comment + section[match.end() :]
    if match:
        return section[: match.start()] + re.sub(r"\A[ \t\r]*\n", "", section[match.end() :])
    if not words:
        return section
    heading = HEADING.match(section)
    at = heading.end() if heading else 0
    line_end = with_line_ends("\n", section)
    before = section[:at] if section[:at].endswith("\n") or not at else section[:at] + line_end
    return before + comment + line_end + section[at:]


def _word(name: str, value: Any) -> str:
    """A field as a comment has it."""
    if isinstance(value, bool):
        return name
    if isinstance(value, list | tuple) and any("," in entry for entry in value):
        raise UsageError(f"`{name}` of a section cannot hold a comma", "commas separate its entries")
    text = ",".join(value) if isinstance(value, list | tuple) else str(value)
    if "-->" in text:
        raise UsageError(f"`{name}` cannot stand in a comment: {text}")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f"{name}={text}" if UNQUOTED.fullmatch(text) else f'{name}="{quoted}"'


# --- tags ---------------------------------------------------------------------------------------------------


def hashtags(prose: Iterable[str]) -> tuple[str, ...]:
    """The #tags in prose, each once, in order."""
    return tuple(dict.fromkeys(text[start:end] for text in prose for start, end in tag_spans(text)))


def tag_spans(text: str) -> list[tuple[int, int]]:
    """The spans of the names of #tags in prose, without those in code or in a line of a chat, where it is a room."""
    code = [match.span() for match in CODE.finditer(text)] if "`" in text and "#" in text else []
    prose = (tag for tag in TAG.finditer(text) if not any(start < tag.start() < end for start, end in code))
    tags = (tag for tag in prose if not SPOKEN.match(text, text.rfind("\n", 0, tag.start()) + 1))
    return [(tag.start(1), tag.start(1) + len(tag[1].rstrip("/-"))) for tag in tags]


# --- ttl ----------------------------------------------------------------------------------------------------


def ttl_span(ttl: str) -> timedelta | None:
    """`90m`, `12h`, `30d`, `2w`, `1y` as a time span; None for anything else."""
    match = TTL.fullmatch(ttl.strip().lower())
    return timedelta(seconds=int(match["number"]) * UNITS[match["unit"]]) if match else None


def expiry(memory: Memory, role: str, first_seen: str) -> str | None:
    """When a memory's ttl ends, in UTC; None without a ttl.

    It starts at `last_updated`, else at the time or day that the note gives, else when memd first saw the memory.
    """
    span = ttl_span(memory.declared.ttl) if memory.declared.ttl else None
    if span is None:
        return None
    stamp = STAMP.search(head(memory.text))
    dated = stamp.group(0).strip("_") if stamp else memory.date if role == "daily" else ""
    start = _moment(memory.declared.last_updated) or _moment(dated) or _moment(first_seen)
    try:
        return (start + span).astimezone(UTC).isoformat(timespec="milliseconds") if start else None
    except OverflowError:
        return None


def _moment(text: str) -> datetime | None:
    """A date or time as notes write it; a day or a minute means its end, so that nothing expires too early."""
    written_to = {len("2026-02-15"): timedelta(days=1), len("2026-02-15T14:27"): timedelta(minutes=1)}
    try:
        moment = datetime.fromisoformat(text) + written_to.get(len(text), timedelta())
    except (ValueError, OverflowError):
        return None
    return moment.astimezone() if moment.tzinfo is None else moment


# --- links to other memories: declared, [[wikilinks]], Markdown links to notes; none in code ----------------


PLAIN = "relates_to"
DECLARED, WRITTEN = "declared", "written"
SUFFIXES = (".md", ".mdk")
MAX_TARGET = 300
"""Characters; a longer target names nothing."""

ENTRY = re.compile(r"(?P<rel>[a-z_]+)(?:\((?P<weight>[^()]*)\))?:(?P<key>.+)", re.DOTALL)
WIKI = re.compile(r"\[\[([^\[\]\n|#]*)(?:#([^\[\]\n|]*))?(?:\|[^\[\]\n]*)?\]\]")
INLINE = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*(?:<([^<>\n]*)>|([^\s()<>]+(?:\([^\s()]*\)[^\s()]*)*))")
DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n]+\]:[ \t]*(?:<([^<>\n]*)>|(\S+))", re.MULTILINE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """A link from a memory; `target` is the folded name of another one."""

    rel: str
    target: str
    weight: float | None = None
    """None: the default weight of the relation."""
    origin: str = DECLARED


def links_of(path: str, memory: Memory) -> tuple[MemoryLink, ...]:
    """The links of a memory in the file at `path`, one per relation and target; a declared one comes first."""
    links: dict[tuple[str, str], MemoryLink] = {}
    for link in (*map(declared_link, memory.declared.links), *_written(path, memory)):
        if link and link.target and len(link.target) <= MAX_TARGET:
            links.setdefault((link.rel, link.target), link)
    return tuple(links.values())


def folded(name: str) -> str:
    """A name for comparison: one space between words, no upper case."""
    return flat_line(name).casefold()


# --- declared -----------------------------------------------------------------------------------------------


def declared_link(entry: str) -> MemoryLink | None:
    """Parse `key`, `rel:key` or `rel(0.7):key`; None for an invalid weight."""
    parts = ENTRY.fullmatch(entry.strip())
    if parts is None or parts["rel"] not in RELATIONS:
        return MemoryLink(PLAIN, key_target(entry))
    weight = share(parts["weight"])
    if weight is None and parts["weight"] is not None:
        return None
    return MemoryLink(parts["rel"], key_target(parts["key"]), weight)


def unread_links(entries: Iterable[str]) -> Iterator[str]:
    """Warnings about declared links that mean nothing."""
    for entry in entries:
        parts = ENTRY.fullmatch(entry.strip())
        if parts is not None and parts["rel"] not in RELATIONS:
            yield f"the link `{entry}` names no relation; there are {', '.join(RELATIONS)}"
        elif declared_link(entry) is None:
            yield f"the link `{entry}` is ignored: a weight is a number from 0 to 1"


def entry_of(rel: str, key: str, weight: float | None) -> str:
    """The shortest entry that `declared_link` parses to this link."""
    usual = weight is None or weight == RELATIONS[rel]
    prefixed = ENTRY.fullmatch(key)
    if usual and rel == PLAIN and not (prefixed and prefixed["rel"] in RELATIONS):
        return key
    return f"{rel}:{key}" if usual else f"{rel}({weight:g}):{key}"


def key_target(text: str) -> str:
    """The target that a key names; the key may be in the brackets of a wikilink."""
    wiki = WIKI.fullmatch(text.strip())
    if wiki is not None:
        return _target(wiki[1], wiki[2])
    base, _, part = text.strip().partition("#")
    return _target(base, part)


def _target(base: str, heading: str | None) -> str:
    """`name#slug`, with the last of the headings given."""
    # In a table, the bar before a label is escaped.
    name = folded(base.rstrip("\\"))
    last = heading.rpartition("#")[2].strip().lstrip("^") if heading else ""
    return f"{name}#{slug(last)}" if last else name


# --- in the text-----------------------------------------------------------------------------------------------


def _written(path: str, memory: Memory) -> Iterator[MemoryLink]:
    if "[" not in memory.text:
        return
    for prose in _prose(memory):
        for match in WIKI.finditer(prose):
            target = _target(match[1] if match[1].strip() else path, match[2])
            # Skip a file's link to itself as a whole.
            if target and (match[1].strip() or match[2]):
                yield MemoryLink(PLAIN, target, origin=WRITTEN)
        for pattern in (INLINE, DEFINITION):
            for match in pattern.finditer(prose):
                if target := _file_target(path, match[1] or match[2] or ""):
                    yield MemoryLink(PLAIN, target, origin=WRITTEN)


def _prose(memory: Memory) -> Iterator[str]:
    """The blocks of a memory with a bracket, without code and without memd's own comment."""
    for start, end in memory.prose:
        piece = memory.text[start:end]
        if "[" in piece:
            piece = COMMENT.sub(" ", piece)
            yield CODE.sub(" ", piece) if "`" in piece else piece


def _file_target(path: str, url: str) -> str:
    """A Markdown link's target as a path in the workspace; empty if it leads elsewhere."""
    if SCHEME.match(url):
        return ""
    base, _, anchor = unquote(url).partition("#")
    base = base.partition("?")[0]
    if not base:
        return _target(path, anchor) if anchor else ""
    if PurePosixPath(base).suffix.lower() not in SUFFIXES:
        return ""
    place = normpath(join("" if base.startswith("/") else dirname(path), base.lstrip("/")))
    return "" if place.startswith("..") else _target(place, anchor)
