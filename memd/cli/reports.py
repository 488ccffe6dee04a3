"""Puts the daemon's reports into words: status, workspaces, what a sync did, what the doctor found."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from memd.cli import console
from memd.protocol.safe_text import neutralise, one_line
from memd.timespans import duration, local_time, seconds_until

MARKS = {"ok": "ok      ", "warn": "warning ", "broken": "BROKEN  ", "mended": "mended  "}
MAX_SKIPPED = 5
NARROW = 8
"""Columns of a table that no cell gives way below."""
DROP = 0.1
"""A fall of the nightly exam's recall by more than this is reported."""


def status(result: Mapping[str, Any]) -> str:
    """The screen of `memd status`."""
    blocks = [
        [_headline(result)],
        workspaces(result["workspaces"]).splitlines() or ["no workspaces yet; begin with: memd add ."],
        [
            *_fact("pending", _pending(result)),
            *_fact("model", _model(result)),
            *_languages(result["workspaces"]),
            *_fact("change", _switch(result)),
            *_fact("listeners", result.get("subscriptions")),
            *_fact("proposals", _proposals(result)),
            *_jobs(result["jobs"]),
        ],
        _exams(result["workspaces"]),
        _watching(result["workspaces"]),
        _conflicts(result["workspaces"]),
        _skipped(result["workspaces"]),
        _degraded(result),
        [line for name in ("config", "state_dir", "socket", "log") for line in _fact(name, result.get(name))],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def workspaces(entries: list[dict[str, Any]]) -> str:
    """A table, or nothing when there are none."""
    rows = [_workspace_row(entry) for entry in entries]
    head = ("workspace", "files", "memories", "chunks", "vectors", "watched by", "last change", "directory")
    return table([head, *rows]) if rows else ""


def _workspace_row(entry: dict[str, Any]) -> tuple[str, ...]:
    waiting = entry.get("pending_vectors") or 0
    watch = "gone, waiting" if entry.get("missing") else str(entry.get("watch", ""))
    return (
        one_line(entry["ns"]),
        str(entry.get("files", 0)),
        str(entry.get("memories", 0)),
        str(entry.get("chunks", 0)),
        f"{entry.get('vectors', 0)}" + (f" (+{waiting})" if waiting else ""),
        watch + (", held" if entry.get("held") else ""),
        ago(entry.get("last_change")),
        one_line(entry["root"]),
    )


def table(rows: Sequence[Sequence[str]], numbers: bool = False) -> str:
    """Columns as wide as their widest cell; with `numbers`, all but the first are aligned on the right. On a terminal
    the widest give way until all of them fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while console.on_terminal(sys.stdout) and sum(widths) + 2 * (len(widths) - 1) > console.width():
        widest = max(widths)
        if widest <= NARROW:
            break
        widths[widths.index(widest)] -= 1
    lines = []
    for row in ([_cell(*cell) for cell in zip(row, widths, strict=True)] for row in rows):
        first, *others = zip(row, widths, strict=True)
        cells = [cell.rjust(width) if numbers else cell.ljust(width) for cell, width in others]
        lines.append("  ".join([first[0].ljust(first[1]), *cells]).rstrip())
    return "\n".join(lines)


def _cell(text: str, width: int) -> str:
    """A cell that may be too long: of a path the end is kept, of everything else the beginning."""
    if len(text) <= width:
        return text
    return f"…{text[len(text) - width + 1 :]}" if text.startswith(("/", "~")) else f"{text[: width - 1]}…"


def _headline(result: Mapping[str, Any]) -> str:
    parts = [f"memd {result['version']} has been running for {duration(result.get('uptime_s') or 0)}"]
    if result.get("pid"):
        parts.append(f"pid {result['pid']}")
    if result.get("memory_mb"):
        parts.append(f"{result['memory_mb']:.0f} MB")
    return one_line(", ".join(parts))


def _fact(name: str, value: Any) -> list[str]:
    if not value:
        return []
    room = console.width() - 10 if console.on_terminal(sys.stdout) else len(str(value))
    return [f"{name.removesuffix('_dir'):<9} {_cell(one_line(str(value)), room)}"]


def _pending(result: Mapping[str, Any]) -> str:
    files, vectors = result.get("pending_files") or 0, result.get("pending_vectors") or 0
    if not files and not vectors:
        return "nothing; everything on disk can be found"
    parts = [count(files, "file") if files else "", count(vectors, "vector") if vectors else ""]
    left = f", about {duration(result['eta_s'])} left" if result.get("eta_s") else ""
    return " and ".join(part for part in parts if part) + left


def _proposals(result: Mapping[str, Any]) -> str:
    waiting = result.get("proposals") or 0
    return f"{count(waiting, 'write')} of agents to decide about: memd proposal list" if waiting else ""


def reloaded(result: Mapping[str, Any]) -> str:
    """What a daemon that read its settings anew says."""
    if not result["changed"]:
        return "the daemon follows it already, or its environment says otherwise: memd config show"
    followed = [name for name in result["changed"] if name not in result["restart"]]
    lines = [f"the daemon follows {', '.join(followed)}"] if followed else []
    return "\n".join([*lines, *([f"after memd restart: {', '.join(result['restart'])}"] if result["restart"] else [])])


def _switch(result: Mapping[str, Any]) -> str:
    """The change to another model, while it goes on or if it was taken back."""
    switch = (result.get("model") or {}).get("switch") or {}
    if switch.get("state") not in ("loading", "waiting", "building", "cancelled"):
        return ""
    part = f"{switch['done']:,} of {switch['total']:,} vectors" if switch["total"] else ""
    meanwhile = f"{switch['before']} answers" if switch["state"] != "cancelled" else ""
    parts = [switch["state"], part, switch["note"], meanwhile]
    return f"to {switch['to']}: {'; '.join(part for part in parts if part)}"


def _model(result: Mapping[str, Any]) -> str:
    model = result.get("model") or {}
    name = model.get("name") or model.get("provider") or "none"
    size = f" ({model['dims']} dimensions)" if model.get("dims") else ""
    note = f": {model['note']}" if model.get("note") else ""
    made = count(result.get("embedded") or 0, "text")
    other = str(model.get("multilingual") or "")
    beside = f"; other languages: {other}" if other.endswith("ready") else ""
    return f"{name}{size}, {model.get('state', 'off')}{note}{beside}; {made} embedded since the start"


def _languages(rows: list[dict[str, Any]]) -> list[str]:
    """What made workspaces need the model for other languages."""
    reasons = [f"{one_line(row['ns'])}: {one_line(why)}" for row in rows for why in row.get("languages") or ()]
    return [line for reason in reasons[:MAX_SKIPPED] for line in _fact("language", reason)]


def _jobs(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for all of them, and one for each that failed."""
    on = [job for job in jobs if job["schedule"] != "off"]
    ran, coming = [job for job in on if job.get("last")], [job for job in on if job.get("next")]
    parts = [f"{len(on)} by the clock"]
    if ran:
        last = max(ran, key=lambda job: str(job["last"]))
        parts.append(f"last {last['name']} {ago(last['last'])}")
    if coming:
        soon = min(coming, key=lambda job: str(job["next"]))
        parts.append(f"next {soon['name']} {until(soon['next'])}")
    failed = [job for job in ran if str(job.get("result")).startswith("failed")]
    lines = [line for job in failed for line in _fact("job", f"{job['name']} {ago(job['last'])}: {job['result']}")]
    return [*_fact("jobs", f"{', '.join(parts)} (memd jobs)"), *lines]


def scheduled(schedule: str) -> str:
    """`every 1h`, `at 15 3 * * *`, `off`."""
    if schedule == "off":
        return schedule
    return f"at {schedule}" if " " in schedule.strip() else f"every {schedule}"


def _exams(rows: list[dict[str, Any]]) -> list[str]:
    """The last nightly exam of each workspace; a drop stands out."""
    examined = [entry for entry in rows if (entry.get("exam") or {}).get("last")]
    return [one_line(f"exam      {entry['ns']}: {_exam(entry['exam'])}") for entry in examined]


def _exam(exam: dict[str, Any]) -> str:
    last, before = exam["last"], exam["before"]
    text = f"{last['recall']:.0%} of {count(last['probes'], 'probe')} found in the first 5 on {last['date']}"
    if before and before["recall"] - last["recall"] > DROP:
        text += f", DROPPED from {before['recall']:.0%} on {before['date']} (see: memd eval --self --misses)"
    elif before:
        text += f", {before['recall']:.0%} before"
    return f"{text}; p95 {last['p95_ms']:.0f} ms"


def _watching(rows: list[dict[str, Any]]) -> list[str]:
    """Why a workspace is not watched by inotify, and what would change that."""
    noted = [entry for entry in rows if entry.get("watch_note")]
    return [one_line(f"watching  {entry['ns']}: {entry['watch']} ({entry['watch_note']})") for entry in noted]


def _conflicts(rows: list[dict[str, Any]]) -> list[str]:
    found = sum(entry.get("conflicts") or 0 for entry in rows)
    return [f"conflicts {count(found, 'note')} with two versions: memd conflict list"] if found else []


def _skipped(rows: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for entry in rows:
        skipped = entry.get("skipped") or ()
        every = [one_line(f"left out  {entry['ns']}: {file['path']} ({file['why']})") for file in skipped]
        lines += console.first(every, MAX_SKIPPED, "          and {} more")
    return lines


def _degraded(result: Mapping[str, Any]) -> list[str]:
    details = result.get("degraded_details") or [{"what": what} for what in result.get("degraded") or ()]
    if not details:
        return ["degraded  nothing; all is well"]
    lines = []
    for detail in details:
        lines.append(one_line(f"degraded  {detail['what']}" + (f": {detail['why']}" if detail.get("why") else "")))
        if detail.get("fix"):
            lines.append(one_line(f"          → {detail['fix']}"))
    return lines


def added(result: Mapping[str, Any], waited: bool, others: int = 0) -> str:
    """What `memd add` says; `others` counts the Markdown files that it does not take for memory."""
    entry = result["workspace"]
    name, root, globs = one_line(entry["ns"]), one_line(entry["root"]), entry.get("globs") or []
    verb = "is watched now" if result.get("added", True) else "was a workspace already"
    if not waited:
        return f"{name} {verb} ({root}); its files are being indexed: memd status"
    if entry.get("missing"):
        return f"{name} {verb}, but {root} does not exist yet; memd begins when it does (to undo: memd remove {name})"
    if not result["files"]:
        text = f"{name} {verb} ({root}), and no file matches yet\n  memd looks for: {one_line(', '.join(globs))}"
        if others:
            text += f"\n  {count(others, 'other Markdown file')} can be read instead:"
            text += f" memd remove {name} && memd add {root} --glob '**/*.md'"
        return text
    text = f"{name} {verb} ({root}): {count(result['files'], 'file')}, {count(result['chunks'], 'chunk')} searchable"
    pending = result.get("pending") or 0
    return text + (f"\n  {pending} still to be embedded; text search works meanwhile" if pending else "")


def synced(result: Mapping[str, Any]) -> str:
    parts = [count(result["files"], "file"), f"{result['changed']} changed", f"{result['removed']} removed"]
    text = ", ".join(parts) + f" ({result['took_ms']:.0f} ms)"
    if result.get("held"):
        text += (
            "\n  many files vanished at once, so nothing was forgotten; if that is meant: memd sync --accept-missing"
        )
    return text


def rebuilt(result: Mapping[str, Any]) -> str:
    files, chunks, vectors = (count(result[f"{name}s"], name) for name in ("file", "chunk", "vector"))
    return f"built again: {files}, {chunks}, {vectors} ({duration(result['took_ms'] / 1000)})"


def doctor(result: Mapping[str, Any], fixed: bool) -> str:
    """One line a finding, and what to do about those that are not well."""
    lines = [line for finding in result["findings"] for line in _finding(finding)]
    if result["ok"]:
        return "\n".join([*lines, "all is well"])
    more = "what is still broken needs you" if fixed else "to repair what can be repaired: memd doctor --fix"
    return "\n".join([*lines, more])


def _finding(finding: dict[str, Any]) -> list[str]:
    first, *rest = neutralise(
        f"{finding['name']}: {finding['detail']}" if finding.get("detail") else finding["name"]
    ).split("\n")
    lines = [f"{MARKS.get(finding['state'], finding['state'])}{first}", *(f"        {line}" for line in rest)]
    if finding["state"] in ("warn", "broken") and finding.get("fix"):
        lines.append(one_line(f"        → {finding['fix']}"))
    return lines


def count(number: int, what: str) -> str:
    """`1 file`, `3 files`, `2 memories`."""
    many = f"{what.removesuffix('y')}ies" if what.endswith("ry") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def ago(iso: str | None) -> str:
    """`12 s ago`, `3 h ago`, `never`; in a pipe the time itself, which stays the same."""
    if not iso or not console.on_terminal(sys.stdout):
        return moment(iso)
    return f"{span(-seconds_until(iso))} ago"


def until(iso: str) -> str:
    """`in 18 min`; in a pipe the time itself."""
    return f"in {span(seconds_until(iso))}" if console.on_terminal(sys.stdout) else moment(iso)


def span(seconds: float) -> str:
    """A time in whole seconds, minutes, hours or days; what a clock that was set back makes less than none is none."""
    return duration(seconds) if seconds >= 10 else f"{max(seconds, 0):.0f} s"


def moment(iso: str | None) -> str:
    """A time to the second."""
    return one_line(local_time(iso, "%Y-%m-%d %H:%M:%S", "never"))
