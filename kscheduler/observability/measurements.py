"""Records the scheduler's metrics: one method for each kind of report.

The parts of the scheduler call these methods and do not know metric names. Metric children (one per combination of
label values) are looked up once and kept here, so that a report takes well under a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from kscheduler._fast import Histogram
from kscheduler.observability.instruments import ChildT, Counter, CounterFamily, Family, GaugeFamily
from kscheduler.observability.metrics import Metrics, attempts_label

LabelsT = TypeVar("LabelsT", bound=tuple[str, ...])


POOLS = ("active", "backoff", "unschedulable", "gated")  # of the scheduling queue


class QueueCounts(Protocol):
    """The number of pods in each part of the scheduling queue."""

    @property
    def active(self) -> int: ...
    @property
    def backoff(self) -> int: ...
    @property
    def unschedulable(self) -> int: ...
    @property
    def gated(self) -> int: ...


class ObservedQueue(Protocol):
    def counts(self) -> QueueCounts: ...
    def rejections(self) -> Mapping[tuple[str, str], int]:
        """Return (plugin, profile) -> number of waiting pods that the plugin rejected."""
        ...

    def in_flight_events(self) -> Mapping[str, int]:
        """Return cluster event -> how many events of this kind are kept because pods are in flight."""
        ...


class IncomingGroups(Protocol):
    """What was added to a pool of the queue: groups, and pods that belong to any."""

    @property
    def groups(self) -> int: ...
    @property
    def pods(self) -> int: ...


class ObservedGroups(Protocol):
    """The groups of pods in the queue, and how many of the pods that are counted in its pools belong to them.

    `incomplete` and `pending` are numbers of pods that count as gated.
    """

    @property
    def groups(self) -> QueueCounts: ...
    @property
    def pods(self) -> QueueCounts: ...
    @property
    def incomplete(self) -> int: ...
    @property
    def pending(self) -> int: ...
    @property
    def incoming(self) -> Mapping[tuple[str, str], IncomingGroups]:
        """Return (pool, event) -> what was added."""
        ...


class ObservedRelease(Protocol):
    """A release of Kubernetes, as far as it decides which metrics there are."""

    @property
    def version(self) -> str: ...
    @property
    def features(self) -> Iterable[tuple[str, str, bool]]:
        """Return (name, stage, whether it is on) of feature gates."""
        ...

    @property
    def queue_counts_entities(self) -> bool: ...
    @property
    def has_informer_metrics(self) -> bool: ...
    @property
    def metric_stages(self) -> Mapping[str, str]: ...


class ObservedMetric(Protocol):
    """The state of one live metric at one moment; `fresh`, `stale` and `absent` are numbers of nodes."""

    @property
    def metric(self) -> str: ...
    @property
    def age_s(self) -> float | None:
        """The age of the newest sample in seconds; None if there has been no sample."""
        ...

    @property
    def fresh(self) -> int: ...
    @property
    def stale(self) -> int: ...
    @property
    def absent(self) -> int: ...


MOST_KEPT_ATTEMPTS = 16  # higher numbers of attempts share one label value
INFORMER_NAME = "kube-scheduler"  # of all its informers
FALLBACKS = frozenset({"neutral", "exclude", "last-good", "requeue"})


class Children(dict[tuple[str, ...], ChildT]):
    """The children of a family by their label values. One is made when it is looked up first; after that it is no call.

    For hot code that reports what happens to each pod.
    """

    def __init__(self, family: Family[ChildT]) -> None:
        super().__init__()
        self._family: Family[ChildT] = family

    def __missing__(self, values: tuple[str, ...]) -> ChildT:
        child: ChildT = self._family.labels(*values)
        self[values] = child
        return child


class Measurements:
    def __init__(self, metrics: Metrics | None = None) -> None:
        """Record into `metrics`; if None, into metrics that are never exposed."""
        self.metrics = Metrics(process=False) if metrics is None else metrics
        # (extension point, status, profile) -> duration of all its plugins for a pod
        self.points = Children(self.metrics.framework_extension_point_duration_seconds)
        # (hinted, profile) -> duration of placing a pod. `hinted`: "hint" if stored results for equal pods were used,
        # "no_hint" if there were none.
        self.node_hints = Children(self.metrics.get_node_hint_duration_seconds)
        # (profile, result) -> pods. `result`: "hint_used" if placed by the stored filter results and scores of their
        # class (equal specs), "no_hint" if without them, and if they fit nowhere.
        self.batch_attempts = Children(self.metrics.batch_attempts_total)
        # how long it takes to filter, score and select a node for a pod
        self.algorithm_durations = self.metrics.scheduling_algorithm_duration_seconds
        # (event,) -> duration of its handling, for the event handlers to observe
        self.event_durations = Children(self.metrics.event_handling_duration_seconds)
        # (queue, event) -> pods that entered a queue: active, backoff or unschedulable. `event`: the label of the cause
        self.incoming = Children(self.metrics.queue_incoming_pods_total)
        self._counts_entities = False
        self._groups: Callable[[], ObservedGroups] | None = None
        self._has_informer_metrics = False
        # profile -> attempts, their duration, that of Bind
        self._scheduled: dict[str, tuple[Counter, Histogram, Histogram]] = {}
        self._not_scheduled: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # the same by (result, profile)
        self._since_first: dict[int, Histogram] = {}  # attempts -> time since the first

    # --- the framework reports ---

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Record one plugin's run at an extension point; done for a random sample of scheduling cycles only."""
        self.metrics.plugin_execution_duration_seconds.labels(plugin, point, status).observe(seconds)

    def evaluations(self, plugin: str, point: str, profile: str) -> Counter:
        """Return the counter of a plugin's runs at an extension point; called once, when the framework is built."""
        return self.metrics.plugin_evaluation_total.labels(plugin, point, profile)

    def batch_flushed(self, profile: str, reason: str) -> None:
        """Count that stored results of a pod class (pods that plugins decide equally) were dropped, by `reason`.

        expired: they were invalid, or dropped to save memory; pod_not_batchable: its pods cannot be placed together any
        more.
        """
        self.metrics.batch_cache_flushed_total.labels(profile, reason).inc()

    def results_stored(self, profile: str, seconds: float) -> None:
        """Record the seconds taken to run the plugins for a new class of equal pods and to store their results."""
        self.metrics.store_schedule_results_duration_seconds.labels(profile).observe(seconds)

    # --- the queue reports ---

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        """Record a queueing hint's duration in seconds, and its `answer`: Queue, QueueSkip, or Error if it raised.

        Runs that answered Queue or QueueSkip are recorded in a random sample only.
        """
        self.metrics.queueing_hint_execution_duration_seconds.labels(plugin, event, answer).observe(seconds)

    # --- the cycles report ---

    def algorithm(self, seconds: float) -> None:
        """Record the seconds taken to filter, score and select a node for a pod."""
        self.algorithm_durations.observe(seconds)

    def scheduled(
        self, profile: str, *, attempt_s: float, bind_s: float, since_first_attempt_s: float, attempts: int
    ) -> None:
        """Record a pod that is bound. `bind_s`: how long its binding took, waiting for its turn included."""
        found = self._scheduled.get(profile)
        if found is None:
            found = self._scheduled[profile] = (
                self.metrics.schedule_attempts_total.labels("scheduled", profile),
                self.metrics.scheduling_attempt_duration_seconds.labels("scheduled", profile),
                self.points["Bind", "Success", profile],
            )
        found[0].value += 1
        found[1].observe(attempt_s)
        found[2].observe(bind_s)
        self.metrics.pod_scheduling_attempts.observe(attempts)
        since_first = self._since_first.get(attempts)
        if since_first is None:
            since_first = self.metrics.pod_scheduling_sli_duration_seconds.labels(attempts_label(attempts))
            if attempts <= MOST_KEPT_ATTEMPTS:
                self._since_first[attempts] = since_first
        since_first.observe(since_first_attempt_s)

    def bind_failed(self, profile: str, bind_s: float) -> None:
        self.points["Bind", "Error", profile].observe(bind_s)

    def not_scheduled(self, profile: str, result: str, attempt_s: float) -> None:
        """Record an attempt that did not bind the pod. `result`: unschedulable or error."""
        found = self._not_scheduled.get((result, profile))
        if found is None:
            found = self._not_scheduled[result, profile] = (
                self.metrics.schedule_attempts_total.labels(result, profile),
                self.metrics.scheduling_attempt_duration_seconds.labels(result, profile),
            )
        found[0].value += 1
        found[1].observe(attempt_s)

    def permit_waited(self, result: str, seconds: float) -> None:
        self.metrics.permit_wait_duration_seconds.labels(result).observe(seconds)

    def event_dropped(self, reason: str, worth: str) -> None:
        self.metrics.events_dropped_total.labels(reason, worth).inc()

    def bind_conflict(self) -> None:
        self.metrics.bind_conflicts_total.inc()

    def looked_for_guest(self, plugin: str, result: str) -> None:
        self.metrics.wasm_guest_reloads_total.labels(plugin, result).inc()

    def preemption_attempted(self) -> None:
        """Count an attempt at preemption, for a pod that fits no node."""
        self.metrics.preemption_attempts_total.inc()

    def preemption_chosen(self, victims: int) -> None:
        self.metrics.preemption_victims.observe(victims)

    def preemption_ended(self, result: str, seconds: float) -> None:
        """Record an asynchronous eviction of victims. `result`: success or error.

        kube-scheduler always reports success in about 0 s.
        """
        self.metrics.preemption_goroutines_execution_total.labels(result).inc()
        self.metrics.preemption_goroutines_duration_seconds.labels(result).observe(seconds)

    def claim_created(self, result: str, *, with_owner: bool) -> None:
        """Count a request that creates a ResourceClaim. `result`: success or failure. `with_owner`: 1.37's metric."""
        if with_owner:
            self.metrics.dra_resourceclaim_creates_total.labels(result, "false", "", "Pod").inc()
        else:
            self.metrics.resourceclaim_creates_total.labels(result).inc()

    def waited_for_device(self, profile: str, driver: str, result: str, seconds: float) -> None:
        """Record how long a pod waited for the binding conditions of its devices, for each of them."""
        self.metrics.dra_bindingconditions_wait_duration_seconds.labels(profile, driver, result).observe(seconds)

    def device_conditions_ended(self, profile: str, driver: str, result: str) -> None:
        """Count an allocated device with binding conditions. `result`: success, failure, timeout or error."""
        self.metrics.dra_bindingconditions_allocations_total.labels(profile, driver, result).inc()

    def bad_object(self, resource: str) -> None:
        self.metrics.informer_bad_objects_total.labels(resource).inc()

    def listed(self, resource: str, reason: str) -> None:
        """Count a list request of an informer.

        `reason`: start, expired (resource version too old to watch) or error.
        """
        self.metrics.informer_lists_total.labels(resource, reason).inc()

    def watch_events(self, resource: str, kind: str) -> Counter:
        """Return the counter of a resource's watch events of type `kind` (ADDED, MODIFIED, ...)."""
        return self.metrics.informer_watch_events_total.labels(resource, kind)

    def loop_lag(self, seconds: float) -> None:
        self.metrics.event_loop_lag_seconds.observe(seconds)

    def scheduled_after_flush(self) -> None:
        """Count a pod that was scheduled only after the periodic flush of unschedulable pods.

        It means that some plugin has not registered the cluster event that made the pod schedulable.
        """
        self.metrics.pod_scheduled_after_flush_total.inc()

    # --- gangs report ---

    def gang_tried(self, api: str, result: str, seconds: float) -> None:
        """Record an attempt to place a gang. `result`: placed, rejected or fault."""
        self.metrics.gang_attempts_total.labels(api, result).inc()
        self.metrics.gang_plan_duration_seconds.labels(result).observe(seconds)

    def pod_group_tried(self, result: str, profile: str, seconds: float) -> None:
        """Record an attempt to schedule a PodGroup of scheduling.k8s.io, as kube-scheduler does.

        `result`: scheduled, unschedulable, waiting_on_preemption or error.
        """
        metrics = self.metrics
        metrics.podgroup_schedule_attempts_total.labels(result, profile).inc()
        metrics.podgroup_scheduling_attempt_duration_seconds.labels(result, profile).observe(seconds)
        metrics.podgroup_scheduling_algorithm_duration_seconds.labels().observe(seconds)

    def placements_generated(self, profile: str, count: int) -> None:
        """Count the placements of a PodGroup in one attempt to plan it."""
        self.metrics.generated_placements_total.labels(profile).inc(count)

    def placements_evaluated(self, profile: str, *, is_feasible: bool, count: int, seconds: float) -> None:
        """Record that a PodGroup was planned in placements, or these were ruled out. `seconds`: for each."""
        result = "feasible" if is_feasible else "infeasible"
        self.metrics.placement_evaluations_total.labels(result, profile).inc(count)
        duration = self.metrics.placement_evaluation_duration_seconds.labels(result, profile)
        for _ in range(count):
            duration.observe(seconds)

    def group_preemption_attempted(self, result: str) -> None:
        """Count one PodGroup for which preemption was attempted. `result`: the code of its status."""
        self.metrics.workload_preemption_attempts_total.labels(result).inc()

    def group_preemption_chose(self, kind: str, victims: int, units: int) -> None:
        """Record the victims of a group of a kind. `units`: groups among what is evicted, or single pods of one."""
        self.metrics.workload_preemption_victims.labels().observe(victims)
        if units:
            self.metrics.preemption_workload_disruptions.labels(kind).observe(units)

    def preemption_evaluated(self, kind: str, result: str, seconds: float) -> None:
        """Record how long the search for victims took. `kind`: pod or podgroup. `result`: the code of its status."""
        self.metrics.preemption_evaluation_duration_seconds.labels(kind, result).observe(seconds)

    def preemption_executed(self, kind: str, result: str, seconds: float) -> None:
        """Record how long the evictions for a preemptor of a kind took. `result`: success or error."""
        self.metrics.preemption_execution_duration_seconds.labels(kind, result).observe(seconds)

    def budgets_violated(self, kind: str, victims: int) -> None:
        """Count victims of a preemptor of a kind whose eviction violates a PodDisruptionBudget."""
        self.metrics.preemption_pdb_violations_total.labels(kind).inc(victims)

    def gang_stale(self, api: str) -> None:
        self.metrics.gang_stale_total.labels(api).inc()

    def gang_reservation_ended(self, how: str) -> None:
        """Count a reservation of room for a gang that has ended: placed, overtaken or released."""
        self.metrics.gang_reservations_total.labels(how).inc()

    def show_gang_reservation(self, reserved_pods: Callable[[], int]) -> None:
        """Show at each scrape for how many pods of gangs room is reserved."""
        self.metrics.before_collect(lambda: self.metrics.gang_reserved_pods.set(reserved_pods()))

    def show_gangs(self, states: Callable[[], Mapping[str, int]]) -> None:
        """Show the number of gangs by state at each scrape."""

        def refresh() -> None:
            for state, gangs in states().items():
                self.metrics.gangs.labels(state).set(gangs)

        self.metrics.before_collect(refresh)

    # --- pools of wasm guests report ---

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        """Record one call of a guest (wasm plugin).

        `fault`: the kind of failure, "" for none, "unavailable" if the guest could not be called.
        """
        metrics = self.metrics
        if fault:
            metrics.wasm_faults_total.labels(plugin, fault).inc()
        if fault != "unavailable":
            metrics.wasm_calls_total.labels(plugin).inc()
            metrics.wasm_call_duration_seconds.labels(plugin).observe(seconds)

    def wasm_sizes(self, plugin: str, instances: int, memory_pages: int) -> None:
        self.metrics.wasm_instances.labels(plugin).set(instances)
        self.metrics.wasm_memory_pages.labels(plugin).set(memory_pages)

    def wasm_quarantined(self, plugin: str, quarantined: bool, reason: str) -> None:
        """Set the gauge that says whether a guest (wasm plugin) is quarantined, i.e. not called after many failures.

        `reason` is not used here: as a label its values would be unbounded.
        """
        self.metrics.wasm_quarantined.labels(plugin).set(int(quarantined))

    # --- extenders report ---

    def extender_asked(self, extender: str, verb: str, result: str, seconds: float) -> None:
        """Record a request to an extender.

        `verb`: filter, prioritize, preempt or bind; `result`: success, error or canceled.
        """
        self.metrics.extender_requests_total.labels(extender, verb, result).inc()
        self.metrics.extender_request_duration_seconds.labels(extender, verb).observe(seconds)

    # --- live metrics report ---

    def source_asked(self, source: str, result: str, seconds: float) -> None:
        """Record a request to a source of live metrics. `result`: success or error."""
        self.metrics.metric_source_requests_total.labels(source, result).inc()
        self.metrics.metric_source_request_duration_seconds.labels(source).observe(seconds)

    def source_state(self, source: str, breaker: int, failures: int) -> None:
        """Set the state of a source of live metrics.

        `breaker`: its circuit breaker's state, 0 closed, 1 half-open, 2 open; `failures`: consecutive failures.
        """
        self.metrics.metric_source_breaker_state.labels(source).set(breaker)
        self.metrics.metric_source_consecutive_failures.labels(source).set(failures)

    def samples_refused(self, metric: str, refused: Mapping[str, int]) -> None:
        """Count samples of a live metric that were not accepted. `refused`: reason -> number of samples."""
        for reason, times in refused.items():
            self.metrics.metric_samples_refused_total.labels(metric, reason).inc(times)

    def policy_counted(self, what: str, policy: str) -> None:
        """Count an action of a policy over live metrics.

        `what`: neutral, exclude, last-good or requeue (what was done without fresh values); deadline; or relaxed:STEP.
        """
        kind, _, step = what.partition(":")
        if kind in FALLBACKS:
            self.metrics.metric_policy_fallbacks_total.labels(policy, kind).inc()
        elif kind == "relaxed":
            self.metrics.metric_policy_relaxations_total.labels(policy, step).inc()
        elif kind == "deadline":
            self.metrics.metric_policy_deadlines_total.labels(policy).inc()

    def metric_gone(self, metric: str) -> None:
        """Remove the counters of a live metric that no longer exists."""
        _forget(self.metrics.metric_samples_refused_total, metric)

    def policy_gone(self, policy: str) -> None:
        metrics = self.metrics
        for family in (
            metrics.metric_policy_fallbacks_total,
            metrics.metric_policy_relaxations_total,
            metrics.metric_policy_deadlines_total,
        ):
            _forget(family, policy)

    # --- set once ---

    def emulate(self, release: ObservedRelease) -> None:
        """Show the metrics of a release, and the gauges of its feature gates. To be called before the `show_` ones."""
        self._counts_entities = release.queue_counts_entities
        self._has_informer_metrics = release.has_informer_metrics
        self.metrics.emulate(release.version)
        self.metrics.set_stages(release.metric_stages)
        for name, stage, is_on in release.features:
            self.metrics.kubernetes_feature_enabled.labels(name, stage).set(int(is_on))

    # --- read at each scrape ---

    def show_queue(self, queue: ObservedQueue) -> None:
        """Have the queue's gauges set from `queue` at each scrape."""

        def refresh() -> None:
            pools = queue.counts()
            for pool in POOLS:
                self.metrics.pending_pods.labels(pool).set(getattr(pools, pool))
            if self._counts_entities:
                self._show_entities(pools)
            _show_counts(self.metrics.unschedulable_pods, queue.rejections())
            events = {(event,): number for event, number in queue.in_flight_events().items()}
            _show_counts(self.metrics.inflight_events, events)

        self.metrics.before_collect(refresh)

    def show_groups(self, groups: Callable[[], ObservedGroups]) -> None:
        """Have the groups of pods in the queue shown at each scrape of its gauges, if the release counts entities."""
        self._groups = groups

    def _show_entities(self, pools: QueueCounts) -> None:
        """Show what waits as entities: groups of pods, and pods without one."""
        metrics = self.metrics
        found = None if self._groups is None else self._groups()
        incomplete, pending = (0, 0) if found is None else (found.incomplete, found.pending)
        metrics.pending_pods.labels("incomplete").set(incomplete)
        metrics.pending_pods.labels("pending").set(pending)
        metrics.pending_pods.labels("gated").set(pools.gated - incomplete - pending)
        for pool in POOLS:
            of_groups = 0 if found is None else getattr(found.pods, pool)
            metrics.queued_entities.labels(pool, "pod").set(getattr(pools, pool) - of_groups)
            if found is not None:
                metrics.queued_entities.labels(pool, "podgroup").set(getattr(found.groups, pool))
        for (pool, event), pods in metrics.queue_incoming_pods_total.items():
            came = None if found is None else found.incoming.get((pool, event))
            entities = metrics.queue_incoming_entities_total
            entities.labels(pool, event, "pod").value = pods.value - (0 if came is None else came.pods)
            if came is not None:
                entities.labels(pool, event, "podgroup").value = came.groups

    def show_versions(self, versions: Callable[[], Mapping[tuple[str, str], str]]) -> None:
        """Have the informers' gauges set at each scrape, if the release has them.

        `versions`: (group and version, plural) -> resource version, "" before the first list.
        """
        if not self._has_informer_metrics:
            return

        def refresh() -> None:
            for (group_version, plural), newest in versions().items():
                group, _, version = group_version.rpartition("/")
                labels = INFORMER_NAME, group, version, plural
                digits = newest[-15:]
                self.metrics.informer_store_resource_version.labels(*labels).set(
                    int(digits) if digits.isdecimal() else 0
                )
                self.metrics.informer_queued_items.labels(*labels).set(0)

        self.metrics.before_collect(refresh)

    def show_sizes(
        self,
        cache: Callable[[], Mapping[str, int]],
        bindings: Callable[[], int],
        informers: Callable[[], Mapping[str, int]],
    ) -> None:
        """Have three gauges set at each scrape: cached objects by type, bindings in flight, informers' objects by
        resource.
        """

        def refresh() -> None:
            for kind, size in cache().items():
                self.metrics.cache_size.labels(kind).set(size)
            for resource, size in informers().items():
                self.metrics.informer_objects.labels(resource).set(size)
            self.metrics.goroutines.labels("binding").set(bindings())

        self.metrics.before_collect(refresh)

    def show_metrics(
        self, states: Callable[[], Iterable[ObservedMetric]], plan_b: Callable[[], Mapping[str, bool]]
    ) -> None:
        """Have the gauges of live metrics set at each scrape.

        `plan_b`: policy -> True while its plan B (fallback) is in force.
        """

        def refresh() -> None:
            metrics = self.metrics
            for family in (metrics.metric_sample_age_seconds, metrics.metric_nodes, metrics.metric_policy_plan_b):
                family.clear()
            for state in states():
                if state.age_s is not None:
                    metrics.metric_sample_age_seconds.labels(state.metric).set(state.age_s)
                for name in ("fresh", "stale", "absent"):
                    metrics.metric_nodes.labels(state.metric, name).set(getattr(state, name))
            for policy, is_in_force in plan_b().items():
                metrics.metric_policy_plan_b.labels(policy).set(int(is_in_force))

        self.metrics.before_collect(refresh)

    def show_policies(self, states: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Have the numbers of policy objects set at each scrape.

        `states`: (kind, "valid" or "invalid") -> number of objects.
        """

        def refresh() -> None:
            self.metrics.policy_objects.clear()
            for values, number in states().items():
                self.metrics.policy_objects.labels(*values).set(number)

        self.metrics.before_collect(refresh)

    def show_quotas(self, amounts: Callable[[], Mapping[tuple[str, str, str], float]]) -> None:
        """Have the amounts of ElasticQuotas set at each scrape.

        `amounts`: (namespace, resource, "used", "min" or "max") -> amount, cpu in cores.
        """

        def refresh() -> None:
            self.metrics.elastic_quota.clear()
            for values, amount in amounts().items():
                self.metrics.elastic_quota.labels(*values).set(amount)

        self.metrics.before_collect(refresh)

    def show_queues(self, amounts: Callable[[], Mapping[tuple[str, str, str], float]]) -> None:
        """Have the amounts of queues with shares set at each scrape.

        `amounts`: (queue, resource, "used", "requested", "fair_share", "deserved" or "limit") -> amount, cpu in cores.
        """

        def refresh() -> None:
            self.metrics.share_queue.clear()
            for values, amount in amounts().items():
                self.metrics.share_queue.labels(*values).set(amount)

        self.metrics.before_collect(refresh)


def _show_counts(family: GaugeFamily, counts: Mapping[LabelsT, int]) -> None:
    """Set a family's children to `counts`; existing children that are not in it become 0, as in kube-scheduler."""
    for values, gauge in family.items():
        if values not in counts:
            gauge.set(0)
    for values, number in counts.items():
        family.labels(*values).set(number)


def _forget(family: CounterFamily, first: str) -> None:
    """Remove those children of a family whose first label has the value `first`."""
    for values in [values for values, _ in family.items() if values[0] == first]:
        family.remove(*values)
