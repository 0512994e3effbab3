"""The report says what happened, the same way for the same seed, as text and as JSON."""

from __future__ import annotations

import re

import msgspec
import pytest

from kscheduler._fast import UseOverTime
from kscheduler.simulator.accounting import Moment, NodeRow
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.fragmentation import fragmentation
from kscheduler.simulator.report import build_report, kind_of, to_json
from kscheduler.simulator.report_history import Preempted
from kscheduler.simulator.report_text import to_text
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.statistics import deviation, distribution, percentile
from kscheduler.simulator.timeline import Sample, Timeline
from kscheduler.simulator.units import amount, percent, seconds
from kscheduler.simulator.workload import default_workload, generate
from tests.simulator.first_fit import FirstFit, make_node
from tests.simulator.objects import pod
from tests.simulator.reports import report_of, small


def test_pods_are_counted_by_what_became_of_them() -> None:
    pods = small().pods
    assert (pods.total, pods.placed, pods.unplaced, pods.left_unplaced) == (4, 2, 1, 1)
    assert (pods.finished, pods.running) == (1, 1)


def test_every_pod_without_a_node_has_its_reason() -> None:
    report = small()
    assert [(each.pod, each.left_s) for each in report.unplaced] == [("default/big", None), ("default/hasty", 40.0)]
    [reason] = report.reasons
    assert (reason.kind, reason.pods, reason.still_waiting) == ("too full", 2, 1)
    assert reason.sample == report.unplaced[0].message == "0/2 nodes are available: 2 too full."
    assert reason.examples == ["default/big", "default/hasty"]


def test_resources_have_their_average_peak_and_final_use() -> None:
    cpu = small().resources[0]
    assert (cpu.name, cpu.capacity, cpu.unit) == ("cpu", 8.0, "cores")
    assert (cpu.peak, cpu.final) == (3 / 8, 1 / 8)
    assert cpu.average == pytest.approx((10 * 2 + 90 * 3) / (8 * 100))
    assert cpu.balance_busiest.mean == pytest.approx(3 / 8)
    assert cpu.balance_busiest.variation == pytest.approx(1.0)  # 75 % and 0 %


def test_nodes_priorities_and_series_agree_with_the_story() -> None:
    report = small()
    assert (report.nodes.total, report.nodes.never_used, report.nodes.empty_at_end) == (2, 1, 1)
    assert [(each.priority, each.pods, each.placed) for each in report.priorities] == [(7, 1, 1), (0, 3, 1)]
    assert report.series.time_s == sorted(report.series.time_s)
    assert report.series.pending[-1] == 1
    assert max(report.series.used["cpu"]) == 3 / 8
    assert report.node_utilisation.names == ["n0", "n1"]
    assert report.node_utilisation.busiest[0] == [0.75, 0.0]


def test_latency_is_from_creation_to_binding_in_virtual_time() -> None:
    scenario = Scenario([make_node("n0", cpu="4")], [Arrival(float(index), pod(f"p{index}")) for index in range(4)])
    latency = report_of(scenario, latency=Latency(bind_s=0.5)).latency
    assert (latency.count, latency.p50_s, latency.max_s) == (4, 0.25, 0.25)
    assert latency.distribution == [(0.25, 1.0)]


def test_the_same_seed_gives_the_same_report_byte_for_byte() -> None:
    def once(seed: int) -> bytes:
        scenario = generate(default_workload(nodes=6, pods=120, arrival="poisson:5", duration="exp:60", seed=seed))
        outcome = simulate_scenario(
            scenario, FirstFit, RunSettings(seed=seed, latency=Latency(bind_s=0.01, jitter=0.5))
        )
        return to_json(build_report(scenario, outcome, {}))

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_an_empty_run_is_a_report_too() -> None:
    report = report_of(Scenario([make_node("n0", cpu="4")], []))
    assert report.pods.total == 0
    assert "placed 0 of 0 pods" in to_text(report)


def test_the_text_names_the_main_figures() -> None:
    text = to_text(small())
    assert "placed 2 of 4 pods (50.00 %)" in text
    assert "1 still waits for a node" in text
    assert re.search(r"cpu +8 cores +36.3 % +37.5 % +12.5 %", text)
    assert "2  too full  (e.g. default/big)" in text


def test_violations_stand_first_in_the_text() -> None:
    scenario = Scenario([make_node("n0", cpu="1")], [Arrival(0.0, pod("a")), Arrival(1.0, pod("b"))])
    outcome = simulate_scenario(scenario, lambda *parts: FirstFit(*parts, overcommit=True), RunSettings())
    report = build_report(scenario, outcome, {})
    assert to_text(report).startswith("INVARIANT VIOLATED: at 1 s: node n0 holds 2000 of cpu, has 1000")


def test_messages_that_differ_in_counts_alone_are_one_kind() -> None:
    first = "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    other = "0/9 nodes are available: 1 node(s) had untolerated taint(s), 8 Insufficient cpu. preemption: 0/9 nodes."
    assert kind_of(first) == kind_of(other) == "Insufficient cpu; node(s) had untolerated taint(s)"
    for claims in ("no new claims to deallocate, preemption: 0/12 nodes.", "still not schedulable"):
        assert kind_of(f"{first} {claims}") == kind_of(first)
    assert kind_of("0/9 nodes are available: no idea.") == "0/9 nodes are available: no idea."
    assert kind_of("Scheduling is blocked") == "Scheduling is blocked"


