"""Nominated pods' room by the kernel must be what the filters say node by node, whatever has changed meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.config.load import default_config
from kscheduler.framework.algorithm import Algorithm
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.interface import Plugin
from kscheduler.framework.nominated_pods import NominatedPods, filter_of_requests
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Status
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.framework_bench import Bench

NODES = ("n0", "n1", "n2", "n3")


class Twins(Bench):
    """The default profile, once with the kernel and once without."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked_node_by_node = 0
        self._kernels, self._filters = self._make_default(), self._make_default()
        slow: Any = self._algorithm(self._filters)
        slow._yield_to_nominated = slow._yield_node_by_node
        fast: Any = self._algorithm(self._kernels)
        generic = fast._yield_node_by_node

        def counted(state: CycleState, pod: PodInfo) -> None:
            self.asked_node_by_node += 1
            generic(state, pod)

        fast._yield_node_by_node = counted

    @staticmethod
    def _algorithm(framework: Framework) -> Algorithm:
        return framework.algorithm

    def _make_default(self) -> Framework:
        points: dict[str, list[tuple[Plugin, int]]] = build(default_config().profiles[0], self.handle)
        points.pop("postFilter")
        options: dict[str, Any] = {"observer": Measurements(), "stopwatch": lambda: 0.0, "first_on_tie": True}
        return Framework("default-scheduler", points, self.handle, **options)

    def both(self, pod: PodBuilder) -> tuple[object, object]:
        info = PodInfo(pod.obj())
        return self._reported(self._kernels, info), self._reported(self._filters, info)

    def _reported(self, framework: Framework, pod: PodInfo) -> object:
        found = framework.schedule_pod(CycleState(), pod)
        if isinstance(found, Decision):
            return found, self._algorithm(framework)._verdicts.feasible_rows()
        assert isinstance(found, Rejection)
        statuses: Mapping[str, Status] = dict(found.diagnosis.node_statuses())
        counted = Counter[Status]()
        for status, nodes in found.diagnosis.counted:
            counted[status] += nodes
        return found.message, statuses, found.diagnosis.unschedulable_plugins, counted


def a_pod(source: random.Random, name: str) -> PodBuilder:
    pod = make_pod(name).uid(name).priority(source.randint(0, 2)).label(app=source.choice("ab"))
    asked = {"cpu": str(source.randint(0, 3)), "memory": f"{source.randint(0, 3)}Gi", "x.io/y": "1"}
    for resource in source.sample(sorted(asked), source.randint(0, 3)):
        pod = pod.req(**{resource: asked[resource]})
    if not source.randrange(8):
        pod = pod.host_port(80)
    if not source.randrange(8):
        pod = pod.pod_anti_affinity("kubernetes.io/hostname", {"app": source.choice("ab")})
    return pod


def change(twins: Twins, source: random.Random) -> None:
    node_name, name = source.choice(NODES), f"p{source.randrange(6)}"
    match source.randrange(8):
        case 0:
            twins.cache.remove_node(node_name)
        case 1 | 2:
            node = make_node(node_name).label("kubernetes.io/hostname", node_name)
            node = node.capacity(cpu=str(source.randint(1, 6)), memory=f"{source.randint(1, 6)}Gi")
            node = node.capacity(pods=source.randint(0, 4), **{"x.io/y": source.randint(0, 1)})
            twins.node(node.taint("k", "v", "NoSchedule") if not source.randrange(4) else node)
        case 3:
            twins.cache.remove_pod(name)
        case 4:
            twins.place(a_pod(source, name), node_name)  # where it may be expected as well
        case 5:
            twins.nominations.remove(name)
        case _:
            twins.nominate(a_pod(source, name), node_name)


@given(st.integers(0, 2**32))
@example(406)  # a pod comes again on its node with another priority
def test_the_kernel_says_what_the_filters_say(seed: int) -> None:
    source, twins = random.Random(seed), Twins()
    for _ in range(12):
        for _ in range(source.randint(1, 4)):
            change(twins, source)
        pod = a_pod(source, f"p{source.randrange(8)}")
        if not source.randrange(3):
            pod = pod.nominated_node(source.choice(NODES))
        ours, theirs = twins.both(pod)
        assert ours == theirs


def test_filters_are_asked_node_by_node_only_where_more_than_room_matters() -> None:
    twins = Twins()
    twins.nodes("n0", "n1", cpu="2")
    twins.nominate(make_pod("heir").uid("heir").req(cpu="1"), "n0")
    twins.both(make_pod("p").uid("p").req(cpu="2"))
    assert twins.asked_node_by_node == 0
    for times in (1, 2):
        twins.both(make_pod("p").uid("p").req(cpu="2").host_port(80))
        assert twins.asked_node_by_node == times
    twins.both(make_pod("p").uid("p").req(cpu="2"))
    assert twins.asked_node_by_node == 2


def test_nothing_is_kept_of_a_node_that_is_gone_or_to_which_no_pod_is_nominated_any_more() -> None:
    twins = Twins()
    twins.nodes("n0", "n1", cpu="2")
    nominated = NominatedPods(twins.cache.table, twins.nominations)
    for node_name in ("n0", "n1"):
        twins.nominate(make_pod(f"to-{node_name}").uid(f"to-{node_name}").req(cpu="1"), node_name)
    assert len(nominated.now()) == 2
    twins.nominations.remove("to-n0")
    twins.cache.remove_node("n1")
    assert not nominated.now()
    assert not nominated._nodes  # else a node that is gone would stay in memory, with all its pods


def test_a_room_is_the_only_one_if_no_filter_counts_pods() -> None:
    twins = Twins()
    plugin: Any = object()
    request = twins.cache.table.request_of(PodInfo(make_pod("p").obj()))
    assert filter_of_requests([(plugin, NODE_ALONE)]) == []
    assert filter_of_requests([(plugin, NODE_ALONE), (plugin, Demands(request=request))]) == [(plugin, request)]
    assert filter_of_requests([(plugin, Demands(request=request))] * 2) is None
