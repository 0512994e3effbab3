"""The figures of a report add up, whatever pods and nodes come and go: none is lost, and no time is before another."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.load import default_config
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report import Report, build_report, to_json
from kscheduler.simulator.run import Outcome, RunSettings, simulate_scenario
from tests.simulator.changing_clusters import scenario

LATENCIES = (Latency(), Latency(bind_s=0.005, write_s=0.005), Latency(watch_s=0.02, bind_s=0.3, write_s=1.5))


def played(seed: int) -> tuple[Outcome, Report]:
    made = scenario(seed)
    outcome = simulate_scenario(
        made,
        real_scheduler(default_config(), Options()),
        RunSettings(seed=seed, latency=LATENCIES[seed % 3], max_time_s=60.0 if seed % 5 == 0 else None),
    )
    return outcome, build_report(made, outcome, {})


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_no_pod_is_lost_between_the_figures(seed: int) -> None:
    outcome, report = played(seed)
    pods = report.pods
    assert pods.total == pods.existing + pods.placed + pods.unplaced + pods.left_unplaced
    assert pods.placed + pods.existing == pods.finished + pods.running
    assert (pods.unplaced, pods.running) == (outcome.accounting.pending, outcome.accounting.running)
    assert report.latency.count == pods.placed
    assert sum(each.pods for each in report.priorities) == pods.total
    assert sum(each.pods for each in report.reasons) == pods.unplaced + pods.left_unplaced
    assert report.flow is not None
    created, bound, left = (sum(counts) for counts in (report.flow.created, report.flow.bound, report.flow.left))
    assert (created, bound, left) == (pods.total - pods.existing, pods.placed, pods.finished)
    assert report.violations == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_times_follow_each_other_and_the_average_is_below_the_peak(seed: int) -> None:
    outcome, report = played(seed)
    for record in outcome.accounting.records.values():
        times = [time for time in (record.created_s, record.bound_s, record.left_s) if time is not None]
        assert times == sorted(times)
    for each in report.resources:
        assert 0.0 <= each.average <= each.peak + 1e-9
        assert each.final <= each.peak + 1e-9


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_what_is_in_use_at_the_end_is_what_the_pods_there_request(seed: int) -> None:
    outcome, _ = played(seed)
    books = outcome.accounting
    used: Counter[str] = Counter()
    for each in outcome.cluster.pods.values():
        if each.spec.node_name in outcome.cluster.nodes:
            used.update(books.records[each.metadata.uid].demand.amounts)
    assert dict(zip(books.resources, books.use.amounts, strict=True)) == {name: used[name] for name in books.resources}


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_the_same_seed_gives_the_same_report(seed: int) -> None:
    assert to_json(played(seed)[1]) == to_json(played(seed)[1])
