"""The simplest scheduler there is: each pod in turn on the first node where it fits, waiting pods again at each change.

It keeps its own books from what its watches report, so it is a fair stand-in for the real one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from kscheduler.api.objects import Node, Pod, PodCondition
from kscheduler.client.concurrency import run_together
from kscheduler.client.kinds import NODES, PODS
from kscheduler.client.protocol import Binding, Client, EventType, PodStatusPatch
from kscheduler.clock import Clock
from kscheduler.simulator.amounts import Amounts, node_amounts, pod_amounts


class FirstFit:
    """`overcommit` binds to the first node whatever it has: to see that somebody notices."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        overcommit: bool = False,
        silent: bool = False,
        name: str = "default-scheduler",
    ) -> None:
        self._client = client
        self._overcommit = overcommit
        self._silent = silent  # never says why a pod waits
        self._name = name
        self._free: dict[str, Amounts] = {}  # node -> what is left
        self._waiting: dict[str, Pod] = {}
        self._placed: dict[str, str] = {}  # pod key -> node
        self._work = asyncio.Event()
        self._synced = asyncio.Event()

    async def run(self) -> None:
        nodes = await self._client.list_page(NODES, limit=0)
        self._free = {node.key: node_amounts(node) for node in nodes.items}
        pods = await self._client.list_page(PODS, limit=0)
        for pod in pods.items:
            self._saw(EventType.ADDED, pod)
        self._synced.set()
        await run_together(self._watch(pods.resource_version), self._schedule())

    async def wait_for_sync(self) -> None:
        await self._synced.wait()

    def attempts(self) -> Mapping[str, int]:
        return {}

    def next_retry(self) -> float | None:
        return None

    def queue_of(self, pod: Pod) -> str | None:
        return None

    def held_back_by(self, uid: str) -> str:
        return ""

    async def _watch(self, version: str) -> None:
        while True:
            async for batch in self._client.watch(PODS, resource_version=version):
                for event in batch:
                    version = event.resource_version
                    if event.object is not None:
                        self._saw(event.type, event.object)

    def _saw(self, kind: EventType, pod: Pod) -> None:
        if kind is EventType.DELETED:
            self._waiting.pop(pod.key, None)
            self._take(self._placed.pop(pod.key, ""), pod, -1)
            self._work.set()
        elif pod.spec.node_name and pod.key not in self._placed:
            self._placed[pod.key] = pod.spec.node_name
            self._take(pod.spec.node_name, pod, 1)
        elif not pod.spec.node_name and kind is EventType.ADDED and pod.spec.scheduler_name == self._name:
            self._waiting[pod.key] = pod
            self._work.set()

    def _take(self, node: str, pod: Pod, sign: int) -> None:
        free = self._free.get(node, {})
        for name, amount in pod_amounts(pod).items():
            free[name] = free.get(name, 0) - sign * amount

    async def _schedule(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            for pod in list(self._waiting.values()):
                await self._place(pod)

    async def _place(self, pod: Pod) -> None:
        needs = pod_amounts(pod)
        for node, free in self._free.items():
            if self._overcommit or all(free.get(name, 0) >= amount for name, amount in needs.items()):
                self._waiting.pop(pod.key, None)
                self._placed[pod.key] = node
                self._take(node, pod, 1)
                await self._client.bind(Binding(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node))
                return
        if not self._silent and pod.key in self._waiting:
            recorded = f"0/{len(self._free)} nodes are available: {len(self._free)} too full."
            condition = PodCondition("PodScheduled", "False", "Unschedulable", recorded)
            await self._client.patch_pod_status(pod, PodStatusPatch(condition))


def make_node(name: str, **capacity: str) -> Node:
    from kscheduler.api.objects import NodeStatus, ObjectMeta

    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity={"pods": "110", **capacity}))
