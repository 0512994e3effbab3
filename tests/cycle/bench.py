"""A scheduling cycle with plugins of the test's choice, and a binding cycle whose requests are noted."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.cache.cache import Cache
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.protocol import Regarding
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.config.load import default_config
from kscheduler.cycle.binding_tasks import PreBindSteps, QuickSteps
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule_one import BindingCycle, ScheduleOne
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.simulator.cluster import Cluster
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node
from tests.support.clocks import ManualClock

NAME = "default-scheduler"


class Recorded(NamedTuple):
    pod: str
    type: str
    reason: str
    action: str
    note: str
    controller: str


class Events(EventRecorder):
    """Writes down what would be sent."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Cluster(clock).client(), clock, random.Random(0), controller=NAME, instance="test")
        self.recorded: list[Recorded] = []

    def record(
        self,
        regarding: Pod | Regarding,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        related: Regarding | None = None,
    ) -> None:
        assert isinstance(regarding, Pod)
        self.recorded.append(Recorded(regarding.key, type, reason, action, note, controller))

    def record_scheduled(self, pod: Pod, node_name: str) -> None:
        note = f"Successfully assigned {pod.key} to {node_name}"
        self.record(
            pod, type="Normal", reason="Scheduled", action="Binding", note=note, controller=pod.spec.scheduler_name
        )


class Conditions(PodStatusLane):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Cluster(clock).client())
        self.patched: list[tuple[str, PodCondition]] = []
        self.nominations: list[str | None] = []  # written with them
        self.nominated: list[tuple[str, str]] = []  # before a binding
        self.forgotten: list[str] = []

    def patch(self, pod: Pod, condition: PodCondition, nomination: str | None = None) -> None:
        self.patched.append((pod.key, condition))
        self.nominations.append(nomination)

    async def nominate(self, pod: Pod, node_name: str) -> None:
        self.nominated.append((pod.key, node_name))

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)


class Bench:
    """`answer`: what a binding meets, None for success."""

    def __init__(self, plugins: Mapping[str, Sequence[Plugin]] | None = None) -> None:
        self.clock = ManualClock(now=100.0)
        self.cache = Cache()
        self.metrics = Metrics()
        self.answer: Exception | None = None
        self.bound: list[tuple[str, str]] = []
        self.watched: dict[str, Pod] = {}  # what the informer's store holds
        self.events, self.conditions = Events(self.clock), Conditions(self.clock)
        self.waiting = WaitingPods()
        self.pre_binds = PreBindSteps()
        self.nominations = Nominations()
        measurements = Measurements(self.metrics)
        handle = Handle(table=self.cache.table, rng=random.Random(0), bind=self._bind, nominations=self.nominations)
        self.handle = handle
        points = build(default_config().profiles[0], handle)
        points["postFilter"] = []  # preemption asks more of the world than is here
        for point, further in (plugins or {}).items():
            points[point] = [*points.get(point, []), *((plugin, 1) for plugin in further)]
        self.framework = Framework(NAME, points, handle, observer=measurements, stopwatch=self.clock.now)
        self.queue = self.make_queue()
        self.one = ScheduleOne(
            self.cache,
            self.queue,
            {NAME: self.framework},
            clock=self.clock,
            stopwatch=self.clock.now,
            measurements=measurements,
            recorder=self.events,
            statuses=self.conditions,
            nominations=self.nominations,
            waiting_pods=self.waiting,
            pre_binds=self.pre_binds,
            quick_steps=QuickSteps(100),
            current_pod=self.watched.get,
            refused_pods=RefusedPods(self.queue, self.clock, RetryPauses(random.Random(0)), lambda: None),
        )

    def make_queue(self) -> SchedulingQueue:
        return SchedulingQueue(
            lambda queued: self.framework.sort_key(queued.pod_info.priority, queued.timestamp),
            self.framework.run_pre_enqueue,
            registered={NAME: self.framework.events_by_plugin()},
        )

    async def _bind(self, pod: PodInfo, node_name: str) -> None:
        if self.answer is not None:
            raise self.answer
        self.bound.append((pod.key, node_name))

    def node(self, name: str, **capacity: Any) -> None:
        self.cache.set_node(make_node(name).capacity(**{"cpu": "4", "memory": "8Gi", **capacity}).obj())

    def pop(self, pod: PodBuilder) -> QueuedPodInfo:
        """The pod, in flight."""
        made = pod.obj()
        self.watched[made.key] = made
        self.queue.add(PodInfo(made), self.clock.now())
        queued = self.queue.pop(self.clock.now())
        assert queued is not None
        return queued

    def decide(self, pod: PodBuilder) -> BindingCycle:
        cycle = self.one.schedule(self.pop(pod))
        assert cycle is not None
        return cycle

    def attempts(self, result: str) -> float:
        return self.metrics.schedule_attempts_total.labels(result, NAME).value


class Steps:
    """Reserve, Permit and PostBind; answers as configured and records its calls."""

    name = "Steps"

    def __init__(self, *, reserve: Status | None = None, permit: Status | None = None) -> None:
        self._reserve, self._permit = reserve, permit
        self.asked: list[str] = []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.asked.append("reserve")
        return self._reserve

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.asked.append("unreserve")

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        self.asked.append("permit")
        return self._permit, 5.0

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.asked.append("post_bind")
