"""Puts the daemon's reports into words: status, workspaces, what a sync did, what the doctor found."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memd.cli import console
from memd.errors import in_shell
from memd.protocol.safe_text import neutralise, one_line
from memd.timespans import duration, local_time, seconds_until

MARKS = {"ok": "ok      ", "warn": "warning ", "broken": "BROKEN  ", "mended": "mended  "}
MAX_SKIPPED = 5
SCALES = ("questions", "notes")
NARROW = 8
"""Columns of a table that no cell gives way below."""
DROP = 0.1
"""A fall of the nightly exam's recall by more than this is reported."""


def status(result: Mapping[str, Any]) -> str:
    """The screen of `memd status`."""
    rows = result["workspaces"]
    facts = [
        ("pending", _pending(result)),
        ("model", _model(result)),
        *_languages(rows),
        ("change", _switch(result)),
        ("listeners", result.get("subscriptions")),
        ("proposals", _proposals(result)),
        *_jobs(result["jobs"]),
    ]
    places = [(name.removesuffix("_dir"), result.get(name)) for name in ("config", "state_dir", "socket", "log")]
    known = [told(rows) for told in (_exams, _watching, _conflicts, _skipped)]
    return _screen([_headline(result)], [workspaces(rows)], _facts(facts), *known, _degraded(result), _facts(places))


def model(result: Mapping[str, Any]) -> str:
    """The screen of `memd model`."""
    used = result["model"]
    scale = used["scale"]
    facts = [("model", _model(result)), ("change", _switch(result)), ("fingerprint", used["fingerprint"])]
    if scale:
        ends = [f"{name} {scale[name]['unrelated']:.2f} to {scale[name]['related']:.2f}" for name in SCALES]
        facts.append(("cosines", f"{', '.join(ends)} (from nothing in common to the same)"))
        facts.append(("self-test", f"{scale['told_apart']:.1%} told apart in {', '.join(scale['languages'])}"))
    return _screen(_facts(facts), _exams(result["workspaces"]), _degraded(result))


def _screen(*blocks: Sequence[str]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks if block)


def workspaces(entries: list[dict[str, Any]]) -> str:
    """A table, or how to begin when there are none."""
    head = ("workspace", "files", "memories", "chunks", "vectors", "watched by", "last change", "directory")
    return table([head, *map(_workspace_row, entries)]) if entries else "no workspaces yet; begin with: memd add ."


def _workspace_row(entry: dict[str, Any]) -> tuple[str, ...]:
    files, memories, chunks, vectors = (str(entry.get(name, 0)) for name in ("files", "memories", "chunks", "vectors"))
    waiting = f" (+{entry['pending_vectors']})" if entry.get("pending_vectors") else ""
    watch = "gone, waiting" if entry.get("missing") else str(entry.get("watch", ""))
    held = ", held" if entry.get("held") else ""
    watch += ", shared" if entry.get("shared") else ""
    ns, root, changed = one_line(entry["ns"]), one_line(entry["root"]), ago(entry.get("last_change"))
    return ns, files, memories, chunks, f"{vectors}{waiting}", f"{watch}{held}", changed, root


