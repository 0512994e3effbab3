"""Trimaran's plugins on small clusters, with live metrics of the test's own."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.objects import Pod
from kscheduler.config.load import parse_config
from kscheduler.config.metric_policy import Freshness
from kscheduler.config.trimaran import LoadVariationRiskBalancingArgs, TargetLoadPackingArgs, trimaran_metrics
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.framework.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from kscheduler.framework.plugins.trimaran.pod_use import Prediction, requested
from kscheduler.framework.plugins.trimaran.target_load_packing import TargetLoadPacking
from kscheduler.input.redaction import SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.metricpolicy.telemetry import FakeTelemetry
from tests.support.lanes import TwoLanes

WATCHER = "http://watcher:2020"
PACKING = TargetLoadPackingArgs(watcher_address=SecretURL(WATCHER))
BALANCING = LoadVariationRiskBalancingArgs(watcher_address=SecretURL(WATCHER))
NAMES = trimaran_metrics(PACKING)
METRICS = (NAMES.cpu, NAMES.cpu_deviation, NAMES.memory, NAMES.memory_deviation)


class Bench:
    """Nodes of four cores and eight gibibytes."""

    def __init__(self, nodes: int = 3) -> None:
        self.table = NodeTable()
        self.telemetry = FakeTelemetry(self.table)
        for number in range(nodes):
            self.table.set_node(make_node(f"n{number}").capacity(cpu="4", memory="8Gi").obj())
        self.handle = Handle(table=self.table, rng=random.Random(1), telemetry=self.telemetry)

    def say(self, metric: str, *values: float) -> None:
        self.telemetry.set(metric, {f"n{number}": value for number, value in enumerate(values)})

    def put(self, node: str, pod: Pod) -> None:
        info = self.table.get(node)
        assert info is not None
        self.table.add_pod(info, PodInfo(pod))

    def scores(self, plugin: Any, pod: Pod) -> list[int]:
        """By the table form, which the form by node must agree with."""
        info, state, verdicts, scores = PodInfo(pod), CycleState(), Verdicts(), Scores()
        verdicts.reset(self.table.columns)
        scores.reset(self.table.columns)
        plugin.score_table(state, info, self.table, verdicts, scores)
        found = [scores.raw(node.row) for node in self.table]
        assert found == [plugin.score(state, info, node)[0] for node in self.table]
        return found


def pod(name: str = "p", **amounts: str) -> PodBuilder:
    return make_pod(name).req(**amounts)


def test_packing_counts_the_pod_and_those_that_came_lately() -> None:
    bench = Bench()
    plugin = TargetLoadPacking(bench.handle, PACKING)
    bench.say(NAMES.cpu, 10.0, 10.0, math.nan)
    bench.telemetry.time = 150.0
    assert bench.scores(plugin, pod(cpu="800m").obj()) == [100, 100, 0]  # 10 % and 1.2 of 4 cores
    bench.put("n0", pod("late", cpu="400m").obj())
    assert bench.scores(plugin, pod(cpu="400m").obj()) == [100, 78, 0]
    bench.telemetry.time = 209.0
    bench.say(NAMES.cpu, 10.0, 10.0, math.nan)
    assert bench.scores(plugin, pod(cpu="400m").obj()) == [100, 78, 0], "it may not be in that sample yet"
    bench.telemetry.time = 211.0
    bench.say(NAMES.cpu, 10.0, 10.0, math.nan)
    assert bench.scores(plugin, pod(cpu="400m").obj()) == [78, 78, 0]


def test_packing_counts_pods_that_were_there_at_the_start_by_when_they_came() -> None:
    bench = Bench()
    bench.telemetry.time = 200.0
    bound = pod("late", cpu="400m").condition("PodScheduled", "True", since="1970-01-01T00:02:30Z").node("n0")
    old = pod("old", cpu="400m").condition("PodScheduled", "True").node("n1")
    bench.put("n0", bound.obj())
    bench.put("n1", old.obj())
    plugin = TargetLoadPacking(bench.handle, PACKING)
    bench.say(NAMES.cpu, 10.0, 10.0, math.nan)
    assert bench.scores(plugin, pod(cpu="400m").obj()) == [100, 78, 0]
    bench.telemetry.time = 212.0
    bench.say(NAMES.cpu, 10.0, 10.0, math.nan)
    assert bench.scores(plugin, pod(cpu="400m").obj()) == [78, 78, 0]


def test_a_pod_that_has_gone_is_expected_no_more() -> None:
    bench = Bench(1)
    plugin = TargetLoadPacking(bench.handle, PACKING)
    bench.say(NAMES.cpu, 10.0)
    before = bench.scores(plugin, pod(cpu="400m").obj())
    late = PodInfo(pod("late", cpu="400m").obj())
    node = bench.table.at(0)
    bench.table.add_pod(node, late)
    assert bench.scores(plugin, pod(cpu="400m").obj()) != before
    bench.table.remove_pod(node, late)
    assert bench.scores(plugin, pod(cpu="400m").obj()) == before


def test_a_node_that_has_gone_takes_its_pods_along() -> None:
    bench = Bench(1)
    plugin = TargetLoadPacking(bench.handle, PACKING)
    bench.put("n0", pod("late", cpu="400m").obj())
    bench.table.remove_node("n0")
    bench.table.set_node(make_node("n0").capacity(cpu="4", memory="8Gi").obj())
    bench.say(NAMES.cpu, 10.0)
    assert bench.scores(plugin, pod(cpu="400m").obj()) == [78]


def test_prediction_goes_by_limits_then_by_requests_then_by_the_default() -> None:
    prediction = Prediction(1000, 1.5)
    assert prediction.cpu_milli(pod(cpu="101m").obj()) == 152
    assert prediction.cpu_milli(make_pod("p").obj()) == 1000
    assert prediction.cpu_milli(pod(cpu="100m").overhead(cpu="50m").obj()) == 200


def test_balancing_counts_what_a_pod_requests() -> None:
    bench = Bench()
    plugin = LoadVariationRiskBalancing(bench.handle, BALANCING)
    for metric, values in zip(METRICS, ((50, 0, math.nan), (0, 50, math.nan), (0, 0, 0), (0, 0, 0)), strict=True):
        bench.say(metric, *values)
    assert bench.scores(plugin, pod(cpu="1").obj()) == [63, 63, 100]
    bench.say(NAMES.memory, 90, 0, 0)
    assert bench.scores(plugin, pod(cpu="1").obj()) == [55, 63, 100]
    assert requested(pod(cpu="1", memory="1Gi").obj()) == (1000, 1 << 30)


def test_values_that_are_too_old_are_not_known() -> None:
    bench = Bench(1)
    plugin = LoadVariationRiskBalancing(bench.handle, BALANCING)
    bench.say(NAMES.cpu, 50.0)
    assert bench.scores(plugin, pod(cpu="1").obj()) == [63]
    bench.telemetry.expire(NAMES.cpu)
    assert bench.scores(plugin, pod(cpu="1").obj()) == [0]


# --- lanes ---

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: %s, weight: 5}]}}
  pluginConfig: [{name: %s, args: {watcherAddress: "http://watcher:2020"}}]
"""


