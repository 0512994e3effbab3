"""Describes a simulated cluster's metrics API (metrics.k8s.io): how often it samples nodes, and when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

UNAVAILABLE = "unavailable"  # requests are answered with 503
HANG = "hang"  # requests get no answer
KINDS = (UNAVAILABLE, HANG)
DEFAULT_INTERVAL_S = 15.0  # metrics-server's --metric-resolution in its own manifests


class Outage(msgspec.Struct, frozen=True, rename={"from_s": "from", "until_s": "until"}):
    """A period in which the metrics API fails; times are seconds since the first arrival."""

    kind: str = ""  # UNAVAILABLE or HANG
    from_s: float = 0.0
    until_s: float = 0.0

    def holds(self, at_s: float) -> bool:
        return self.from_s <= at_s < self.until_s


class MetricsPlan(msgspec.Struct, frozen=True, rename={"interval_s": "interval"}):
    interval_s: float = DEFAULT_INTERVAL_S
    outages: Sequence[Outage] = ()

    def fails(self, kind: str, at_s: float) -> bool:
        return any(outage.kind == kind and outage.holds(at_s) for outage in self.outages)

    @property
    def last_outage_s(self) -> float:
        """The time when the last outage ends, in seconds since the first arrival; 0 without outages."""
        return max((outage.until_s for outage in self.outages), default=0.0)
