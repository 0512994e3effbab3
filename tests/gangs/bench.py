"""A scheduling cycle of gangs with the default plugins and the compiled lane, for the tests of this package."""

from __future__ import annotations

from typing import Any

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.errors import Conflict, Forbidden
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.gangs.gang_cycle import GangBatch, GangCycle
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.gangs.kubernetes_cycle import KubernetesGangCycle
from kscheduler.gangs.memberwise_cycle import MemberwiseCycle
from kscheduler.gangs.memberwise_planner import MemberwisePlanner
from kscheduler.gangs.planner import Planner
from kscheduler.gangs.preemption.whole import WholePreemption
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.reservations import Reservations
from kscheduler.gangs.room_to_come import RoomSearch
from kscheduler.gangs.rules import WHOLE, GangRules
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.cycle.bench import NAME, Bench
from tests.gangs.builders import DOORS, gang, key_of
from tests.support.checks import check_cache


def member(name: str, of: str = "train", cpu: int = 2) -> PodBuilder:
    return make_pod(name).label(POD_GROUP_LABEL, of).req(cpu=cpu)


def members(count: int, of: str = "train", cpu: int = 2) -> list[PodBuilder]:
    return [member(f"{of}-{i}", of, cpu) for i in range(count)]


class GangBench(Bench):
    """Two nodes with 4 CPUs each, a queue of gangs, and their cycle; stages are moved here as by the cache."""

    def __init__(
        self,
        rules: GangRules = WHOLE,
        *,
        reserves_after_s: float | None = None,
        preemption: WholePreemption | None = None,
    ) -> None:
        """`reserves_after_s`: room is reserved for gangs that have failed for so long; None: never."""
        self.registry = Registry(DOORS, rules)
        super().__init__()
        for name in ("n1", "n2"):
            self.node(name, pods=110)
        self.cycles: list[BindingCycle] = []
        self.ends: list[str] = []  # of reservations
        lane = CompiledLane({NAME: self.framework}, self.handle, Measurements(self.metrics), self.clock.now)
        self.batch = GangBatch(
            self.queue,
            self.cache,
            {NAME: self.framework},
            self.one,
            lane,
            dispatch=self.dispatch,
            clock=self.clock,
            stopwatch=self.clock.now,
            decisions=None,
        )
        kind = MemberwisePlanner if rules.preempts_by_member else Planner
        planner = kind(
            self.cache, {NAME: self.framework}, lane, asks_again=rules.follows_kubernetes, nominations=self.nominations
        )
        parts = self.gangs, self.registry, planner, self.one
        around: dict[str, Any] = {
            "dispatch": self.dispatch,
            "clock": self.clock,
            "stopwatch": self.clock.now,
        }
        if rules.preempts_by_member:
            self.batch.gangs = MemberwiseCycle(*parts, **around)
        elif rules.follows_kubernetes:
            self.batch.gangs = KubernetesGangCycle(*parts, release=RELEASE_1_37, **around)
        else:
            room = self._reservations(planner, reserves_after_s)
            self.batch.gangs = GangCycle(*parts, preemption=preemption, reservations=room, **around)

    def _reservations(self, planner: Planner, after_s: float | None) -> Reservations | None:
        if after_s is None:
            return None
        made = Reservations(
            RoomSearch(self.cache, planner),
            self.registry,
            self.gangs,
            {NAME: self.framework},
            self.handle,
            self.clock,
            after_s=after_s,
            wake=lambda: None,
            ended=self.ends.append,
        )
        self.gangs.on_left, self.gangs.on_parked = made.forget, made.release
        return made

    def make_queue(self) -> SchedulingQueue:
        self.gangs = GangQueue(
            lambda queued: self.framework.sort_key(queued.pod_info.priority, queued.timestamp),
            self.framework.run_pre_enqueue,
            gangs=self.registry,
            registered={NAME: self.framework.events_by_plugin()},
        )
        return self.gangs

    def dispatch(self, cycle: BindingCycle) -> None:
        self.registry.move(cycle.pod.uid, Stage.ASSUMED)
        self.cycles.append(cycle)

    def add(self, *pods: PodBuilder) -> None:
        for each in pods:
            made = each.obj()
            self.watched[made.key] = made
            self.queue.add(PodInfo(made), self.clock.now())

    def set_gang(self, name: str, least: int) -> None:
        self.registry.set_gang(gang(name, least))
        self.gangs.reconsider(key_of(name), self.clock.now())

    def run(self) -> list[str]:
        """Decide until nothing is active, and return the pods whose bindings have begun since."""
        self.cycles.clear()
        while self.batch.run(self.clock.now(), 100):
            self.queue.check()
            check_cache(self.cache)
        return [cycle.pod.pod.metadata.name for cycle in self.cycles]

    def finish(self, name: str, outcome: Conflict | Forbidden | None = None) -> None:
        cycle = next(each for each in self.cycles if each.pod.pod.metadata.name == name)
        if outcome is not None:
            self.registry.move(cycle.pod.uid, Stage.IN_FLIGHT)
        self.one.finish_binding(cycle, outcome)
        if outcome is None:
            self.registry.move(cycle.pod.uid, Stage.BOUND)
            self.gangs.reconsider(self.registry.members[cycle.pod.uid].tracked.key, self.clock.now())
        self.queue.check()
        check_cache(self.cache)
