"""Writes docs/comparison.md from the figures of a comparison; nothing on that page is written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import features

Record = dict[str, Any]

HEAD = """# Comparison

memd and others on the same notes, the same questions and the same machine. This page is generated:
`make bench PARTS=peers` installs each program into an environment of its own, runs the parts below and writes this page
and [comparison.json](comparison.json), which has every figure. `ARGS="--peers memd,qmd --parts found,scale"` cuts the
run, `--runs 3` repeats the timed parts; a cut run renews only what it measured. The whole takes less than an hour on
two free cores; `ARGS="--haystacks 0 --kilobytes 9999 --chunks 10000"` takes all questions and the larger workspace, and
hours.

Behind a figure stands its ratio to memd's (× 2.0 is twice memd's figure). Where a part was run more than once, the
median is shown, and in brackets the least and the greatest where these are more than a tenth apart. “–” means not
measured, or that there is no such thing. Every program has its own chunks and the settings that its documentation
recommends. Programs that take an OpenAI-compatible embedder get one on loopback that serves memd's own English model,
so that engines are compared.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: where its figure stands in a run, and how it is written."""

    title: str
    path: tuple[str, ...]
    form: str = "{:.3f}"
    ratio: bool = True
    more: bool = False
    """Whether more is better."""


SAID = 80
APART = 1.1
"""The least and the greatest of some runs are told where they differ by more than this."""
FEW_QUESTIONS = 50
LENGTH = Column("length of hits", ("mean_length",), "{:,.0f}", False)


QUALITY = [
    Column("any@2k", ("any_length", "turns", "any@2k"), more=True),
    Column("any@5", ("any_length", "turns", "any@5"), more=True),
    Column("MRR", ("any_length", "turns", "mrr"), more=True),
    Column("sessions any@5", ("any_length", "sessions", "any@5"), more=True), LENGTH,
]  # fmt: skip
LANGUAGE = [
    Column("found in the first five", ("any_length", "sessions", "any@5"), "{:.2f}", more=True),
    LENGTH,
]  # fmt: skip
ASKED = [
    Column("cold shell p50, ms", ("cold_p50_ms",), "{:,.0f}"), Column("p95", ("cold_p95_ms",), "{:,.0f}", False),
    Column("warm p50, ms", ("warm_p50_ms",), "{:,.1f}"), Column("p95", ("warm_p95_ms",), "{:,.1f}", False),
    Column("memory while asked, MB", ("memory_mb",), "{:,.0f}"),
]  # fmt: skip
INDEXED = [
    Column("time, s", ("index_s",), "{:,.1f}"),
    Column("memory at its height, MB", ("index_memory_mb",), "{:,.0f}"), Column("disk, MB", ("disk_mb",), "{:,.1f}"),
    Column("start to first answer, ms", ("start_ms",), "{:,.0f}"),
]  # fmt: skip


def write(record: Record) -> str:
    named = {entry["title"]: entry for entry in record["peers"].values()}
    peers = dict(sorted(named.items(), key=lambda item: (item[0] != "memd", item[0].lower())))
    blocks = [
        HEAD,
        _who(record, peers),
        _found(peers),
        _scale(record, peers),
        _saved(peers),
        _needs(peers),
        _faults(peers),
    ]
    blocks += [_languages(peers), _behind(peers), _features(), _how(record, peers)]
    return "\n".join(block for block in blocks if block)


def _who(record: Record, peers: Record) -> str:
    rows = [
        [name, entry["version"] or "–", entry["mode"] or "–", entry["asked"] or "–"]
        for name, entry in peers.items()
        if "unavailable" not in entry
    ]
    missing = [[name, entry["unavailable"]] for name, entry in peers.items() if "unavailable" in entry]
    text = "## Who\n\n" + _table(["", "version", "settings and mode", "asked warm"], rows)
    if missing:
        text += "\n\nNot compared:\n\n" + _table(["", "why"], missing)
    return text + "\n"


def _found(peers: Record) -> str:
    names = _collections(peers, "found")
    text = """## Found

