"""Sessions with agents (transcripts of Claude Code and Codex, exports of ChatGPT and Claude) as dated notes. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import PurePath, PurePosixPath
from typing import Any

from memd.models import JsonObject
from memd.notes.names import slug
from memd.notes.secrets import masked
from memd.notes.sections import nested, new_entry
from memd.notes.topics import topic_file
from memd.prose import ASIDE, flat_line, said, value_at

SNIFFED = 25
"""Lines in which a transcript says what it is."""
MAX_TURN = 20_000
"""Characters of one side's words in an exchange; the transcript has the rest."""
MAX_HEADING = 80
PARAGRAPH = "\n\n"

PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
EDITORS = ("Edit", "Write", "MultiEdit", "NotebookEdit")


@dataclass(slots=True)
class Exchange:
    """An exchange: the question, the agent's answer, and the files that it changed."""

    at: datetime
    asked: str
    answers: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """One conversation with an agent."""

    agent: str
    """`Claude Code`, `Codex`, `ChatGPT` or `Claude`."""
    id: str = ""
    folder: str = ""
    """Where the agent worked."""
    branch: str = ""
    title: str = ""
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def project(self) -> str:
        return PurePath(self.folder).name

    @property
    def day(self) -> str:
        return self.exchanges[0].at.astimezone().date().isoformat() if self.exchanges else ""

    def learns(self, number: str, folder: str, branch: str) -> None:
        """Keep the facts about the session that are not known yet."""
        self.id, self.folder, self.branch = self.id or number, self.folder or folder, self.branch or branch

    def hears(self, role: Any, at: Any, text: str) -> None:
        """Add what one side said; a person's words begin an exchange, and whoever is neither side is not heard."""
        if text and role in ("user", "human"):
            self.exchanges.append(Exchange(_moment(at), text))
        elif text and role == "assistant" and self.exchanges:
            self.exchanges[-1].answers.append(text)

    def changes(self, path: str) -> None:
        """Note a changed file; one in the folder of the session by its path there."""
        pure = PurePosixPath(path)
        shown = str(pure.relative_to(self.folder)) if self.folder and pure.is_relative_to(self.folder) else path
        if self.exchanges and shown and shown not in self.exchanges[-1].changed:
            self.exchanges[-1].changed.append(shown)


# --- transcripts, one JSON object a line ----------------------------------------------------------------------------


def read_transcript(lines: Iterable[bytes]) -> Session | None:
    """The session of a transcript; None if the lines are something else."""
    rest = iter(lines)
    first = list(islice(rest, SNIFFED))
    session = _recognised(first)
    if session is not None:
        read = _claude_code if session.agent == "Claude Code" else _codex
        for record in _objects(chain(first, rest)):
            read(session, record)
    return session


def _recognised(lines: Iterable[bytes]) -> Session | None:
    for record in _objects(lines):
        if record.get("type") == "session_meta" and isinstance(record.get("payload"), dict):
            return Session("Codex")
        if isinstance(record.get("sessionId"), str) and record.get("type") in ("user", "assistant", "system"):
            return Session("Claude Code")
    return None


def _objects(lines: Iterable[bytes]) -> Iterator[JsonObject]:
    """The JSON objects of the lines; the last line of a running session may be half a one."""
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _claude_code(session: Session, record: JsonObject) -> None:
    if record.get("type") == "summary":
        session.title = session.title or _text(record, "summary")
    if not isinstance(record.get("message"), dict) or any(record.get(mark) for mark in ASIDE):
        return
    session.learns(_text(record, "sessionId"), _text(record, "cwd"), _text(record, "gitBranch"))
    role, content = record.get("type"), value_at(record, "message", "content")
    session.hears(role, record.get("timestamp"), said(content))
    for block in content if role == "assistant" and isinstance(content, list) else ():
        if value_at(block, "type") == "tool_use" and value_at(block, "name") in EDITORS:
            session.changes(_text(block, "input", "file_path") or _text(block, "input", "notebook_path"))


def _codex(session: Session, record: JsonObject) -> None:
    payload, kind = record.get("payload"), value_at(record, "payload", "type")
    if record.get("type") == "session_meta":
        session.learns(_text(payload, "id"), _text(payload, "cwd"), _text(payload, "git", "branch"))
    elif record.get("type") == "response_item" and kind == "message":
        role = value_at(payload, "role")
        words = said(value_at(payload, "content"), "input_text" if role == "user" else "output_text")
        session.hears(role, record.get("timestamp"), words)
    elif record.get("type") == "response_item" and kind in ("custom_tool_call", "function_call"):
        given = _text(payload, "input") or _text(payload, "arguments").replace("\\n", "\n")
        for path in PATCHED.findall(given):
            session.changes(path.strip())


