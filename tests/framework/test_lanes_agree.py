"""The compiled lane decides as the general lane does: the same nodes, whatever clusters, pods and events come."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Node, Pod
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.lanes import TwoLanes
from tests.support.spreads import with_spread

ZONES = ("a", "b")
EFFECTS = ("NoSchedule", "PreferNoSchedule")
IMAGES = ("app:1", "registry/db:2")
GIB = 1 << 30

CONFIGS = {
    "defaults": "{}",
    "most allocated, hugepages and gpus": """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 3}, {name: example.com/gpu, weight: 5}]
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}, {name: example.com/gpu, weight: 1}]}
""",
    "by ratio, gpus ignored, spread by profile": """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/gpu]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 1}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 2}, {utilization: 70, score: 9}]}
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: []}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}
""",
    "added affinity, and a second profile": """
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 7, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}
- schedulerName: other
  plugins:
    score: {disabled: [{name: NodeResourcesFit}, {name: ImageLocality}]}
    preScore: {disabled: [{name: NodeResourcesFit}]}
    filter: {disabled: [{name: NodeUnschedulable}]}
""",
}

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def config_of(name: str) -> SchedulerConfig:
    text = CONFIGS[name]
    return parse_config(_HEAD + ("" if text == "{}" else text))


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = f"n{draw(st.integers(0, 5))}"
    node = make_node(name).label("kubernetes.io/hostname", name)
    node = node.capacity(
        cpu=draw(st.sampled_from(["2", "16", "64"])),
        memory=draw(st.sampled_from(["4Gi", "32Gi"])),
        pods=draw(st.sampled_from([3, 50, 50])),
        **{"example.com/gpu": draw(st.sampled_from(["0", "2", "8"]))},
    )
    if draw(st.booleans()):
        node = node.label("zone", draw(st.sampled_from(ZONES)))
    if draw(st.integers(0, 3)) == 0:
        node = node.taint("key", "", draw(st.sampled_from(EFFECTS)))
    if draw(st.integers(0, 5)) == 0:
        node = node.unschedulable()
    for image in IMAGES:
        if draw(st.integers(0, 3)) == 0:
            node = node.image(image, draw(st.sampled_from([10, GIB, 2 * GIB])))
    return node.obj()


@st.composite
def looks(draw: st.DrawFn) -> Callable[[str], PodBuilder]:
    """A template of pods: most are plain, as most pods are."""
    changes: list[Callable[[PodBuilder], PodBuilder]] = []

    def sometimes(one_in: int, change: Callable[[PodBuilder], PodBuilder]) -> None:
        if draw(st.integers(1, one_in)) == one_in:
            changes.append(change)

    cpu, memory = draw(st.sampled_from(["100m", "1", "3"])), draw(st.sampled_from(["10Mi", "1Gi"]))
    app, zone = draw(st.sampled_from(["web", "db"])), draw(st.sampled_from(ZONES))
    sometimes(2, lambda pod: pod.req(cpu=cpu, memory=memory))
    sometimes(2, lambda pod: pod.label(app=app))
    sometimes(4, lambda pod: pod.req(**{"example.com/gpu": "1"}))
    sometimes(6, lambda pod: pod.pod_level_req(cpu="2"))
    sometimes(4, lambda pod: pod.node_selector(zone=zone))
    sometimes(5, lambda pod: pod.preferred_node_affinity(5, "zone", [zone]))
    sometimes(9, lambda pod: pod.node_affinity_in("kubernetes.io/hostname", ["n1", "n2"]))
    sometimes(4, lambda pod: pod.toleration("key", "Exists"))
    sometimes(4, lambda pod: pod.toleration(operator="Exists"))
    sometimes(3, lambda pod: pod.image(IMAGES[0] if app == "web" else IMAGES[1]))
    sometimes(9, lambda pod: pod.host_port(80))
    sometimes(9, lambda pod: pod.nominated_node("n1"))
    sometimes(12, lambda pod: pod.pod_affinity("zone", {"app": "web"}))
    sometimes(12, lambda pod: pod.pod_anti_affinity("zone", {"app": "web"}))
    sometimes(12, lambda pod: pod.preferred_pod_anti_affinity(9, "zone", {"app": "db"}))
    priority = draw(st.sampled_from([0, 0, 0, 10]))
    profile = draw(st.sampled_from(["default-scheduler", "default-scheduler", "other"]))

    def make(name: str) -> PodBuilder:
        pod = make_pod(name).uid(name).priority(priority).scheduler_name(profile)
        for change in changes:
            pod = change(pod)
        return pod

    return make


class Plan:
    """Draws what happens next, and lets it happen."""

    def __init__(self, data: st.DataObject, lanes: TwoLanes) -> None:
        self.data = data
        self.lanes = lanes
        self.looks = [data.draw(looks()) for _ in range(3)]
        self._pods = 0
        self._profiles = list(lanes.general.profiles)

    def happen(self) -> None:
        events = (self.node, self.node_goes, self.pod_goes, self.foreign, self.others, self.nomination)
        steps = (self.schedule, self.schedule, self.schedule, self.schedule, *events)
        self.data.draw(st.sampled_from(steps))()

    def schedule(self) -> None:
        picked = self.data.draw(st.lists(st.integers(0, len(self.looks) - 1), min_size=1, max_size=8))
        pods = [self._new(self.looks[i]) for i in picked]
        if self.data.draw(st.integers(0, 9)) == 0:
            pods.append(self.data.draw(with_spread(self._new(self.looks[0]))))
        self.lanes.schedule(*pods)

    def _new(self, make: Callable[[str], PodBuilder]) -> Pod:
        self._pods += 1
        pod = make(f"p{self._pods}")
        if pod.obj().spec.scheduler_name not in self._profiles:
            pod = pod.scheduler_name(self._profiles[0])
        return pod.obj()

    def node(self) -> None:
        self.lanes.set_node(self.data.draw(nodes()))

    def node_goes(self) -> None:
        self.lanes.remove_node(f"n{self.data.draw(st.integers(0, 5))}")

    def pod_goes(self) -> None:
        if self.lanes.placed:
            self.lanes.remove_pod(self.data.draw(st.sampled_from(sorted(self.lanes.placed))))

    def foreign(self) -> None:
        """Somebody else's pod, perhaps with terms that mean ours, perhaps on a node that is not there."""
        self._pods += 1
        pod = make_pod(f"p{self._pods}").uid(f"p{self._pods}").node(f"n{self.data.draw(st.integers(0, 5))}")
        kind = self.data.draw(st.integers(0, 4))
        if kind == 0:
            pod = pod.pod_anti_affinity("zone", {"app": "web"})
        elif kind == 1:
            pod = pod.preferred_pod_affinity(50, "zone", {"app": "db"}, namespace_selector={"team": "x"})
        elif kind == 2:
            pod = pod.pod_affinity("kubernetes.io/hostname", {"app": "db"})
        self.lanes.set_pod(pod.obj())
        self.lanes.placed[pod.obj().metadata.uid] = pod.obj().spec.node_name

    def others(self) -> None:
        draw = self.data.draw
        kind = draw(st.integers(0, 2))
        if kind == 0:
            self.lanes.set_service("s", draw(st.sampled_from([None, {"app": "web"}, {"app": "db"}])))
        elif kind == 1:
            self.lanes.set_namespace("default", draw(st.sampled_from([{"team": "x"}, {}])))
        else:
            self.looks[draw(st.integers(0, len(self.looks) - 1))] = draw(looks())

    def nomination(self) -> None:
        """One comes, or is taken back."""
        uid = self.data.draw(st.sampled_from(["waits", "waits-too"]))
        pod = make_pod(uid).uid(uid).priority(self.data.draw(st.sampled_from([0, 5, 20])))
        pod = pod.req(cpu=self.data.draw(st.sampled_from(["1", "2", "4"])))
        self.lanes.nominate(pod.obj(), self.data.draw(st.sampled_from(["", "", "n0", "n1", "gone"])))


@pytest.mark.parametrize("first_on_tie", [False, True])
@pytest.mark.parametrize("config", CONFIGS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_both_lanes_choose_the_same_nodes(config: str, first_on_tie: bool, data: st.DataObject) -> None:
    lanes = TwoLanes(config_of(config), first_on_tie=first_on_tie)
    plan = Plan(data, lanes)
    for _ in range(data.draw(st.integers(2, 8))):
        plan.node()
    for _ in range(data.draw(st.integers(1, 15))):
        plan.happen()
