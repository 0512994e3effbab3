"""Measures pods from the first one's creation to the last binding, as reported by the cluster.

The CPU time of scheduler and apiserver is that of the same period. Pods in the measured namespaces that already had a
node do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from collections.abc import Collection as Group
from dataclasses import dataclass, field

from kscheduler.testing.controlplane import HarnessError
from kscheduler.testing.controlplane.load import Created
from perf.workloads.site import Site
from perf.workloads.throughput import samples, summary


@dataclass(frozen=True, slots=True)
class Collected:
    """The figures of one measurement."""

    pods: int
    seconds: float
    created_per_s: float  # rate at which pods were created; 0.0 if not by the operation that is measured
    behind_s: float  # from the last creation to the last binding; small if the load, not the scheduler, was slow
    scheduler_cpu_s: float
    apiserver_cpu_s: float
    peak_memory_bytes: int
    throughput: dict[str, float] = field(default_factory=dict)  # as in scheduler_perf, in pods/s; {} for a short run
    latency_ms: dict[str, float] = field(default_factory=dict)  # from a pod's creation to its binding
    reaction_ms: dict[str, float] = field(default_factory=dict)  # the part until the apiserver got the bind request
    answer_ms: dict[str, float] = field(default_factory=dict)  # the part in which the apiserver carried that out


class Collection:
    """A measurement in progress, from its construction to `finish`."""

    def __init__(self, site: Site, namespaces: Group[str]) -> None:
        self._site = site
        self._namespaces = frozenset(namespaces)
        self._before = set(self._bound())
        self._usage_before = site.usage()
        self._started_s = time.monotonic()

    def finish(self, created: Created | None = None) -> Collected:
        """The figures until now; pods that were created in one go have a beginning and an end of their own."""
        ended_s = time.monotonic()
        usage, before = self._site.usage(), self._usage_before
        log = self._site.pods
        measured = [key for key in self._bound() if key not in self._before]
        bound_s = sorted(at for key in measured if (at := log.bound_s(key)) is not None)
        if not bound_s:
            raise HarnessError("no pod was bound while it was measured")
        started_s = came_s = self._started_s
        if created is not None:
            started_s = created.started_unix_s - (time.time() - time.monotonic())
            came_s = started_s + created.seconds
        latencies = _between_ms(measured, log.created_s, log.bound_s)
        return Collected(
            pods=len(bound_s),
            seconds=bound_s[-1] - started_s,
            created_per_s=created.per_second if created else 0.0,
            behind_s=max(0.0, bound_s[-1] - came_s),
            scheduler_cpu_s=usage.scheduler_cpu_s - before.scheduler_cpu_s,
            apiserver_cpu_s=usage.apiserver_cpu_s - before.apiserver_cpu_s,
            peak_memory_bytes=usage.peak_memory_bytes,
            throughput=summary(samples(bound_s, self._started_s, ended_s)),
            latency_ms=summary(latencies) | {"Max": max(latencies)},
            reaction_ms=summary(_between_ms(measured, log.created_s, log.asked_s)),
            answer_ms=summary(_between_ms(measured, log.asked_s, log.bound_s)),
        )

    def _bound(self) -> list[str]:
        return [key for key in self._site.pods.bound() if key.partition("/")[0] in self._namespaces]


When = Callable[[str], float | None]  # key of a pod -> a moment, if it is known


def _between_ms(pods: Iterable[str], begin: When, end: When) -> list[float]:
    """Of each pod of which both are known. A binding may be asked for before the creation it follows is answered."""
    return [
        1000 * max(0.0, ended - began)
        for key in pods
        if (ended := end(key)) is not None and (began := begin(key)) is not None
    ]
