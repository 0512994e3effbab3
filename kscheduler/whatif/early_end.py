"""Ends a simulation as soon as it is certain that an objective will not be met.

Thousands of pods that wait are tried again and again, so that a cluster that is far too small takes much longer to
simulate than one that is large enough, and the answer is known long before the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence

from kscheduler.simulator.scenario import Arrival
from kscheduler.whatif.objective import Objective

MANY = 200  # pods that wait; with fewer the simulation ends soon, and shows why they wait


class NeverMet(Exception):
    """An objective on waiting times can no longer be met."""

    def __init__(self, objective: Objective) -> None:
        super().__init__(objective.text)
        self.objective = objective


class EarlyEnd:
    """Watches the progress of a simulation. Implements `Progress`; `update` raises NeverMet.

    Pods that came more than an objective's time ago have waited too long, except for as many as were bound or have
    left: so many pods at least miss the objective, whichever they are.
    """

    def __init__(
        self, objectives: Iterable[Objective], arrivals: Sequence[Arrival], schedulers: Container[str]
    ) -> None:
        self._arrivals = arrivals
        self._came_s: list[float] = []  # when the pods came that the simulated scheduler places
        self._existing = [0]  # how many of the first n arrivals have a node
        for arrival in arrivals:
            spec = arrival.pod.spec
            self._existing.append(self._existing[-1] + bool(spec.node_name))
            if not spec.node_name and spec.scheduler_name in schedulers:
                self._came_s.append(arrival.at_s)
        limits = ((each, each.may_miss(len(self._came_s))) for each in objectives)
        self._limits = [(objective, most) for objective, most in limits if most is not None]

    def update(self, *, arrived: int, bound: int, pending: int, virtual_s: float) -> None:
        """Raise NeverMet if an objective will not be met. The time is taken from the latest arrival."""
        if pending < MANY or not arrived:
            return
        now_s = self._arrivals[arrived - 1].at_s
        done = arrived - self._existing[arrived] - pending
        for objective, most in self._limits:
            waited_too_long = bisect_left(self._came_s, now_s - objective.value) - done
            if waited_too_long > most:
                raise NeverMet(objective)
