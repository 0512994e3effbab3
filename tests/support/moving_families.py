"""Which metric families a scenario feeds, and which ones people are pointed to.

A family that nobody feeds looks like good news on a dashboard and keeps an alert silent for ever. So each family that
is declared has to change its value in a scenario: most on the cluster in memory, those that only a whole process feeds
on a real control plane.
"""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from kscheduler.observability.metrics import Metrics

REPOSITORY = Path(__file__).resolve().parents[2]
# What people read and what Prometheus evaluates.
GUIDES = (
    "README.md", "LIVE_METRICS.md", "RATIONALE.md", "DIFFERENCES.md", "deploy/README.md", "plugins/README.md",
    "perf/README.md",
)  # fmt: skip
MONITORING = ("deploy/monitoring/dashboard.json", "deploy/monitoring/rules.yaml")
# Set once, when a process starts, and never changed.
CONSTANT = frozenset({"kubernetes_build_info", "kubernetes_feature_enabled", "version_info"})
# Of Kubernetes 1.37, which the scenarios do not emulate (tests/observability/test_measurements.py moves them).
OF_1_37 = frozenset(
    {
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "informer_queued_items",
        "informer_store_resource_version",
    }
)
# Of claims for devices, which the scenarios here do not have (tests/observability/test_measurements.py moves them).
OF_CLAIMS = frozenset(
    {
        "scheduler_dra_bindingconditions_allocations_total",
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "scheduler_resourceclaim_creates_total",
    }
)
# Of pod groups by kube-scheduler's own rules, which the scenarios here do not have (test_pod_group_preemption.py,
# test_pod_group_metrics.py, test_memberwise_pod_groups.py and test_gang_topology.py beside them move these).
OF_POD_GROUPS = frozenset(
    {
        "scheduler_generated_placements_total",
        "scheduler_placement_evaluation_duration_seconds",
        "scheduler_placement_evaluations_total",
        "scheduler_podgroup_schedule_attempts_total",
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "scheduler_preemption_evaluation_duration_seconds",
        "scheduler_preemption_execution_duration_seconds",
        "scheduler_preemption_pdb_violations_total",
        "scheduler_preemption_workload_disruptions",
        "scheduler_queue_incoming_entities_total",
        "scheduler_queued_entities",
        "scheduler_workload_preemption_attempts_total",
        "scheduler_workload_preemption_victims",
    }
)
# Fed by the program around the scheduler: its client, its Lease, its guests, its webhook.
OF_A_PROCESS = frozenset(
    {
        "kscheduler_event_loop_lag_seconds",
        "kscheduler_routed_pods_total",
        "kscheduler_serving_certificate_expiration_timestamp_seconds",
        "kscheduler_wasm_call_duration_seconds",
        "kscheduler_wasm_calls_total",
        "kscheduler_wasm_faults_total",
        "kscheduler_wasm_guest_reloads_total",
        "kscheduler_wasm_instances",
        "kscheduler_wasm_memory_pages",
        "kscheduler_wasm_quarantined",
        "leader_election_master_status",
        "rest_client_rate_limiter_duration_seconds",
        "rest_client_request_duration_seconds",
        "rest_client_request_size_bytes",
        "rest_client_requests_total",
        "rest_client_response_size_bytes",
    }
)

NOT_A_METRIC = frozenset({"scheduler_perf", "kubernetes_sd_configs"})  # Kubernetes' benchmark, a key of Prometheus

_NAME = re.compile(r"\b(?:kscheduler|scheduler|rest_client|leader_election|kubernetes)_[a-z_]*[a-z]\b")
_SERIES = re.compile(r"_(?:bucket|sum|count)$")


def declared() -> set[str]:
    """All families that this version can export."""
    return {family.name for family in Metrics(process=False).families}


def values(exposition: str) -> dict[str, float]:
    """Family -> the sum of all its samples, to see whether anything in it has changed."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            name = _SERIES.sub("", sample.name) if family.type == "histogram" else sample.name
            found[name] = found.get(name, 0.0) + sample.value
    return found


def moved(before: str, after: str) -> set[str]:
    """Families whose samples differ between two expositions."""
    old, new = values(before), values(after)
    return {name for name in new if new[name] != old.get(name, 0.0)}


def pointed_to() -> dict[str, str]:
    """Each family that the dashboard, the rules or a guide names -> where."""
    known = declared()
    found: dict[str, str] = {}
    for file in (*MONITORING, *GUIDES):
        for name in _NAME.findall((REPOSITORY / file).read_text()):
            family = name if name in known else _SERIES.sub("", name)
            if family not in NOT_A_METRIC:
                found.setdefault(family, file)
    return found
