"""The plugin by itself: what it says of pods and nodes, in all its forms, and what it asks others for."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler._fast import Scores, Verdicts
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import (
    Deviation,
    FilterRule,
    PlanB,
    PolicySpec,
    Range,
    Relaxation,
    ScoreRule,
    SelfLoad,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE
from kscheduler.framework.interface import Handle
from kscheduler.framework.node_values import NodeValue
from kscheduler.framework.plugins.metricpolicy import rule_sets
from kscheduler.framework.plugins.metricpolicy.plugin import NAME, MetricPolicy
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.framework.telemetry import POLICY_KEY
from kscheduler.snapshot.node_copy import NodeCopy
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.metricpolicy.strategies import by_node, metrics, policies
from tests.framework.plugins.metricpolicy.telemetry import FakeTelemetry

BELOW_HALF = FilterRule(metric="load", operator="LessThan", value="500m")
BALANCE = ScoreRule(metric="load", range=Range(), self_load=SelfLoad(resource="cpu"))


class Bench:
    """Nodes of ten cores, under the policy `p` by default."""

    def __init__(self, policy: PolicySpec | None = None, nodes: int = 3) -> None:
        self.table = NodeTable()
        self.telemetry = FakeTelemetry(self.table)
        self.retries: list[tuple[str, float]] = []
        for number in range(nodes):
            self.table.set_node(make_node(f"n{number}").capacity(cpu="10", memory="10Gi").obj())
        handle = Handle(
            table=self.table,
            rng=random.Random(1),
            telemetry=self.telemetry,
            retry=lambda pod, seconds: self.retries.append((pod.key, seconds)),
        )
        self.plugin = MetricPolicy(handle)
        if policy is not None:
            self.telemetry.put("p", policy)
            self.telemetry.default = "p"

    def say(self, *values: float, metric: str = "load") -> None:
        self.telemetry.set(metric, {f"n{number}": value for number, value in enumerate(values)})

    def put(self, node: str, name: str, cpu: str) -> None:
        info = self.table.get(node)
        assert info is not None
        self.table.add_pod(info, PodInfo(make_pod(name).req(cpu=cpu).obj()))

    def cycle(self, pod: PodInfo | None = None) -> tuple[CycleState, PodInfo, Status | None]:
        state, pod = CycleState(), pod or PodInfo(make_pod("x").req(cpu="1").obj())
        _, status = self.plugin.pre_filter(state, pod)
        return state, pod, status

    def judge(self, state: CycleState, pod: PodInfo) -> list[str | int]:
        """By node: why not, or how many points. All forms must say the same."""
        table, verdicts, scores = self.table, Verdicts(), Scores()
        verdicts.reset(table.columns)
        scores.reset(table.columns)
        self.plugin.score_table(state, pod, table, verdicts, scores)
        self.plugin.filter_table(state, pod, table, verdicts, 3)
        found: list[str | int] = []
        for node in table:
            status = self.plugin.filter(state, pod, node)
            points, _ = self.plugin.score(state, pod, node)
            assert points == scores.raw(node.row)
            assert (status is None) == (verdicts.code(node.row) == 0)
            if status is not None:
                assert status == self.plugin.explain(state, pod, verdicts.detail(node.row))
            found.append(points if status is None else status.message)
        return found

    def statuses(self, state: CycleState, pod: PodInfo, **others: Status) -> dict[str, Status]:
        """Of a cycle in which no node was left."""
        found = {node.name: self.plugin.filter(state, pod, node) for node in self.table}
        return {name: (status or others[name]).of(NAME) for name, status in found.items()}

    def post_filter(self, state: CycleState, pod: PodInfo, **others: Status) -> Code:
        _, status = self.plugin.post_filter(state, pod, self.statuses(state, pod, **others))
        assert status is not None
        return status.code


# --- filter and score ---


def test_pods_without_a_policy_are_passed_over() -> None:
    bench = Bench()
    state, pod, status = bench.cycle()
    assert status == SKIP
    assert bench.plugin.pre_score(state, pod) == SKIP


def test_a_policy_that_is_not_there_keeps_its_pods_waiting_and_says_its_name() -> None:
    bench = Bench()
    _, _, status = bench.cycle(PodInfo(make_pod("x").label(**{POLICY_KEY: "gone"}).obj()))
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == 'there is no policy "gone"'


def test_nodes_are_left_out_and_scored_by_their_values() -> None:
    bench = Bench(PolicySpec(filter=(BELOW_HALF,), score=(BALANCE,)))
    bench.say(0.1, 0.75, math.nan)
    state, pod, status = bench.cycle()
    assert status is None
    assert bench.judge(state, pod) == [90, "node(s) didn't satisfy metric rule load < 500m", 50]
    assert bench.telemetry.counted == {"neutral": 1}


def test_a_policy_that_only_scores_skips_the_filter_and_the_other_way_round() -> None:
    scoring, filtering = Bench(PolicySpec(score=(BALANCE,))), Bench(PolicySpec(filter=(BELOW_HALF,)))
    state, pod, status = scoring.cycle()
    assert (status, scoring.plugin.pre_score(state, pod)) == (SKIP, None)
    state, pod, status = filtering.cycle()
    assert (status, filtering.plugin.pre_score(state, pod)) == (None, SKIP)


def test_pods_placed_since_the_sample_count_until_a_sample_knows_of_them() -> None:
    bench = Bench(PolicySpec(score=(BALANCE,)))
    bench.say(0.1, 0.1, 0.1)
    state, pod, _ = bench.cycle()
    bench.put("n1", "there", "4")
    assert bench.judge(state, pod) == [90, 50, 90]
    bench.telemetry.time += 15.0
    bench.say(0.1, 0.4, 0.1)
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [90, 60, 90]


def test_what_if_pods_were_gone_their_use_would_be() -> None:
    bench = Bench(PolicySpec(filter=(FilterRule(**{**_fields(BELOW_HALF), "self_load": SelfLoad(resource="cpu")}),)), 1)
    bench.say(0.2)
    bench.cycle()
    bench.put("n0", "there", "4")
    state, pod, _ = bench.cycle()
    node = bench.table.at(0)
    assert bench.plugin.filter(state, pod, node) is not None
    imagined = NodeCopy(node, bench.table.request_of)
    imagined.remove(node.pods["uid-default-there"])
    assert bench.plugin.filter(state, pod, imagined) is None
    assert bench.plugin.demands(state, pod) is None


def test_rules_that_no_pod_changes_are_a_matter_of_the_node_alone() -> None:
    bench = Bench(PolicySpec(filter=(BELOW_HALF,)))
    state, pod, _ = bench.cycle()
    assert bench.plugin.demands(state, pod) is NODE_ALONE


def test_the_last_good_value_counts_where_the_rule_says_so() -> None:
    last_good = ScoreRule(**{**_fields(BALANCE), "fallback": "LastGood"})
    bench = Bench(PolicySpec(score=(BALANCE, last_good)), 1)
    bench.say(0.0)
    bench.telemetry.expire("load")
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [75]


def test_where_there_never_was_a_value_the_last_good_one_is_neutral() -> None:
    """Else no pod would be placed after a restart beside a source that is down."""
    bench = Bench(PolicySpec(filter=(FilterRule(**{**_fields(BELOW_HALF), "fallback": "LastGood"}),)), 2)
    state, pod, status = bench.cycle()
    assert status is None
    assert bench.judge(state, pod) == [0, 0]
    assert bench.telemetry.counted == {"last-good": 1}
    bench.say(0.9)
    bench.telemetry.expire("load")
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == ["node(s) didn't satisfy metric rule load < 500m", 0]


def test_a_metric_that_nobody_knows_is_absent_everywhere() -> None:
    bench = Bench(PolicySpec(score=(BALANCE,)), 1)
    bench.telemetry.known = set()
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [50]


def test_a_changed_policy_counts_from_the_next_cycle_on() -> None:
    bench = Bench(PolicySpec(score=(BALANCE,)), 1)
    bench.say(0.0)
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [100]
    bench.telemetry.put("p", PolicySpec(score=(ScoreRule(metric="load", goal="Maximize", range=Range()),)))
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [0]


def test_of_many_policies_those_in_use_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_sets, "MAX_SETS", 3)
    bench = Bench(nodes=1)
    bench.say(0.0)
    for number in range(10):
        bench.telemetry.policies[f"p{number}"] = PolicySpec(score=(BALANCE,))
    bench.put("n0", "there", "1")
    for number in range(40):
        bench.telemetry.default = f"p{number * 3 % 10 if number % 2 else 0}"
        state, pod, _ = bench.cycle()
        assert bench.judge(state, pod) == [90], "no sample knows of the pod, whenever its policy was asked for first"
        assert len(bench.plugin._sets._sets) <= 3


def test_a_resource_that_nobody_has_is_no_load_until_somebody_has_it() -> None:
    gpus = ScoreRule(metric="load", range=Range(), self_load=SelfLoad(resource="example.com/gpu"))
    bench = Bench(PolicySpec(score=(gpus,)), 1)
    bench.say(0.1)
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [90]
    assert bench.table.resources.find("example.com/gpu") is None, "a column would cost every node memory"
    bench.table.set_node(make_node("n0").capacity(cpu="10", memory="10Gi", **{"example.com/gpu": "10"}).obj())
    bench.cycle()
    node = bench.table.at(0)
    bench.table.add_pod(node, PodInfo(make_pod("there").req(**{"example.com/gpu": "4"}).obj()))
    state, pod, _ = bench.cycle()
    assert bench.judge(state, pod) == [50]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    policies,
    st.dictionaries(metrics, by_node),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["1", "5"])), max_size=4),
)
def test_all_forms_say_the_same(policy: PolicySpec, values: Any, placed: Any) -> None:
    bench = Bench(policy)
    for metric, found in values.items():
        bench.telemetry.set(metric, {f"n{number}": value for number, value in found.items()})
    state, pod, _ = bench.cycle()
    for number, (node, cpu) in enumerate(placed):
        bench.put(f"n{node}", f"p{number}", cpu)
    bench.judge(state, pod)


# --- for people ---


def test_the_values_that_rules_went_by_are_returned_for_a_node() -> None:
    risk = ScoreRule(metric="load", goal="LowRisk", range=Range(), deviation=Deviation("spread"))
    bench = Bench(PolicySpec(filter=(BELOW_HALF,), score=(BALANCE, risk)), 2)
    bench.say(0.1, 0.4)
    bench.say(0.05, metric="spread")
    bench.telemetry.time += 5.0
    bench.put("n0", "there", "4")
    state, pod, _ = bench.cycle()
    found = [bench.plugin.values_of(state, pod, node) for node in bench.table]
    assert found == [
        [
            NodeValue("load", 0.1, 0.1, 0.1, 0.1, 0.0, 5.0),
            NodeValue("load", 0.5, 0.1, 0.1, 0.1, 0.4, 5.0),
            NodeValue("spread", 0.05, 0.05, 0.05, 0.05, 0.0, 5.0),
        ],
        [
            NodeValue("load", 0.4, 0.4, 0.4, 0.4, 0.0, 5.0),
            NodeValue("load", 0.4, 0.4, 0.4, 0.4, 0.0, 5.0),
            NodeValue("spread", None, None, None, None, 0.0, None),
        ],
    ]
    bench.telemetry.expire("load")
    state, pod, _ = bench.cycle()
    assert bench.plugin.values_of(state, pod, bench.table.at(0))[0] == NodeValue("load", None, 0.1, 0.1, 0.1, 0.0, 5.0)
    bench.telemetry.default = ""
    state, pod, _ = bench.cycle()
    assert bench.plugin.values_of(state, pod, bench.table.at(0)) == []


# --- waiting ---


def test_pods_wait_while_no_node_has_a_value_and_are_tried_again_at_their_deadline() -> None:
    rule = FilterRule(**{**_fields(BELOW_HALF), "fallback": "Requeue"})
    bench = Bench(PolicySpec(filter=(rule,), decision_deadline=Duration.of_seconds(30)))
    state, pod, status = bench.cycle()
    assert status is not None
    assert status.message == "no node had a fresh value of metric load"
    assert bench.plugin.post_filter(state, pod, {})[1] == Status(Code.SUCCESS)
    assert bench.retries == [("default/x", 30.0)]
    bench.telemetry.time += 20.0
    bench.cycle(pod)
    assert bench.retries[-1] == ("default/x", 10.0)
    bench.telemetry.time += 10.0
    state, pod, status = bench.cycle(pod)
    assert status is None
    assert bench.judge(state, pod) == [0, 0, 0]
    assert [reason for _, reason, _ in bench.telemetry.reported] == ["MetricPolicyDeadline"]
    assert bench.telemetry.counted["deadline"] == 1
    assert bench.plugin.sign_pod(pod) is None, "it is judged otherwise than pods that look like it"


def test_one_value_is_enough_and_nodes_without_are_left_out() -> None:
    rule = FilterRule(**{**_fields(BELOW_HALF), "fallback": "Requeue"})
    bench = Bench(PolicySpec(filter=(rule,)))
    bench.say(math.nan, 0.2)
    state, pod, status = bench.cycle()
    assert status is None
    missing = "node(s) had no fresh value of metric load"
    assert bench.judge(state, pod) == [missing, 0, missing]


# --- relaxation ---


def relaxed(*after: float) -> PolicySpec:
    """The last step drops all rules, those before it those on other metrics."""
    steps = [Relaxation(after=Duration.of_seconds(seconds), drop=("heat",)) for seconds in after[:-1]]
    steps.append(Relaxation(after=Duration.of_seconds(after[-1]), drop_all=True))
    heat = FilterRule(metric="heat", operator="LessThan", value=100)
    return PolicySpec(filter=(BELOW_HALF, heat), relaxation=tuple(steps))


def test_the_first_step_that_helps_is_taken_in_its_time() -> None:
    bench = Bench(relaxed(5.0, 10.0), 1)
    bench.say(0.9)
    state, pod, _ = bench.cycle()
    assert bench.post_filter(state, pod) is Code.SUCCESS
    assert bench.retries == [("default/x", 10.0)], "the one after five seconds would not help"
    assert not bench.telemetry.reported
    bench.telemetry.time += 10.0
    state, pod, _ = bench.cycle(pod)
    assert bench.post_filter(state, pod) is Code.SUCCESS
    assert bench.retries[-1] == ("default/x", 0.0)
    assert bench.telemetry.reported == [
        ("default/x", "MetricPolicyRelaxed", "Metric policy p: relaxation step 2 is taken")
    ]
    assert bench.telemetry.counted["relaxed:2"] == 1
    state, pod, status = bench.cycle(pod)
    assert status == SKIP


def test_where_others_left_the_nodes_out_preemption_goes_on() -> None:
    bench = Bench(relaxed(5.0), 1)
    bench.say(0.1)
    state, pod, _ = bench.cycle()
    assert (
        bench.post_filter(state, pod, n0=Status(Code.UNSCHEDULABLE, ("Insufficient cpu",), "Fit")) is Code.UNSCHEDULABLE
    )
    assert not bench.retries


def test_without_steps_preemption_goes_on() -> None:
    bench = Bench(PolicySpec(filter=(BELOW_HALF,)), 1)
    bench.say(0.9)
    state, pod, _ = bench.cycle()
    assert bench.post_filter(state, pod) is Code.UNSCHEDULABLE


def test_a_policy_of_another_name_begins_without_relaxation() -> None:
    bench = Bench(relaxed(0.0), 1)
    bench.say(0.9)
    state, pod, _ = bench.cycle()
    bench.post_filter(state, pod)
    bench.telemetry.put("q", relaxed(0.0))
    bench.telemetry.default = "q"
    assert bench.cycle(pod)[2] is None


# --- a new leader ---

REJECTED = "0/1 nodes are available: 1 node(s) didn't satisfy metric rule load < 500m."
AWAITED = "0/1 nodes are available: no node had a fresh value of metric load."


def rejected(message: str, since: str = "1970-01-01T00:01:20Z", reason: str = "Unschedulable") -> PodInfo:
    """By another replica, 20 s before the telemetry's time by default."""
    return PodInfo(make_pod("x").req(cpu="1").condition("PodScheduled", "False", reason, message, since=since).obj())


