"""Names, labels and buckets that dashboards rely on, and what is written for Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.errors import ConfigError
from kscheduler.observability.instruments import (
    CounterFamily,
    GaugeFamily,
    HistogramFamily,
    exponential,
)
from kscheduler.observability.metric_limits import metric_limits
from kscheduler.observability.metrics import Metrics, attempts_label

# Name -> type, labels, buckets (start, factor, count), as kube-scheduler declares them; some only since 1.37.
KUBE: dict[str, tuple[str, tuple[str, ...], tuple[float, float, int] | None]] = {
    "scheduler_schedule_attempts_total": ("counter", ("result", "profile"), None),
    "scheduler_scheduling_attempt_duration_seconds": ("histogram", ("result", "profile"), (0.001, 2, 15)),
    "scheduler_scheduling_algorithm_duration_seconds": ("histogram", (), (0.001, 2, 15)),
    "scheduler_event_handling_duration_seconds": ("histogram", ("event",), (0.0001, 2, 12)),
    "scheduler_preemption_victims": ("histogram", (), (1, 2, 7)),
    "scheduler_preemption_attempts_total": ("counter", (), None),
    "scheduler_podgroup_schedule_attempts_total": ("counter", ("result", "profile"), None),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": ("histogram", ("result", "profile"), (0.001, 2, 15)),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": ("histogram", (), (0.001, 2, 15)),
    "scheduler_workload_preemption_attempts_total": ("counter", ("result",), None),
    "scheduler_workload_preemption_victims": ("histogram", (), (1, 2, 11)),
    "scheduler_preemption_workload_disruptions": ("histogram", ("preemptor",), (1, 2, 11)),
    "scheduler_preemption_evaluation_duration_seconds": ("histogram", ("preemptor", "result"), (0.001, 2, 16)),
    "scheduler_preemption_execution_duration_seconds": ("histogram", ("preemptor", "result"), (0.001, 2, 16)),
    "scheduler_preemption_pdb_violations_total": ("counter", ("preemptor",), None),
    "scheduler_generated_placements_total": ("counter", ("profile",), None),
    "scheduler_placement_evaluations_total": ("counter", ("result", "profile"), None),
    "scheduler_placement_evaluation_duration_seconds": ("histogram", ("result", "profile"), (0.001, 2, 15)),
    "scheduler_preemption_goroutines_duration_seconds": ("histogram", ("result",), (0.01, 2, 20)),
    "scheduler_preemption_goroutines_execution_total": ("counter", ("result",), None),
    "scheduler_dra_bindingconditions_allocations_total": ("counter", ("profile", "driver", "status"), None),
    "scheduler_dra_bindingconditions_wait_duration_seconds": (
        "histogram",
        ("profile", "driver", "status"),
        (0.1, 2, 14),
    ),
    "scheduler_resourceclaim_creates_total": ("counter", ("status",), None),
    "dynamic_resource_allocation_resourceclaim_creates_total": (
        "counter",
        ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        None,
    ),
    "scheduler_batch_attempts_total": ("counter", ("profile", "result"), None),
    "scheduler_batch_cache_flushed_total": ("counter", ("profile", "reason"), None),
    "scheduler_get_node_hint_duration_seconds": ("histogram", ("hinted", "profile"), (1e-5, 2, 12)),
    "scheduler_store_schedule_results_duration_seconds": ("histogram", ("profile",), (1e-5, 2, 12)),
    "scheduler_pending_pods": ("gauge", ("queue",), None),
    "scheduler_inflight_events": ("gauge", ("event",), None),
    "scheduler_goroutines": ("gauge", ("operation",), None),
    "scheduler_pod_scheduling_sli_duration_seconds": ("histogram", ("attempts",), (0.01, 2, 20)),
    "scheduler_pod_scheduling_attempts": ("histogram", (), (1, 2, 5)),
    "scheduler_pod_scheduled_after_flush_total": ("counter", (), None),
    "scheduler_framework_extension_point_duration_seconds": (
        "histogram",
        ("extension_point", "status", "profile"),
        (0.0001, 2, 12),
    ),
    "scheduler_plugin_execution_duration_seconds": (
        "histogram",
        ("plugin", "extension_point", "status"),
        (1e-5, 1.5, 20),
    ),
    "scheduler_queueing_hint_execution_duration_seconds": ("histogram", ("plugin", "event", "hint"), (1e-5, 1.5, 20)),
    "scheduler_queue_incoming_pods_total": ("counter", ("queue", "event"), None),
    "scheduler_queued_entities": ("gauge", ("queue", "type"), None),
    "scheduler_queue_incoming_entities_total": ("counter", ("queue", "event", "type"), None),
    "informer_store_resource_version": ("gauge", ("name", "group", "version", "resource"), None),
    "version_info": ("gauge", ("component", "binary", "emulation", "min_compat"), None),
    "informer_queued_items": ("gauge", ("name", "group", "version", "resource"), None),
    "scheduler_permit_wait_duration_seconds": ("histogram", ("result",), (0.001, 2, 15)),
    "scheduler_cache_size": ("gauge", ("type",), None),
    "scheduler_scheduler_cache_size": ("gauge", ("type",), None),
    "scheduler_unschedulable_pods": ("gauge", ("plugin", "profile"), None),
    "scheduler_plugin_evaluation_total": ("counter", ("plugin", "extension_point", "profile"), None),
    "leader_election_master_status": ("gauge", ("name",), None),
    "rest_client_requests_total": ("counter", ("code", "method", "host"), None),
}
KINDS = {CounterFamily: "counter", GaugeFamily: "gauge", HistogramFamily: "histogram"}


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(sample name, sorted labels) -> value, as Prometheus reads it."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("name", KUBE)
def test_kube_schedulers_families_have_its_type_labels_and_buckets(name: str) -> None:
    kind, labels, buckets = KUBE[name]
    family = {family.name: family for family in Metrics(process=False).families}[name]
    assert (KINDS[type(family)], family.label_names) == (kind, labels)
    if isinstance(family, HistogramFamily):
        assert buckets is not None
        assert family.bounds == exponential(*buckets)


@pytest.mark.parametrize("name", ["rest_client_request_duration_seconds", "rest_client_rate_limiter_duration_seconds"])
def test_client_families_have_client_gos_buckets(name: str) -> None:
    family = {family.name: family for family in Metrics(process=False).families}[name]
    assert isinstance(family, HistogramFamily)
    assert family.label_names == ("verb", "host")
    assert family.bounds == (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


def test_all_other_families_are_ours_and_say_so() -> None:
    names = {family.name for family in Metrics(process=False).families} - KUBE.keys()
    others = {name for name in names if not name.startswith(("kscheduler_", "rest_client_"))}
    assert others == {"kubernetes_build_info", "kubernetes_feature_enabled"}


def test_counters_gauges_and_histograms_reach_prometheus() -> None:
    metrics = Metrics(process=False)
    metrics.schedule_attempts_total.labels("scheduled", "default-scheduler").inc()
    metrics.pending_pods.labels("active").set(3)
    metrics.pod_scheduling_attempts.observe(2)
    metrics.pod_scheduling_attempts.observe_many(3, 10)
    found = samples(metrics)
    assert found["scheduler_schedule_attempts_total", (("profile", "default-scheduler"), ("result", "scheduled"))] == 1
    assert found["scheduler_pending_pods", (("queue", "active"),)] == 3
    assert found["scheduler_pod_scheduling_attempts_bucket", (("le", "1"),)] == 0
    assert found["scheduler_pod_scheduling_attempts_bucket", (("le", "2"),)] == 1
    assert found["scheduler_pod_scheduling_attempts_bucket", (("le", "4"),)] == 11
    assert found["scheduler_pod_scheduling_attempts_bucket", (("le", "+Inf"),)] == 11
    assert found["scheduler_pod_scheduling_attempts_count", ()] == 11
    assert found["scheduler_pod_scheduling_attempts_sum", ()] == 32


def test_no_creation_times_are_written() -> None:
    assert b"_created" not in Metrics(process=False).exposition()


def test_label_values_are_escaped() -> None:
    metrics = Metrics(process=False)
    metrics.pending_pods.labels('a"b\\c\n').set(1)
    assert samples(metrics)["scheduler_pending_pods", (("queue", 'a"b\\c\n'),)] == 1


def test_a_family_nobody_used_is_not_shown_and_a_removed_child_neither() -> None:
    metrics = Metrics(process=False)
    assert b"scheduler_unschedulable_pods" not in metrics.exposition()
    metrics.unschedulable_pods.labels("NodeAffinity", "p").set(1)
    assert b"scheduler_unschedulable_pods" in metrics.exposition()
    metrics.unschedulable_pods.remove("NodeAffinity", "p")
    metrics.unschedulable_pods.remove("NodeAffinity", "p")
    assert b"scheduler_unschedulable_pods" not in metrics.exposition()


def test_a_child_is_the_same_each_time() -> None:
    family = Metrics(process=False).pending_pods
    assert family.labels("active") is family.labels("active")


def test_a_wrong_number_of_label_values_is_refused() -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Metrics(process=False).pending_pods.labels("a", "b")


def test_the_older_cache_size_name_follows_the_newer() -> None:
    metrics = Metrics(process=False)
    metrics.cache_size.labels("nodes").set(7)
    assert samples(metrics)["scheduler_scheduler_cache_size", (("type", "nodes"),)] == 7


def test_gauges_can_be_refreshed_when_read() -> None:
    metrics = Metrics(process=False)
    metrics.before_collect(lambda: metrics.pending_pods.labels("backoff").set(4))
    assert samples(metrics)["scheduler_pending_pods", (("queue", "backoff"),)] == 4


def test_two_schedulers_in_a_process_do_not_share_numbers() -> None:
    first, second = Metrics(), Metrics()
    first.bind_conflicts_total.inc()
    assert samples(second)["kscheduler_bind_conflicts_total", ()] == 0


def test_the_process_is_measured_on_request() -> None:
    assert b"process_resident_memory_bytes" in Metrics().exposition()
    assert b"process_" not in Metrics(process=False).exposition()


def test_the_build_is_shown() -> None:
    assert b"kubernetes_build_info{" in Metrics(process=False).exposition()


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (100, "15+")])
def test_attempts_beyond_fourteen_share_a_label(attempts: int, label: str) -> None:
    assert attempts_label(attempts) == label


# --- what an operator does not want ---


def limited(*disabled: str, **labels: str) -> Metrics:
    """`queue="active"` allows this value alone for the label of scheduler_pending_pods."""
    metrics = Metrics(process=False)
    allowed = [f"scheduler_pending_pods,{label}={values}" for label, values in labels.items()]
    limits = metric_limits(disabled, allowed, "")
    metrics.limit(limits.disabled, limits.allowed)
    return metrics


def test_a_disabled_metric_is_not_shown() -> None:
    metrics = limited("scheduler_pending_pods", "scheduler_schedule_attempts_total")
    metrics.pending_pods.labels("active").set(3)
    metrics.schedule_attempts_total.labels("scheduled", "p").inc()
    metrics.routed_pods_total.labels("rule").inc()
    shown = metrics.exposition().decode()
    assert "scheduler_pending_pods" not in shown
    assert "scheduler_schedule_attempts_total" not in shown
    assert "kscheduler_routed_pods_total" in shown


def test_label_values_that_are_not_allowed_become_unexpected() -> None:
    metrics = limited(queue="active,backoff")
    for queue in ("active", "gated", "unschedulable"):
        metrics.pending_pods.labels(queue).inc()
    lines = [line for line in metrics.exposition().decode().splitlines() if line.startswith("scheduler_pending_pods")]
    assert lines == ['scheduler_pending_pods{queue="active"} 1.0', 'scheduler_pending_pods{queue="unexpected"} 2.0']
    metrics.pending_pods.remove("gated")
    assert "unexpected" not in metrics.exposition().decode()


def test_labels_that_are_not_named_keep_their_values() -> None:
    metrics = Metrics(process=False)
    limits = metric_limits([], ["scheduler_schedule_attempts_total,result=scheduled"], "")
    metrics.limit(limits.disabled, limits.allowed)
    child = metrics.schedule_attempts_total.labels("error", "profile")
    child.inc()
    assert dict(metrics.schedule_attempts_total.items()) == {("unexpected", "profile"): child}
    with pytest.raises(ValueError, match="has the labels"):
        metrics.schedule_attempts_total.labels("error")


@pytest.mark.parametrize(
    "flags",
    [
        ["a,l=v1,v2"],
        ['"a,l=v1,v2","b,m=v3"'],
        ["a,l=v1,v2", "b,m=v3"],
    ],
)
def test_allowed_label_values_are_read_as_kube_scheduler_reads_them(flags: list[str]) -> None:
    allowed = metric_limits([], flags, "").allowed
    assert allowed["a"] == {"l": frozenset({"v1", "v2"})}
    assert allowed.get("b", {"m": frozenset({"v3"})}) == {"m": frozenset({"v3"})}


@pytest.mark.parametrize("text", ['"a,l": "v1,v2"\n', 'allowListMapping:\n  "a,l": "v1,v2"\n'])
def test_allowed_label_values_may_stand_in_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.yaml"
    path.write_text(text)
    assert metric_limits([], [], str(path)).allowed == {"a": {"l": frozenset({"v1", "v2"})}}


@pytest.mark.parametrize("text", ["[", "- a", "a,l: [v]", '"a-b,l": v'])
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"^--allow-metric-labels-manifest {path}: "):
        metric_limits([], [], str(path))
