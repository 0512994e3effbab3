"""The difference between two versions of a node, computed once for the cache, the queue and the node classes."""

from __future__ import annotations

from typing import NamedTuple

from kscheduler.api.objects import Node


class NodeChange(NamedTuple):
    """Which parts of a node differ between two versions; absent and empty parts are equal.

    Quantities are compared as text: the kubelet always writes the same form, and another spelling only costs time.
    """

    allocatable: bool
    labels: bool
    annotations: bool
    taints: bool
    cordoned: bool
    uncordoned: bool
    images: bool
    declared_features: bool
    conditions: bool  # their types and statuses; other fields change with every heartbeat

    @classmethod
    def between(cls, old: Node, new: Node) -> NodeChange:
        before, after = old.status, new.status
        return cls(
            allocatable=_differ(before.allocatable, after.allocatable),
            labels=_differ(old.metadata.labels, new.metadata.labels),
            annotations=_differ(old.metadata.annotations, new.metadata.annotations),
            taints=_differ(old.spec.taints, new.spec.taints),
            cordoned=new.spec.unschedulable and not old.spec.unschedulable,
            uncordoned=old.spec.unschedulable and not new.spec.unschedulable,
            images=_differ(before.images, after.images),
            declared_features=_differ(before.declared_features, after.declared_features),
            conditions=_conditions(old) != _conditions(new),
        )

    @property
    def alters_class(self) -> bool:
        """True if the change moves the node to another node class, i.e. a set of nodes equal to all static filters."""
        return self.labels or self.taints or self.cordoned or self.uncordoned

    @property
    def is_seen_by_plugins(self) -> bool:
        """True if anything besides the conditions changed, which no plugin reads."""
        return any(self[:-1])


def _differ(old: object, new: object) -> bool:
    return (old or None) != (new or None)


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions or ()}