def test_a_pod_that_another_replica_rejected_takes_a_step_when_it_has_waited_that_long_in_all() -> None:
    bench = Bench(relaxed(30.0), 1)
    bench.say(0.9)
    state, pod, _ = bench.cycle(rejected(REJECTED))
    assert bench.post_filter(state, pod) is Code.SUCCESS
    assert bench.retries == [("default/x", 10.0)]
    bench.telemetry.time += 10.0
    state, pod, _ = bench.cycle(pod)
    assert bench.post_filter(state, pod) is Code.SUCCESS
    assert bench.telemetry.counted["relaxed:1"] == 1


def test_a_pod_that_another_replica_let_wait_for_metrics_waits_up_to_its_deadline_in_all() -> None:
    rule = FilterRule(**{**_fields(BELOW_HALF), "fallback": "Requeue"})
    bench = Bench(PolicySpec(filter=(rule,), decision_deadline=Duration.of_seconds(30)))
    _, pod, status = bench.cycle(rejected(AWAITED))
    assert status is not None
    assert bench.retries == [("default/x", 10.0)]
    assert bench.cycle(rejected(AWAITED, since="1970-01-01T00:01:05Z"))[2] is not None, "it is known by now"
    bench.telemetry.time += 10.0
    assert bench.cycle(pod)[2] is None


