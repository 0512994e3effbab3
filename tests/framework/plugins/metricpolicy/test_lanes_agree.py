"""Both lanes make the same decisions for pods under metric policies, whatever comes: values, nodes, pods, policies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Pod
from kscheduler.config.duration import Duration
from kscheduler.config.load import parse_config
from kscheduler.config.metric_policy import FilterRule, PolicySpec, Range, ScoreRule, SelfLoad
from kscheduler.framework.telemetry import POLICY_KEY
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.metricpolicy.strategies import by_node, metrics, number, policies
from tests.framework.plugins.metricpolicy.telemetry import FakeTelemetry
from tests.support.lanes import TwoLanes

pytestmark = pytest.mark.slow

CONFIG = parse_config(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: MetricPolicy, weight: 3}]}}
"""
)
POLICIES = ("red", "blue")

pods = st.tuples(
    st.sampled_from([None, *POLICIES, "missing"]), st.booleans(), st.sampled_from(["100m", "1"]), st.integers(1, 3)
)
steps = st.one_of(
    st.tuples(st.just("values"), metrics, by_node),
    st.tuples(st.just("values"), metrics, by_node),
    st.tuples(st.just("expire"), metrics),
    st.tuples(st.just("fail"), metrics, st.integers(0, 3)),
    st.tuples(st.just("policy"), st.sampled_from(POLICIES), policies),
    st.tuples(st.just("node"), number, st.sampled_from(["2", "4"])),
    st.tuples(st.just("gone"), number),
    st.tuples(st.just("pods"), st.lists(pods, min_size=1, max_size=5)),
    st.tuples(st.just("pods"), st.lists(pods, min_size=1, max_size=5)),
    st.tuples(st.just("remove")),
    st.tuples(st.just("time"), st.sampled_from([0.3, 1.0, 4.0, 60.0])),
)


class World:
    def __init__(self) -> None:
        self.telemetries: list[FakeTelemetry] = []
        self.lanes = TwoLanes(CONFIG, telemetry=self._telemetry)
        self.made = 0
        self.waiting: list[Pod] = []

    def _telemetry(self, table: Any) -> FakeTelemetry:
        self.telemetries.append(FakeTelemetry(table))
        return self.telemetries[-1]

    def step(self, name: str, *reported: Any) -> None:
        getattr(self, name)(*reported)

    def values(self, metric: str, by_node: dict[int, float]) -> None:
        for telemetry in self.telemetries:
            telemetry.set(metric, {f"n{node}": value for node, value in by_node.items()})

    def expire(self, metric: str) -> None:
        for telemetry in self.telemetries:
            telemetry.expire(metric)

    def fail(self, metric: str, times: int) -> None:
        for telemetry in self.telemetries:
            telemetry.fail(metric, times)

    def policy(self, name: str, policy: PolicySpec) -> None:
        for telemetry in self.telemetries:
            telemetry.put(name, policy)

    def node(self, number: int, cpu: str) -> None:
        self.lanes.set_node(make_node(f"n{number}").capacity(cpu=cpu, memory="8Gi", pods=20).obj())

    def gone(self, number: int) -> None:
        if self.lanes.general.cache.table.get(f"n{number}") is not None:
            self.lanes.remove_node(f"n{number}")

    def remove(self) -> None:
        if self.lanes.placed:
            self.lanes.remove_pod(next(iter(self.lanes.placed)))

    def time(self, seconds: float) -> None:
        for telemetry in self.telemetries:
            telemetry.time += seconds

    def pods(self, wanted: list[tuple[str | None, bool, str, int]]) -> None:
        tried = self.waiting
        for policy, by_label, cpu, count in wanted:
            for _ in range(count):
                self.made += 1
                made = make_pod(f"p{self.made}").req(cpu=cpu, memory="100Mi")
                if policy is not None:
                    made = made.label(**{POLICY_KEY: policy}) if by_label else made.annotation(POLICY_KEY, policy)
                tried = [*tried, made.obj()]
        found = self.lanes.schedule(*tried)
        self.waiting = [pod for pod, outcome in zip(tried, found, strict=True) if not outcome.node][-3:]
        assert self.telemetries[0].reported == self.telemetries[1].reported


@settings(max_examples=150, deadline=None)
@given(st.lists(policies, min_size=2, max_size=2), st.lists(steps, max_size=25))
def test_both_lanes_make_the_same_decisions(first: list[PolicySpec], sequence: list[Any]) -> None:
    world = World()
    for name, policy in zip(POLICIES, first, strict=True):
        world.policy(name, policy)
    for index in range(3):
        world.node(index, "4")
    world.values("load", {0: 0.1, 1: 0.5, 2: 0.9})
    world.pods([("red", True, "100m", 3), ("blue", False, "100m", 2)])
    for step in sequence:
        world.step(*step)
    world.pods([("red", False, "100m", 2), (None, True, "1", 1), ("blue", True, "1", 2)])


def test_pods_under_a_policy_are_decided_by_the_compiled_lane() -> None:
    world = World()
    world.policy(
        "red",
        PolicySpec(
            score=(ScoreRule(metric="load", range=Range(), self_load=SelfLoad(resource="cpu")),),
            filter=(FilterRule(metric="load", operator="LessThan", value=0.9),),
        ),
    )
    for index in range(4):
        world.node(index, "4")
    world.values("load", {0: 0.1, 1: 0.5, 2: 0.95, 3: 0.2})
    world.pods([("red", True, "100m", 3)] * 4)
    assert world.lanes.decided_by_lane == 11  # the first made the policy known
    world.values("load", {0: 0.8, 3: 0.0})
    world.pods([("red", True, "100m", 3)])
    assert world.lanes.decided_by_lane == 14
    assert "n2" not in world.lanes.placed.values()


def test_a_pod_past_its_deadline_goes_by_the_fallbacks_though_values_have_come() -> None:
    world = World()
    rule = FilterRule(metric="power", operator="LessThan", value="500m", fallback="Requeue")
    world.policy("blue", PolicySpec(filter=(rule,), decision_deadline=Duration.of_seconds(3)))
    world.node(0, "2")
    world.node(1, "4")
    world.pods([("blue", True, "100m", 2)])
    assert len(world.waiting) == 2
    world.values("power", {0: 0.1})
    world.time(4.0)
    world.pods([])
    assert not world.waiting
    assert "n1" in world.lanes.placed.values()  # which has no value: the rule is neutral by now
