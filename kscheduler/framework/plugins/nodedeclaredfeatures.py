"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet fits only on nodes that declare that feature.

Which features a pod needs follows from its spec, by kube-scheduler's list. Of the features on it, two matter where a
pod is placed, and since 1.37 a third; the others matter when a running pod is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kscheduler._fast import Verdicts
from kscheduler.api.objects import Node, Pod, PodSpec
from kscheduler.config.releases import Release
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import ONE_GROUP, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.status import SKIP, Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeDeclaredFeatures"
REASON = "node(s) didn't match Pod's required features"
RESTART_ALL_CONTAINERS = "RestartAllContainers"
_NEEDED = "NodeDeclaredFeatures/needed"


class NodeDeclaredFeatures:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._inferences = inferences(handle.release)

    def needed_features(self, spec: PodSpec) -> frozenset[str]:
        """Return the features that a pod with this spec needs on its node."""
        return frozenset(feature for feature, is_needed in self._inferences.items() if is_needed(spec))

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        needed = self.needed_features(pod.pod.spec)
        if not needed:
            return None, SKIP
        state.write(_NEEDED, needed)
        return None, None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        needed = state.read(_NEEDED, frozenset)
        return None if needed.issubset(node.node.status.declared_features or ()) else unresolvable(REASON)

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        # Node by node: PreFilter has left this to the few pods that need a feature at all.
        for row in verdicts.feasible_rows():
            if self.filter(state, pod, table.at(row)) is not None:
                verdicts.reject(row, code, 0)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        return NODE_ALONE

    # --- the compiled lane: for pods that need no feature ---

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if self.needed_features(pod.pod.spec) else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        of_pods = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE)
        return (
            Registration(of_nodes, is_schedulable_after_node_change, ONE_GROUP),
            Registration(of_pods, self.is_schedulable_after_pod_update, ONE_GROUP),
        )

    def is_schedulable_after_pod_update(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if the waiting pod itself now needs other features."""
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return True
        if new.metadata.uid != waiting.metadata.uid:
            return False
        return self.needed_features(old.spec) != self.needed_features(new.spec)


# --- hints ---


def is_schedulable_after_node_change(waiting: Pod, old: object, new: object) -> bool:
    """Return True for a new node, or one whose declared features changed, even to fewer (as in kube-scheduler)."""
    if not isinstance(old, Node) or not isinstance(new, Node):
        return True
    return (old.status.declared_features or []) != (new.status.declared_features or [])


# --- what a pod needs ---


def inferences(release: Release) -> Mapping[str, Callable[[PodSpec], bool]]:
    """Return the features that pods can need in a release, each with a function that returns whether a pod does."""
    if not release.has("NodeDeclaredFeatures"):
        return {}
    return {**_FEATURES, **_BIND_MOUNT_OPTIONS} if release.infers_bind_mount_options else _FEATURES


def _restarts_all_containers(spec: PodSpec) -> bool:
    """Return True if a container's restart rules restart all containers of the pod in place when it exits."""
    return any(
        rule.action == RESTART_ALL_CONTAINERS
        for container in (*spec.containers, *(spec.init_containers or ()))
        for rule in container.restart_policy_rules or ()
    )


def _has_own_users_on_host_network(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


def _has_bind_mount_options(spec: PodSpec) -> bool:
    return any(
        mount.bind_mount_options
        for container in (*spec.containers, *(spec.init_containers or ()))
        for mount in container.volume_mounts or ()
    )


_FEATURES: Mapping[str, Callable[[PodSpec], bool]] = {  # feature -> does a pod need it?
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_own_users_on_host_network,
}
_BIND_MOUNT_OPTIONS: Mapping[str, Callable[[PodSpec], bool]] = {"VolumeBindMountOptions": _has_bind_mount_options}