# --- exports of whole accounts, `conversations.json` ----------------------------------------------------------------


def read_conversations(data: Any) -> list[Session] | None:
    """The conversations of an account's export; None if it is something else."""
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    if rows and all(isinstance(row.get("mapping"), dict) for row in rows):
        return [_chatgpt(row) for row in rows]
    if rows and all(isinstance(row.get("chat_messages"), list) for row in rows):
        return [_claude(row) for row in rows]
    return None


def _chatgpt(row: JsonObject) -> Session:
    """The branch of the conversation that was last shown."""
    session = Session("ChatGPT", _text(row, "conversation_id") or _text(row, "id"), title=_text(row, "title"))
    nodes, number, shown, seen = row["mapping"], row.get("current_node"), list[JsonObject](), set[str]()
    while isinstance(number, str) and isinstance(node := nodes.get(number), dict) and number not in seen:
        seen.add(number)
        shown.append(node)
        number = node.get("parent")
    for node in reversed(shown):
        parts = value_at(node, "message", "content", "parts")
        text = "\n\n".join(part for part in parts if isinstance(part, str)).strip() if isinstance(parts, list) else ""
        made = value_at(node, "message", "create_time") or row.get("create_time")
        session.hears(value_at(node, "message", "author", "role"), made, text)
    return session


def _claude(row: JsonObject) -> Session:
    session = Session("Claude", _text(row, "uuid"), title=_text(row, "name"))
    for message in row["chat_messages"]:
        text = said(value_at(message, "content")) or _text(message, "text").strip()
        role = "human" if value_at(message, "sender") == "human" else "assistant"
        session.hears(role, value_at(message, "created_at") or row.get("created_at"), text)
    return session


def _text(value: Any, *names: str) -> str:
    """The text there; empty where there is none."""
    found = value_at(value, *names)
    return found if isinstance(found, str) else ""


def _moment(value: Any) -> datetime:
    """A time as text or in seconds; the beginning of time if it is none."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return datetime.fromtimestamp(float(value), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


# --- the note -------------------------------------------------------------------------------------------------------


def name_of(session: Session) -> str:
    """A name for the note of a session, with its day: `2026-03-01-library-2ff46cd5`."""
    about = slug(session.project or session.title or session.agent)[:40].strip("-")
    return "-".join((session.day, about, slug(session.id)[:8].strip("-"))).rstrip("-")


def note_of(session: Session) -> str:
    """The session as a note: a section for each exchange. Secrets are masked."""
    title = _first_line(session.title or session.exchanges[0].asked)
    facts = [f"{session.agent} session `{session.id}`"]
    facts += [f"in `{session.folder}`"] if session.folder else []
    facts += [f"on the branch `{session.branch}`"] if session.branch else []
    head = f"# {session.project or session.agent}, {session.day}: {title}\n\n{', '.join(facts)}.\n"
    text = "".join([head, *(_section(session.agent, one) for one in session.exchanges)])
    began = session.exchanges[0].at.isoformat(timespec="seconds")
    return topic_file({"tags": ["session", slug(session.agent)], "created": began}, masked(text))


def _section(agent: str, one: Exchange) -> str:
    heading, parts = _first_line(one.asked), list[str]()
    parts += [f"**Asked:**\n\n{_turn(one.asked)}"] if heading != one.asked else []
    parts += [f"**{agent}:**\n\n{_turn(PARAGRAPH.join(one.answers))}"] if one.answers else []
    parts += [f"**Changed:** {', '.join(f'`{path}`' for path in one.changed)}"] if one.changed else []
    return new_entry(f"{one.at.astimezone():%H:%M} {heading}", PARAGRAPH.join(parts))


def _first_line(text: str) -> str:
    line = flat_line(text.strip().split("\n")[0]).strip("#*>` ") or "…"
    return line if len(line) <= MAX_HEADING else line[:MAX_HEADING].rsplit(" ", 1)[0] + " …"


def _turn(text: str) -> str:
    """Somebody's words, of which none begins a section and nothing stays open."""
    return nested(text if len(text) <= MAX_TURN else text[:MAX_TURN] + " …")
