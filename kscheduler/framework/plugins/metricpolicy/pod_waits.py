"""The waiting time and the progress of pods that a policy has rejected. Callers pass the time.

For a pod that was rejected by this replica's predecessor its condition says since when: it waits no longer than it
would have without a change of leader.
"""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.framework.pod_times import rejected_at, rejection
from kscheduler.framework.telemetry import PolicyRef, Telemetry
from kscheduler.snapshot.pod_info import PodInfo

MAX_KEPT = 65_536  # pods; the first is forgotten beyond that, and its condition is asked
# Of the messages of a rejection by a policy (see `rules`); other plugins' time of waiting is not the policy's.
OF_RULE = "didn't satisfy metric rule "
OF_VALUES = "fresh value of metric "


@dataclass(slots=True)
class PodWait:
    """One pod's wait under one policy, since its first rejection."""

    policy: PolicyRef
    since: float
    step: int = 0  # relaxation steps taken
    is_overdue: bool = False  # it has waited for metrics for as long as it should

    @property
    def is_apart(self) -> bool:
        return self.step > 0 or self.is_overdue


class PodWaits:
    def __init__(self) -> None:
        self._waits: dict[str, PodWait] = {}  # pod uid -> its wait, in the order in which they began

    def recall(self, pod: PodInfo, policy: PolicyRef, telemetry: Telemetry) -> PodWait | None:
        """Return the pod's wait, also from its condition if this replica knows nothing else."""
        if pod.uid not in self._waits:
            message = rejection(pod)
            if OF_RULE not in message and OF_VALUES not in message:
                return None
            return self.begin(pod.uid, policy, rejected_at(pod, telemetry))
        return self.get(pod.uid, policy)

    def get(self, uid: str, policy: PolicyRef) -> PodWait | None:
        """Return the pod's wait; None if it has not been rejected under this policy."""
        found = self._waits.get(uid)
        return found if found is not None and found.policy == policy else None

    def begin(self, uid: str, policy: PolicyRef, now: float) -> PodWait:
        """Record a rejection, and return the wait since the first one."""
        found = self.get(uid, policy)
        if found is None:
            self._waits.pop(uid, None)
            found = self._waits[uid] = PodWait(policy, now)
            if len(self._waits) > MAX_KEPT:
                del self._waits[next(iter(self._waits))]
        return found

    def is_apart(self, uid: str) -> bool:
        """Return True if the pod is judged otherwise than pods with equal specs."""
        return bool(self._waits) and (found := self._waits.get(uid)) is not None and found.is_apart

    def __contains__(self, uid: str) -> bool:
        return uid in self._waits