Questions whose answer is known to stand in some lines of the notes. **any@2k**: a line that answers stands in the hits
that fit into the first 2,000 characters, which is what an agent reads; **any@5**: in the first five hits; **MRR**: of
the first hit that covers one. **Sessions**: whole sections, hits of one section folded into one. More is better, but
for the length: longer hits cover more by luck, which only any@2k makes up for. comparison.json also has the figures as
memd scores itself, where a hit of more than 1,200 characters covers nothing (`scored`).
"""
    for name in names:
        text += f"\n### {name}{_asked(peers, name)}\n\n{_figures(peers, 'found', QUALITY, name)}\n"
    return text if names else ""


def _asked(peers: Record, name: str) -> str:
    """How many questions of a collection memd was asked; every rival is asked the same ones."""
    asked = _value(peers.get("memd", {}), "found", (name, "questions"))
    return f", {asked:,.0f} questions" if asked else ""


def _languages(peers: Record) -> str:
    text = "## Languages\n\nQuestions of XQuAD: whether the section that answers is among the first five hits.\n"
    names = _collections(peers, "languages")
    for name in names:
        what = {
            "xquad-zh": "Chinese notes, Chinese questions",
            "xquad-cross": "English notes, questions in four languages",
        }
        text += f"\n### {what.get(name, name)}\n\n{_figures(peers, 'languages', LANGUAGE, name)}\n"
    return text if names else ""


def _collections(peers: Record, part: str) -> list[str]:
    runs = [run for entry in peers.values() for run in entry["parts"].get(part, {}).get("runs", ())]
    return sorted({name for run in runs for name in run if name != "failed"})


def _busy(record: Record, peers: Record) -> str:
    """How busy the machine was while it was timed; with others at work, nobody's times are their own."""
    loads = [load for entry in peers.values() for load in entry["parts"].get("scale", {}).get("load", ())]
    told = f"The load average was {min(loads):g} to {max(loads):g} on {record['machine']['cores']} cores"
    if max(loads) > 1.5 * record["machine"]["cores"]:
        return f"{told}: others used the machine, so every time in this and the next two tables is too long, and noisy."
    return f"{told}."


def _scale(record: Record, peers: Record) -> str:
    if not _rows(peers, "scale"):
        return ""
    return f"""## Asked

One question from a shell, a new process each time; then one after the other to whatever the program keeps running. Slow
ones were asked for half a minute.

{_busy(record, peers)}

{_figures(peers, "scale", ASKED)}

## First index

{_figures(peers, "scale", INDEXED)}
"""


def _saved(peers: Record) -> str:
    rows = []
    base = _value(peers.get("memd", {}), "scale", ("saved_p50_ms",))
    for name, runs in _rows(peers, "scale"):
        if isinstance(runs, str):
            rows.append([name, runs, "–", "–"])
            continue
        alone = all(run.get("saved_by_itself", True) for run in runs)
        told = _cell([run.get("saved_p50_ms") for run in runs], "{:,.0f}", base, name != "memd")
        rows.append(
            [name, told if alone else "never by itself", "–" if alone else told, str(runs[0].get("saved_edits", "–"))]
        )
    head = ["", "by itself p50, ms", "after its command, ms", "edits"]
    return f"## Saved in an editor, then found\n\n{_table(head, rows)}\n" if rows else ""


