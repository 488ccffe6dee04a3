"""Compares memd with its rivals: the same notes, the same questions, the same machine, one table.

PYTHONPATH=benchmarks python benchmarks/peers/compare.py [--peers memd,ripgrep] [--parts found,scale] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import faults
import found
import needs
import page
import scale
from context import Context
from installing import Environment, Unavailable, cache, environment
from processes import Failed, Peer
from store import say
from worker import load

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS: dict[str, Callable[[Peer, Context], dict[str, Any]]] = {
    "found": found.measure,
    "languages": found.measure_languages,
    "scale": scale.measure,
    "needs": needs.measure,
    "faults": faults.measure,
}
BY_COLLECTION = ("found", "languages")
TIMED = ("scale",)
"""The parts that are run as often as `--runs` says; the others come out the same each time."""

Record = dict[str, Any]


def main() -> int:
    options = _options()
    record = json.loads(options.json.read_text()) if options.json.exists() else {"peers": {}}
    record["machine"] = _machine()
    peers = list(_peers(options, record["peers"]))
    context = Context(
        options.data, tuple(options.collections), options.questions, options.haystacks or None, options.kilobytes,
        options.chunks, options.asks, options.patience, found.remembered(cache()),
    )  # fmt: skip
    for part in options.parts:
        for peer in peers:
            say(f"{part}: {peer.name}")
            known = record["peers"][peer.name]["parts"]
            known[part] = _renewed(part, known.get(part), _measured(part, peer, context, options.runs))
            _save(options.json, record)
    _save(options.json, record)
    options.page.write_text(page.write(record), encoding="utf-8")
    return 0


def _save(file: Path, record: Record) -> None:
    """After each part, so that a run that is stopped has not measured in vain."""
    file.write_text(json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    data = Path(os.environ.get("MEMD_BENCH") or ROOT.parent / "shared" / "bench")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", type=_names, help="only these rivals, separated by commas")
    parser.add_argument("--parts", type=_names, default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--runs", type=int, default=1, help="how often timed parts are run; their median is shown (1)")
    parser.add_argument("--data", type=Path, default=data if data.is_dir() else None, help="the labelled collections")
    parser.add_argument("--collections", type=_names, default=found.COLLECTIONS, help=", ".join(found.COLLECTIONS))
    parser.add_argument("--questions", type=int, help="at most so many questions a workspace (all)")
    parser.add_argument("--haystacks", type=int, default=3, help="at most so many workspaces a collection; 0: all (3)")
    parser.add_argument("--kilobytes", type=int, default=600, help="at most so much text a workspace (600)")
    parser.add_argument("--chunks", type=int, default=3_000, help="size of the workspace of timed parts (3000)")
    parser.add_argument("--asks", type=int, default=200, help="questions of timed parts (200)")
    parser.add_argument("--patience", type=float, default=1_200, help="seconds that one step may take (1200)")
    parser.add_argument("--adapters", type=Path, default=HERE / "rivals", help="the folder of adapters")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "docs" / "comparison.json", help="where the figures are kept"
    )
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "comparison.md", help="the page to write")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _peers(options: argparse.Namespace, known: dict[str, Record]) -> Iterator[Peer]:
    """Those that are installed and can be loaded; of the others, the reason is noted."""
    for adapter in sorted(options.adapters.glob("*.py"), key=lambda file: (file.stem != "memd", file.stem)):
        chosen = options.peers
        try:
            rival = load(adapter)
        except Exception as error:  # noqa: BLE001 a broken adapter is listed, the others are compared
            if not chosen or adapter.stem in chosen:
                known[adapter.stem] = _entry(adapter.stem) | {"unavailable": f"its adapter cannot be loaded: {error}"}
            continue
        rows = {name: dict(given) for name, given in (rival.variants or {adapter.stem: {}}).items()}
        rows = {name: given for name, given in rows.items() if not chosen or {name, adapter.stem} & set(chosen)}
        for name, settings in rows.items():
            entry = known.setdefault(name, _entry(name))
            title = name if rival.variants else rival.title or name
            entry |= {"title": title, "mode": rival.mode, "asked": rival.asked, "embeds": rival.embeds}
            try:
                say(f"installing {adapter.stem}")
                place: Environment = environment(adapter.stem, rival)
            except Unavailable as error:
                entry["unavailable"] = str(error)
                continue
            entry.pop("unavailable", None)
            entry |= {"version": place.version, "installed": place.facts}
            yield Peer(name, adapter, rival, settings, place)


def _entry(name: str) -> Record:
    return {"title": name, "mode": "", "asked": "", "embeds": "", "version": "", "installed": {}, "parts": {}}


def _measured(part: str, peer: Peer, context: Context, runs: int) -> Record:
    """The runs of one part, with when it was and how busy the machine was."""
    made: list[Record] = []
    before, started = os.getloadavg()[0], time.monotonic()
    for _ in range(runs if part in TIMED else 1):
        try:
            made.append(PARTS[part](peer, context))
        except Failed as error:
            made.append({"failed": str(error)})
        except Exception as error:  # noqa: BLE001 whatever happens with one rival, the others are compared
            made.append({"failed": f"{type(error).__name__}: {error}"})
    return {
        "date": datetime.now(UTC).date().isoformat(), "version": peer.environment.version,
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "seconds": round(time.monotonic() - started), "size": _size(part, context), "runs": made,
    }  # fmt: skip


def _renewed(part: str, before: Record | None, measured: Record) -> Record:
    """New figures of some collections leave those of the others as they are."""
    if part not in BY_COLLECTION or before is None or any("failed" in one["runs"][0] for one in (before, measured)):
        return measured
    return measured | {"runs": [before["runs"][0] | measured["runs"][0]]}


def _size(part: str, context: Context) -> str:
    """How far this run was cut."""
    if part == "scale":
        return f"{context.chunks:,} chunks, {context.asks} questions"
    if part != "found":
        return "–"
    workspaces = f"{context.haystacks} workspaces a collection" if context.haystacks else "all workspaces"
    return f"{workspaces}, {context.kilobytes:,} KB each" + (
        f", at most {context.questions} questions each" if context.questions else ""
    )


def _machine() -> Record:
    return {"cores": os.cpu_count(), "machine": platform.machine(), "system": platform.system()}


if __name__ == "__main__":
    sys.exit(main())
