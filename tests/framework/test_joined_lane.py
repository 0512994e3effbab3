"""Pods that look at other pods, in both lanes: the same nodes, whatever pods, nodes, namespaces and services come."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, Node, Pod, SelectorRequirement, TopologySpreadConstraint
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.snapshot import pod_counters
from kscheduler.testing import PodBuilder, make_node, make_pod
from kscheduler.testing.wrappers import Selector
from tests.support.affinities import NAMESPACES, with_pod_affinity
from tests.support.lanes import TwoLanes
from tests.support.spreads import spread, with_spread

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
NODES = 7
# Selectors of the label that pods have one each of.
OF_ONE: list[Selector] = [
    {"index": "p2"},
    LabelSelector(match_expressions=[SelectorRequirement("index", "Exists")]),
    LabelSelector(match_expressions=[SelectorRequirement("index", "NotIn", ["p1", "p3"])]),
]

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CONFIGS = {
    "defaults": "",
    "spread by the profile, others' preferences ignored": """
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
      - {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 7, ignorePreferredTermsOfExistingPods: true}
""",
    "only filters, only scores": """
profiles:
- plugins:
    preScore: {disabled: [{name: InterPodAffinity}]}
    score: {disabled: [{name: InterPodAffinity}]}
    preFilter: {disabled: [{name: PodTopologySpread}]}
    filter: {disabled: [{name: PodTopologySpread}]}
""",
}


def config_of(name: str) -> SchedulerConfig:
    return parse_config(_HEAD + CONFIGS[name])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = f"n{draw(st.integers(0, NODES - 1))}"
    node = make_node(name).capacity(cpu=draw(st.sampled_from(["2", "16"])), memory="8Gi", pods=50)
    # Most have a hostname of their own; two share one, and some have no labels, and must still be distinguished.
    host = draw(st.sampled_from([name, name, name, name, "shared", None]))
    if host is not None:
        node = node.label(HOSTNAME, host)
    for key, values in ((ZONE, ["a", "b", "c", None, ""]), ("rack", ["1", "2", None])):
        value = draw(st.sampled_from(values))
        if value is not None:
            node = node.label(key, value)
    if draw(st.integers(0, 3)) == 0:
        node = node.taint("key", "", draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"])))
    return node.obj()


@st.composite
def templates(draw: st.DrawFn) -> Pod:
    pod = make_pod("template", draw(st.sampled_from(NAMESPACES[:2])))
    pod = draw(with_pod_affinity(pod)) if draw(st.booleans()) else pod.label(app="web")
    if draw(st.booleans()):
        pod = pod.req(cpu=draw(st.sampled_from(["100m", "1"])))
    if draw(st.integers(0, 4)) == 0:
        pod = pod.node_affinity_not_in(draw(st.sampled_from([ZONE, HOSTNAME])), ["a", "n1"])
    if draw(st.integers(0, 3)) == 0:
        pod = pod.preferred_node_affinity(5, ZONE, ["a"])
    if draw(st.integers(0, 3)) == 0:
        pod = pod.toleration("key", "Exists")
    return draw(with_spread(pod.obj())) if draw(st.booleans()) else pod.obj()


class Plan:
    """Draws what happens next, and lets it happen."""

    def __init__(self, data: st.DataObject, lanes: TwoLanes) -> None:
        self.data = data
        self.lanes = lanes
        self.templates = [data.draw(templates()) for _ in range(3)]
        self.there: dict[str, Pod] = {}  # uid -> pod
        self._pods = 0

    def happen(self) -> None:
        events = (self.node, self.node_goes, self.pod_goes, self.pod_terminates, self.foreign, self.others)
        self.data.draw(st.sampled_from((*[self.schedule] * 6, *events)))()

    def new(self, template: Pod, node: str = "") -> Pod:
        self._pods += 1
        name = f"p{self._pods}"
        pod = PodBuilder(replace(template, metadata=replace(template.metadata, name=name))).uid(name)
        if self.data.draw(st.integers(0, 3)) == 0:  # as those of stateful sets have, one each
            pod = pod.label(index=name)
        made = (pod.node(node) if node else pod).obj()
        self.there[name] = made
        return made

    def schedule(self) -> None:
        picked = self.data.draw(st.lists(st.sampled_from(range(len(self.templates))), min_size=1, max_size=6))
        self.lanes.schedule(*[self.new(self.templates[i]) for i in picked])

    def node(self) -> None:
        self.lanes.set_node(self.data.draw(nodes()))

    def node_goes(self) -> None:
        self.lanes.remove_node(f"n{self.data.draw(st.integers(0, NODES - 1))}")

    def _someone(self) -> str | None:
        return self.data.draw(st.sampled_from(sorted(self.lanes.placed))) if self.lanes.placed else None

    def pod_goes(self) -> None:
        uid = self._someone()
        if uid is not None:
            self.lanes.remove_pod(uid)

    def pod_terminates(self) -> None:
        uid = self._someone()
        if uid is not None:
            self.lanes.set_pod(PodBuilder(self.there[uid]).node(self.lanes.placed[uid]).terminating().obj())

    def foreign(self) -> None:
        """Somebody else's pod of any template, perhaps one that nobody here states."""
        node = f"n{self.data.draw(st.integers(0, NODES - 1))}"
        template = self.data.draw(st.sampled_from(self.templates) | templates())
        if self.data.draw(st.integers(0, 2)) == 0:  # which reads a label that others may not have read
            terms = PodBuilder(template).preferred_pod_affinity(30, ZONE, {"tier": "front"})
            template = terms.pod_anti_affinity(HOSTNAME, self.data.draw(st.sampled_from(OF_ONE))).obj()
        pod = self.new(template, node)
        self.lanes.set_pod(pod)
        self.lanes.placed[pod.metadata.uid] = node

    def others(self) -> None:
        draw = self.data.draw
        kind = draw(st.integers(0, 2))
        if kind == 0:
            self.lanes.set_service("s", draw(st.sampled_from([None, {"app": "web"}])))
        elif kind == 1:
            self.lanes.set_namespace(draw(st.sampled_from(NAMESPACES)), draw(st.sampled_from([{"team": "x"}, {}])))
        else:
            self.templates[draw(st.integers(0, len(self.templates) - 1))] = draw(templates())


