"""Declares the scheduler's metrics, with kube-scheduler's names, labels and buckets; others start with `kscheduler_`.

Nothing here reads a clock: durations are arguments, in seconds. As there are no goroutines, `scheduler_goroutines`
counts tasks in flight, and `go_*` metrics are absent.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric

from kscheduler import __version__
from kscheduler.observability.instruments import CounterFamily, GaugeFamily, HistogramFamily, exponential

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ATTEMPT_BOUNDS = exponential(0.001, 2, 15)  # 1 ms .. 16 s
POINT_BOUNDS = exponential(0.0001, 2, 12)  # 0.1 ms .. 0.2 s
PLUGIN_BOUNDS = exponential(1e-5, 1.5, 20)  # 10 µs .. 22 ms
HINT_BOUNDS = exponential(1e-5, 2, 12)  # 10 µs .. 20 ms
SLI_BOUNDS = exponential(0.01, 2, 20)  # 10 ms .. 1.5 h
REQUEST_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BOUNDS = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)


def attempts_label(attempts: int) -> str:
    """Return the value of the label `attempts` of pod_scheduling_sli_duration_seconds: "1" to "14", then "15+"."""
    return str(attempts) if attempts < 15 else "15+"


class Metrics:
    """Holds all metrics of one scheduler, in a registry of their own.

    Each attribute is named like its metric without prefix, and is a `Family` if the metric has labels, else an
    instrument.
    """

    def __init__(self, *, process: bool = True) -> None:
        """Create all metrics. `process` adds process_*: CPU time, memory and file descriptors of the whole process."""
        self.registry = CollectorRegistry(auto_describe=False)
        self.families: list[CounterFamily | GaugeFamily | HistogramFamily] = []  # in order of exposition
        self._before_collect: list[Callable[[], None]] = []
        self._disabled: frozenset[str] = frozenset()  # names of families that are not exposed
        self._declare_attempts()
        self._declare_queue()
        self._declare_framework()
        self._declare_preemption()
        self._declare_groups()
        self._declare_group_preemption()
        self._declare_group_placements()
        self._declare_claims()
        self._declare_client()
        self._declare_own()
        self._declare_gangs()
        self._declare_wasm()
        self._declare_informers()
        self._declare_live_metrics()
        self._declare_quotas()
        self._declare_routing()
        self._set_build_info()
        self.registry.register(self)
        if process:
            ProcessCollector(registry=self.registry)

    def limit(self, disabled: frozenset[str], allowed: Mapping[str, Mapping[str, frozenset[str]]]) -> None:
        """Do not expose metrics in `disabled`, and limit label values to `allowed` (metric -> label -> values).

        Must be called before anything is counted.
        """
        for family in self.families:
            if family.name in allowed:
                family.allow(allowed[family.name])
        self._disabled = disabled

    def emulate(self, version: str) -> None:
        """Show in version_info which release of Kubernetes is emulated, such as "1.37"."""
        major, _, minor = version.partition(".")
        self.version_info.labels("kube", __version__, version, f"{major}.{int(minor) - 1}").set(1)

    def set_stages(self, stages: Mapping[str, str]) -> None:
        """Have the help texts of metrics begin with other words: metric -> words in place of such as "[ALPHA]"."""
        for family in self.families:
            if family.name in stages:
                family.text = f"{stages[family.name]}{family.text.partition(']')[2]}"

    def before_collect(self, refresh: Callable[[], None]) -> None:
        """Have `refresh` called before each scrape, to set gauges that are cheaper to read than to keep up to date."""
        self._before_collect.append(refresh)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that have a child, in order of declaration, for prometheus_client's registry."""
        for refresh in self._before_collect:
            refresh()
        self._copy_cache_size()
        for family in self.families:
            if family.name in self._disabled:
                continue
            metric = family.export()
            if metric.samples:
                yield metric

    # --- declarations, in the order of kube-scheduler's documentation ---

    def _declare_attempts(self) -> None:
        self.schedule_attempts_total = self._counters(
            "scheduler_schedule_attempts_total",
            "[STABLE] Attempts to schedule pods, by result (scheduled, unschedulable, error) and profile.",
            ("result", "profile"),
        )
        self.scheduling_attempt_duration_seconds = self._histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Latency of a scheduling attempt: algorithm and binding.",
            ATTEMPT_BOUNDS,
            ("result", "profile"),
        )
        self.scheduling_algorithm_duration_seconds = self._histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Latency of choosing a node.",
            ATTEMPT_BOUNDS,
        ).labels()
        self.pod_scheduling_sli_duration_seconds = self._histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] From a pod's entering the queue to its being bound, without the time it was gated, by attempts.",
            SLI_BOUNDS,
            ("attempts",),
        )
        self.pod_scheduling_attempts = self._histograms(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] Attempts it took to schedule a pod.",
            exponential(1.0, 2, 5),
        ).labels()
        self.event_handling_duration_seconds = self._histograms(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Latency of handling a cluster event.",
            POINT_BOUNDS,
            ("event",),
        )

    def _declare_queue(self) -> None:
        self.pending_pods = self._gauges(
            "scheduler_pending_pods",
            "[STABLE] Pending pods by queue: active, backoff, unschedulable, gated; since 1.37 incomplete and pending.",
            ("queue",),
        )
        self.queued_entities = self._gauges(
            "scheduler_queued_entities",
            "[ALPHA] Pods without a group (type pod) and pod groups (podgroup) by queue. Since 1.37.",
            ("queue", "type"),
        )
        self.queue_incoming_pods_total = self._counters(
            "scheduler_queue_incoming_pods_total",
            "[STABLE] Pods added to a queue, by queue and the event that added them.",
            ("queue", "event"),
        )
        self.queue_incoming_entities_total = self._counters(
            "scheduler_queue_incoming_entities_total",
            "[ALPHA] Pods without a group and pod groups added to a queue, by the event that added them. Since 1.37.",
            ("queue", "event", "type"),
        )
        self.inflight_events = self._gauges(
            "scheduler_inflight_events",
            "[ALPHA] Events kept for pods that are being scheduled.",
            ("event",),
        )
        self.unschedulable_pods = self._gauges(
            "scheduler_unschedulable_pods",
            "[BETA] Unschedulable pods by the plugin that rejected them; a pod counts once for each.",
            ("plugin", "profile"),
        )
        self.pod_scheduled_after_flush_total = self._counters(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Pods scheduled on an attempt that only the flush of waiting pods caused.",
        ).labels()
        self.cache_size = self._gauges(
            "scheduler_cache_size",
            "[ALPHA] Nodes, pods and assumed pods in the cache.",
            ("type",),
        )
        self._cache_size_alias = self._gauges(
            "scheduler_scheduler_cache_size",
            "The same as scheduler_cache_size, under the name older dashboards read.",
            ("type",),
        )
        self.queueing_hint_execution_duration_seconds = self._histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Latency of a plugin's queueing hint, by answer (Queue, QueueSkip, Error).",
            PLUGIN_BOUNDS,
            ("plugin", "event", "hint"),
        )

    def _declare_framework(self) -> None:
        self.framework_extension_point_duration_seconds = self._histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Latency of all plugins of one extension point.",
            POINT_BOUNDS,
            ("extension_point", "status", "profile"),
        )
        self.plugin_execution_duration_seconds = self._histograms(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Latency of one plugin at one extension point, in a tenth of the cycles.",
            PLUGIN_BOUNDS,
            ("plugin", "extension_point", "status"),
        )
        self.plugin_evaluation_total = self._counters(
            "scheduler_plugin_evaluation_total",
            "[BETA] Attempts in which a plugin was evaluated.",
            ("plugin", "extension_point", "profile"),
        )
        self.permit_wait_duration_seconds = self._histograms(
            "scheduler_permit_wait_duration_seconds",
            "[BETA] Time pods waited on Permit.",
            ATTEMPT_BOUNDS,
            ("result",),
        )
        self.batch_attempts_total = self._counters(
            "scheduler_batch_attempts_total",
            "[ALPHA] Attempts to place pods, with results kept from equal pods (hint_used) or without (no_hint).",
            ("profile", "result"),
        )
        self.batch_cache_flushed_total = self._counters(
            "scheduler_batch_cache_flushed_total",
            "[ALPHA] Times that kept results of equal pods were dropped, by reason (expired, pod_not_batchable).",
            ("profile", "reason"),
        )
        self.get_node_hint_duration_seconds = self._histograms(
            "scheduler_get_node_hint_duration_seconds",
            "[ALPHA] Latency of placing a pod with kept results (hint), or of finding none (no_hint).",
            HINT_BOUNDS,
            ("hinted", "profile"),
        )
        self.store_schedule_results_duration_seconds = self._histograms(
            "scheduler_store_schedule_results_duration_seconds",
            "[ALPHA] Latency of asking the plugins about equal pods and keeping the answers.",
            HINT_BOUNDS,
            ("profile",),
        )
        self.goroutines = self._gauges(
            "scheduler_goroutines",
            "[BETA] Tasks in flight, by operation; there are no goroutines in this program.",
            ("operation",),
        )

    def _declare_preemption(self) -> None:
        self.preemption_victims = self._histograms(
            "scheduler_preemption_victims", "[STABLE] Victims of one preemption.", exponential(1.0, 2, 7)
        ).labels()
        self.preemption_attempts_total = self._counters(
            "scheduler_preemption_attempts_total", "[STABLE] Preemption attempts in the cluster so far."
        ).labels()
        self.preemption_goroutines_duration_seconds = self._histograms(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Latency of a preemption's background task.",
            SLI_BOUNDS,
            ("result",),
        )
        self.preemption_goroutines_execution_total = self._counters(
            "scheduler_preemption_goroutines_execution_total",
            "[ALPHA] Background tasks of preemption.",
            ("result",),
        )

    def _declare_groups(self) -> None:
        attempt = ("result", "profile")
        self.podgroup_schedule_attempts_total = self._counters(
            "scheduler_podgroup_schedule_attempts_total",
            "[ALPHA] Attempts to schedule a PodGroup; results: scheduled, unschedulable, waiting_on_preemption, error.",
            attempt,
        )
        self.podgroup_scheduling_attempt_duration_seconds = self._histograms(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "[ALPHA] Latency of an attempt to schedule a PodGroup, without the bindings.",
            ATTEMPT_BOUNDS,
            attempt,
        )
        self.podgroup_scheduling_algorithm_duration_seconds = self._histograms(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "[ALPHA] Latency of deciding all pods of a PodGroup.",
            ATTEMPT_BOUNDS,
        )

    def _declare_group_preemption(self) -> None:
        self.workload_preemption_attempts_total = self._counters(
            "scheduler_workload_preemption_attempts_total",
            "[ALPHA] Preemption attempts by PodGroups, by the code of their status; since 1.37.",
            ("result",),
        )
        self.workload_preemption_victims = self._histograms(
            "scheduler_workload_preemption_victims",
            "[ALPHA] Victims of one preemption by a PodGroup; since 1.37.",
            exponential(1.0, 2, 11),
        )
        self.preemption_workload_disruptions = self._histograms(
            "scheduler_preemption_workload_disruptions",
            "[ALPHA] Units of PodGroups (all pods of one, or single ones) that one preemption evicts; since 1.37.",
            exponential(1.0, 2, 11),
            ("preemptor",),
        )
        self.preemption_evaluation_duration_seconds = self._histograms(
            "scheduler_preemption_evaluation_duration_seconds",
            "[ALPHA] Latency of finding the victims of a preemption; since 1.37, with its gate of PodGroups.",
            exponential(0.001, 2, 16),
            ("preemptor", "result"),
        )
        self.preemption_execution_duration_seconds = self._histograms(
            "scheduler_preemption_execution_duration_seconds",
            "[ALPHA] Latency of evicting the victims of a preemption, in the background; since 1.37, with that gate.",
            exponential(0.001, 2, 16),
            ("preemptor", "result"),
        )
        self.preemption_pdb_violations_total = self._counters(
            "scheduler_preemption_pdb_violations_total",
            "[ALPHA] Victims whose eviction violates a PodDisruptionBudget; since 1.37, with that gate.",
            ("preemptor",),
        )

    def _declare_group_placements(self) -> None:
        evaluation = ("result", "profile")
        self.generated_placements_total = self._counters(
            "scheduler_generated_placements_total",
            "[ALPHA] Placements that were generated for PodGroups; since 1.37, with its gate of topology constraints.",
            ("profile",),
        )
        self.placement_evaluations_total = self._counters(
            "scheduler_placement_evaluations_total",
            "[ALPHA] Placements in which a PodGroup was planned, by result: feasible, infeasible.",
            evaluation,
        )
        self.placement_evaluation_duration_seconds = self._histograms(
            "scheduler_placement_evaluation_duration_seconds",
            "[ALPHA] Latency of planning a PodGroup in one placement, by result: feasible, infeasible.",
            ATTEMPT_BOUNDS,
            evaluation,
        )

    def _declare_claims(self) -> None:
        of_a_device = ("profile", "driver", "status")
        self.dra_bindingconditions_allocations_total = self._counters(
            "scheduler_dra_bindingconditions_allocations_total",
            "[ALPHA] Allocated devices with binding conditions, by driver, counted for each scheduling attempt.",
            of_a_device,
        )
        self.dra_bindingconditions_wait_duration_seconds = self._histograms(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "[ALPHA] Time that pods waited for the binding conditions of their devices.",
            exponential(0.1, 2, 14),
            of_a_device,
        )
        # In 1.36 and 1.37; only that of the emulated release counts anything, and is exposed.
        self.resourceclaim_creates_total = self._counters(
            "scheduler_resourceclaim_creates_total",
            "[ALPHA] Requests that create ResourceClaims for extended resources, by status.",
            ("status",),
        )
        self.dra_resourceclaim_creates_total = self._counters(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "[ALPHA] Requests that create ResourceClaims for extended resources, by status, access and owner.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )

    def _declare_client(self) -> None:
        self.leader_election_master_status = self._gauges(
            "leader_election_master_status",
            "Whether this process holds the lease: 1 leader, 0 standby.",
            ("name",),
        )
        self.rest_client_requests_total = self._counters(
            "rest_client_requests_total",
            "Requests to the apiserver; code is <error> where no answer came.",
            ("code", "method", "host"),
        )
        self.rest_client_request_duration_seconds = self._histograms(
            "rest_client_request_duration_seconds",
            "Latency of requests to the apiserver.",
            REQUEST_BOUNDS,
            ("verb", "host"),
        )
        self.rest_client_rate_limiter_duration_seconds = self._histograms(
            "rest_client_rate_limiter_duration_seconds",
            "Time requests waited for the client's own qps and burst; counts only those that had to wait.",
            REQUEST_BOUNDS,
            ("verb", "host"),
        )
        self.rest_client_request_size_bytes = self._histograms(
            "rest_client_request_size_bytes",
            "[ALPHA] Size of the bodies of requests to the apiserver; 0 for those that have none.",
            SIZE_BOUNDS,
            ("verb", "host"),
        )
        self.rest_client_response_size_bytes = self._histograms(
            "rest_client_response_size_bytes",
            "[ALPHA] Size of the bodies of the apiserver's answers, watches left out.",
            SIZE_BOUNDS,
            ("verb", "host"),
        )
        self.informer_store_resource_version = self._gauges(
            "informer_store_resource_version",
            "[ALPHA] The 15 last digits of the newest resource version that an informer has seen. Since 1.37.",
            ("name", "group", "version", "resource"),
        )
        self.informer_queued_items = self._gauges(
            "informer_queued_items",
            "[ALPHA] Changes that wait for an informer's handler: none, they are handled as they arrive. Since 1.37.",
            ("name", "group", "version", "resource"),
        )
        self.kubernetes_feature_enabled = self._gauges(
            "kubernetes_feature_enabled",
            "[BETA] Whether kscheduler behaves as kube-scheduler does with this feature gate on: 1 yes, 0 no.",
            ("name", "stage"),
        )
        self.version_info = self._gauges(
            "version_info",
            "[ALPHA] Always 1; binary is the version of kscheduler, emulation the release that is emulated.",
            ("component", "binary", "emulation", "min_compat"),
        )
        self.kubernetes_build_info = self._gauges(
            "kubernetes_build_info",
            "Always 1; the labels say what runs.",
            ("major", "minor", "git_version", "compiler", "platform"),
        )

    def _declare_own(self) -> None:
        self.serving_certificate_expiration_timestamp_seconds = self._gauges(
            "kscheduler_serving_certificate_expiration_timestamp_seconds",
            "When the certificate in this file, of the HTTPS endpoint, expires, in Unix time; no file: made at start.",
            ("file",),
        )
        self.event_loop_lag_seconds = self._histograms(
            "kscheduler_event_loop_lag_seconds",
            "How late the event loop ran a timer: the delay any callback may meet.",
            exponential(0.0001, 2, 16),
        ).labels()
        self.events_dropped_total = self._counters(
            "kscheduler_events_dropped_total",
            "Kubernetes Events that were lost, by reason (queue_full, error) and worth (outcome, failure, superseded).",
            ("reason", "worth"),
        )
        self.extender_requests_total = self._counters(
            "kscheduler_extender_requests_total",
            "Requests to extenders, by URL, verb (filter, prioritize, preempt, bind) and result.",
            ("extender", "verb", "result"),
        )
        self.extender_request_duration_seconds = self._histograms(
            "kscheduler_extender_request_duration_seconds",
            "Time an extender took to answer, or to fail.",
            REQUEST_BOUNDS,
            ("extender", "verb"),
        )
        self.bind_conflicts_total = self._counters(
            "kscheduler_bind_conflicts_total",
            "Bindings the apiserver refused because the pod was not as assumed.",
        ).labels()

    def _declare_gangs(self) -> None:
        self.gang_attempts_total = self._counters(
            "kscheduler_gang_attempts_total",
            "Attempts to place a gang, by API group and result (placed, rejected, fault).",
            ("api", "result"),
        )
        self.gang_plan_duration_seconds = self._histograms(
            "kscheduler_gang_plan_duration_seconds",
            "Time to decide all pods of a gang, in which nothing else is decided, by result.",
            exponential(0.0001, 2, 16),
            ("result",),
        )
        self.gangs = self._gauges(
            "kscheduler_gangs",
            "Gangs by state: incomplete (they lack pods or their object), waiting, placed, broken (fewer than the "
            "minimum are placed).",
            ("state",),
        )
        self.gang_stale_total = self._counters(
            "kscheduler_gang_stale_total",
            "Gangs that were broken for longer than their timeout, by API group.",
            ("api",),
        )
        self.gang_reserved_pods = self._gauges(
            "kscheduler_gang_reserved_pods",
            "Pods of gangs that have failed for long, for which room is kept on nodes.",
        ).labels()
        self.gang_reservations_total = self._counters(
            "kscheduler_gang_reservations_total",
            "Reservations of room for gangs that have ended, by how: placed, overtaken (by a gang that comes before), "
            "released.",
            ("end",),
        )

    def _declare_wasm(self) -> None:
        self.wasm_calls_total = self._counters(
            "kscheduler_wasm_calls_total",
            "Runs of a wasm plugin's guest, including those that ended in a fault.",
            ("plugin",),
        )
        self.wasm_faults_total = self._counters(
            "kscheduler_wasm_faults_total",
            "Runs of a wasm plugin that failed, by kind (trap, deadline, memory, exit, ...; unavailable: not called).",
            ("plugin", "kind"),
        )
        self.wasm_call_duration_seconds = self._histograms(
            "kscheduler_wasm_call_duration_seconds",
            "Latency of a run of a wasm plugin's guest, with what the host does for it.",
            exponential(1e-6, 2, 20),
            ("plugin",),
        )
        self.wasm_instances = self._gauges(
            "kscheduler_wasm_instances",
            "Instances of a wasm plugin's guest.",
            ("plugin",),
        )
        self.wasm_memory_pages = self._gauges(
            "kscheduler_wasm_memory_pages",
            "Memory of the instance used last, in pages of 64 KiB.",
            ("plugin",),
        )
        self.wasm_quarantined = self._gauges(
            "kscheduler_wasm_quarantined",
            "Whether a wasm plugin is left alone after repeated faults: 1 quarantined, 0 not.",
            ("plugin",),
        )
        self.wasm_guest_reloads_total = self._counters(
            "kscheduler_wasm_guest_reloads_total",
            "Checks for a new version of a wasm plugin, by result (unchanged, replaced, refused, unreachable).",
            ("plugin", "result"),
        )

    def _declare_informers(self) -> None:
        self.informer_lists_total = self._counters(
            "kscheduler_informer_lists_total",
            "Full lists by resource and the reason for them (start, expired, error).",
            ("resource", "reason"),
        )
        self.informer_watch_events_total = self._counters(
            "kscheduler_informer_watch_events_total",
            "Watch events received, by resource and type.",
            ("resource", "type"),
        )
        self.informer_bad_objects_total = self._counters(
            "kscheduler_informer_bad_objects_total",
            "Objects that could not be read and were skipped.",
            ("resource",),
        )
        self.informer_objects = self._gauges("kscheduler_informer_objects", "Objects an informer knows.", ("resource",))

    def _declare_live_metrics(self) -> None:
        self.metric_source_requests_total = self._counters(
            "kscheduler_metric_source_requests_total",
            "Requests to sources of live metrics, by result (success, error).",
            ("source", "result"),
        )
        self.metric_source_request_duration_seconds = self._histograms(
            "kscheduler_metric_source_request_duration_seconds",
            "Time a source of live metrics took to answer everything it was asked, or to fail.",
            REQUEST_BOUNDS,
            ("source",),
        )
        self.metric_source_breaker_state = self._gauges(
            "kscheduler_metric_source_breaker_state",
            "Whether a source is left alone after repeated failures: 0 closed (no), 1 half-open (tried), 2 open (yes).",
            ("source",),
        )
        self.metric_source_consecutive_failures = self._gauges(
            "kscheduler_metric_source_consecutive_failures",
            "Failures of a source since it last answered.",
            ("source",),
        )
        self.metric_sample_age_seconds = self._gauges(
            "kscheduler_metric_sample_age_seconds",
            "Age of the newest sample of a metric.",
            ("metric",),
        )
        self.metric_nodes = self._gauges(
            "kscheduler_metric_nodes",
            "Nodes by what is known of them: a fresh value, one that is too old, or none.",
            ("metric", "state"),
        )
        self.metric_samples_refused_total = self._counters(
            "kscheduler_metric_samples_refused_total",
            "Samples that were not used, by reason (nan, older, duplicate, unknown_node, too_many).",
            ("metric", "reason"),
        )
        self.metric_policy_fallbacks_total = self._counters(
            "kscheduler_metric_policy_fallbacks_total",
            "Times that a policy got to know new values and lacked some, by what it does then; not pods.",
            ("policy", "fallback"),
        )
        self.metric_policy_relaxations_total = self._counters(
            "kscheduler_metric_policy_relaxations_total",
            "Pods for which a policy's filters were relaxed, by step.",
            ("policy", "step"),
        )
        self.metric_policy_plan_b = self._gauges(
            "kscheduler_metric_policy_plan_b",
            "Whether a policy's plan B is in force, because a source it needs has failed so often.",
            ("policy",),
        )
        self.metric_policy_deadlines_total = self._counters(
            "kscheduler_metric_policy_deadlines_total",
            "Pods that waited for metrics up to their policy's deadline and were decided without.",
            ("policy",),
        )
        self.policy_objects = self._gauges(
            "kscheduler_policy_objects",
            "MetricPolicy and TASPolicy objects, by kind and state (valid, invalid).",
            ("kind", "state"),
        )

    def _declare_quotas(self) -> None:
        self.elastic_quota = self._gauges(
            "kscheduler_elastic_quota",
            "What ElasticQuotas guarantee (min) and allow (max), and what counts against them (used); cpu in cores.",
            ("namespace", "resource", "type"),
        )
        self.share_queue = self._gauges(
            "kscheduler_queue_share",
            "How queues with shares stand: used, requested, fair_share, deserved and limit; cpu in cores.",
            ("queue", "resource", "type"),
        )

    def _declare_routing(self) -> None:
        self.routed_pods_total = self._counters(
            "kscheduler_routed_pods_total",
            "New pods that were given another scheduler, by the rule of the routing configuration.",
            ("rule",),
        )

    # --- making families ---

    def _counters(self, name: str, text: str, labels: tuple[str, ...] = ()) -> CounterFamily:
        family = CounterFamily(name, text, labels)
        self.families.append(family)
        return family

    def _gauges(self, name: str, text: str, labels: tuple[str, ...] = ()) -> GaugeFamily:
        family = GaugeFamily(name, text, labels)
        self.families.append(family)
        return family

    def _histograms(
        self, name: str, text: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> HistogramFamily:
        family = HistogramFamily(name, text, bounds, labels)
        self.families.append(family)
        return family

    def _set_build_info(self) -> None:
        major, _, rest = __version__.partition(".")
        minor = rest.partition(".")[0]
        machine = f"{platform.system().lower()}/{platform.machine()}"
        self.kubernetes_build_info.labels(major, minor, f"v{__version__}", "cython", machine).set(1)

    def _copy_cache_size(self) -> None:
        for values, child in self.cache_size.items():
            self._cache_size_alias.labels(*values).set(child.value)
