"""What the parts of the scheduler report, as metrics: one method for each thing that can happen.

The parts know these methods, not metric names; children of label values are kept here, so reporting costs well under
a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kscheduler.metrics import Histogram, Metrics, attempts_label


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


class Measurements:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._points: dict[tuple[str, str, str], Histogram] = {}  # (point, status, profile) -> duration

    # --- the framework reports ---

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        key = (point, status, profile)
        histogram = self._points.get(key)
        if histogram is None:
            histogram = self._points[key] = self.metrics.framework_extension_point_duration_seconds.labels(*key)
        histogram.observe(seconds)

    # --- the queue reports ---

    def incoming(self, queue: str, event: str) -> None:
        self.metrics.queue_incoming_pods_total.labels(queue, event).inc()

    # --- the cycles report ---

    def algorithm(self, seconds: float) -> None:
        """How long filter, score and select took."""
        self.metrics.scheduling_algorithm_duration_seconds.observe(seconds)

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

    def bad_object(self, resource: str) -> None:
        self.metrics.informer_bad_objects_total.labels(resource).inc()

    def loop_lag(self, seconds: float) -> None:
        self.metrics.event_loop_lag_seconds.observe(seconds)

    # --- read at each scrape ---

    def show(
        self, counts: Callable[[], QueueCounts], sizes: Callable[[], Mapping[str, int]], bindings: Callable[[], int]
    ) -> None:
        """Read these gauges whenever somebody scrapes."""

        def refresh() -> None:
            pools = counts()
            for pool in ("active", "backoff", "unschedulable", "gated"):
                self.metrics.pending_pods.labels(pool).set(getattr(pools, pool))
            for kind, size in sizes().items():
                self.metrics.cache_size.labels(kind).set(size)
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
