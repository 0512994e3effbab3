"""The kernels' dry runs must find what what-ifs find: the same victims, violations and reasons on every node."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import LabelSelector, Node, Pod, TopologySpreadConstraint
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin, ProfileHandle
from kscheduler.framework.observer import NoObserver
from kscheduler.framework.plugins.defaultpreemption.candidates import Findings
from kscheduler.framework.plugins.defaultpreemption.dry_run import WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Code, code_of
from kscheduler.queue.nominator import Nominator
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.defaultpreemption.fakes import PROFILE, NotedEvictions, budget
from tests.framework.plugins.interpodaffinity.affinities import with_pod_affinity
from tests.framework.plugins.podtopologyspread.spreads import spread, with_spread
from tests.framework.plugins.test_both_forms import nodes, pods

STARTS = (None, "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2099-01-01T00:00:00Z")


async def _no_bind(pod: PodInfo, node: str) -> None:
    raise AssertionError("nothing is bound here")


class Cluster:
    """The default profile on a table of its own."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.nominator = Nominator()
        self.budgets = DisruptionBudgets()
        profiles: dict[str, ProfileHandle] = {}
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(0),
            bind=_no_bind,
            profiles=profiles,
            nominations=self.nominator,
            budgets=self.budgets,
            evictions=NotedEvictions(),
        )
        points: dict[str, list[tuple[Plugin, int]]] = build(default_config().profiles[0], self.handle)
        self._pre_filter = [plugin for plugin, _ in points["preFilter"]]
        self.framework = Framework(PROFILE, points, self.handle, observer=NoObserver(), stopwatch=lambda: 0.0)
        profiles[PROFILE] = self.framework
        self.compiled = CompiledDryRun(self.handle)
        self.what_ifs = WhatIfDryRun(self.handle)

    def begin(self, pod: PodInfo) -> CycleState:
        """The state after PreFilter."""
        state = CycleState()
        for plugin in self._pre_filter:
            code = code_of(plugin.pre_filter(state, pod)[1])  # type: ignore[attr-defined]
            assume(code in (Code.SUCCESS, Code.SKIP))
            if code is Code.SKIP:
                state.skip_filter.add(plugin.name)
        return state

    def check(self, pod: PodInfo, wanted: int = 100) -> Findings:
        """Try all nodes both ways."""
        state = self.begin(pod)
        tried = list(self.cache.table)
        found = self.compiled.search(state, pod, tried, wanted)
        expected = self.what_ifs.search(state, pod, tried, wanted)
        assert found.statuses == expected.statuses
        assert found.candidates == expected.candidates
        return found


def with_priority(pod: Pod, priority: int, started: str | None) -> Pod:
    spec = msgspec.structs.replace(pod.spec, priority=priority)
    return msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(pod.status, start_time=started))


@st.composite
def roomy(draw: st.DrawFn, name: str) -> Node:
    """A node that few pods fill."""
    node = make_node(name).label("kubernetes.io/hostname", name)
    node = node.capacity(cpu="4", memory="8Gi", pods=draw(st.integers(1, 6)))
    if draw(st.integers(0, 5)):
        node = node.label("zone", draw(st.sampled_from("abc")))
    if draw(st.integers(0, 2)) == 0:
        node = node.label("rack", draw(st.sampled_from("rs")))
    return node.obj()


@st.composite
def modest(draw: st.DrawFn, name: str, node: str = "") -> Pod:
    """A pod that would fit on most nodes, but for the other pods there."""
    pod = make_pod(name).uid(name).node(node).label(app=draw(st.sampled_from(["web", "db"])))
    pod = pod.req(cpu=draw(st.sampled_from(["500m", "1", "2", "3"])))
    if draw(st.integers(0, 2)) == 0:
        pod = pod.host_port(80, host_ip=draw(st.sampled_from(["", "10.0.0.1", "10.0.0.2"])))
    if draw(st.booleans()):
        pod = draw(with_pod_affinity(pod))
    return draw(with_spread(pod.obj()) if draw(st.booleans()) else st.just(pod.obj()))


