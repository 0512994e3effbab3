"""Queues with shares as objects: our own kind, and that of KAI-Scheduler (scheduling.run.ai/v2)."""

from __future__ import annotations

from kscheduler.api.objects import APIObject, APIStruct, QuantityMap, RawQuantity

# Labels of pods: the queue, and whether others may reclaim the pod's room. KAI-Scheduler's count
# where ours are not.
QUEUE_LABELS = ("kscheduler.io/queue", "kai.scheduler/queue")
PREEMPTIBILITY_LABELS = ("kscheduler.io/preemptibility", "kai.scheduler/preemptibility")
PREEMPTIBLE = "preemptible"
# KAI-Scheduler's third value means that only what a gang has beyond its minimum may be reclaimed. It is taken for the
# stricter one, since pods are judged one by one.
NOT_PREEMPTIBLE = ("non-preemptible", "semi-preemptible")

UNLIMITED = "unlimited"
DEFAULT_PRIORITY = 100


class QueueResource(APIStruct, frozen=True):
    """What a queue is promised of a resource, the most it may use, and its weight where the rest is divided."""

    deserved: RawQuantity = 0  # or "unlimited": all that its parent has
    limit: RawQuantity = UNLIMITED
    weight: RawQuantity = 1


class QueueSpec(APIStruct, frozen=True):
    parent: str = ""  # the name of a queue; "" for one at the top
    priority: int = DEFAULT_PRIORITY
    resources: dict[str, QueueResource] | None = None  # by name; a resource that is not named is not limited
    preempt_min_runtime: str | None = None  # a duration such as "10m": before that, no pod of the queue takes the room
    reclaim_min_runtime: str | None = None  # before that, no pod of another queue does


class QueueStatus(APIStruct, frozen=True):
    """How a queue stands, by resource, and why it cannot be used; "" if it can."""

    message: str = ""
    used: QuantityMap | None = None  # by pods on nodes, and those that are being bound
    requested: QuantityMap | None = None  # that, and what waiting pods ask for
    fair_share: QuantityMap | None = None


class QueueObject(APIObject, frozen=True):
    """A Queue of kscheduler.io/v1alpha1."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class KaiResource(APIStruct, frozen=True):
    """KAI-Scheduler's terms of a resource; -1 is unlimited."""

    quota: float = 0
    over_quota_weight: float = 0
    limit: float = 0


class KaiResources(APIStruct, frozen=True):
    gpu: KaiResource = KaiResource()  # in devices
    cpu: KaiResource = KaiResource()  # in thousandths
    memory: KaiResource = KaiResource()  # in millions of bytes


class KaiQueueSpec(APIStruct, frozen=True):
    parent_queue: str = ""
    priority: int | None = None
    resources: KaiResources | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class KaiQueueObject(APIObject, frozen=True):
    """A Queue of scheduling.run.ai/v2, without what only reporting needs."""

    spec: KaiQueueSpec = KaiQueueSpec()


ShareQueueObject = QueueObject | KaiQueueObject
