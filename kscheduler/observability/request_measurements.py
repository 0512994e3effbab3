"""Records the metrics of requests to the apiserver."""

from __future__ import annotations

from kscheduler._fast import Histogram
from kscheduler.observability.instruments import Counter
from kscheduler.observability.metrics import Metrics


class RestClientMeasurements:
    """Records the metrics of requests to the apiserver, for the client."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._answered: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}  # (code, verb, host) -> children
        self._sizes: dict[tuple[str, str], tuple[Histogram, Histogram]] = {}  # (verb, host) -> of requests, of answers

    def observe(
        self,
        verb: str,
        host: str,
        code: str,
        duration_s: float,
        sent_bytes: int | None = None,
        received_bytes: int | None = None,
    ) -> None:
        found = self._answered.get((code, verb, host))
        if found is None:
            found = self._answered[code, verb, host] = (
                self._metrics.rest_client_requests_total.labels(code, verb, host),
                self._metrics.rest_client_request_duration_seconds.labels(verb, host),
            )
        found[0].value += 1
        found[1].observe(duration_s)
        if sent_bytes is None:
            return
        sizes = self._sizes.get((verb, host))
        if sizes is None:
            sizes = self._sizes[verb, host] = (
                self._metrics.rest_client_request_size_bytes.labels(verb, host),
                self._metrics.rest_client_response_size_bytes.labels(verb, host),
            )
        sizes[0].observe(sent_bytes)
        if received_bytes is not None:
            sizes[1].observe(received_bytes)

    def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
        self._metrics.rest_client_rate_limiter_duration_seconds.labels(verb, host).observe(duration_s)
