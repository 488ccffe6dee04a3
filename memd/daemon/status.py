"""What `status` tells: workspaces, what is pending, what is degraded and how to mend it."""

from __future__ import annotations

import os
from typing import Any

from memd.daemon.parts import Parts
from memd.indexer.store import catalog
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import exams

MANY = 50


def workspace_status(parts: Parts, index: WorkspaceIndex) -> dict[str, Any]:
    counts = catalog.counts(parts.stores.ledger.reader, index.id)
    mode, why = parts.watcher.mode(index.workspace.ns)
    vectors = len(index.mirror) if index.mirror is not None else 0
    pending = max(0, counts["chunks"] - vectors) if parts.embedding.phase != "off" else 0
    changed = parts.stores.ledger.reader.execute("SELECT changed FROM workspaces WHERE id = ?", (index.id,)).fetchone()
    return {
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "globs": list(index.workspace.globs),
        **counts,
        "vectors": vectors,
        "pending_vectors": pending,
        "watch": mode,
        "watch_note": why,
        "held": len(index.held),
        "missing": index.missing,
        "last_change": changed[0] if changed else None,
        "skipped": _skipped(index),
        "exam": _exam(parts, index),
    }


def _skipped(index: WorkspaceIndex) -> list[dict[str, str]]:
    """Files that are left out or could not be read, the first fifty."""
    problems = {path: row.problem for path, row in index.files.items() if row.problem} | index.skipped
    return [{"path": path, "why": why} for path, why in sorted(problems.items())[:MANY]]


def _exam(parts: Parts, index: WorkspaceIndex) -> dict[str, Any]:
    """The last nightly exam and the one before."""
    last, before = [*exams.trend(parts.stores.ledger.reader, index.id, 2), None, None][:2]
    return {"last": last, "before": before}


def model_status(parts: Parts) -> dict[str, Any]:
    model = parts.stores.model
    return {
        "provider": parts.settings.embedding.provider,
        "state": parts.embedding.phase,
        "name": model.embedder.name if model else "",
        "dims": model.embedder.dims if model else 0,
        "fingerprint": model.embedder.fingerprint if model else "",
        "note": parts.embedding.note,
    }


def memory_mb() -> float:
    """Resident memory, as the kernel counts it."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        return round(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
