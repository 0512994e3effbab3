"""What the watch shows of queues, nodes and waiting pods reaches the queues with shares, and the handlers behind."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec, QueueStatus
from kscheduler.client.kinds import KAI_QUEUES, NODE_DOCUMENTS, NODES, PODS, SERVICES, SHARE_QUEUES
from kscheduler.framework.events import SHARE_QUEUES as QUEUES_RESOURCE
from kscheduler.framework.events import Action, ClusterEvent, Registration
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from kscheduler.watch.share_queue_events import ShareQueueWatch
from tests.support.clocks import ManualClock

QUEUE = QueueObject(ObjectMeta(name="a", uid="1"), QueueSpec(resources={"cpu": QueueResource(1)}))


class Noting:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_add(self, obj: Any) -> None:
        self.seen.append(f"add {obj.metadata.name}")

    def on_update(self, old: Any, new: Any) -> None:
        self.seen.append(f"update {new.metadata.name}")

    def on_delete(self, obj: Any) -> None:
        self.seen.append(f"delete {obj.metadata.name}")


def queues() -> ShareQueues:
    made = ShareQueues()
    made.set("a", QueueObject(ObjectMeta(name="a"), QueueSpec(resources={"cpu": QueueResource(1)})))
    return made


def pod(name: str = "p") -> PodBuilder:
    return make_pod(name).uid(name).req(cpu="1").label("kscheduler.io/queue", "a")


def asked(made: ShareQueues) -> int:
    return made.tree.queues["a"].shares["cpu"].request


def around(made: ShareQueues, resource: Any) -> tuple[Any, Noting]:
    behind = Noting()
    watch = ShareQueueWatch(made, {"default-scheduler"})
    return watch.around(lambda resource, handler: behind)(resource, Noting()), behind


def test_a_pod_asks_for_room_while_it_waits() -> None:
    made = queues()
    handler, behind = around(made, PODS)
    waits, gated = pod().obj(), pod().scheduling_gate("g").obj()
    handler.on_add(gated)
    assert asked(made) == 0
    handler.on_update(gated, waits)
    assert asked(made) == 1000
    handler.on_update(waits, pod().terminating().obj())
    assert asked(made) == 0
    handler.on_update(waits, waits)
    bound: Pod = pod().node("n").obj()
    handler.on_update(waits, bound)
    assert asked(made) == 0, "from now on the cache counts it"
    handler.on_delete(bound)
    assert behind.seen == ["add p", *["update p"] * 4, "delete p"]


def test_pods_of_other_schedulers_ask_for_nothing() -> None:
    made = queues()
    handler, _ = around(made, PODS)
    handler.on_add(pod().scheduler_name("other").obj())
    assert asked(made) == 0


def test_nodes_are_what_there_is_to_divide() -> None:
    made = queues()
    handler, behind = around(made, NODES)
    small: Node = make_node("n").capacity(cpu="2").obj()
    handler.on_add(small)
    handler.on_update(small, make_node("n").capacity(cpu="3").obj())
    assert made.total == {"cpu": 3000}
    handler.on_delete(small)
    assert made.total == {"cpu": 0}
    assert behind.seen == ["add n", "update n", "delete n"]


def test_other_kinds_are_left_alone() -> None:
    handler, behind = around(queues(), SERVICES)
    assert handler is behind


def test_complete_nodes_which_are_watched_besides_are_left_alone() -> None:
    handler, behind = around(queues(), NODE_DOCUMENTS)
    assert handler is behind


class RejectedPod:
    """A pod that the plugin Queues rejected; every event about Queue objects is offered to its queueing hint."""

    def __init__(self) -> None:
        clock = ManualClock(now=50.0)
        self.heard: list[tuple[object, object]] = []  # (old, new) of each event
        self.wakes = 0
        registered = Registration(ClusterEvent(QUEUES_RESOURCE, Action.ALL), self._hint)
        self.queue = SchedulingQueue(
            lambda queued: (queued.timestamp,),
            lambda pod: None,
            registered={ANY_PROFILE: {"Queues": [registered]}},
            clock=clock.now,
        )
        self.queues = ShareQueues()
        watch = ShareQueueWatch(self.queues, {"default-scheduler"})
        self.handlers = dict(watch.informers(self.queue, clock=clock, wake=self._wake))
        self.queue.add(PodInfo(pod().obj()), 0.0)
        popped = self.queue.pop(0.0)
        assert popped is not None
        self.queue.add_unschedulable_if_not_present(popped, 0.0, {"Queues"})

    def _hint(self, pod: Pod, old: object, new: object) -> bool:
        self.heard.append((old, new))
        return False

    def _wake(self) -> None:
        self.wakes += 1


def test_every_change_of_a_queue_object_is_an_event_and_reaches_the_queues() -> None:
    rejected = RejectedPod()
    handler = rejected.handlers[SHARE_QUEUES]
    grown = replace(QUEUE, spec=QueueSpec(resources={"cpu": QueueResource(2)}))
    handler.on_add(QUEUE)
    assert list(rejected.queues.objects()) == [QUEUE]
    handler.on_update(QUEUE, grown)
    assert list(rejected.queues.objects()) == [grown]
    handler.on_delete(grown)
    assert list(rejected.queues.objects()) == []
    assert rejected.heard == [(None, QUEUE), (QUEUE, grown), (grown, None)]
    assert rejected.wakes == 3


def test_a_change_of_a_queue_objects_status_alone_is_kept_and_is_no_event() -> None:
    rejected = RejectedPod()
    handler = rejected.handlers[SHARE_QUEUES]
    handler.on_add(QUEUE)
    used = replace(QUEUE, status=QueueStatus("it may not be used"))
    handler.on_update(QUEUE, used)
    assert [each is used for each in rejected.queues.objects()] == [True]
    assert rejected.heard == [(None, QUEUE)]


def test_queue_objects_of_both_kinds_with_one_name_are_kept_apart() -> None:
    rejected = RejectedPod()
    rejected.handlers[SHARE_QUEUES].on_add(QUEUE)
    rejected.handlers[KAI_QUEUES].on_add(QUEUE)
    assert len(list(rejected.queues.objects())) == 2
    rejected.handlers[KAI_QUEUES].on_delete(QUEUE)
    assert len(list(rejected.queues.objects())) == 1
