"""The kernels' dry runs must find what what-ifs find: the same victims, violations and reasons on every node."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kscheduler._fast import PodRequest, Verdicts
from kscheduler.api.objects import LabelSelector, Node, Pod, TopologySpreadConstraint
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.dry_runs import Findings
from kscheduler.framework.interface import Handle, Plugin, ProfileHandle
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS, WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Code, Status, code_of, unschedulable
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.both_forms import nodes, pods
from tests.framework.plugins.defaultpreemption.fakes import PROFILE, Bench, NotedEvictions, budget
from tests.support.affinities import with_pod_affinity
from tests.support.seeds import sampled
from tests.support.spreads import spread, with_spread

STARTS = (None, "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2099-01-01T00:00:00Z")


async def _no_bind(pod: PodInfo, node: str) -> None:
    raise AssertionError("nothing is bound here")


class Cluster:
    """The default profile on a table of its own."""

    def __init__(self, release: Release = RELEASE_1_36) -> None:
        self.cache = Cache()
        self.nominations = Nominations()
        self.budgets = DisruptionBudgets()
        profiles: dict[str, ProfileHandle] = {}
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(0),
            bind=_no_bind,
            profiles=profiles,
            nominations=self.nominations,
            budgets=self.budgets,
            evictions=NotedEvictions(),
            release=release,
        )
        points: dict[str, list[tuple[Plugin, int]]] = build(default_config().profiles[0], self.handle)
        self._pre_filter = [plugin for plugin, _ in points["preFilter"]]
        self.framework = Framework(PROFILE, points, self.handle, observer=Measurements(), stopwatch=lambda: 0.0)
        profiles[PROFILE] = self.framework
        self.compiled = CompiledDryRun(self.handle)
        self.what_ifs = WhatIfDryRun(self.handle)

    def begin(self, pod: PodInfo) -> CycleState:
        """The state after PreFilter."""
        state = CycleState()
        for plugin in self._pre_filter:
            code = code_of(plugin.pre_filter(state, pod)[1])  # type: ignore[attr-defined]
            if code not in (Code.SUCCESS, Code.SKIP):
                reject()
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
    cluster = Cluster(draw(st.sampled_from([RELEASE_1_36, RELEASE_1_37])))
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
        cluster.nominations.nominate(nominee, f"node{draw(st.integers(0, count - 1))}")
    if draw(st.integers(0, 3)) == 0:  # leaves a dead row behind
        cluster.cache.remove_node(f"node{draw(st.integers(0, count - 1))}")
    return cluster, draw(important("new", lowest=1, highest=4))


@pytest.mark.slow
@settings(max_examples=sampled(400), deadline=None)
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
        self.cluster = Cluster(self._pick(RELEASE_1_36, RELEASE_1_37))
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
            self.cluster.nominations.nominate(self.pod(f"nominee{index}", self._pick(2, 3, 4)), self._node())

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
@settings(max_examples=sampled(400), deadline=None)
@given(st.integers(0, 1 << 32))
def test_they_find_the_same_where_pods_are_in_each_others_way(seed: int) -> None:
    with_nominated = Crowded(seed)
    pod = with_nominated.pod("new", 3)
    with_nominated.cluster.check(pod)
    with_nominated.cluster.cache.remove_pod("old0")
    with_nominated.cluster.cache.set_pod(with_nominated.pod("late", 1, "node0"))
    with_nominated.cluster.check(pod, wanted=2)


# --- beyond what the kernels can tell ---


class Picky:
    """A filter of somebody else's, which says nothing of itself: no more than one pod of each app on a node."""

    name = "Picky"

    def __init__(self) -> None:
        self.asked = 0

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked += 1
        apps = [(other.pod.metadata.labels or {}).get("app") for other in node.pods.values()]
        return unschedulable("one is enough") if (pod.pod.metadata.labels or {}).get("app") in apps else None


class Outspoken(Picky):
    """The same, with a table form, and demands of the test's choice."""

    name = "Outspoken"

    def __init__(self, demands: Demands | Exception | None) -> None:
        super().__init__()
        self._demands = demands

    def demands(self, state: CycleState, pod: PodInfo) -> Demands | None:
        if isinstance(self._demands, Exception):
            raise self._demands
        return self._demands

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        pass

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        raise AssertionError("rejects nothing")


