"""What a pod asks of its queue with shares: the queue, the amounts, and whether others may reclaim them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from kscheduler.api.objects import Pod, PodSpec
from kscheduler.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    PodResources,
    depends_on_status,
    pod_resources,
)
from kscheduler.api.share_queues import NOT_PREEMPTIBLE, PREEMPTIBILITY_LABELS, PREEMPTIBLE, QUEUE_LABELS
from kscheduler.quotas.queues import Amounts

NO_QUEUE = ""
MOST_REQUESTS = 4_096  # whose amounts are remembered


@dataclass(frozen=True, slots=True)
class Demand:
    queue: str  # the name that the pod states; "" for none
    amounts: Amounts
    is_preemptible: bool
    priority: int = 0  # of such pods

    def times(self, number: int) -> Demand:
        """Return the demand of so many equal pods."""
        return replace(self, amounts={resource: number * amount for resource, amount in self.amounts.items()})


def together(demands: Sequence[Demand], number: int) -> Demand | None:
    """Return what so many of these pods ask for at most, as one job; None if they are not all in one queue.

    They can be reclaimed if each of them can, and are as important as the least important one.
    """
    first = demands[0]
    if all(demand is first for demand in demands):  # pods of one template share it
        return first.times(min(number, len(demands)))
    if any(demand.queue != first.queue for demand in demands):
        return None
    resources = dict.fromkeys(resource for demand in demands for resource in demand.amounts)
    amounts = {
        resource: sum(sorted((demand.amounts.get(resource, 0) for demand in demands), reverse=True)[:number])
        for resource in resources
    }
    return Demand(
        first.queue,
        amounts,
        all(demand.is_preemptible for demand in demands),
        min(demand.priority for demand in demands),
    )


class Demands:
    """Reads demands of pods."""

    def __init__(
        self, default_queue: str = "", non_preemptible_priority: int = 100, *, sums_resizes_apart: bool = False
    ) -> None:
        """`default_queue`: of pods whose labels name none. `sums_resizes_apart`: see `Release`.

        Pods of `non_preemptible_priority` or a higher one are not preemptible unless they say so.
        """
        self._default_queue = default_queue
        self._non_preemptible_priority = non_preemptible_priority
        self._sums_resizes_apart = sums_resizes_apart
        # id of a pod's resources -> these, which keeps the id from meaning others, and their amounts.
        self._known: dict[int, tuple[PodResources, Amounts]] = {}
        # Pods of one template share their parts (api/sharing.py): ids of labels and containers -> these labels and a
        # spec that has the containers, and the demand of such pods.
        self._of_templates: dict[tuple[int, int], tuple[object, PodSpec, Demand]] = {}

    def of(self, pod: Pod) -> Demand:
        """Return the demand of a pod. Raises DecodeError, naming field and value, for a malformed amount."""
        labels, spec = pod.metadata.labels, pod.spec
        key = id(labels), id(spec.containers)
        known = self._of_templates.get(key)
        if (
            known is not None
            and known[0] is labels
            and known[1].containers is spec.containers
            and known[1].init_containers is spec.init_containers
            and known[1].overhead is spec.overhead
            and known[1].resources is spec.resources
            and known[1].priority == spec.priority
            and not depends_on_status(pod)
        ):
            return known[2]
        demand = Demand(self.queue_of(pod), self.amounts_of(pod), self.is_preemptible(pod), spec.priority or 0)
        if not depends_on_status(pod):
            if len(self._of_templates) >= MOST_REQUESTS:
                self._of_templates.clear()
            self._of_templates[key] = labels, spec, demand
        return demand

    def queue_of(self, pod: Pod) -> str:
        """Return the name of the pod's queue; "" if it has none."""
        return _label(pod.metadata.labels, QUEUE_LABELS) or self._default_queue

    def is_preemptible(self, pod: Pod) -> bool:
        """Return True if the pod's room may be reclaimed. A value of its label that is not known does not count."""
        stated = _label(pod.metadata.labels, PREEMPTIBILITY_LABELS)
        if stated == PREEMPTIBLE:
            return True
        if stated in NOT_PREEMPTIBLE:
            return False
        return (pod.spec.priority or 0) < self._non_preemptible_priority

    def amounts_of(self, pod: Pod) -> Amounts:
        """Return what the pod requests, as NodeResourcesFit counts it, and one of resource `pods`. Read it only."""
        resources = pod_resources(pod, sums_resizes_apart=self._sums_resizes_apart)
        known = self._known.get(id(resources))
        if known is not None:
            return known[1]
        amounts = _amounts(resources)
        if len(self._known) >= MOST_REQUESTS:
            self._known.clear()
        self._known[id(resources)] = resources, amounts
        return amounts


def _label(labels: Mapping[str, str] | None, names: Sequence[str]) -> str:
    """Return the value of the first of these labels that is there and not empty; "" if none is."""
    return next((labels[name] for name in names if labels.get(name)), "") if labels else ""


def _amounts(resources: PodResources) -> Amounts:
    total = resources.total
    native = {CPU: total.cpu_milli, MEMORY: total.memory, EPHEMERAL_STORAGE: total.ephemeral_storage, PODS: 1}
    return MappingProxyType({name: amount for name, amount in (native | dict(total.scalars)).items() if amount})
