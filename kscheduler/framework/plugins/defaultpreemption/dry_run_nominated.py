"""The nominated pods to which a preemptor must leave room, kept from dry run to dry run."""

from __future__ import annotations

from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import KeptPods, Kinds, NodePods
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class KeptNominated:
    def __init__(self, handle: Handle, kept: KeptPods) -> None:
        self._nominations = handle.nominations
        self._kept = kept
        self._kinds: Kinds = kept.kinds  # that the nominated_by_node are told in
        self._nominated: dict[str, tuple[list[PodInfo], NodePods]] = {}  # node name -> the pods, and as they were found
        handle.nominations.watch(self._forget)

    def _forget(self, node_name: str) -> None:
        self._nominated.pop(node_name, None)

    def begin(self) -> None:
        """Call before each search, and after the residents' own `begin`."""
        if self._kinds is not self._kept.kinds:
            self._nominated.clear()
            self._kinds = self._kept.kinds

    def on(self, node: NodeInfo, preemptor: PodInfo, now: float) -> NodePods | None:
        """Return the nominated pods to which the preemptor must leave room; None without any."""
        name, priority, uid = node.name, preemptor.priority, preemptor.uid
        pods = [other for other in self._nominations.on(name) if other.priority >= priority and other.uid != uid]
        if not pods:
            return None
        known = self._nominated.get(name)
        if known is None or known[0] != pods:
            # Their order does not matter, so it never becomes out of date.
            known = self._nominated[name] = pods, self._kept.look(pods, now)
        return known[1]