def table(rows: Sequence[Sequence[str]], numbers: bool = False) -> str:
    """Columns as wide as their widest cell; with `numbers`, all but the first are aligned on the right. On a terminal
    the widest give way until all of them fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while console.on_terminal(sys.stdout) and sum(widths) + 2 * (len(widths) - 1) > console.width():
        widest = max(widths)
        if widest <= NARROW:
            break
        widths[widths.index(widest)] -= 1
    align = [str.ljust, *[str.rjust if numbers else str.ljust] * (len(widths) - 1)]
    lines = (
        "  ".join(aligned(_cell(text, width), width) for text, width, aligned in zip(row, widths, align, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _cell(text: str, width: int) -> str:
    """A cell that may be too long: of a path the end is kept, of everything else the beginning."""
    if len(text) <= width:
        return text
    return f"…{text[len(text) - width + 1 :]}" if text.startswith(("/", "~")) else f"{text[: width - 1]}…"


def _headline(result: Mapping[str, Any]) -> str:
    pid = f", pid {result['pid']}" if result.get("pid") else ""
    memory = f", {result['memory_mb']:.0f} MB" if result.get("memory_mb") else ""
    running = duration(result.get("uptime_s") or 0)
    return one_line(f"memd {result['version']} has been running for {running}{pid}{memory}")


def _facts(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    """A line for each name that has a value, within the terminal."""
    room = console.width() - 10 if console.on_terminal(sys.stdout) else sys.maxsize
    return [f"{name:<9} {_cell(one_line(str(value)), room)}" for name, value in pairs if value]


def _pending(result: Mapping[str, Any]) -> str:
    files, vectors = result.get("pending_files") or 0, result.get("pending_vectors") or 0
    if "ledger" in result.get("degraded", ()):
        return "unknown, like the counts above: see degraded"
    if not files and not vectors:
        left_out = any(not file.get("searched") for entry in result["workspaces"] for file in entry.get("skipped", ()))
        return "nothing; everything on disk can be found" + (" but what is left out" if left_out else "")
    parts = [count(number, what) for number, what in ((files, "file"), (vectors, "vector")) if number]
    rate, eta = result.get("vectors_per_s"), result.get("eta_s")
    left = f", {rate:g} a second, about {duration(eta)} left" if rate and eta else ""
    return " and ".join(parts) + left


def _proposals(result: Mapping[str, Any]) -> str:
    waiting = result.get("proposals") or 0
    return f"{count(waiting, 'write')} by agents to accept or reject: memd proposal list" if waiting else ""


def reloaded(result: Mapping[str, Any]) -> str:
    """The answer of a daemon that read its settings anew."""
    if not result["changed"]:
        return "the daemon follows these settings already, but for what its environment overrides: memd config show"
    hub = [name for name in result["changed"] if name.startswith("hub.")]
    followed = [name for name in result["changed"] if name not in (*result["restart"], *hub)]
    said = {"the daemon follows ": followed, "after memd restart: ": result["restart"],
            "once memd serve starts anew: ": hub}  # fmt: skip
    return "\n".join(f"{words}{', '.join(names)}" for words, names in said.items() if names)


def _switch(result: Mapping[str, Any]) -> str:
    """The change to another model, while it goes on or if it was taken back."""
    switch = (result.get("model") or {}).get("switch") or {}
    if switch.get("state") not in ("loading", "waiting", "building", "cancelled"):
        return ""
    part = f"{switch['done']:,} of {switch['total']:,} vectors" if switch["total"] else ""
    meanwhile = f"{switch['before']} answers" if switch["before"] and switch["state"] != "cancelled" else ""
    parts = [switch["state"], part, switch["note"], meanwhile]
    return f"to {switch['to']}: {'; '.join(part for part in parts if part)}"


def _model(result: Mapping[str, Any]) -> str:
    model = result.get("model") or {}
    name = model.get("name") or model.get("provider") or "none"
    size = f" ({model['dims']} dimensions)" if model.get("dims") else ""
    note = f": {model['note']}" if model.get("note") else ""
    made = count(result.get("embedded") or 0, "text")
    other = str(model.get("multilingual") or "")
    beside = f"; other languages: {other}" if other.endswith(("ready", "loading")) else ""
    return f"{name}{size}, {model.get('state', 'off')}{note}{beside}; {made} embedded since the start"


def _languages(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Reasons for the model for other languages; `zh: MEMORY.md:3` is told as `zh, MEMORY.md:3`."""
    found = [(row["ns"], why.replace(": ", ", ", 1)) for row in rows for why in row.get("languages") or ()]
    return [("languages", f"workspace {ns}: {why}") for ns, why in found[:MAX_SKIPPED]]


