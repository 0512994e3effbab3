"""Makes further nodes of a shape: like those of the cluster, or as the simulator generates them.

The shape of a node of the cluster is the value of its label `node-shape` (which generated nodes have) or of its
instance type. A node's name can stand for a shape, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kscheduler.api.objects import Node, NodeCondition, NodeSpec, ObjectMeta
from kscheduler.api.topology_labels import ZONE
from kscheduler.errors import ConfigError
from kscheduler.simulator.workload import NodeShape, node_of
from kscheduler.simulator.workload_devices import NodeDevices
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.sweep.spelling import did_you_mean

SHAPE_LABELS = ("node-shape", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
# Taints with this prefix say in what condition a node was, and a new one is in none of them.
_CONDITION_TAINTS = "node.kubernetes.io/"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
ADDED = "added-"  # with which the names of added nodes begin
MOST_LISTED = 20  # shapes that an error lists


class AddedNode(NamedTuple):
    """A further node, and what it is made from."""

    node: Node
    model: str  # the node of the cluster that it is a copy of; "" for a generated one
    devices: Sequence[NodeDevices] = ()  # of a generated node


def shape_of(node: Node) -> str:
    """Return the node's shape, "" for a node without one."""
    labels = node.metadata.labels or {}
    return next((labels[key] for key in SHAPE_LABELS if labels.get(key)), "")


class Shapes:
    """The shapes of which nodes can be added: those of the cluster's nodes, and those of the generator."""

    def __init__(self, nodes: Sequence[Node], generated: Sequence[NodeShape]) -> None:
        self._nodes = {node.metadata.name: node for node in nodes}
        self._of_cluster: dict[str, list[Node]] = {}
        for node in nodes:
            if shape := shape_of(node):
                self._of_cluster.setdefault(shape, []).append(node)
        self._generated = {shape.name: shape for shape in generated}
        self._zones = list(dict.fromkeys(zone for node in nodes if (zone := (node.metadata.labels or {}).get(ZONE))))

    def check(self, flag: str, shape: str) -> None:
        """Raise ConfigError, with the nearest shape, if there is no such shape."""
        if shape in self._of_cluster or shape in self._nodes or shape in self._generated:
            return
        valid = list(dict.fromkeys((*self._of_cluster, *self._generated)))
        raise ConfigError(f"{flag}: {did_you_mean('shape', shape, valid[:MOST_LISTED])}")

    def make(self, shape: str, count: int) -> Iterator[AddedNode]:
        """Yield nodes of a valid shape. Fewer nodes of a shape are the first of more, so that counts can be compared.

        They are spread over the zones as those of the cluster are: each is a copy of the next node of the shape, or,
        if it is generated, in the next zone.
        """
        patterns = self._of_cluster.get(shape) or ([self._nodes[shape]] if shape in self._nodes else [])
        stem = _NOT_IN_NAMES.sub("-", shape.lower()).strip("-") or "node"
        number = 0
        for index in range(count):
            while (name := f"{ADDED}{stem}-{number}") in self._nodes:
                number += 1
            number += 1
            if patterns:
                model = patterns[index % len(patterns)]
                yield AddedNode(_like(model, name), model.metadata.name)
            else:
                zone = self._zones[index % len(self._zones)] if self._zones else ""
                generated = self._generated[shape]
                node = node_of(name, generated, zone)
                node = replace(node, metadata=replace(node.metadata, uid=name))
                yield AddedNode(node, "", generated.devices)


def _like(node: Node, name: str) -> Node:
    """Return a new node with this node's labels, taints and capacity."""
    labels = dict(node.metadata.labels or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    taints = [taint for taint in node.spec.taints or () if not taint.key.startswith(_CONDITION_TAINTS)]
    return replace(
        node,
        metadata=ObjectMeta(name=name, uid=name, labels=labels or None, annotations=node.metadata.annotations),
        spec=NodeSpec(taints=taints or None),
        status=replace(node.status, images=None, conditions=[NodeCondition("Ready", "True")]),
    )
