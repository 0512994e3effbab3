"""Evicts the victims of a gang's preemption, as those of a pod's are evicted; the gang's face stands for the gang."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kscheduler.api.objects import Pod
from kscheduler.framework.interface import Handle
from kscheduler.framework.preemption.candidates import Candidate
from kscheduler.framework.preemption.executor import Executor
from kscheduler.snapshot.pod_info import PodInfo

PLACE = "cluster"  # stands for a node's name in Events, since the victims are on many


class GangExecutor(Executor):
    """The evictions for gangs.

    `tell(victim, gang, text)` records an Event on a victim, about the gang with this face. `gang_uid(face)` returns the
    uid of the gang's object.
    """

    preemptor_kind = "podgroup"

    def __init__(
        self,
        handle: Handle,
        plugin: str,
        *,
        tell: Callable[[Pod, PodInfo, str], None],
        gang_uid: Callable[[PodInfo], str],
        counts_apart: bool = False,
    ) -> None:
        """`counts_apart`: the caller of `evict` counts the victims in metrics."""
        super().__init__(handle, plugin)
        self._tell_victim = tell
        self._gang_uid = gang_uid
        self._counts_apart = counts_apart
        self._nodes: dict[str, Collection[str]] = {}  # uid of a gang's face -> the nodes that it will use

    def is_leaving(self, pod: Pod) -> bool:
        """Return True if the pod is terminating, or is about to: a preemptor has chosen it as a victim."""
        if pod.metadata.deletion_timestamp is not None or self.has_ended(pod):
            return True
        return self._endings.is_chosen(pod.metadata.uid)

    def evict(self, victims: Sequence[PodInfo], gang: PodInfo, nodes: Collection[str]) -> None:
        """Begin to evict the victims, the most important first, for the gang with this face.

        Pods of lower priority lose their nominations to `nodes`.
        """
        self._nodes = {uid: names for uid, names in self._nodes.items() if self.is_running(uid)}
        self._nodes[gang.uid] = nodes
        self.start(Candidate(PLACE, tuple(victims)), gang)

    def _count(self, candidate: Candidate) -> None:
        if not self._counts_apart:
            super()._count(candidate)

    def _uid_of(self, preemptor: PodInfo) -> str:
        return self._gang_uid(preemptor)

    def _tell(self, victim: Pod, preemptor: PodInfo, note: str) -> None:
        self._tell_victim(victim, preemptor, note)

    async def _clear_nominations(self, node_name: str, preemptor: PodInfo) -> bool:
        succeeded = True
        for name in sorted(self._nodes.get(preemptor.uid, ())):
            succeeded &= await super()._clear_nominations(name, preemptor)
        return succeeded
