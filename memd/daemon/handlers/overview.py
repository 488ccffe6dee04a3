"""What the memory holds, without a question: `peek`, `stats`, `tree` and `timeline`. None counts as an access."""

from __future__ import annotations

from memd.daemon.handlers.registry import shows
from memd.indexer.views import overview
from memd.protocol.methods.overview import PeekRequest, StatsRequest, TimelineRequest, TreeRequest

shows(PeekRequest, overview.peek)
shows(StatsRequest, overview.stats, "days")
shows(TreeRequest, overview.tree, "path", "offset", "limit")
shows(TimelineRequest, overview.timeline, "since", "until", "limit", "only_counts")
