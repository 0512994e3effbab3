"""The results of health checks as metrics, for /metrics/slis: kube-scheduler's service level indicators.

Source: k8s.io/component-base, metrics/prometheus/slis, and apiserver, pkg/server/healthz, which counts a check for each
answer about all checks of an endpoint, and leaves out those that the request excludes.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest


class HealthResults:
    """Keeps the last result of each check and counts all."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}  # (check, endpoint) -> 1 if it passed
        self._totals: dict[tuple[str, str, str], int] = {}  # (check, endpoint, "success" or "error") -> how often
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, check: str, endpoint: str, *, passed: bool) -> None:
        """Take the result of a check of endpoint "healthz", "livez" or "readyz"."""
        self._last[check, endpoint] = float(passed)
        key = (check, endpoint, "success" if passed else "error")
        self._totals[key] = self._totals.get(key, 0) + 1

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> list[Metric]:
        """Return the metrics that have a result."""
        last = GaugeMetricFamily(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            labels=("name", "type"),
        )
        for labels, value in self._last.items():
            last.add_metric(labels, value)
        totals = CounterMetricFamily(
            "kubernetes_healthchecks",
            "[STABLE] This metric records the results of all healthcheck.",
            labels=("name", "type", "status"),
        )
        for names, count in self._totals.items():
            totals.add_metric(names, count)
        return [each for each in (last, totals) if each.samples]