@st.composite
def important(draw: st.DrawFn, name: str, node: str = "", lowest: int = 0, highest: int = 3) -> PodInfo:
    priority, started = draw(st.integers(lowest, highest)), draw(st.sampled_from(STARTS))
    kind = modest if draw(st.integers(0, 5)) else pods
    return PodInfo(with_priority(draw(kind(name, node)), priority, started))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, PodInfo]:
    cluster = Cluster()
    count = draw(st.integers(1, 6))
    for index in range(count):
        kind = roomy if draw(st.integers(0, 5)) else nodes
        cluster.cache.set_node(draw(kind(f"node{index}")))
    for index in range(draw(st.integers(0, 12))):
        cluster.cache.set_pod(draw(important(f"old{index}", f"node{draw(st.integers(0, count - 1))}")))
    for index in range(draw(st.integers(0, 2))):
        labels = draw(st.sampled_from([{"app": "web"}, {"app": "db"}, {"tier": "front"}]))
        cluster.budgets.set(budget(f"budget{index}", draw(st.integers(0, 2)), labels))
    for index in range(draw(st.integers(0, 2))):
        nominee = draw(important(f"nominee{index}", lowest=1, highest=4))
        cluster.nominator.nominate(nominee, f"node{draw(st.integers(0, count - 1))}")
    if draw(st.integers(0, 3)) == 0:  # leaves a dead row behind
        cluster.cache.remove_node(f"node{draw(st.integers(0, count - 1))}")
    return cluster, draw(important("new", lowest=1, highest=4))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(clusters(), st.data())
def test_kernels_and_what_ifs_find_the_same_everywhere(drawn: tuple[Cluster, PodInfo], data: st.DataObject) -> None:
    cluster, pod = drawn
    assert cluster.framework.demands(cluster.begin(pod), pod) is not None
    cluster.check(pod)
    # Nodes change, and what was kept of them with them.
    names = sorted(node.name for node in cluster.cache.table)
    for node in list(cluster.cache.table):
        for other in list(node.pods.values()):
            if data.draw(st.integers(0, 3)) == 0:
                cluster.cache.remove_pod(other.uid)
    if names:
        cluster.cache.set_pod(data.draw(important("late", data.draw(st.sampled_from(names)))))
    cluster.check(pod, wanted=data.draw(st.integers(1, 3)))


class Crowded:
    """A cluster in which pods are in each other's way in all manners at once, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.cluster = Cluster()
        self._count = self._rng.randint(3, 6)
        for index in range(self._count):
            node = make_node(f"node{index}").label("kubernetes.io/hostname", f"node{index}")
            node = node.capacity(cpu=self._pick("4", "6", "8"), memory="64Gi", pods=self._pick(3, 8, 8))
            self.cluster.cache.set_node(node.label("zone", self._pick("a", "b", "c")).obj())
        for index in range(self._rng.randint(6, 20)):
            self.cluster.cache.set_pod(self.pod(f"old{index}", self._pick(0, 1, 2, 3), self._node()))
        for index in range(self._rng.randint(0, 2)):
            labels = {"app": self._pick("web", "db")}
            self.cluster.budgets.set(budget(f"budget{index}", self._rng.randint(0, 2), labels))
        for index in range(self._pick(0, 0, 1, 2)):
            self.cluster.nominator.nominate(self.pod(f"nominee{index}", self._pick(2, 3, 4)), self._node())

    def _pick(self, *choices: Any) -> Any:
        return self._rng.choice(choices)

    def _node(self) -> str:
        return f"node{self._rng.randrange(self._count)}"

    def pod(self, name: str, priority: int, node: str = "") -> PodInfo:
        pod = make_pod(name).uid(name).node(node).label(app=self._pick("web", "db"))
        pod = pod.req(cpu=self._pick("100m", "500m", "1", "2"))
        if self._pick(0, 0, 0, 1):
            pod = pod.host_port(80, host_ip=self._pick("", "10.0.0.1"))
        topology, meant = self._pick("zone", "kubernetes.io/hostname"), {"app": self._pick("web", "db")}
        kind = self._pick("", "", "affinity", "anti-affinity", "both", "spread", "spread")
        if kind in ("affinity", "both"):
            pod = pod.pod_affinity(topology, meant)
        if kind in ("anti-affinity", "both"):
            pod = pod.pod_anti_affinity(self._pick("zone", "kubernetes.io/hostname"), {"app": self._pick("web", "db")})
        found = pod.obj()
        if kind == "spread":
            selector = LabelSelector(match_labels=meant)
            least = self._pick(None, None, 2, 3)
            constraint = TopologySpreadConstraint(1, topology, "DoNotSchedule", selector, min_domains=least)
            found = spread(found, constraint)
        return PodInfo(with_priority(found, priority, self._pick(*STARTS)))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32))
def test_they_find_the_same_where_pods_are_in_each_others_way(seed: int) -> None:
    crowded = Crowded(seed)
    pod = crowded.pod("new", 3)
    crowded.cluster.check(pod)
    crowded.cluster.cache.remove_pod("old0")
    crowded.cluster.cache.set_pod(crowded.pod("late", 1, "node0"))
    crowded.cluster.check(pod, wanted=2)
