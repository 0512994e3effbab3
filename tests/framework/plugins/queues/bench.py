"""A profile that fits by resources and shares nodes among queues, in a cluster that only takes notes."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.objects import Node, ObjectMeta, RawQuantity
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.framework.interface import PostFilterResult
from kscheduler.framework.plugins.queues.plugin import Queues
from kscheduler.framework.status import Status
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.testing import PodBuilder
from tests.framework.plugins.quota_bench import QuotaBench

LABEL = "kscheduler.io/queue"


def make_queue(
    name: str,
    parent: str = "",
    deserved: RawQuantity = 0,
    limit: RawQuantity = "unlimited",
    weight: RawQuantity = 1,
    priority: int = 100,
    preempt_min: str | None = None,
    reclaim_min: str | None = None,
) -> QueueObject:
    """A queue that shares cpu."""
    return QueueObject(
        ObjectMeta(name=name),
        QueueSpec(parent, priority, {"cpu": QueueResource(deserved, limit, weight)}, preempt_min, reclaim_min),
    )


class Bench(QuotaBench[Queues]):
    def __init__(self, *queues: QueueObject, most_moved: int = 0) -> None:
        self.queues = ShareQueues(most_moved=most_moved)
        for queue in queues:
            self.queues.set(queue.metadata.name, queue)
        self.retries: list[tuple[str, float]] = []  # pod, seconds
        super().__init__(
            Queues,
            share_queues=self.queues,
            retry=lambda pod, seconds: self.retries.append((pod.pod.metadata.name, seconds)),
        )
        self.cache.follow(self.queues)

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.queues.set_node(node)

    def preempt(
        self, pod: PodBuilder, statuses: Mapping[str, Status] | None = None
    ) -> tuple[PostFilterResult | None, Status | None]:
        """PostFilter after PreFilter, for a pod that waits; by default every node rejects for want of room."""
        self.queues.pod_waits(pod.obj())
        return super().preempt(pod, statuses)
