"""Queueing hints for pods that PodTopologySpread has rejected; the rules are kube-scheduler's.

Pods that a DoNotSchedule constraint's selector matches, in the waiting pod's namespace, change how many pods a domain
has; nodes that have all topology keys change which domains there are. No other change can help.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from kscheduler.api.labels import Token
from kscheduler.api.objects import Node, Pod
from kscheduler.api.pod_affinity import namespace_token
from kscheduler.errors import DecodeError
from kscheduler.framework.events import Grouping
from kscheduler.framework.narrowing import Narrowing, Options
from kscheduler.framework.plugins.podtopologyspread.by_node import has_all_keys
from kscheduler.framework.plugins.podtopologyspread.constraints import Compiler, Constraint
from kscheduler.snapshot.pod_info import PodInfo


class Kind(NamedTuple):
    """The properties of a waiting pod on which the hints about pods depend; pods with equal ones get equal answers."""

    namespace: str
    stated: tuple[Constraint, ...] | None  # the pod's DoNotSchedule constraints; None if its spec has no constraints
    look: Hashable = None  # for such a pod, what decides which default constraints it gets


class Hints:
    """Queueing hints of PodTopologySpread.

    They requeue the pod if its constraints or the changed object cannot be read.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self.for_pods = Grouping(self._kind, lambda: Narrowing(_narrowings, _brought))
        self.for_nodes = Grouping(self._topology_keys)

    def _kind(self, pod: PodInfo) -> Kind | None:
        metadata = pod.pod.metadata
        if not pod.pod.spec.topology_spread_constraints:
            return Kind(metadata.namespace, None, _look(pod.pod))
        hard = self._hard(pod.pod)
        return None if hard is None else Kind(metadata.namespace, hard)

    def _topology_keys(self, pod: PodInfo) -> Hashable:
        if not pod.pod.spec.topology_spread_constraints:
            return _look(pod.pod)
        hard = self._hard(pod.pod)
        return None if hard is None else frozenset(constraint.topology_key for constraint in hard)

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if it may help that a pod came to a node (`old` None), left it (`new` None) or was changed."""
        before, after = _pod(old), _pod(new)
        changed = after or before
        constraints = self._hard(waiting)
        if changed is None or constraints is None:
            return True
        if not _is_involved(changed, waiting, is_gone=after is None):
            return False
        if after is not None and before is not None and not _is_involved(before, waiting, is_gone=False):
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
        """Return True if a new (`old` None) or removed node (`new` None), or changed labels or taints, may help."""
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


def _look(pod: Pod) -> Hashable:
    """Return what owners' selectors match in the pod, instead of the owners, which may change while the pod waits."""
    metadata = pod.metadata
    owners = tuple((owner.api_version, owner.kind, owner.name) for owner in metadata.owner_references or ())
    return metadata.namespace, frozenset((metadata.labels or {}).items()), owners


def _narrowings(kind: Hashable) -> Sequence[Options]:
    """Return lookup tokens (labels, namespace) of the pods that the constraints count: only those can help."""
    if not isinstance(kind, Kind):
        raise TypeError(f"expected the kind of a pod, got {kind!r}")
    if kind.stated is None:
        return ([[namespace_token(kind.namespace)]],)
    return [constraint.pods.narrow() for constraint in kind.stated]


def _brought(old: object, new: object) -> Iterable[Token] | None:
    changed = [pod for pod in (old, new) if isinstance(pod, Pod)]
    labels = {label for pod in changed for label in (pod.metadata.labels or {}).items()}
    return labels.union(namespace_token(pod.metadata.namespace) for pod in changed) if changed else None


def _is_involved(changed: Pod, waiting: Pod, *, is_gone: bool) -> bool:
    """Return True if the constraints can count the changed pod at all: it is on a node in the waiting pod's namespace.

    A nominated pod counts as on a node. So does a pod that is gone, since it may have been assumed without its object
    showing it.
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
