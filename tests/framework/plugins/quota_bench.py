"""A profile that fits by resources and preempts by the quotas of a plugin, and a cluster that only takes notes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin, ProfileHandle
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.capacityscheduling.plugin import CapacityScheduling
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.plugins.queues.plugin import Queues
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Status
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder
from tests.framework.plugins.defaultpreemption.fakes import NotedEvictions, PreemptingBench

PROFILE = "default-scheduler"
P = TypeVar("P", CapacityScheduling, Queues)


class QuotaBench(PreemptingBench, Generic[P]):
    """Nodes of 4 cpu and 8Gi by default. `handle` are further fields of the handle."""

    def __init__(self, plugin: Callable[[Handle], P], **handle: Any) -> None:
        self.cache = Cache()
        self.evictions = NotedEvictions()
        self.budgets = DisruptionBudgets()
        self.nominations = Nominations()
        profiles: dict[str, ProfileHandle] = {}
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(1),
            profiles=profiles,
            nominations=self.nominations,
            budgets=self.budgets,
            evictions=self.evictions,
            **handle,
        )
        self.plugin: P = plugin(self.handle)
        fit = Fit(self.handle)
        points: dict[str, list[tuple[Plugin, int]]] = {
            "preFilter": [(fit, 1), (self.plugin, 1)],
            "filter": [(fit, 1)],
        }
        self.framework = Framework(PROFILE, points, self.handle, observer=Measurements(), stopwatch=lambda: 0.0)
        profiles[PROFILE] = self.framework

    def nominate(self, pod: PodBuilder, node_name: str) -> None:
        self.nominations.nominate(PodInfo(pod.obj()), node_name)

    def schedule(self, pod: PodBuilder) -> Decision | Rejection:
        """A cycle without preemption."""
        return self.framework.schedule_pod(CycleState(), PodInfo(pod.obj()))

    def choose(self, pod: PodBuilder) -> str:
        found = self.schedule(pod)
        assert isinstance(found, Decision), found
        return found.node_name

    def why_not(self, pod: PodBuilder) -> str:
        found = self.schedule(pod)
        assert isinstance(found, Rejection), found
        return found.diagnosis.pre_filter_message

    async def victims(self, pod: PodBuilder) -> list[str]:
        """Preempt for the pod; the names of the pods that are deleted."""
        self.preempt(pod)
        await self.evictions.run()
        return [line.removeprefix("deleted ") for line in self.evictions.log if line.startswith("deleted ")]

    def refused(self, pod: PodBuilder, statuses: Mapping[str, Status] | None = None) -> str:
        """Why nobody is evicted for the pod."""
        result, status = self.preempt(pod, statuses)
        assert result is None or not result.nominated_node_name
        assert status is not None
        return status.message