# --- arithmetic ---------------------------------------------------------------------------------------------------


def test_fragmentation_is_the_free_share_where_typical_pods_do_not_fit() -> None:
    # Free: 2 cores on n0, 6 on n1. Three of four pods ask for 1, one asks for 4: it cannot use the 2 on n0.
    rows = [NodeRow("n0", [4, 10], UseOverTime(2, 0.0)), NodeRow("n1", [8, 10], UseOverTime(2, 0.0))]
    moment = Moment(0.0, [[2, 0], [2, 0]], [1, 1])
    shapes = [((("cpu", 1), ("pods", 1)), 3), ((("cpu", 4), ("pods", 1)), 1)]
    assert fragmentation("cpu", shapes, ["cpu", "pods"], rows, moment) == pytest.approx(0.25 * 2 / 8)
    full = Moment(0.0, [[4, 0], [8, 0]], [1, 1])
    assert fragmentation("cpu", shapes, ["cpu", "pods"], rows, full) is None


def test_percentiles_are_nearest_ranks() -> None:
    ordered = [float(value) for value in range(1, 21)]
    assert [percentile(ordered, share) for share in (0.5, 0.95, 0.99, 1.0)] == [10.0, 19.0, 20.0, 20.0]
    assert percentile([], 0.5) == 0.0
    assert deviation([2.0, 4.0]) == 1.0
    assert distribution([1.0, 1.0, 1.0, 2.0]) == [(1.0, 0.75), (2.0, 1.0)]


def test_a_burst_leaves_samples_for_the_quiet_hours_after_it() -> None:
    timeline = Timeline(max_samples=100)
    bursts = [index * 0.02 for index in range(80)]
    for at_s in [*bursts, *(float(hour * 3600) for hour in range(1, 60))]:
        if timeline.is_due(at_s):
            timeline.add(at_s, Sample(at_s, 0, 0, (), ()))
    times = [sample.at_s for sample in timeline.samples]
    assert [at_s for at_s in times if at_s >= 3600] == [hour * 3600.0 for hour in range(1, 60)]


def test_a_moment_before_quiet_days_does_not_stand_for_them() -> None:
    timeline = Timeline(max_samples=100)
    since_s, pending = 0.0, 1
    for day in range(60):  # each day a pod comes, and is bound a moment later
        for at_s, after in ((day * 86_400.0, 1), (day * 86_400.0 + 0.02, 0)):
            if timeline.is_due(at_s):
                timeline.add(at_s, Sample(since_s, pending, 0, (), ()))
            since_s, pending = at_s, after
    assert timeline.interval_s > 0.02
    assert {sample.pending for sample in timeline.samples} == {0}


def test_a_long_timeline_keeps_its_bound_and_its_ends() -> None:
    timeline = Timeline(max_samples=100)
    for step in range(10_000):
        if timeline.is_due(float(step)):
            timeline.add(float(step), Sample(float(step), step, 0, (), ()))
    timeline.close(Sample(10_000.0, 0, 0, (), ()))
    times = [sample.at_s for sample in timeline.samples]
    assert len(times) <= 101
    assert (times[0], times[-1]) == (0.0, 10_000.0)
    assert times == sorted(times)


def test_figures_are_written_for_people() -> None:
    assert [seconds(value) for value in (0.0, 0.0025, 1.95, 3600.0, 12_901_761.0)] == [
        "0 s",
        "2.5 ms",
        "1.95 s",
        "1 h",
        "149 d",
    ]
    assert amount(686 * 2**40, "bytes") == "686 TiB"
    assert amount(1023 * 2**30, "bytes") == "1,020 GiB"
    assert amount(150_880, "cores") == "150,880 cores"
    assert percent(0.4711) == "47.1 %"


def test_the_text_of_a_gangs_reason_reaches_what_its_pod_lacks() -> None:
    lacks = (
        "0/12 nodes are available: 12 Insufficient nvidia.com/gpu. preemption: its queue may not take room of others."
    )
    message = f"gang default/big needs nodes for 64 pods at once, and 48 would have one: pod big-48: {lacks}"
    report = report_of(Scenario([make_node("n0", cpu="4")], [Arrival(0.0, pod("p0", "9"))]))
    [reason] = report.reasons
    text = to_text(msgspec.structs.replace(report, reasons=[msgspec.structs.replace(reason, kind=message)]))
    assert "48 would have one: pod big-48: 12 Insufficient nvidia.com/gpu. preemption" in text


def test_pods_that_were_preempted_have_not_finished() -> None:
    arrivals = [Arrival(float(number), pod(f"p{number}", "1"), runs_s=5.0) for number in range(3)]
    report = report_of(Scenario([make_node("n0", cpu="4")], arrivals))
    assert "\n3 finished, 0 are on nodes at the end\n" in to_text(report)
    victims = [Preempted(f"default/p{number}", 0, "n0", 0.0, 5.0, "") for number in range(3)]
    text = to_text(msgspec.structs.replace(report, preempted=victims[:1]))
    assert "\n2 finished, 1 preempted, 0 are on nodes at the end\n" in text
    text = to_text(msgspec.structs.replace(report, preempted=victims))
    assert "\n3 preempted, 0 are on nodes at the end\n" in text