@pytest.mark.parametrize("config", CONFIGS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_pods_that_look_at_others_go_to_the_same_nodes(config: str, data: st.DataObject) -> None:
    lanes = TwoLanes(config_of(config))
    plan = Plan(data, lanes)
    for _ in range(data.draw(st.integers(2, 8))):
        plan.node()
    for _ in range(data.draw(st.integers(1, 15))):
        plan.happen()


def grid(lanes: TwoLanes, number: int = 12) -> None:
    for i in range(number):
        node = make_node(f"n{i}").label(HOSTNAME, f"n{i}").label(ZONE, f"z{i % 3}")
        lanes.set_node(node.capacity(cpu="8", memory="16Gi", pods=110).obj())


def web(number: int, *stated: TopologySpreadConstraint) -> PodBuilder:
    return PodBuilder(spread(make_pod(f"p{number}").uid(f"p{number}").label(app="web").req(cpu="100m").obj(), *stated))


def over(key: str, when: str, max_skew: int = 1) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(max_skew, key, when, LabelSelector(match_labels={"app": "web"}))


KINDS = {
    "hard spread": lambda i: web(i, over(ZONE, HARD), over(HOSTNAME, HARD)),
    "soft spread": lambda i: web(i, over(ZONE, SOFT), over(HOSTNAME, SOFT, 3)),
    "anti-affinity": lambda i: web(i).pod_anti_affinity(HOSTNAME, {"app": "web"}),
    "affinity, the first one included": lambda i: web(i).pod_affinity(ZONE, {"app": "web"}),
    "preferences": lambda i: (
        web(i).preferred_pod_affinity(9, ZONE, {"app": "web"}).preferred_pod_anti_affinity(50, HOSTNAME, {"app": "web"})
    ),
    "spread and anti-affinity": lambda i: web(i, over(ZONE, HARD)).pod_anti_affinity(HOSTNAME, {"app": "web"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_core_decides_them_and_the_general_lane_agrees(kind: str) -> None:
    lanes = TwoLanes()
    grid(lanes)
    lanes.schedule(*[KINDS[kind](i).obj() for i in range(12)])
    assert lanes.decided_by_lane == 12


def test_a_pod_that_others_shun_is_decided_by_the_core_also_when_they_come_later() -> None:
    lanes = TwoLanes()
    grid(lanes, 3)
    lanes.schedule(web(0).obj(), web(1).obj())
    shunning = make_pod("shy").uid("shy").pod_anti_affinity(ZONE, {"app": "web"})
    lanes.set_pod(shunning.node("n2").obj())
    found = lanes.schedule(*[web(i).obj() for i in range(2, 8)])
    assert {outcome.node for outcome in found} == {"n0", "n1"}
    lanes.remove_pod("shy")
    assert "n2" in {outcome.node for outcome in lanes.schedule(*[web(i).obj() for i in range(8, 14)])}
    assert lanes.decided_by_lane == 14


def test_pods_with_a_label_each_are_of_one_class_until_somebody_reads_it() -> None:
    lanes = TwoLanes()
    grid(lanes)
    lanes.schedule(*[web(i).label(index=f"{i}").pod_anti_affinity(HOSTNAME, {"app": "web"}).obj() for i in range(4)])
    shy = make_pod("shy").uid("shy").pod_anti_affinity(ZONE, {"index": "5"})
    lanes.set_pod(shy.node("n11").obj())
    pods = [web(i).label(index=f"{i}").pod_anti_affinity(HOSTNAME, {"app": "web"}).obj() for i in range(4, 8)]
    found = lanes.schedule(*pods)
    assert [outcome.feasible for outcome in found] == [8, 5, 6, 5]
    assert lanes.decided_by_lane == 8


def test_counters_that_are_given_up_for_room_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_counters, "MAX_BYTES", 0)
    monkeypatch.setattr(pod_counters, "MIN_KEPT", 3)
    monkeypatch.setattr(pod_counters, "MAX_TALLIES", 2)
    lanes = TwoLanes()
    grid(lanes)
    rng = random.Random(3)
    for round_ in range(20):
        pods = []
        for i in range(4):
            app = f"a{rng.randrange(4)}"
            pod = make_pod(f"p{round_}-{i}").uid(f"p{round_}-{i}").label(app=app).req(cpu="10m")
            selector = LabelSelector(match_labels={"app": app})
            stated = [TopologySpreadConstraint(1 + i, key, HARD, selector) for key in (ZONE, HOSTNAME)]
            pods.append(spread(pod.preferred_pod_anti_affinity(5, ZONE, {"app": app}).obj(), *stated))
        lanes.schedule(*pods)
    assert lanes.decided_by_lane == 80


def test_amounts_beyond_what_the_core_can_sum_are_left_to_the_general_lane() -> None:
    lanes = TwoLanes()
    grid(lanes)
    for i in range(3):
        heavy = make_pod(f"w{i}").uid(f"w{i}").preferred_pod_affinity((1 << 31) - 1, ZONE, {"app": "web"})
        lanes.set_pod(heavy.node(f"n{i}").obj())
    lanes.schedule(*[web(i).obj() for i in range(3)])
    assert lanes.decided_by_lane == 0
