"""Which changes of pods and nodes may help a pod that spreading has rejected; kube-scheduler's rules.

Pods that a hard constraint's selector matches, in the pod's own namespace, change how full domains are; nodes that
have all topology keys change which domains there are. All else leaves the pod where it is.
"""

from __future__ import annotations

from kscheduler.api.objects import Node, Pod
from kscheduler.errors import DecodeError
from kscheduler.framework.plugins.podtopologyspread.by_node import has_all_keys
from kscheduler.framework.plugins.podtopologyspread.constraints import Compiler, Constraint


class Hints:
    """True wakes the pod, also where its constraints or the object cannot be read."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """`old` is None for a pod that has come to a node, `new` for one that has gone; else the pod has changed."""
        before, after = _pod(old), _pod(new)
        changed = after or before
        constraints = self._hard(waiting)
        if changed is None or constraints is None:
            return True
        if not _is_involved(changed, waiting, is_gone=after is None):
            return False
        if before is None or after is None:
            return any(_matches(constraint, changed) for constraint in constraints)
        is_itself = after.metadata.uid == waiting.metadata.uid
        if (
            is_itself
            and before.spec.tolerations != after.spec.tolerations
            and any(c.honors_taints for c in constraints)
        ):
            return True
        return any(_matches(constraint, before) != _matches(constraint, after) for constraint in constraints)

    def after_node(self, waiting: Pod, old: object, new: object) -> bool:
        """`old` is None for a new node, `new` for one that is gone; else its labels or taints changed."""
        before, after = _node(old), _node(new)
        constraints = self._hard(waiting)
        if constraints is None or (before is None and after is None):
            return True
        had, has = _has_all_keys(before, constraints), _has_all_keys(after, constraints)
        if before is None or after is None:
            return had or has
        if had != has:
            return True
        return has and (_moved(before, after, constraints) or before.spec.taints != after.spec.taints)

    def _hard(self, waiting: Pod) -> tuple[Constraint, ...] | None:
        try:
            return self._compiler.compile(waiting).hard
        except DecodeError:
            return None


def _is_involved(changed: Pod, waiting: Pod, *, is_gone: bool) -> bool:
    """Does the constraint look at this pod at all?

    It must be on a node, or about to be; one that went may have been assumed there, without its object saying so.
    """
    if changed.metadata.uid == waiting.metadata.uid:
        return True
    is_placed = is_gone or bool(changed.spec.node_name or changed.status.nominated_node_name)
    return is_placed and changed.metadata.namespace == waiting.metadata.namespace


def _matches(constraint: Constraint, pod: Pod) -> bool:
    return constraint.pods.selector.matches(pod.metadata.labels or {})


def _has_all_keys(node: Node | None, constraints: tuple[Constraint, ...]) -> bool:
    return node is not None and has_all_keys(node.metadata.labels or {}, constraints)


def _moved(before: Node, after: Node, constraints: tuple[Constraint, ...]) -> bool:
    old, new = before.metadata.labels or {}, after.metadata.labels or {}
    return any(old.get(each.topology_key, "") != new.get(each.topology_key, "") for each in constraints)


def _pod(subject: object) -> Pod | None:
    return subject if isinstance(subject, Pod) else None


def _node(subject: object) -> Node | None:
    return subject if isinstance(subject, Node) else None
