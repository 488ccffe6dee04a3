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
from memd.notes.entries import nested, new_entry
from memd.notes.names import slug
from memd.notes.secrets import masked
from memd.notes.topics import topic_file

SNIFFED = 25
"""Lines in which a transcript says what it is."""
MAX_TURN = 20_000
"""Characters of one side's words in an exchange; the transcript has the rest."""
MAX_HEADING = 80
PARAGRAPH = "\n\n"

ASIDE = ("isMeta", "isSidechain", "isApiErrorMessage", "isCompactSummary")
"""Marks of lines that neither the person nor this agent wrote."""
INSERTED = re.compile(
    r"<(system-reminder|memd-memory|environment_context|user_instructions|permissions[\w -]*|local-command-[a-z]+"
    r"|command-[a-z]+|task-notification)>.*?(?:</\1>|\Z)"
    r"|\A# AGENTS\.md instructions for .*|\ACaveat: The messages below.*",
    re.DOTALL,
)
"""What programs put into a person's messages."""
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
EDITORS = ("Edit", "Write", "MultiEdit", "NotebookEdit")


@dataclass(slots=True)
class Exchange:
    """What the person asked, what the agent said to it, and the files that it changed."""

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

    def asks(self, at: datetime, text: str) -> None:
        if text:
            self.exchanges.append(Exchange(at, text))

    def answers(self, text: str) -> None:
        if text and self.exchanges:
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
    if record.get("type") == "summary" and isinstance(record.get("summary"), str):
        session.title = session.title or record["summary"]
    message = record.get("message")
    if not isinstance(message, dict) or any(record.get(mark) for mark in ASIDE):
        return
    session.id = session.id or _text(record.get("sessionId"))
    session.folder = session.folder or _text(record.get("cwd"))
    session.branch = session.branch or _text(record.get("gitBranch"))
    content = message.get("content")
    if record.get("type") == "user":
        session.asks(_moment(record.get("timestamp")), _said(content, "text"))
    elif record.get("type") == "assistant":
        session.answers(_said(content, "text"))
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name") in EDITORS:
                given = block.get("input")
                given = given if isinstance(given, dict) else {}
                session.changes(_text(given.get("file_path")) or _text(given.get("notebook_path")))


def _codex(session: Session, record: JsonObject) -> None:
    payload = record.get("payload")
    if not isinstance(payload, dict):
        return
    if record.get("type") == "session_meta":
        git = payload.get("git")
        session.id = session.id or _text(payload.get("id"))
        session.folder = session.folder or _text(payload.get("cwd"))
        session.branch = session.branch or _text(git.get("branch") if isinstance(git, dict) else "")
    elif record.get("type") == "response_item" and payload.get("type") == "message":
        if payload.get("role") == "user":
            session.asks(_moment(record.get("timestamp")), _said(payload.get("content"), "input_text"))
        elif payload.get("role") == "assistant":
            session.answers(_said(payload.get("content"), "output_text"))
    elif record.get("type") == "response_item" and payload.get("type") in ("custom_tool_call", "function_call"):
        for path in PATCHED.findall(
            _text(payload.get("input")) or _text(payload.get("arguments")).replace("\\n", "\n")
        ):
            session.changes(path.strip())


def _said(content: Any, kind: str) -> str:
    """The words of a message, without tool calls, thoughts and what programs put in."""
    blocks = content if isinstance(content, list) else [{"type": kind, "text": content}]
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == kind)
    return INSERTED.sub("", "\n\n".join(text for text in texts if isinstance(text, str))).strip()


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
    session = Session(
        "ChatGPT", _text(row.get("conversation_id")) or _text(row.get("id")), title=_text(row.get("title"))
    )
    nodes, number, shown, seen = row["mapping"], row.get("current_node"), list[JsonObject](), set[str]()
    while isinstance(number, str) and isinstance(node := nodes.get(number), dict) and number not in seen:
        seen.add(number)
        if isinstance(message := node.get("message"), dict):
            shown.append(message)
        number = node.get("parent")
    for message in reversed(shown):
        author, content = message.get("author"), message.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        text = "\n\n".join(part for part in parts if isinstance(part, str)).strip() if isinstance(parts, list) else ""
        role = author.get("role") if isinstance(author, dict) else ""
        if role == "user":
            session.asks(_moment(message.get("create_time") or row.get("create_time")), text)
        elif role == "assistant":
            session.answers(text)
    return session


def _claude(row: JsonObject) -> Session:
    session = Session("Claude", _text(row.get("uuid")), title=_text(row.get("name")))
    for message in row["chat_messages"]:
        if isinstance(message, dict):
            text = _said(message.get("content"), "text") or _text(message.get("text")).strip()
            if message.get("sender") == "human":
                session.asks(_moment(message.get("created_at") or row.get("created_at")), text)
            else:
                session.answers(text)
    return session


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


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
    """The session as a note: a section for each exchange. What looks like a secret is masked."""
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
    line = " ".join(text.strip().split("\n")[0].split()).strip("#*>` ") or "…"
    return line if len(line) <= MAX_HEADING else line[:MAX_HEADING].rsplit(" ", 1)[0] + " …"


def _turn(text: str) -> str:
    """Somebody's words, of which none begins a section and nothing stays open."""
    return nested(text if len(text) <= MAX_TURN else text[:MAX_TURN] + " …")
