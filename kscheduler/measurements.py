"""What the parts of the scheduler report, as metrics: one method for each thing that can happen.

The parts know these methods, not metric names; children of label values are kept here, so reporting costs well under
a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kscheduler.metrics import Counter, Histogram, Metrics, attempts_label


class QueueCounts(Protocol):
    """Pods by pool."""

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
        """(plugin, profile) -> pods it rejected."""
        ...

    def in_flight_events(self) -> Mapping[str, int]:
        """Event -> how many are kept for pods that are being scheduled."""
        ...


class Measurements:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._points: dict[tuple[str, str, str], Histogram] = {}  # (point, status, profile) -> duration

    # --- the framework reports ---

    def extension_point(self, point: str, status: str, profile: str, seconds: float, times: int = 1) -> None:
        key = (point, status, profile)
        histogram = self._points.get(key)
        if histogram is None:
            histogram = self._points[key] = self.metrics.framework_extension_point_duration_seconds.labels(*key)
        histogram.observe_many(seconds, times)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.metrics.plugin_execution_duration_seconds.labels(plugin, point, status).observe(seconds)

    def evaluations(self, plugin: str, point: str, profile: str) -> Counter:
        return self.metrics.plugin_evaluation_total.labels(plugin, point, profile)

    # --- the event handlers report ---

    def event_handled(self, event: str, seconds: float) -> None:
        self.metrics.event_handling_duration_seconds.labels(event).observe(seconds)

    # --- the queue reports ---

    def incoming(self, queue: str, event: str) -> None:
        self.metrics.queue_incoming_pods_total.labels(queue, event).inc()

    def hint(self, plugin: str, event: str, answer: str, seconds: float) -> None:
        self.metrics.queueing_hint_execution_duration_seconds.labels(plugin, event, answer).observe(seconds)

    # --- the cycles report ---

    def algorithm(self, seconds: float, times: int = 1) -> None:
        """How long filter, score and select took, for one pod or for each of so many."""
        self.metrics.scheduling_algorithm_duration_seconds.observe_many(seconds, times)

    def scheduled(self, profile: str, *, attempt_s: float, since_first_attempt_s: float, attempts: int) -> None:
        metrics = self.metrics
        metrics.schedule_attempts_total.labels("scheduled", profile).inc()
        metrics.scheduling_attempt_duration_seconds.labels("scheduled", profile).observe(attempt_s)
        metrics.pod_scheduling_attempts.observe(attempts)
        metrics.pod_scheduling_sli_duration_seconds.labels(attempts_label(attempts)).observe(since_first_attempt_s)

    def not_scheduled(self, profile: str, result: str, attempt_s: float) -> None:
        """`result`: unschedulable, or error for a fault."""
        self.metrics.schedule_attempts_total.labels(result, profile).inc()
        self.metrics.scheduling_attempt_duration_seconds.labels(result, profile).observe(attempt_s)

    def permit_waited(self, result: str, seconds: float) -> None:
        self.metrics.permit_wait_duration_seconds.labels(result).observe(seconds)

    def bind_conflict(self) -> None:
        self.metrics.bind_conflicts_total.inc()

    def looked_for_guest(self, plugin: str, result: str) -> None:
        self.metrics.wasm_guest_reloads_total.labels(plugin, result).inc()

    def preemption_attempted(self) -> None:
        """A pod that fits nowhere was looked at for preemption."""
        self.metrics.preemption_attempts_total.inc()

    def preemption_chosen(self, victims: int) -> None:
        self.metrics.preemption_victims.observe(victims)

    def preemption_ended(self, result: str, seconds: float) -> None:
        """`result`: success or error. kube-scheduler's own figures here are always success, and near zero seconds."""
        self.metrics.preemption_goroutines_execution_total.labels(result).inc()
        self.metrics.preemption_goroutines_duration_seconds.labels(result).observe(seconds)

    def bad_object(self, resource: str) -> None:
        self.metrics.informer_bad_objects_total.labels(resource).inc()

    def loop_lag(self, seconds: float) -> None:
        self.metrics.event_loop_lag_seconds.observe(seconds)

    def scheduled_after_flush(self) -> None:
        """A pod was placed on an attempt that no event had asked for: some event is not registered."""
        self.metrics.pod_scheduled_after_flush_total.inc()

    # --- pools of wasm guests report ---

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        """One run, with the kind of its fault; "" for none, "unavailable" if the guest was not called."""
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
        """`reason` is for Events; as a label it would have no end."""
        self.metrics.wasm_quarantined.labels(plugin).set(int(quarantined))

    # --- extenders report ---

    def extender_asked(self, extender: str, verb: str, result: str, seconds: float) -> None:
        """`result`: success, error or canceled."""
        self.metrics.extender_requests_total.labels(extender, verb, result).inc()
        self.metrics.extender_request_duration_seconds.labels(extender, verb).observe(seconds)

    # --- read at each scrape ---

    def show_queue(self, queue: ObservedQueue) -> None:
        """Read the queue's gauges whenever somebody scrapes."""

        def refresh() -> None:
            pools = queue.counts()
            for pool in ("active", "backoff", "unschedulable", "gated"):
                self.metrics.pending_pods.labels(pool).set(getattr(pools, pool))
            self.metrics.unschedulable_pods.clear()
            for (plugin, profile), pods in queue.rejections().items():
                self.metrics.unschedulable_pods.labels(plugin, profile).set(pods)
            self.metrics.inflight_events.clear()
            for event, number in queue.in_flight_events().items():
                self.metrics.inflight_events.labels(event).set(number)

        self.metrics.before_collect(refresh)

    def show_sizes(
        self,
        cache: Callable[[], Mapping[str, int]],
        bindings: Callable[[], int],
        informers: Callable[[], Mapping[str, int]],
    ) -> None:
        """Read these gauges whenever somebody scrapes: by type, in flight, by resource."""

        def refresh() -> None:
            for kind, size in cache().items():
                self.metrics.cache_size.labels(kind).set(size)
            for resource, size in informers().items():
                self.metrics.informer_objects.labels(resource).set(size)
            self.metrics.goroutines.labels("binding").set(bindings())

        self.metrics.before_collect(refresh)


class RestClientMeasurements:
    """Requests to the apiserver; the client reports them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def observe(self, verb: str, host: str, code: str, duration_s: float) -> None:
        self._metrics.rest_client_requests_total.labels(code, verb, host).inc()
        self._metrics.rest_client_request_duration_seconds.labels(verb, host).observe(duration_s)

    def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
        self._metrics.rest_client_rate_limiter_duration_seconds.labels(verb, host).observe(duration_s)