@pytest.mark.parametrize("plugin", ["TargetLoadPacking", "LoadVariationRiskBalancing"])
@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_both_lanes_make_the_same_decisions(plugin: str, data: st.DataObject) -> None:
    made: list[FakeTelemetry] = []

    def telemetry(table: NodeTable) -> FakeTelemetry:
        made.append(FakeTelemetry(table))
        return made[-1]

    lanes = TwoLanes(parse_config(CONFIG % (plugin, plugin), find_plugins=known_plugins), telemetry=telemetry)
    number = 0
    for step in range(data.draw(st.integers(1, 6))):
        for name in data.draw(st.lists(st.sampled_from(["n0", "n1", "n2"]), max_size=2)):
            lanes.set_node(make_node(name).capacity(cpu=data.draw(st.sampled_from(["2", "8"])), memory="8Gi").obj())
        values = data.draw(st.dictionaries(st.sampled_from(["n0", "n1", "n2"]), st.floats(0, 100)))
        for each in made:
            each.time += 20.0 * step
            each.set(data.draw(st.just(METRICS[step % 4])), values)
        pods = []
        for _ in range(data.draw(st.integers(1, 4))):
            number += 1
            pods.append(pod(f"p{number}", cpu=data.draw(st.sampled_from(["100m", "1"]))).obj())
        lanes.schedule(*pods)
    if plugin == "TargetLoadPacking":
        assert lanes.decided_by_lane == 0


def test_balanced_pods_are_decided_by_the_compiled_lane() -> None:
    made: list[FakeTelemetry] = []

    def telemetry(table: NodeTable) -> FakeTelemetry:
        made.append(FakeTelemetry(table))
        return made[-1]

    name = "LoadVariationRiskBalancing"
    lanes = TwoLanes(parse_config(CONFIG % (name, name), find_plugins=known_plugins), telemetry=telemetry)
    for number in range(3):
        lanes.set_node(make_node(f"n{number}").capacity(cpu="8", memory="8Gi").obj())
    for each in made:
        each.set(NAMES.cpu, {"n0": 90.0, "n1": 5.0, "n2": 50.0})
    found = lanes.schedule(*(pod(f"p{number}", cpu="100m").obj() for number in range(3)))
    assert [outcome.node for outcome in found] == ["n1"] * 3
    for each in made:
        each.set(NAMES.cpu, {"n1": 95.0, "n2": 1.0})
    assert lanes.schedule(pod("last", cpu="100m").obj())[0].node == "n2"
    assert lanes.decided_by_lane == 4
    assert made[0].column(NAMES.cpu, Freshness()).version > 1
