"""The writes of preemption: conditions and deletions of victims, repeated until the apiserver's answer is certain.

Every write names the victim by uid, so that a new pod with the victim's name is left alone, and repeating is harmless.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.client.concurrency import run_together
from kscheduler.client.protocol import Client, PodStatusPatch, Regarding
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.times import rfc3339
from kscheduler.client.write_permission import WritePermission, not_leading
from kscheduler.clock import Clock
from kscheduler.cycle.binding_tasks import BackgroundTasks, PreBindSteps
from kscheduler.cycle.pod_timers import PodTimers
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import APIError, Conflict, NotFound
from kscheduler.framework.evictions import Evictions
from kscheduler.observability.measurements import Measurements

log = logging.getLogger(__name__)

# kube-scheduler's patience with one patch: four tries within a third of a second.
TRIES = 4
FIRST_PAUSE_S = 0.01
PAUSE_GROWTH = 5.0
# A preemptor is tried again as soon as its preemption has failed: a refusal that costs no time must not make it spin.
REFUSED_PAUSE_S = 1.0
# Seconds between two checks of a condition that is waited for: mostly it holds after a few milliseconds.
SHORTEST_LOOK_S = 0.005
LONGEST_LOOK_S = 0.25


class SchedulerEvictions(Evictions):
    """The `Evictions` of a running scheduler: what preemption plugins write.

    `pods`: key -> the pod as the watch shows it.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        pods: Mapping[str, Pod],
        timers: PodTimers,
        recorder: EventRecorder,
        measurements: Measurements,
        waiting_pods: WaitingPods,
        pre_binds: PreBindSteps,
        tasks: BackgroundTasks,
        permission: WritePermission,
    ) -> None:
        self._client = client
        self._clock = clock
        self._pods = pods
        self._timers = timers
        self._recorder = recorder
        self._measure = measurements
        self._waiting_pods = waiting_pods
        self._pre_binds = pre_binds
        self._tasks = tasks
        self._permission = permission

    def current(self, key: str) -> Pod | None:
        return self._pods.get(key)

    # --- writing ---

    def stop_binding(self, uid: str, plugin: str) -> bool:
        waiting = self._waiting_pods.get(uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        return self._pre_binds.break_off(uid, f"preempted by {plugin}")

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        before = next((old for old in victim.status.conditions or () if old.type == condition.type), None)
        if before is None or before.status != condition.status:
            condition = replace(condition, last_transition_time=rfc3339(self._clock.wall()))
        patch = PodStatusPatch(condition=condition)
        return await self._write(victim, lambda: self._client.patch_pod_status(victim, patch))

    async def delete(self, victim: Pod) -> bool:
        meta = victim.metadata
        return await self._write(victim, lambda: self._client.delete_pod(meta.namespace, meta.name, meta.uid))

    async def clear_nomination(self, pod: Pod) -> None:
        patch = PodStatusPatch(nominated_node_name="")
        await self._write(pod, lambda: self._client.patch_pod_status(pod, patch))

    async def _write(self, pod: Pod, write: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Carry out `write`, with retries, and return True; False if the pod is gone.

        Raises the last try's APIError.
        """
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, TRIES + 1):
            if not self._permission.may_write():
                await asyncio.sleep(REFUSED_PAUSE_S)
                raise not_leading(f"pod {pod.key} is not preempted")
            try:
                await write()
                return True
            except NotFound:
                return False
            except Conflict:
                if await self._is_gone(pod):
                    return False
                if attempt == TRIES:
                    raise
            except APIError as error:
                if not error.is_transient:
                    await asyncio.sleep(REFUSED_PAUSE_S)
                    raise
                if attempt == TRIES:
                    raise
                pause_s = error.retry_after_s or pause_s
            await asyncio.sleep(pause_s)
            pause_s *= PAUSE_GROWTH
        raise AssertionError("the last try returns or raises")

    async def _is_gone(self, pod: Pod) -> bool:
        """Return True if the apiserver has no such pod, or another pod with its name."""
        try:
            found = await self._client.get_pod(pod.metadata.namespace, pod.metadata.name)
        except NotFound:
            return True
        return found.metadata.uid != pod.metadata.uid

    def record_event(self, victim: Pod, preemptor: Pod, note: str) -> None:
        self._recorder.record(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            controller=preemptor.spec.scheduler_name,
            related=Regarding.pod(preemptor),
        )

    # --- work beside the scheduling cycles ---

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work)

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        await run_together(*work)

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        deadline, pause_s = self._clock.now() + within_s, SHORTEST_LOOK_S
        while not holds():
            if self._clock.now() >= deadline:
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_LOOK_S)
        return True

    def try_again(self, uid: str) -> None:
        self._timers.retry_now(uid)

    # --- measuring ---

    def attempted(self) -> None:
        self._measure.preemption_attempted()

    def group_attempted(self, result: str) -> None:
        self._measure.group_preemption_attempted(result)

    def group_chosen(self, kind: str, victims: int, units: int) -> None:
        self._measure.group_preemption_chose(kind, victims, units)

    def chosen(self, victims: int) -> None:
        self._measure.preemption_chosen(victims)

    def ended(self, result: str, seconds: float) -> None:
        self._measure.preemption_ended(result, seconds)

    def evaluated(self, kind: str, result: str, seconds: float) -> None:
        self._measure.preemption_evaluated(kind, result, seconds)

    def executed(self, kind: str, result: str, seconds: float) -> None:
        self._measure.preemption_executed(kind, result, seconds)

    def violated(self, kind: str, victims: int) -> None:
        self._measure.budgets_violated(kind, victims)

    def wall(self) -> float:
        return self._clock.wall()