@pytest.mark.parametrize(
    "plugin",
    [
        Picky(),
        Outspoken(None),
        Outspoken(KeyError("the state of a PreFilter that did not run")),
        # There is one place for a request, and NodeResourcesFit has taken it.
        Outspoken(Demands(request=PodRequest((), 0, 0))),
    ],
)
def test_a_filter_that_cannot_say_what_it_goes_by_is_asked(plugin: Picky) -> None:
    bench = Bench(filters=(plugin,))
    bench.nodes("n1", "n2")
    bench.place(make_pod("web").label(app="web").priority(1).req(cpu="1"), "n1")
    bench.place(make_pod("db").label(app="db").priority(1).req(cpu="1"), "n1")
    info, state = PodInfo(make_pod("new").label(app="web").priority(9).req(cpu="1").obj()), CycleState()
    bench.framework.schedule_pod(state, info)
    plugin.asked = 0
    found = CompiledDryRun(bench.handle).search(state, info, list(bench.cache.table), 2)
    assert plugin.asked
    assert [(each.node_name, [victim.key for victim in each.victims]) for each in found.candidates] == [
        ("n1", ["default/web"])
    ]
    assert found.statuses == {"n2": NO_VICTIMS}


def test_filters_that_say_what_they_go_by_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with_nominated = Crowded(1)
    pod = with_nominated.pod("new", 3)
    state = with_nominated.cluster.begin(pod)

    def must_not_be_asked(*arguments: object) -> None:
        raise AssertionError("a what-if was asked")

    monkeypatch.setattr(WhatIfDryRun, "try_node", must_not_be_asked)
    assert not with_nominated.cluster.nominations.nodes()
    with_nominated.cluster.compiled.search(state, pod, list(with_nominated.cluster.cache.table), 100)


def test_a_pod_that_is_expected_where_it_is_counts_once() -> None:
    cluster = Cluster()
    cluster.cache.set_node(make_node("n1").capacity(cpu="4", memory="8Gi", pods=9).obj())
    for name, priority in (("here", 9), ("low", 1)):
        cluster.cache.set_pod(PodInfo(make_pod(name).uid(name).node("n1").priority(priority).req(cpu="2").obj()))
    cluster.nominations.nominate(PodInfo(make_pod("here").uid("here").priority(9).req(cpu="2").obj()), "n1")
    found = cluster.check(PodInfo(make_pod("new").uid("new").priority(5).req(cpu="2").obj()))
    assert [victim.key for victim in found.candidates[0].victims] == ["default/low"]


# --- spreading, where it is easily got wrong ---


def spreading(name: str, priority: int, *keys: str, node: str = "") -> PodInfo:
    """A pod of 2 cores that is to be spread with its like."""
    selector = LabelSelector(match_labels={"app": "web"})
    stated = [TopologySpreadConstraint(1, key, "DoNotSchedule", selector) for key in keys]
    pod = make_pod(name).uid(name).node(node).label(app="web").priority(priority).req(cpu="2").obj()
    return PodInfo(spread(pod, *stated))


def racked(cluster: Cluster, **zones: str) -> None:
    """Node name -> "zone rack", of nodes with 4 cores."""
    for name, place in zones.items():
        zone, _, rack = place.partition(" ")
        node = make_node(name).capacity(cpu="4", memory="8Gi", pods=9).label("zone", zone)
        cluster.cache.set_node((node.label("rack", rack) if rack else node).obj())


def test_pods_on_a_node_that_a_constraint_does_not_look_at_do_not_count_when_they_leave() -> None:
    cluster = Cluster()
    racked(cluster, n1="a r", n2="b r", n3="a")
    for number, node in enumerate(("n1", "n1")):
        cluster.cache.set_pod(spreading(f"high{number}", 9, node=node))
    for number, node in enumerate(("n3", "n3")):
        cluster.cache.set_pod(spreading(f"low{number}", 1, node=node))
    found = cluster.check(spreading("new", 5, "zone", "rack"))
    assert found.statuses["n3"].reasons == ("node(s) didn't match pod topology spread constraints",)


def test_the_domain_with_the_fewest_pods_is_held_against_the_others() -> None:
    cluster = Cluster()
    racked(cluster, n1="a", n2="b")
    cluster.cache.set_pod(spreading("there", 9, node="n2"))
    cluster.cache.set_pod(PodInfo(make_pod("low").uid("low").node("n1").priority(1).req(cpu="2").obj()))
    cluster.nominations.nominate(spreading("nominee", 9), "n1")
    found = cluster.check(spreading("new", 5, "zone"))
    assert [each.node_name for each in found.candidates] == ["n1"]
