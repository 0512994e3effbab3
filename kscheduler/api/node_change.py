"""The difference between two versions of a node: found once for the cache, the queue and the node classes."""

from __future__ import annotations

from typing import NamedTuple

from kscheduler.api.objects import Node


class NodeChange(NamedTuple):
    """True for each part that differs; absent and empty parts are equal.

    Quantities are compared as text: the kubelet writes one form, and another spelling only costs a needless look.
    """

    allocatable: bool
    labels: bool
    annotations: bool
    taints: bool
    cordoned: bool
    uncordoned: bool
    images: bool
    declared_features: bool
    conditions: bool  # types and statuses; times and texts in a condition change with every heartbeat

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
        """True if the node belongs to another node class now."""
        return self.labels or self.taints or self.cordoned or self.uncordoned

    @property
    def is_seen_by_plugins(self) -> bool:
        """True if more than conditions changed, which no plugin reads."""
        return any(self[:-1])


def _differ(old: object, new: object) -> bool:
    return (old or None) != (new or None)


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions or ()}
