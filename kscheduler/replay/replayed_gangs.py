"""The parts of a replayed scheduler that schedule gangs, imported only where there may be gangs."""

from __future__ import annotations

from kscheduler.gangs.assembly import GangParts
from kscheduler.gangs.gang_cycle import GangBatch
from kscheduler.replay.replayed_parts import ReplayedBatch


class _Batch(ReplayedBatch, GangBatch):
    """Batches whose size the record determines, and gangs."""


class ReplayedGangParts(GangParts):
    batch_type = _Batch
