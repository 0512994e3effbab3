"""The nominated nodes of waiting pods, from preemption or from their status, by kube-scheduler's rules.

A nomination only keeps pods of lower priority from taking the room. It is recorded here before it is written to the
apiserver, so that the next decision respects it; an update of the pod whose status does not name the node yet changes
nothing. Pods in their binding cycle have no nomination: they are assumed, and so already counted on their node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Nomination:
    pod: PodInfo
    node_name: str


class Nominations:
    """The nominated pods by node. Plugins only read them."""

    def __init__(self) -> None:
        self.by_pod: dict[str, Nomination] = {}  # pod uid -> its nomination; changed in this class only
        self._by_node: dict[str, dict[str, PodInfo]] = {}  # node name -> pod uid -> pod, longest nominated first
        self._watchers: list[Callable[[str], object]] = []
        self._highest: int | None = None  # priority of any nominated pod
        self._is_highest_known = True

    # --- reading ---

    def __len__(self) -> int:
        return len(self.by_pod)

    def on(self, node_name: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node, the earliest nominated first."""
        found = self._by_node.get(node_name)
        return () if found is None else list(found.values())

    def nodes(self) -> Collection[str]:
        """Return the names of the nodes to which pods are nominated; such a node may have been deleted."""
        return self._by_node.keys()

    def node_of(self, uid: str) -> str:
        """Return the name of the node to which a pod is nominated; "" if there is none."""
        found = self.by_pod.get(uid)
        return "" if found is None else found.node_name

    @property
    def highest_priority(self) -> int | None:
        """The highest priority of all nominated pods: a pod above it need not leave them room. None without any."""
        if not self._is_highest_known:
            self._highest = max((found.pod.priority for found in self.by_pod.values()), default=None)
            self._is_highest_known = True
        return self._highest

    def watch(self, changed: Callable[[str], object]) -> None:
        """Register `changed`, which is called with the name of each node whose nominated pods change."""
        self._watchers.append(changed)

    # --- writing ---

    def nominate(self, pod: PodInfo, node_name: str | None) -> None:
        """Set the pod's nomination to `node_name`; "" removes it, None takes the node named in the pod's status."""
        self.remove(pod.uid)
        if node_name is None:
            node_name = pod.pod.status.nominated_node_name
        if node_name:
            self.by_pod[pod.uid] = Nomination(pod, node_name)
            self._by_node.setdefault(node_name, {})[pod.uid] = pod
            self._notify(node_name)

    def update(self, old: Pod, new: PodInfo) -> None:
        """Apply an update of a waiting pod. If neither version's status names a node, the pod's nomination stays."""
        is_mentioned = old.status.nominated_node_name or new.pod.status.nominated_node_name
        self.nominate(new, None if is_mentioned else self.node_of(new.uid))

    def remove(self, uid: str) -> None:
        """Remove the pod's nomination, if it has one: the pod was deleted or is getting a node."""
        found = self.by_pod.pop(uid, None)
        if found is None:
            return
        pods = self._by_node[found.node_name]
        del pods[uid]
        if not pods:
            del self._by_node[found.node_name]
        self._notify(found.node_name)

    def _notify(self, node_name: str) -> None:
        self._is_highest_known = False
        for changed in self._watchers:
            changed(node_name)
