"""The parts of a scheduler through which its inputs come, each of which records them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from kscheduler.client.informer import Handler
from kscheduler.cycle.bindings import Bindings
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule_batch import ScheduleBatch
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.errors import APIError
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.record.entries import ChangeType
from kscheduler.replay.inputs import Inputs
from kscheduler.watch.share_queue_divisions import ShareDivisionWatch

T = TypeVar("T")


class RecordedEvents(Generic[T]):
    """Records the changes of one kind and passes them on. Implements `Handler`."""

    def __init__(self, resource: str, handler: Handler[T], inputs: Inputs) -> None:
        self._resource = resource
        self._handler = handler
        self._inputs = inputs

    def on_add(self, obj: T) -> None:
        self._handle("ADDED", obj, self._handler.on_add, obj)

    def on_update(self, old: T, new: T) -> None:
        self._handle("MODIFIED", new, self._handler.on_update, old, new)

    def on_delete(self, obj: T) -> None:
        self._handle("DELETED", obj, self._handler.on_delete, obj)

    def _handle(self, kind: ChangeType, obj: Any, handle: Callable[..., None], *args: T) -> None:
        with self._inputs:
            self._inputs.change(self._resource, kind, obj)
            handle(*args)


class RecordedQueue(SchedulingQueue):
    """A queue that records when it moves pods by time, as it is asked to at the beginning of a slice of decisions.

    That input lasts until the next one, or the end of the slice, because other parts are asked for due pods after it.
    """

    inputs: Inputs

    def flush(self, now: float) -> int:
        self.inputs.begin(now)
        self.inputs.woken()
        return super().flush(now)


class RecordedBindings(Bindings):
    """All bindings under way, with the outcomes of those that no task writes recorded."""

    inputs: Inputs

    def _run(self, cycle: BindingCycle) -> Coroutine[Any, Any, None]:
        return self._one.bind(cycle)  # with its binding: in a record a task ends with the outcome of that

    def _finish(self, cycle: BindingCycle, error: APIError | None) -> None:
        with self.inputs:
            self.inputs.written(cycle.pod.uid, error)
            super()._finish(cycle, error)


class RecordedBatch(ScheduleBatch):
    """Batches of decisions, recorded."""

    inputs: Inputs
    _placed_all = False  # the compiled lane placed all pods that it was asked for
    _was_alone = False  # the pod was decided by itself, not as one of a batch

    def run(self, now: float, most: int) -> int:
        inputs, size = self.inputs, min(self._size, most)
        self._was_alone = False
        inputs.begin(now)
        try:
            tried = super().run(now, most)
            if tried:
                # If the lane was not asked for all of the batch, because of a pod whose decision was to be explained,
                # then the batch ended with that pod.
                inputs.decided(tried if self._was_alone or self._placed_all else size)
            return tried
        finally:
            inputs.end()

    def _run_alone(self, now: float) -> int:
        self._was_alone = True
        return super()._run_alone(now)

    def _place(self, batch: Sequence[QueuedPodInfo], now: float) -> int:
        done = super()._place(batch, now)
        self._placed_all = done == len(batch)
        return done


class RecordedRefusedPods(RefusedPods):
    inputs: Inputs

    def try_one(self) -> None:
        with self.inputs:
            self.inputs.retried()
            super().try_one()


class RecordedDivisions(ShareDivisionWatch):
    inputs: Inputs

    def look(self) -> None:
        with self.inputs:
            self.inputs.divided()
            super().look()