def _jobs(jobs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """A line for all of them, and one for each that failed."""
    on = [job for job in jobs if job["schedule"] != "off"]
    ran, coming = [job for job in on if job.get("last")], [job for job in on if job.get("next")]
    text = f"{len(on)} by the clock"
    if ran:
        last = max(ran, key=lambda job: str(job["last"]))
        text += f", last {last['name']} {ago(last['last'])}"
    if coming:
        soon = min(coming, key=lambda job: str(job["next"]))
        text += f", next {soon['name']} {until(soon['next'])}"
    failed = [job for job in ran if str(job.get("result")).startswith("failed")]
    told = [("job", f"{job['name']} {ago(job['last'])}: {job['result']}") for job in failed]
    return [("jobs", f"{text} (memd jobs)"), *told]


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
        skipped = [("problem" if file.get("searched") else "left out", file) for file in entry.get("skipped", ())]
        every = [one_line(f"{what:<9} {entry['ns']}: {file['path']} ({file['why']})") for what, file in skipped]
        lines += console.first(every, MAX_SKIPPED, "          and {} more")
    return lines


def _degraded(result: Mapping[str, Any]) -> list[str]:
    details = result.get("degraded_details") or [{"what": what} for what in result.get("degraded") or ()]
    lines = []
    for detail in details:
        lines.append(one_line(f"degraded  {detail['what']}" + (f": {detail['why']}" if detail.get("why") else "")))
        if detail.get("fix"):
            lines.append(one_line(f"          → {detail['fix']}"))
    return lines or ["degraded  nothing; all is well"]


def place(memory: Mapping[str, Any]) -> str:
    """A memory by its key, and where it stands."""
    return f"{memory['key']}  {memory['path']}:{memory['start_line']}"


def added(result: Mapping[str, Any], waited: bool, others: int = 0) -> str:
    """The answer of `memd add`; `others` counts all its Markdown files."""
    entry = result["workspace"]
    name, root, globs = one_line(entry["ns"]), one_line(entry["root"]), entry.get("globs") or []
    verb = "is watched now" if result.get("added", True) else "was a workspace already"
    if not waited:
        return f"{name} {verb} ({root}); its files are being indexed: memd status"
    remove = f"memd remove {in_shell(name)}"
    if entry.get("missing"):
        return f"{name} {verb}, but {root} does not exist yet; memd begins when it does (to undo: {remove})"
    again = f"{remove} && memd add {in_shell(root)} --glob '**/*.md'"
    if not result["files"]:
        instead = f"\n  {count(others, 'other Markdown file')} can be read instead: {again}" if others else ""
        looks = f"memd looks for: {one_line(', '.join(globs))}"
        return f"{name} {verb} ({root}), and no file matches yet\n  {looks}{instead}"
    lines = [f"{name} {verb} ({root}): {count(result['files'], 'file')}, {count(result['chunks'], 'chunk')} searchable"]
    # Of this workspace; `pending` counts all of them.
    if pending := entry["pending_vectors"]:
        lines.append(f"  {count(pending, 'vector')} still to be made (memd status); words are found meanwhile")
    # What is too large or no text would be left out again.
    unread = sum(not file["searched"] and file["path"].endswith(".md") for file in entry["skipped"])
    if unread:
        lines.append(f"  {count(unread, 'file')} left out: memd status says why")
    if (more := others - result["files"] - unread) > 0:
        lines.append(f"  {count(more, 'other Markdown file')} left out; to read all of them: {again}")
    return "\n".join(lines)


FIX = "memd doctor --fix"


def doctor(result: Mapping[str, Any], fixed: bool) -> str:
    """One line a finding, and what to do about those that are not well."""
    broken = [finding.get("fix", "") for finding in result["findings"] if finding["state"] == "broken"]
    mends = any(fix.startswith(FIX) for fix in broken)
    more = f"to repair it: {FIX}" if mends and not fixed else "memd cannot repair what is broken above"
    warned = any(finding["state"] == "warn" for finding in result["findings"])
    well = "nothing is broken, but see the warnings" if warned else "all is well"
    return "\n".join([*map(_finding, result["findings"]), well if result["ok"] else more])


def _finding(finding: dict[str, Any]) -> str:
    text = neutralise(": ".join(filter(None, (finding["name"], finding.get("detail"))))).replace("\n", "\n        ")
    wrong = finding["state"] in ("warn", "broken") and finding.get("fix")
    fix = f"\n        → {one_line(finding['fix'])}" if wrong else ""
    return f"{MARKS.get(finding['state'], finding['state'])}{text}{fix}"


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