def test_a_deadline_that_passed_before_the_replica_led_is_over() -> None:
    rule = FilterRule(**{**_fields(BELOW_HALF), "fallback": "Requeue"})
    bench = Bench(PolicySpec(filter=(rule,), decision_deadline=Duration.of_seconds(10)))
    assert bench.cycle(rejected(AWAITED))[2] is None
    assert [reason for _, reason, _ in bench.telemetry.reported] == ["MetricPolicyDeadline"]


@pytest.mark.parametrize(
    "pod",
    [
        rejected("0/1 nodes are available: 1 Insufficient cpu."),
        rejected("Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated"),
        rejected(REJECTED, since="2030-01-01T00:00:00Z"),
        rejected(REJECTED, since="once"),
    ],
    ids=["other plugins", "gates", "a clock ahead", "no time"],
)
def test_what_a_pod_waited_for_others_is_no_time_of_the_policy(pod: PodInfo) -> None:
    bench = Bench(relaxed(30.0), 1)
    bench.say(0.9)
    state, pod, _ = bench.cycle(pod)
    assert bench.post_filter(state, pod) is Code.SUCCESS
    assert bench.retries == [("default/x", 30.0)]


# --- plan B ---


def test_plan_b_begins_with_so_many_failures_and_ends_with_an_answer() -> None:
    bench = Bench(PolicySpec(filter=(BELOW_HALF,), plan_b=PlanB(after_failures=3)))
    bench.telemetry.fail("load", 2)
    assert bench.cycle()[2] is None
    bench.telemetry.fail("load", 3)
    assert bench.cycle()[2] == SKIP
    bench.telemetry.fail("load", 0)
    assert bench.cycle()[2] is None


def test_plan_b_may_hand_pods_over() -> None:
    plan = PlanB(after_failures=1, action="Profile", profile="other")
    bench = Bench(PolicySpec(filter=(BELOW_HALF,), plan_b=plan))
    pod = PodInfo(make_pod("x").obj())
    assert bench.plugin.hand_over(pod) == ""
    bench.telemetry.fail("load", 1)
    assert bench.plugin.hand_over(pod) == "other"
    assert bench.plugin.hand_over(PodInfo(make_pod("x").label(**{POLICY_KEY: "gone"}).obj())) == ""


def _fields(rule: Any) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in rule.__struct_fields__}


def test_a_range_that_fits_no_value_is_logged_once_and_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(PolicySpec(score=(ScoreRule(metric="load", range=Range(min=0, max=1)),)))
    for values in ((40, 70, 55), (41, 70, 55), (0.4, 70, 0.2), (30, 20, 10)):
        bench.say(*values)
        bench.cycle()
    reported = [record for record in caplog.records if "its range contains no value" in record.message]
    assert [vars(record)["why"] for record in reported] == [
        "values from 40 to 70, range from 0 to 1",
        "values from 10 to 30, range from 0 to 1",
    ]
    assert {vars(record)["metric"] for record in reported} == {"load"}
