"""The parts of a recorded scheduler that schedule gangs, imported only where there may be gangs."""

from __future__ import annotations

from kscheduler.gangs.assembly import GangParts
from kscheduler.gangs.finished_members import FinishedMembers
from kscheduler.gangs.gang_cycle import GangBatch
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.replay.inputs import Inputs
from kscheduler.replay.recorded_parts import RecordedBatch, RecordedQueue


class _Queue(RecordedQueue, GangQueue):
    """A queue of pods and gangs that records when it moves them by time."""


class _Batch(RecordedBatch, GangBatch):
    """Batches of decisions about pods, and decisions about gangs, recorded."""


def recorded_gang_parts(inputs_of_scheduler: Inputs) -> type[GangParts]:
    """Return the type of the parts; what they learn about finished members is an input."""

    class Finished(FinishedMembers):
        inputs = inputs_of_scheduler

        def answer(self, has_succeeded: bool) -> None:
            with self.inputs:
                self.inputs.answered(has_succeeded)
                super().answer(has_succeeded)

    class Parts(GangParts):
        queue_type = _Queue
        batch_type = _Batch
        finished_type = Finished

    return Parts
