"""`python -m memd.daemon`: the daemon in the foreground, or with `--doctor` its check without serving."""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

# Before numpy is imported: two BLAS threads are five times slower than one on these small matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Nothing leaves the machine: both libraries would report their use.
os.environ["ANONYMIZED_TELEMETRY"] = "False"
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# What the daemon writes is its user's alone, also without the service that says so.
os.umask(0o077)
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore", category=SyntaxWarning, module="whoosh")

from memd.config.load import load  # noqa: E402
from memd.daemon.process.lock import take_state  # noqa: E402
from memd.daemon.process.system import bound_heap  # noqa: E402
from memd.errors import MemdError, report  # noqa: E402

GC_THRESHOLD = (50_000, 20, 100)
"""An answer makes some thousand short-lived objects and hardly a cycle. With Python's own threshold of 700 the
collector takes a tenth of a second out of one answer in a hundred."""


def serve() -> NoReturn:
    bound_heap()
    settings = load()
    # Before the imports: of many that are started at once, all but one are refused before they take a second for them.
    lock = take_state()
    # They make many objects that stay, and the collector would look at them again and again.
    gc.set_threshold(*GC_THRESHOLD)
    from memd.daemon.app import main
    from memd.indexer.store.ledger import translated

    with translated():
        main(settings, lock)


def doctor(fix: bool, secrets: bool) -> int:
    from memd.daemon.offline import examine, scan_secrets

    findings = examine(fix)
    ok = all(finding.state != "broken" for finding in findings)
    result: dict[str, Any] = {"ok": ok}
    if secrets:
        more, places = scan_secrets()
        findings += more
        result["secrets"] = [asdict(place) for place in places]
    print(json.dumps({**result, "findings": [asdict(finding) for finding in findings]}, ensure_ascii=False))
    return 0 if ok else MemdError.exit_code


def check_rules() -> int:
    """Print what is wrong with the rules of the config file, for `memd config check`, which cannot read rules."""
    from memd.config.load import placed_rules, written_rules
    from memd.lifecycle.rule_book import rule_book

    print(json.dumps({"problems": placed_rules(rule_book(written_rules()).problems)}, ensure_ascii=False))
    return 0


def restore_backup(file: str, check_only: bool) -> int:
    from memd.daemon import offline

    result = offline.check_backup(Path(file)) if check_only else offline.restore_backup(Path(file))
    print(json.dumps(result, ensure_ascii=False))
    return 0


def main(arguments: list[str]) -> int:
    try:
        if arguments[:1] in (["--check-backup"], ["--restore-backup"]):
            return restore_backup(arguments[1], check_only=arguments[0] == "--check-backup")
        if arguments == ["--check-rules"]:
            return check_rules()
        if "--doctor" in arguments:
            return doctor("--fix" in arguments, "--secrets" in arguments)
        serve()
    except MemdError as error:
        return report(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
