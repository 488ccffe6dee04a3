"""Runs one adapter in the environment of its rival: a JSON object a line in, one out.

python worker.py ADAPTER NOTES PLACE EMBEDDER SETTINGS
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

from rival import Rival


def load(adapter: Path) -> type[Rival]:
    """The class `Peer` of an adapter's file."""
    spec = importlib.util.spec_from_file_location(f"adapter_{adapter.stem}", adapter)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Peer  # type: ignore[no-any-return]


def main() -> None:
    adapter, notes, place, embedder, settings = sys.argv[1:]
    # What rivals print goes to the log; answers go where stdout was.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    rival = load(Path(adapter))(Path(notes), Path(place), embedder, **json.loads(settings))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": getattr(rival, request["do"])(*request["with"])}
        except Exception as error:  # noqa: BLE001 the runner is told, whatever it was
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
