"""What the parts report, under kube-scheduler's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kscheduler import __version__
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.observability.request_measurements import RestClientMeasurements
from kscheduler.queue.scheduling_queue import QueueCounts
from tests.support.moving_families import values


class Queue:
    def __init__(self) -> None:
        self.rejected: dict[tuple[str, str], int] = {("Fit", "a"): 3}
        self.missed: dict[str, int] = {"NodeAdd": 5}

    def counts(self) -> QueueCounts:
        return QueueCounts(active=1, backoff=2, unschedulable=3, gated=4)

    def rejections(self) -> Mapping[tuple[str, str], int]:
        return self.rejected

    def in_flight_events(self) -> Mapping[str, int]:
        return self.missed


def test_a_bound_pod_counts_as_an_attempt_with_its_durations() -> None:
    metrics = Metrics()
    Measurements(metrics).scheduled("a", attempt_s=0.5, bind_s=0.25, since_first_attempt_s=3.0, attempts=2)
    assert metrics.schedule_attempts_total.labels("scheduled", "a").value == 1
    assert metrics.scheduling_attempt_duration_seconds.labels("scheduled", "a").sum == 0.5
    assert metrics.pod_scheduling_attempts.sum == 2
    assert metrics.pod_scheduling_sli_duration_seconds.labels("2").sum == 3.0
    assert metrics.framework_extension_point_duration_seconds.labels("Bind", "Success", "a").sum == 0.25


def test_a_pod_that_was_not_bound_counts_by_result() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    measurements.not_scheduled("a", "unschedulable", 0.1)
    measurements.not_scheduled("a", "error", 0.2)
    measurements.not_scheduled("a", "error", 0.3)
    assert metrics.schedule_attempts_total.labels("unschedulable", "a").value == 1
    assert metrics.schedule_attempts_total.labels("error", "a").value == 2


def test_extension_points_are_timed_by_point_status_and_profile() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    for seconds in (0.1, 0.2):
        measurements.points["Filter", "Success", "a"].observe(seconds)
    child = metrics.framework_extension_point_duration_seconds.labels("Filter", "Success", "a")
    assert child.count == 2


def test_preemptions_are_counted_with_their_victims_and_their_work() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    measurements.preemption_attempted()
    measurements.preemption_chosen(4)
    measurements.preemption_ended("success", 0.25)
    assert metrics.preemption_attempts_total.value == 1
    assert metrics.preemption_victims.sum == 4
    assert metrics.preemption_goroutines_execution_total.labels("success").value == 1
    assert metrics.preemption_goroutines_duration_seconds.labels("success").sum == 0.25


def test_preemptions_are_counted_by_what_preempts() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    measurements.preemption_evaluated("pod", "Unschedulable", 0.5)
    measurements.preemption_executed("podgroup", "success", 0.25)
    measurements.budgets_violated("podgroup", 3)
    assert metrics.preemption_evaluation_duration_seconds.labels("pod", "Unschedulable").sum == 0.5
    assert metrics.preemption_execution_duration_seconds.labels("podgroup", "success").sum == 0.25
    assert metrics.preemption_pdb_violations_total.labels("podgroup").value == 3


def test_single_events_are_counted() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    measurements.incoming["active", "PodAdd"].value += 1
    measurements.bind_conflict()
    measurements.bad_object("pods")
    measurements.loop_lag(0.25)
    measurements.permit_waited("Success", 2.0)
    assert metrics.queue_incoming_pods_total.labels("active", "PodAdd").value == 1
    assert metrics.bind_conflicts_total.value == 1
    assert metrics.informer_bad_objects_total.labels("pods").value == 1
    assert metrics.event_loop_lag_seconds.sum == 0.25
    assert metrics.permit_wait_duration_seconds.labels("Success").sum == 2.0


def test_the_queues_gauges_are_read_at_each_scrape_and_keep_zeros_for_what_is_over() -> None:
    metrics = Metrics()
    queue = Queue()
    Measurements(metrics).show_queue(queue)
    text = metrics.exposition().decode()
    assert 'scheduler_pending_pods{queue="backoff"} 2.0' in text
    assert 'scheduler_unschedulable_pods{plugin="Fit",profile="a"} 3.0' in text
    assert 'scheduler_inflight_events{event="NodeAdd"} 5.0' in text
    queue.rejected, queue.missed = {}, {}
    text = metrics.exposition().decode()
    assert 'scheduler_unschedulable_pods{plugin="Fit",profile="a"} 0.0' in text
    assert 'scheduler_inflight_events{event="NodeAdd"} 0.0' in text


def shown(release: Release) -> str:
    """What is exposed about a queue and an informer when a release is emulated."""
    metrics = Metrics(process=False)
    measurements = Measurements(metrics)
    measurements.emulate(release)
    measurements.show_queue(Queue())
    measurements.show_versions(lambda: {("v1", "pods"): "1234567890123456789", ("storage.k8s.io/v1", "csinodes"): ""})
    measurements.incoming["active", "PodAdd"].value += 3
    measurements.algorithm(0.1)
    measurements.plugin("NodeName", "Filter", "Success", 0.1)
    measurements.preemption_ended("success", 0.25)
    return metrics.exposition().decode()


def test_the_queue_counts_entities_since_1_37() -> None:
    text = shown(RELEASE_1_37)
    for line in (
        'scheduler_pending_pods{queue="active"} 1.0',
        'scheduler_pending_pods{queue="incomplete"} 0.0',
        'scheduler_pending_pods{queue="pending"} 0.0',
        'scheduler_queued_entities{queue="gated",type="pod"} 4.0',
        'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 3.0',
        'scheduler_queue_incoming_entities_total{event="PodAdd",queue="active",type="pod"} 3.0',
    ):
        assert f"{line}\n" in text
    before = shown(RELEASE_1_36)
    assert 'scheduler_pending_pods{queue="active"} 1.0' in before
    for part in ("entities", 'incomplete"', 'queue="pending"'):
        assert part not in before


def test_informers_show_their_version_since_1_37() -> None:
    text = shown(RELEASE_1_37)
    pods = 'group="",name="kube-scheduler",resource="pods",version="v1"'
    nodes = 'group="storage.k8s.io",name="kube-scheduler",resource="csinodes",version="v1"'
    assert f"informer_store_resource_version{{{pods}}} 5.67890123456789e+014\n" in text.replace("e+14", "e+014")
    assert f"informer_store_resource_version{{{nodes}}} 0.0\n" in text
    assert f"informer_queued_items{{{pods}}} 0.0\n" in text
    assert "informer_queued_items" not in shown(RELEASE_1_36)
    assert "informer_store" not in shown(RELEASE_1_36)


@pytest.mark.parametrize(
    ("metric", "before", "since"),
    [
        ("scheduler_scheduling_algorithm_duration_seconds", "[ALPHA] ", "[BETA] "),
        ("scheduler_plugin_execution_duration_seconds", "[ALPHA] ", "[BETA] "),
        ("scheduler_preemption_goroutines_duration_seconds", "[ALPHA] ", "(Deprecated since 1.37.0) [ALPHA] "),
        ("scheduler_preemption_goroutines_execution_total", "[ALPHA] ", "(Deprecated since 1.37.0) [ALPHA] "),
    ],
)
def test_the_stability_of_a_metric_is_that_of_the_release(metric: str, before: str, since: str) -> None:
    for release, stage in ((RELEASE_1_36, before), (RELEASE_1_37, since)):
        assert f"# HELP {metric} {stage}" in shown(release)


def test_the_release_and_its_gates_are_shown() -> None:
    for release, oldest in ((RELEASE_1_36, "1.35"), (RELEASE_1_37, "1.36")):
        labels = f'binary="{__version__}",component="kube",emulation="{release.version}",min_compat="{oldest}"'
        assert f"version_info{{{labels}}} 1.0" in shown(release)
    gate = 'kubernetes_feature_enabled{name="StorageCapacityScoring",stage='
    assert f'{gate}"ALPHA"}} 0.0' in shown(RELEASE_1_36)
    assert f'{gate}"BETA"}} 1.0' in shown(RELEASE_1_37)
    assert f'{gate}"BETA"}} 0.0' in shown(RELEASE_1_37.with_gates({"StorageCapacityScoring": False}))


def test_requests_are_counted_by_code_verb_and_host() -> None:
    metrics = Metrics()
    requests = RestClientMeasurements(metrics)
    requests.observe("POST", "127.0.0.1:6443", "201", 0.01)
    requests.observe_rate_limiter("POST", "127.0.0.1:6443", 0.5)
    assert metrics.rest_client_requests_total.labels("201", "POST", "127.0.0.1:6443").value == 1
    assert metrics.rest_client_rate_limiter_duration_seconds.labels("POST", "127.0.0.1:6443").sum == 0.5


def test_pools_of_wasm_guests_count_runs_faults_sizes_and_quarantines() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    measurements.wasm_called("a", 0.001, "")
    measurements.wasm_called("a", 0.02, "deadline")
    measurements.wasm_called("a", 0.0, "unavailable")
    measurements.wasm_sizes("a", 2, 17)
    measurements.wasm_quarantined("a", True, "too slow")
    assert metrics.wasm_calls_total.labels("a").value == 2
    assert metrics.wasm_call_duration_seconds.labels("a").sum == 0.021
    assert metrics.wasm_faults_total.labels("a", "deadline").value == 1
    assert metrics.wasm_faults_total.labels("a", "unavailable").value == 1
    assert (metrics.wasm_instances.labels("a").value, metrics.wasm_memory_pages.labels("a").value) == (2, 17)
    assert metrics.wasm_quarantined.labels("a").value == 1
    measurements.wasm_quarantined("a", False, "")
    assert metrics.wasm_quarantined.labels("a").value == 0


class MetricState(NamedTuple):
    metric: str
    age_s: float | None
    fresh: int
    stale: int
    absent: int


def test_sources_of_live_metrics_count_by_result_and_show_their_breaker() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    measurements.source_asked("p", "success", 0.25)
    measurements.source_asked("p", "error", 5.0)
    measurements.source_state("p", 2, 3)
    assert metrics.metric_source_requests_total.labels("p", "error").value == 1
    assert metrics.metric_source_request_duration_seconds.labels("p").sum == 5.25
    assert metrics.metric_source_breaker_state.labels("p").value == 2
    assert metrics.metric_source_consecutive_failures.labels("p").value == 3


def test_what_policies_do_counts_by_policy() -> None:
    metrics = Metrics()
    measurements = Measurements(metrics)
    for what in ("neutral", "last-good", "last-good", "relaxed:2", "deadline", "something else"):
        measurements.policy_counted(what, "team/hot")
    assert metrics.metric_policy_fallbacks_total.labels("team/hot", "last-good").value == 2
    assert metrics.metric_policy_fallbacks_total.labels("team/hot", "neutral").value == 1
    assert metrics.metric_policy_relaxations_total.labels("team/hot", "2").value == 1
    assert metrics.metric_policy_deadlines_total.labels("team/hot").value == 1


def test_of_what_is_gone_nothing_is_shown_for_ever() -> None:
    metrics = Metrics(process=False)
    measurements = Measurements(metrics)
    for name in ("gone", "stays"):
        for what in ("neutral", "relaxed:1", "deadline"):
            measurements.policy_counted(what, f"policy-{name}")
        measurements.samples_refused(f"metric-{name}", {"nan": 1, "older": 2})
    measurements.policy_gone("policy-gone")
    measurements.metric_gone("metric-gone")
    text = metrics.exposition().decode()
    assert "gone" not in text
    assert text.count("policy-stays") == 3
    assert text.count("metric-stays") == 2


def test_live_metrics_are_read_at_each_scrape_and_what_is_gone_is_not_shown() -> None:
    metrics = Metrics(process=False)
    measurements = Measurements(metrics)
    states, plans = [MetricState("load", 12.5, 3, 1, 0), MetricState("heat", None, 0, 0, 4)], {"hot": True}
    measurements.show_metrics(lambda: states, lambda: plans)
    measurements.show_policies(lambda: {("MetricPolicy", "invalid"): 2})
    text = metrics.exposition().decode()
    assert 'kscheduler_metric_sample_age_seconds{metric="load"} 12.5' in text
    assert 'kscheduler_metric_sample_age_seconds{metric="heat"}' not in text
    assert 'kscheduler_metric_nodes{metric="load",state="stale"} 1.0' in text
    assert 'kscheduler_metric_policy_plan_b{policy="hot"} 1.0' in text
    assert 'kscheduler_policy_objects{kind="MetricPolicy",state="invalid"} 2.0' in text
    del states[0], plans["hot"]
    text = metrics.exposition().decode()
    assert 'metric="load"' not in text
    assert "policy=" not in text


def test_amounts_of_quotas_are_read_at_each_scrape_and_those_of_quotas_that_are_gone_are_not_shown() -> None:
    metrics = Metrics(process=False)
    amounts = {("shop", "cpu", "used"): 1.5}
    Measurements(metrics).show_quotas(lambda: amounts)
    assert 'kscheduler_elastic_quota{namespace="shop",resource="cpu",type="used"} 1.5' in metrics.exposition().decode()
    amounts.clear()
    assert "kscheduler_elastic_quota" not in metrics.exposition().decode()


@pytest.mark.parametrize(
    ("release", "family"),
    [
        (RELEASE_1_36, "scheduler_resourceclaim_creates_total"),
        (RELEASE_1_37, "dynamic_resource_allocation_resourceclaim_creates_total"),
    ],
)
def test_claims_and_their_binding_conditions_are_counted(release: Release, family: str) -> None:
    metrics = Metrics(process=False)
    measured = Measurements(metrics)
    measured.emulate(release)
    measured.claim_created("success", with_owner=release.claim_creation_labels)
    measured.device_conditions_ended("default", "gpu.example.com", "timeout")
    measured.waited_for_device("default", "gpu.example.com", "timeout", 3.0)
    counted = values(metrics.exposition().decode())
    assert counted[family] == 1.0
    assert counted["scheduler_dra_bindingconditions_allocations_total"] == 1.0
    assert counted["scheduler_dra_bindingconditions_wait_duration_seconds"] > 0
