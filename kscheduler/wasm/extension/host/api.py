"""`k8s.io/api`: one node by name, and the list of all nodes."""

from __future__ import annotations

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.extension.host.buffers import give, take_text
from kscheduler.wasm.extension.host.scheduler import MAX_NAME
from kscheduler.wasm.extension.host.world import World


class ApiFunctions:
    def __init__(self, world: World) -> None:
        self._world = world

    def node(self, instance: Instance, name: int, size: int, buffer: int, limit: int) -> int:
        node_name = take_text(instance, name, size, MAX_NAME, "a node name")
        return give(instance, self._world.node(node_name), buffer, limit)

    def node_list(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, self._world.node_list(), buffer, limit)
