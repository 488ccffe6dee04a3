"""`python -m memd.daemon`: the daemon in the foreground, or with `--doctor` its check without serving."""

import gc
import json
import os
import sys
import warnings
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

GC_THRESHOLD = (50_000, 10, 10)
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


def answer(arguments: list[str]) -> dict[str, Any] | None:
    """The task of the command line that needs no daemon; None where one is to serve."""
    if arguments == ["--check-rules"]:
        # For `memd config check`, which cannot read rules.
        from memd.config.load import placed_rules, written_rules
        from memd.lifecycle.rule_book import rule_book

        return {"problems": placed_rules(rule_book(written_rules()).problems)}
    wanted = {"--doctor", "--check-backup", "--restore-backup"} & {*arguments}
    if not wanted:
        return None
    from memd.daemon import offline

    if "--doctor" in wanted:
        file = next((one.removeprefix("--file=") for one in arguments if one.startswith("--file=")), "")
        return offline.answer("--fix" in arguments, "--secrets" in arguments, file)
    return (offline.check_backup if "--check-backup" in wanted else offline.restore_backup)(Path(arguments[1]))


def main(arguments: list[str]) -> int:
    try:
        if (result := answer(arguments)) is None:
            serve()
    except MemdError as error:
        return report(error)
    print(json.dumps(result, ensure_ascii=False))
    return 0 if result.get("ok", True) else MemdError.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