def _needs(peers: Record) -> str:
    rows = []
    for name, runs in _rows(peers, "needs"):
        if isinstance(runs, str):
            rows.append([name, runs, "–", "–", "–", "–"])
            continue
        told, base = runs[0], _value(peers.get("memd", {}), "needs", ("size_mb",))
        rows.append([
            name, _cell([told.get("size_mb")], "{:,}", base, name != "memd"), str(told.get("packages", "–")),
            _short(told["offline"]["said"]), _short(told["offline_own_model"]["said"]),
            ", ".join(sorted({*told["offline"]["looked_up"], *told["offline_own_model"]["looked_up"]})) or "none",
        ])  # fmt: skip
    head = ["", "installed, MB", "packages", "without network", "without network, its own model", "names looked up"]
    note = (
        "Index and question ran in a namespace without network; what names were looked up there was written down.\n\n"
    )
    return f"## Needs\n\n{note}{_table(head, rows)}\n" if rows else ""


def _faults(peers: Record) -> str:
    kinds = {
        "kill": "kill -9 while indexing",
        "two": "two processes at once",
        "corrupt": "a corrupt file",
        "disk": "disk full, then room",
    }
    rows = []
    for name, runs in _rows(peers, "faults"):
        if isinstance(runs, str):
            rows.append([name, runs, *["–"] * (len(kinds) - 1)])
            continue
        rows.append([name, *("; ".join(map(_outcome, runs[0][kind])) or "–" for kind in kinds)])
    return f"""## Faults

Twenty facts are known to stand in the notes (forty when the disk was full but for 64 KB); after the fault each is
asked. **found**: all of them; **said so**: some are missing and the program reported an error; **hung**: it did not
come back in time; **silently wrong**: some are missing and nothing was said. Several outcomes in a cell: the kill at 30
and at 70 % of the way; each of the two processes; each of the three largest files; while the disk was full, and when
there was room again, asked of the same process.

{_table(["", *kinds.values()], rows)}
""" if rows else ""  # fmt: skip


def _outcome(told: Record) -> str:
    return told["outcome"] if told["outcome"] == "found" else f"{told['outcome']} ({told['found']} of {told['of']})"


def _behind(peers: Record) -> str:
    """Every figure in which somebody is better than memd, and why."""
    rows = []
    for title, part, columns, name in _compared(peers):
        for column in (column for column in columns if column.ratio):
            path = (name, *column.path) if name else column.path
            base = _value(peers.get("memd", {}), part, path)
            others = {peer: _value(entry, part, path) for peer, entry in peers.items() if peer != "memd"}
            better = {
                peer: value
                for peer, value in others.items()
                if base is not None and value is not None and (value > base if column.more else value < base)
            }
            if base is not None and better:
                told = _best(better, column)
                why = features.CAUSES.get(f"{part}/{column.title}", "–") + _doubt(peers["memd"], part, name)
                rows.append([f"{title}: {column.title}", column.form.format(base), told, why])
    return f"## Where memd is behind\n\n{_table(['', 'memd', 'better', 'why'], rows)}\n" if rows else ""


def _best(better: dict[str, float], column: Column) -> str:
    """The best of the better ones, and how many more there are."""
    peer, value = (max if column.more else min)(better.items(), key=lambda item: item[1])
    others = f", and {len(better) - 1} more" if len(better) > 1 else ""
    return f"{peer} {column.form.format(value)}{others}"


def _doubt(memd: Record, part: str, collection: str | None) -> str:
    """The doubt that few questions leave."""
    asked = _value(memd, part, (collection, "questions")) if collection else None
    return f"; only {asked:.0f} questions, one of which is {1 / asked:.3f}" if asked and asked < FEW_QUESTIONS else ""


def _compared(peers: Record) -> list[tuple[str, str, list[Column], str | None]]:
    """Every table of figures: its title, its part, its columns, its collection."""
    tables: list[tuple[str, str, list[Column], str | None]] = [
        (name, "found", QUALITY, name) for name in _collections(peers, "found")
    ]
    tables += [(name, "languages", LANGUAGE[:1], name) for name in _collections(peers, "languages")]
    saved = [Column("saved, then found, ms", ("saved_p50_ms",), "{:,.0f}")]
    tables += [
        ("asked", "scale", ASKED, None),
        ("first index", "scale", INDEXED, None),
        ("saved", "scale", saved, None),
    ]
    return [*tables, ("needs", "needs", [Column("installed, MB", ("size_mb",), "{:,.0f}")], None)]


