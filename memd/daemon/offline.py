"""Tasks that need the stores to themselves, without a daemon: the doctor, and restoring a backup."""

from contextlib import closing, suppress
from pathlib import Path

from memd.config import paths
from memd.config.load import load, placed_rules
from memd.config.schema import Settings
from memd.daemon.process.lock import take_state
from memd.errors import ConfigError, LedgerDamaged, UnsafePlace
from memd.indexer.lifecycle import mentions
from memd.indexer.maintenance import backups, doctor
from memd.indexer.store.own_stores import OwnStores
from memd.lifecycle.rule_book import rule_book
from memd.models import JsonObject


def answer(fix: bool, secrets: bool, file: str = "") -> JsonObject:
    """The answer that the doctor of a daemon would give."""
    if file:
        settings = load()
        return doctor.explain_file(Path(file), settings.workspaces, settings.index.max_file_kb * 1024)
    return doctor.report(examine(fix), scan_secrets() if secrets else None)


def examine(fix: bool) -> list[doctor.DoctorFinding]:
    """Every finding; one of them may be a store that keeps the daemon from starting."""
    try:
        settings = load()
        lock = take_state()
    except (ConfigError, UnsafePlace) as error:
        name = "config" if isinstance(error, ConfigError) else "places"
        return [doctor.DoctorFinding(name, "broken", error.message, error.hint)]
    with closing(lock):
        findings = [doctor.DoctorFinding("config", "ok", str(paths.config_file())), *_rules(settings)]
        ledger = doctor.open_ledger(paths.state_dir(), fix)
        findings += ledger
        if any(finding.state != "mended" for finding in ledger):
            return findings
        found = _examine_stores(settings, fix)
        if fix and not doctor.sound(found[:1]):
            found = [doctor.mend_ledger(paths.state_dir(), found[0].detail), *_examine_stores(settings, fix)]
        return findings + found


def _examine_stores(settings: Settings, fix: bool) -> list[doctor.DoctorFinding]:
    """The findings in the stores; the first is about the ledger."""
    with closing(OwnStores(paths.state_dir(), mend=fix)) as stores:
        try:
            stores.open_workspaces(settings.workspaces)
        except LedgerDamaged as error:
            stores.ledger.damage = error
        found = doctor.examine(stores, settings, doctor.examine_ledger(stores.ledger), fix, running=False)
        for index in stores.indexes.values():
            while index.unlinked:
                mentions.resolve_some(stores.ledger, index)
        return found


def scan_secrets() -> doctor.FoundSecrets:
    """The places in the notes that seem to hold a secret; this needs no store."""
    with suppress(ConfigError):
        settings = load()
        return doctor.find_secrets(settings.workspaces, settings.index.max_file_kb * 1024)
    return [], []


def _rules(settings: Settings) -> list[doctor.DoctorFinding]:
    """The rules that a daemon would not follow."""
    problems = placed_rules(rule_book(settings.rules).problems)
    return [doctor.DoctorFinding("rules", "warn", problem, "memd rule set, or memd rule rm") for problem in problems]


def check_backup(file: Path) -> dict[str, str]:
    """Check that a file is a backup that can be restored."""
    backups.check(file)
    return {"backup": str(file)}


def restore_backup(file: Path) -> dict[str, str]:
    """Restore a backup; what it replaces is put aside."""
    with closing(take_state()):
        aside = backups.restore(paths.state_dir(), file)
    return {"backup": str(file), "aside": str(aside or "")}
