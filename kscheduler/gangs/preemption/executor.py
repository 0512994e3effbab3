"""Evicts the victims of a gang's preemption, as those of a pod's are evicted; the gang's face stands for the gang."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.api.grace_period import grace_s
from kscheduler.api.objects import Pod
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.preemption.executor import ACCEPTED_S, Executor
from kscheduler.framework.status import Status, unresolvable
from kscheduler.gangs.gang import COMPOSITE_API
from kscheduler.gangs.stand_in import key_of_face
from kscheduler.gangs.texts import GROUP_PREEMPTS
from kscheduler.snapshot.pod_info import PodInfo

PLACE = "cluster"  # stands for a node's name in Events, since the victims are on many


GROUP_WAITS = unresolvable(GROUP_PREEMPTS).of(DEFAULT_PREEMPTION)
MOST_S = 600.0  # a gang waits no longer for pods with a longer grace period


class _Awaited(NamedTuple):
    """Pods that are evicted for a gang, and the Unix time by which all of them should be gone."""

    victims: list[Pod]  # those that are known to be gone are taken off its end
    until: float


class GangExecutor(Executor):
    """The evictions for gangs.

    `record_event(victim, gang, text)` records an Event on a victim, about the gang with this face. `gang_uid(face)`
    returns the uid of the gang's object.
    """

    def __init__(
        self,
        handle: Handle,
        plugin: str,
        *,
        record_event: Callable[[Pod, PodInfo, str], None],
        gang_uid: Callable[[PodInfo], str],
        counts_apart: bool = False,
    ) -> None:
        """`counts_apart`: the caller of `evict` counts the victims in metrics."""
        super().__init__(handle, plugin)
        self._record_event = record_event
        self._gang_uid = gang_uid
        self._counts_apart = counts_apart
        # Uid of a gang's face -> the nodes that its members will use, by their uids.
        self._nominations: dict[str, Mapping[str, str]] = {}
        self._awaited: dict[str, _Awaited] = {}  # uid of a gang's face -> the victims of its latest preemption

    def is_leaving(self, pod: Pod) -> bool:
        """Return True if the pod is terminating, or is about to: a preemptor has chosen it as a victim."""
        if pod.metadata.deletion_timestamp is not None or self.has_ended(pod):
            return True
        return self._endings.is_chosen(pod.metadata.uid)

    def evict(self, victims: Sequence[PodInfo], gang: PodInfo, nominations: Mapping[str, str]) -> None:
        """Begin to evict the victims, the most important first, for the gang with this face.

        `nominations`: pod uid of a member -> the node that it will use. Other pods, if they are less important than the
        most important member, lose their nominations to these nodes.
        """
        self._nominations = {uid: nodes for uid, nodes in self._nominations.items() if self.is_running(uid)}
        self._nominations[gang.uid] = nominations
        now = self._evictions.wall()
        self._awaited = {uid: awaited for uid, awaited in self._awaited.items() if 0 <= awaited.until - now <= MOST_S}
        longest_s = max((grace_s(victim.pod) for victim in victims), default=0)
        self._awaited[gang.uid] = _Awaited(
            [victim.pod for victim in victims], now + min(longest_s + ACCEPTED_S, MOST_S)
        )
        self.start(Candidate(PLACE, tuple(victims)), gang)

    def gate(self, gang: PodInfo) -> Status | None:
        """Return why a gang with this face is not to be tried now: a victim is yet to be evicted. None if it may be."""
        return GROUP_WAITS if self.holds(gang.uid) else None

    def waits_for_others(self, gang: PodInfo) -> bool:
        """Return True if victims of the gang's latest preemption are still on nodes, though not longer than they may.

        The gang is tried then, since perhaps no event comes any more. O(1) on average.
        """
        awaited = self._awaited.get(gang.uid)
        if awaited is None:
            return False
        is_due = 0 <= awaited.until - self._evictions.wall() <= MOST_S
        while is_due and awaited.victims and self._has_left(awaited.victims[-1]):
            awaited.victims.pop()
        if is_due and awaited.victims:
            self._handle.retry(gang, awaited.until - self._evictions.wall())
            return True
        del self._awaited[gang.uid]
        return False

    def _has_left(self, victim: Pod) -> bool:
        current = self._evictions.current(victim.key)
        return current is None or current.metadata.uid != victim.metadata.uid or not current.spec.node_name

    def _count(self, candidate: Candidate) -> None:
        if not self._counts_apart:
            super()._count(candidate)

    def kind_of(self, preemptor: PodInfo) -> str:
        return "compositepodgroup" if key_of_face(preemptor).api == COMPOSITE_API else "podgroup"

    def _uid_of(self, preemptor: PodInfo) -> str:
        return self._gang_uid(preemptor)

    def _record_preempted(self, victim: Pod, preemptor: PodInfo, note: str) -> None:
        self._record_event(victim, preemptor, note)

    async def _clear_nominations(self, node_name: str, preemptor: PodInfo) -> bool:
        succeeded = True
        for name in sorted(set(self._nominations.get(preemptor.uid, {}).values())):
            succeeded &= await super()._clear_nominations(name, preemptor)
        return succeeded

    def _may_stay_nominated(self, pod: PodInfo, preemptor: PodInfo) -> bool:
        is_member = pod.uid in self._nominations.get(preemptor.uid, {})  # which may be less important than others
        return is_member or super()._may_stay_nominated(pod, preemptor)
