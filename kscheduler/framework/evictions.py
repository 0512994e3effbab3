"""The interface through which preemption plugins evict pods: writes to the apiserver, waits and metrics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.errors import InternalError


class Evictions:
    """Services of a plugin's Handle for preemption. Writes are retried, and may in the end raise an APIError.

    This base class serves profiles that only decide, without a running scheduler: no pod is found, and writes raise
    InternalError.
    """

    # --- looking ---

    def current(self, key: str) -> Pod | None:
        """Return the pod with the key `namespace/name` as the watch last showed it, or None."""
        return None

    # --- writing ---

    def stop_binding(self, uid: str, plugin: str) -> bool:
        """Send a pod that waits on Permit or is in PreBind back to the queue.

        Returns False if the pod is in neither.
        """
        raise _refused(uid)

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        """Write a condition to the victim's status. Returns False if the pod with this uid is gone already."""
        raise _refused(victim.key)

    async def delete(self, victim: Pod) -> bool:
        """Delete the victim gracefully. Returns False if the pod with this uid is gone already."""
        raise _refused(victim.key)

    async def clear_nomination(self, pod: Pod) -> None:
        """Clear the pod's nominated node; a pod that is gone already is ignored."""
        raise _refused(pod.key)

    def record_event(self, victim: Pod, preemptor: Pod, note: str) -> None:
        """Record a Kubernetes Event, with the text `note`, that the victim was preempted by the preemptor."""
        raise _refused(victim.key)

    # --- work beside the scheduling cycles ---

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine as a background task, which is cancelled if this replica stops leading."""
        work.close()
        raise InternalError("a preemption was begun where no scheduler is")

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        """Run all coroutines concurrently; the first to fail cancels the others, and its exception is raised."""
        for each in work:
            await each

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until `holds()` is true. Returns False if that takes longer than `within_s` seconds."""
        return holds()

    def try_again(self, uid: str) -> None:
        """Move a waiting pod to the active queue at once, without regard to backoff."""

    # --- measuring ---

    def attempted(self) -> None:
        """Count one pod for which preemption was attempted, for metrics."""

    def planned(self, preemptor: Pod, victims: Sequence[Pod]) -> None:
        """Report the victims that a preemption is about to end, before it begins."""

    def chosen(self, victims: int) -> None:
        """Report the number of victims on the node that a preemption chose, for metrics."""

    def group_attempted(self, result: str) -> None:
        """Count one PodGroup for which preemption was attempted, with the code of its status, for metrics."""

    def group_chosen(self, kind: str, victims: int, units: int) -> None:
        """Report the victims of a PodGroup's preemption, for metrics.

        `kind`: "podgroup" or "compositepodgroup". `units`: how many of what is evicted are PodGroups, or single pods of
        one.
        """

    def ended(self, result: str, seconds: float) -> None:
        """Report how the evictions of one preemption ended (`result`: "success" or "error") and how long they took."""

    # What follows is reported in releases whose metrics distinguish pods, PodGroups and composite groups as preemptors.
    # `kind` is "pod", "podgroup" or "compositepodgroup".

    def evaluated(self, kind: str, result: str, seconds: float) -> None:
        """Report how long the search for victims took, and the code of its status. "podgroup" is any group here."""

    def executed(self, kind: str, result: str, seconds: float) -> None:
        """Report what `ended` reports, with the preemptor's kind."""

    def violated(self, kind: str, victims: int) -> None:
        """Report how many victims there are whose eviction violates a PodDisruptionBudget, if any."""

    def wall(self) -> float:
        """Return the time in seconds since the Unix epoch."""
        return 0.0


@dataclass(slots=True)
class Ending:
    """The eviction of one victim, either under way or finished."""

    end: object | None = None  # the outcome; None while the eviction is under way, and if it failed
    number: int = 0  # ascending in the order of finishing; 0: under way


class Endings:
    """The evictions of all profiles, recorded since two preemptors may choose a victim that is already ending."""

    def __init__(self) -> None:
        self.accepted: dict[str, float] = {}  # uid of a victim -> when its deletion was accepted, lately
        self._latest = 0  # the number of the eviction that finished last
        self._by_uid: dict[str, Ending] = {}
        self._needed: dict[str, int] = {}  # uid of a preemptor -> evictions with higher numbers concern it
        self._victims: dict[str, frozenset[str]] = {}  # uid of a preemptor -> uids of its victims

    def choose(self, preemptor: str, victims: Iterable[str] = ()) -> None:
        """Record that a preemptor has chosen its victims: evictions that finish from now on count for it, too."""
        self._needed[preemptor] = self._latest
        self._victims[preemptor] = frozenset(victims)

    def release(self, preemptor: str) -> None:
        """Record that all victims of a preemptor are evicted, and drop evictions that no preemptor needs any more."""
        self._needed.pop(preemptor, None)
        self._victims.pop(preemptor, None)
        oldest = min(self._needed.values(), default=self._latest)
        self._by_uid = {uid: each for uid, each in self._by_uid.items() if not each.number or each.number > oldest}

    def is_chosen(self, victim: str) -> bool:
        """Return True while the pod is a victim of a preemptor whose evictions are under way."""
        return any(victim in victims for victims in self._victims.values())

    def chosen(self) -> set[str]:
        """Return the uids of all victims of preemptors whose evictions are under way."""
        return set().union(*self._victims.values())

    def since_chosen(self, victim: str, preemptor: str) -> object | None:
        """Return the outcome of the victim's eviction if it succeeded after the preemptor had chosen; else None."""
        known = self._by_uid.get(victim)
        return known.end if known is not None and known.number > self._needed.get(preemptor, 0) else None

    def is_under_way(self, victim: str) -> bool:
        known = self._by_uid.get(victim)
        return known is not None and not known.number

    def begin(self, uid: str) -> Ending:
        ending = self._by_uid[uid] = Ending()
        return ending

    def finish(self, ending: Ending, end: object | None) -> None:
        """Record that a victim's eviction is finished, with its outcome; `end` None means that it failed."""
        self._latest += 1
        ending.number, ending.end = self._latest, end


def _refused(pod: str) -> InternalError:
    return InternalError(f"pod {pod} was to be evicted where no scheduler is")