def _features() -> str:
    rows = [[what, *(cells[nth] for cells in features.FACTS.values())] for nth, what in enumerate(features.WHAT)]
    return f"## Features\n\n{_table(['', *features.FACTS], rows)}\n\nDocumented in {features.SOURCES}.\n"


def _how(record: Record, peers: Record) -> str:
    machine = record["machine"]
    parts: dict[str, list[Record]] = {}
    for entry in peers.values():
        for part, told in entry["parts"].items():
            parts.setdefault(part, []).append(told)
    rows = [
        [
            part, _span([told["date"] for told in measured]),
            ", ".join(sorted({told.get("size", "–") for told in measured})),
            _span([len(told["runs"]) for told in measured]), f"{sum(told['seconds'] for told in measured):,}",
            _span([load for told in measured for load in told["load"]]),
        ]
        for part, measured in sorted(parts.items())
    ]  # fmt: skip
    head = ["part", "date", "size", "runs", "seconds in all", "load average"]
    return f"""## How it was measured

{machine["system"]}, {machine["machine"]}, {machine["cores"]} cores. A load above the number of cores means that others
used the machine too. comparison.json has the version and the load of each program and part.

{_table(head, rows)}
"""


def _span(values: list[Any]) -> str:
    """The least and the greatest, or the one that all share."""
    least, greatest = min(values), max(values)
    return str(least) if least == greatest else f"{least} to {greatest}"


# --- cells ----------------------------------------------------------------------------------------------------


def _rows(peers: Record, part: str) -> list[tuple[str, list[Record] | str]]:
    """The runs of each that measured this part; of one that failed, why."""
    found: list[tuple[str, list[Record] | str]] = []
    for name, entry in peers.items():
        runs = entry["parts"].get(part, {}).get("runs", [])
        good = [run for run in runs if "failed" not in run]
        if good:
            found.append((name, good))
        elif runs:
            found.append((name, _short(f"failed: {runs[0]['failed']}")))
    return found


def _figures(peers: Record, part: str, columns: list[Column], name: str | None = None) -> str:
    rows = []
    for peer, runs in _rows(peers, part):
        if isinstance(runs, str):
            rows.append([peer, runs, *["–"] * (len(columns) - 1)])
            continue
        cells = []
        for column in columns:
            path = (name, *column.path) if name else column.path
            base = _value(peers.get("memd", {}), part, path) if column.ratio and peer != "memd" else None
            cells.append(_cell([_at(run, path) for run in runs], column.form, base, column.ratio))
        rows.append([peer, *cells])
    return _table(["", *(column.title for column in columns)], rows)


def _short(said: str) -> str:
    """The beginning of what a program said; the rest stands in the JSON."""
    return said if len(said) <= SAID else said[:SAID].rstrip() + " …"


def _cell(values: list[Any], form: str, base: float | None, ratio: bool) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return "–"
    middle = median(known)
    text = form.format(middle) if len(known) < 2 or isinstance(middle, float) else form.format(int(middle))
    if known[-1] > known[0] * APART:
        text += f" ({form.format(known[0])}–{form.format(known[-1])})"
    times = middle / base if ratio and base else 0.0
    return text + (f" × {times:,.0f}" if times >= 100 else f" × {times:.2g}" if ratio and base else "")


def _value(entry: Record, part: str, path: tuple[str, ...]) -> float | None:
    values = [_at(run, path) for run in entry.get("parts", {}).get(part, {}).get("runs", ())]
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def _at(run: Record, path: tuple[str, ...]) -> Any:
    value: Any = run
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _table(head: list[str], rows: list[list[str]]) -> str:
    clean: Callable[[str], str] = lambda cell: cell.replace("|", "\\|").replace("\n", " ")  # noqa: E731
    lines = [f"| {' | '.join(map(clean, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
