"""What the watch shows of nodes and waiting pods reaches the queues with shares, and the handlers behind."""

from __future__ import annotations

from typing import Any

from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.client.kinds import NODES, PODS, SERVICES
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.testing import PodBuilder, make_node, make_pod
from kscheduler.watch.share_queue_events import ShareQueueWatch


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
