"""How long pods that a metric policy has rejected have waited, and which relaxation steps they have taken.

If this replica's predecessor as leader rejected a pod first, the pod's condition has the time: it waits no longer than
it would have without a change of leader. Callers pass the current time.
"""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.framework.pod_times import rejected_at, rejection
from kscheduler.framework.telemetry import PolicyRef, Telemetry
from kscheduler.snapshot.pod_info import PodInfo

MAX_KEPT = 65_536  # pods; beyond that the first is forgotten, and its condition is read instead
# Parts of the messages of a rejection by a policy (see `rules`): a wait because of other plugins does not count.
OF_RULE = "didn't satisfy metric rule "
OF_VALUES = "fresh value of metric "


@dataclass(slots=True)
class PodWait:
    """One pod's wait under one policy, since its first rejection."""

    policy: PolicyRef
    since: float
    step: int = 0  # relaxation steps taken
    is_overdue: bool = False  # its decision deadline is over

    @property
    def is_apart(self) -> bool:
        return self.step > 0 or self.is_overdue


class PodWaits:
    def __init__(self) -> None:
        self._waits: dict[str, PodWait] = {}  # pod uid -> its wait, in the order in which they began

    def recall(self, pod: PodInfo, policy: PolicyRef, telemetry: Telemetry) -> PodWait | None:
        """Return the pod's wait; taken from its PodScheduled condition if this replica has not rejected it."""
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
        """Record a rejection at the time `now`, and return the pod's wait since its first rejection."""
        found = self.get(uid, policy)
        if found is None:
            self._waits.pop(uid, None)
            found = self._waits[uid] = PodWait(policy, now)
            if len(self._waits) > MAX_KEPT:
                del self._waits[next(iter(self._waits))]
        return found

    def is_apart(self, uid: str) -> bool:
        """Return True if the pod is decided differently from pods with equal specs: relaxed, or past its deadline."""
        return bool(self._waits) and (found := self._waits.get(uid)) is not None and found.is_apart

    def __contains__(self, uid: str) -> bool:
        return uid in self._waits
