"""The running parts of the daemon, as handlers and status see them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from memd.config.schema import Settings
from memd.daemon import tasks
from memd.daemon.access_log import AccessLog
from memd.daemon.code_outlines import CodeOutlines
from memd.daemon.embedding import Embedding
from memd.daemon.events import Events
from memd.daemon.health import Health
from memd.daemon.mcp_sessions import McpSessions
from memd.daemon.reflect import ActiveRules, ReflectionRunner
from memd.daemon.scheduler import Scheduler
from memd.daemon.subscriptions import Subscriptions
from memd.daemon.watcher import Watcher
from memd.daemon.worker import Worker
from memd.indexer.context.code_names import CodeNames
from memd.indexer.store.stores import Stores
from memd.models import Workspace


@dataclass(slots=True, eq=False)
class Parts:
    """What runs. The app makes and ends it; everyone else only uses it."""

    settings: Settings
    health: Health
    stores: Stores
    worker: Worker
    watcher: Watcher
    embedding: Embedding
    scheduler: Scheduler
    subscriptions: Subscriptions
    events: Events
    access_log: AccessLog
    rules: ActiveRules
    reflection: ReflectionRunner
    outlines: CodeOutlines
    stop_soon: Callable[[], None]
    mcp: McpSessions = field(default_factory=McpSessions)
    code_names: CodeNames = field(default_factory=CodeNames)
    pid: int = field(default_factory=os.getpid)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    began: float = field(default_factory=time.monotonic)

    async def open_workspace(self, workspace: Workspace) -> None:
        await asyncio.wrap_future(self.worker.submit(tasks.Open(workspace)))
        self.watcher.add(workspace)
        self.outlines.begin(workspace.ns)

    async def forget_workspace(self, ns: str) -> None:
        self.watcher.remove(ns)
        self.outlines.forget(ns, self.stores.index(ns).id)
        await asyncio.wrap_future(self.worker.submit(tasks.Forget(ns)))
