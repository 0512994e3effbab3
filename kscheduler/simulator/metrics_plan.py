"""The metrics API of a simulated cluster: how often it looks at nodes, and when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNAVAILABLE = "unavailable"  # it answers 503
HANG = "hang"  # it does not answer
KINDS = (UNAVAILABLE, HANG)
DEFAULT_INTERVAL_S = 15.0  # metrics-server's --metric-resolution in its own manifests


@dataclass(frozen=True, slots=True)
class Outage:
    """Seconds since the first arrival."""

    kind: str  # one of KINDS
    from_s: float
    until_s: float

    def holds(self, at_s: float) -> bool:
        return self.from_s <= at_s < self.until_s


@dataclass(frozen=True, slots=True)
class MetricsPlan:
    interval_s: float = DEFAULT_INTERVAL_S
    outages: Sequence[Outage] = ()

    def fails(self, kind: str, at_s: float) -> bool:
        return any(outage.kind == kind and outage.holds(at_s) for outage in self.outages)

    @property
    def last_outage_s(self) -> float:
        """Until when something may be wrong."""
        return max((outage.until_s for outage in self.outages), default=0.0)
