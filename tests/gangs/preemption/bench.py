"""A cluster with gangs on its nodes, and a gang that preempts, for the tests of this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec.structs import replace as struct_replace

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.gangs.gang import Gang
from kscheduler.gangs.planner import Planner
from kscheduler.gangs.preemption.executor import GangExecutor
from kscheduler.gangs.preemption.whole import Answer, WholePreemption
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.stand_in import face_of
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.framework.plugins.defaultpreemption.fakes import NotedEvictions
from tests.gangs.builders import DOORS, gang, key_of
from tests.support.checks import check_cache
from tests.support.lanes import Side

HIGH = 1000


class NotingExecutor(GangExecutor):
    """Writes down the victims instead of evicting them."""

    victims: tuple[str, ...] = ()

    def evict(self, victims: Sequence[PodInfo], gang: PodInfo, nominations: object) -> None:
        self.victims = tuple(victim.pod.metadata.name for victim in victims)


class Cluster:
    """`has_lane`: members are placed by kernels as far as possible."""

    def __init__(self, nodes: int = 2, cpu: int = 4, *, pods: int = 110, has_lane: bool = True) -> None:
        self.side = Side(first_on_tie=True)
        self.has_lane = has_lane
        self.cache = self.side.cache
        for framework in self.side.profiles.values():
            framework.post_filters = ("DefaultPreemption",)
        for i in range(nodes):
            node = make_node(f"n{i}").capacity(cpu=cpu, memory="64Gi", pods=pods).label("zone", f"z{i % 2}")
            self.cache.set_node(node.label("kubernetes.io/hostname", f"n{i}").obj())
        self.registry = Registry(DOORS, WHOLE)
        self.evictions, self.budgets = NotedEvictions(), DisruptionBudgets()
        self.retried: list[tuple[str, float]] = []  # keys of the faces of gangs, and after how many seconds
        self.handle = replace(
            self.side.handle,
            evictions=self.evictions,
            budgets=self.budgets,
            profiles=self.side.profiles,
            retry=lambda pod, seconds: self.retried.append((pod.key, seconds)),
        )
        self.nominations = self.handle.nominations
        lane = self.side.lane if has_lane else None
        self.planner = Planner(self.cache, self.side.profiles, lane, nominations=self.nominations)
        self.executor = NotingExecutor(
            self.handle, "DefaultPreemption", record_event=lambda *_: None, gang_uid=lambda face: face.uid
        )
        self.preemption = WholePreemption(
            self.cache, self.registry, self.planner, self.side.profiles, self.handle, self.executor
        )

    def set_gang(self, name: str, least: int, **fields: object) -> None:
        self.registry.set_gang(gang(name, least, **fields))

    def place(self, pod: PodBuilder, node: str) -> None:
        placed = pod.node(node).obj()
        self.cache.set_pod(PodInfo(placed))
        self.registry.set_member(placed, Stage.BOUND)
        self.evictions.pods[placed.key] = placed

    def members(self, count: int, builder: PodBuilder | None = None, of: str = "train") -> list[QueuedPodInfo]:
        made = []
        for i in range(count):
            pod = (builder or make_pod("x").req(cpu=2).priority(HIGH)).label(POD_GROUP_LABEL, of).obj()
            pod = _named(pod, f"{of}-{i}")
            self.registry.set_member(pod, Stage.IN_FLIGHT)
            made.append(QueuedPodInfo(PodInfo(pod), 0.0))
        return made

    def tracked(self, name: str = "train") -> TrackedGang:
        found = self.registry.get(key_of(name))
        assert found is not None
        return found

    def preempt(self, members: Sequence[QueuedPodInfo], missing: int, of: str = "train", *, wanted: int = 0) -> Answer:
        """Plan the members, which must not fit, and let the gang preempt. Nothing may have changed afterwards."""
        before = {node.name: (list(node.pods), node.requested) for node in self.cache.table}
        plan = self.planner.plan(members, missing)
        assert not plan.reaches(missing)
        face = face_of(key_of(of), HIGH, members[0].pod_info, sums_resizes_apart=False)
        self.executor.victims = ()
        answer = self.preemption.look(self.tracked(of), face, members, plan, missing, wanted=wanted)
        assert {node.name: (list(node.pods), node.requested) for node in self.cache.table} == before
        check_cache(self.cache)
        return answer

    def gang_of(self, name: str) -> Gang:
        found = self.tracked(name).gang
        assert found is not None
        return found


def _named(pod: Pod, name: str) -> Pod:
    return struct_replace(pod, metadata=struct_replace(pod.metadata, name=name, uid=f"uid-{name}"))


def low(name: str, cpu: int = 2, priority: int = 1, of: str = "") -> PodBuilder:
    builder = make_pod(name).req(cpu=cpu).priority(priority)
    return builder.label(POD_GROUP_LABEL, of) if of else builder
