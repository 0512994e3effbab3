"""Serves metrics.k8s.io/v1beta1 for a simulated cluster's nodes, computed from their real load as metrics-server does.

It samples all nodes at an interval. The reported CPU is the mean between the last two samples, memory the value of the
last one, both at most the node's capacity; the timestamp is that of the last sample. A node appears after two samples.
Nodes that exist at the first request are assumed to have had a constant load before it. There is no periodic timer:
samples that are due are taken before a load changes, and at each request.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kscheduler.client.times import rfc3339
from kscheduler.errors import APIError, NotFound
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Faults, Verb
from kscheduler.simulator.metrics_plan import HANG, UNAVAILABLE, MetricsPlan
from kscheduler.simulator.real_load import RealLoad

API = "/apis/metrics.k8s.io/v1beta1"
NODES = f"{API}/nodes"
_NANO = 1_000_000  # billionths in a thousandth (of a core)
_KIB = 1024


class _Look(NamedTuple):
    at_s: float
    cpu: list[float]  # node row -> thousandths of a core × seconds, since the node was created
    memory: list[float]  # node row -> bytes


class MetricsServer:
    def __init__(self, load: Callable[[], RealLoad], interval_s: float) -> None:
        self._make_load = load
        self._interval_s = interval_s
        self._load: RealLoad | None = None  # None until the first request
        self._start_s = 0.0
        self._number = 0  # number of the last sample
        self._before = self._last = _Look(0.0, [], [])
        self._answer = b""  # the encoded answer; b"" if it has to be encoded

    def answer(self) -> bytes:
        """Return a NodeMetricsList as JSON, with the values of the last sample."""
        load = self._load or self._begin()
        self._catch_up(load.clock.now())
        if not self._answer:
            self._answer = self._write(load)
        return self._answer

    def _begin(self) -> RealLoad:
        load = self._load = self._make_load()
        now = self._start_s = load.clock.now()
        self._last = look = self._look(now)
        steady = [
            known - node.loads[0].at(now) * self._interval_s for known, node in zip(look.cpu, load.nodes, strict=True)
        ]
        self._before = _Look(now - self._interval_s, steady, look.memory)
        load.before_change.append(self._catch_up)
        return load

    def _catch_up(self, now: float) -> None:
        number = math.floor((now - self._start_s) / self._interval_s)
        if number <= self._number:
            return
        # Loads have not changed since the last sample that was due at a change, so earlier ones can still be taken now.
        self._before = self._last if number == self._number + 1 else self._look_at(number - 1)
        self._last = self._look_at(number)
        self._number = number
        self._answer = b""

    def _look_at(self, number: int) -> _Look:
        return self._look(self._start_s + number * self._interval_s)

    def _look(self, at_s: float) -> _Look:
        assert self._load is not None
        nodes = self._load.nodes
        cpu = [node.loads[0].integral_until(at_s) for node in nodes]
        return _Look(at_s, cpu, [node.loads[1].at(at_s) for node in nodes])

    def _write(self, load: RealLoad) -> bytes:
        wall = load.clock.wall() - load.clock.now()
        window_s = self._last.at_s - self._before.at_s
        timestamp = rfc3339(wall + self._last.at_s)
        items = []
        for node, since, cpu, memory in zip(
            load.nodes, self._before.cpu, self._last.cpu, self._last.memory, strict=False
        ):
            if node.gone:
                continue
            of_cpu, of_memory = node.loads
            used_milli = min((cpu - since) / window_s, of_cpu.capacity)
            usage = {
                "cpu": f"{round(used_milli * _NANO)}n",
                "memory": f"{round(min(memory, of_memory.capacity) / _KIB)}Ki",
            }
            items.append(
                {
                    "metadata": {"name": node.name, "creationTimestamp": timestamp},
                    "timestamp": timestamp,
                    "window": f"{window_s:g}s",
                    "usage": usage,
                }
            )
        return msgspec.json.encode(
            {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}
        )


def serve_metrics(
    cluster: Cluster, load: Callable[[], RealLoad], plan: MetricsPlan, faults: Faults, played_s: Callable[[], float]
) -> None:
    """Register the metrics API with the cluster, and its outages with `faults`.

    `played_s` returns the seconds since the first arrival, in which outages are given.
    """
    server = MetricsServer(load, plan.interval_s)

    def answer(path: str) -> bytes:
        if path != NODES:
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        if plan.fails(UNAVAILABLE, played_s()):
            message = "the server is currently unable to handle the request"
            raise APIError(message, status=503, reason="ServiceUnavailable")
        return server.answer()

    cluster.aggregated[API] = answer
    for outage in plan.outages:
        if outage.kind == HANG:
            faults.add(
                FaultKind.TIMEOUT,
                Verb.GET_AGGREGATED,
                resource=NODES,
                delay_s=outage.until_s - outage.from_s,
                matches=lambda _, outage=outage: outage.holds(played_s()),  # type: ignore[misc]
            )
