"""The interface of preemption to the cluster and the scheduler: writes, waiting, and measuring."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.errors import InternalError


class Evictions(Protocol):
    """Lent to preemption plugins by their Handle. Writes may raise the APIError family, and repeat by themselves."""

    # --- looking ---

    def current(self, key: str) -> Pod | None:
        """Return the pod `namespace/name` as the watch shows it now, or None."""
        ...

    # --- writing ---

    def stop_binding(self, uid: str, plugin: str) -> bool:
        """Send a pod that waits on Permit or is in PreBind back to the queue; False if it is in neither."""
        ...

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        """Write a condition of the pod with this uid; False if it is gone already."""
        ...

    async def delete(self, victim: Pod) -> bool:
        """Delete the pod with this uid, gracefully; False if it is gone already."""
        ...

    async def clear_nomination(self, pod: Pod) -> None:
        """Clear the pod's nominated node; a pod that is gone already is ignored."""
        ...

    def tell(self, victim: Pod, preemptor: Pod, note: str) -> None:
        """Record the Event of the preemption."""
        ...

    # --- work beside the scheduling cycles ---

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work in a task of its own; cancelled if this replica may write no more."""
        ...

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        """Run all to the end; the first to fail cancels the others, and its exception is raised."""
        ...

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until the condition holds; False if it does not within the time."""
        ...

    def try_again(self, uid: str) -> None:
        """Let a waiting pod be tried at once, without regard to backoff."""
        ...

    # --- measuring ---

    def attempted(self) -> None:
        """Count a pod for which preemption was attempted."""
        ...

    def chosen(self, victims: int) -> None:
        """Count a chosen node, and the number of its victims."""
        ...

    def ended(self, result: str, seconds: float) -> None:
        """Report the end of the work for one preemption: "success" or "error"."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        ...


@dataclass(slots=True)
class Ending:
    """The end of one victim, under way or over."""

    end: object | None = None  # how it ended; None as long as it has not, and for ever if that failed
    number: int = 0  # ascending in the order in which they are over; 0: under way


class Endings:
    """The victims that all profiles end: two preemptors may choose the same one while the first still writes."""

    def __init__(self) -> None:
        self.accepted: dict[str, float] = {}  # uid of a victim -> when its deletion was accepted, of late
        self._latest = 0  # the number of the last one that is over
        self._by_uid: dict[str, Ending] = {}
        self._needed: dict[str, int] = {}  # uid of a preemptor -> the number after which ends matter to it

    def choose(self, preemptor: str) -> None:
        """Note that a preemptor has chosen its victims: ends that come after this count for it, too."""
        self._needed[preemptor] = self._latest

    def release(self, preemptor: str) -> None:
        """Note that all victims of a preemptor have ended, and drop what no preemptor needs any more."""
        self._needed.pop(preemptor, None)
        oldest = min(self._needed.values(), default=self._latest)
        self._by_uid = {uid: each for uid, each in self._by_uid.items() if not each.number or each.number > oldest}

    def since_chosen(self, victim: str, preemptor: str) -> object | None:
        """Return how a victim ended since the preemptor chose it; None if it did not, or that failed."""
        known = self._by_uid.get(victim)
        return known.end if known is not None and known.number > self._needed.get(preemptor, 0) else None

    def is_under_way(self, victim: str) -> bool:
        known = self._by_uid.get(victim)
        return known is not None and not known.number

    def begin(self, uid: str) -> Ending:
        ending = self._by_uid[uid] = Ending()
        return ending

    def finish(self, ending: Ending, end: object | None) -> None:
        """Record the end of a victim; `end` None means that it failed."""
        self._latest += 1
        ending.number, ending.end = self._latest, end


class NoEvictions:
    """For profiles that only decide: no pod is known, and nothing may be done."""

    def current(self, key: str) -> Pod | None:
        return None

    def stop_binding(self, uid: str, plugin: str) -> bool:
        raise _refused(uid)

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        raise _refused(victim.key)

    async def delete(self, victim: Pod) -> bool:
        raise _refused(victim.key)

    async def clear_nomination(self, pod: Pod) -> None:
        raise _refused(pod.key)

    def tell(self, victim: Pod, preemptor: Pod, note: str) -> None:
        raise _refused(victim.key)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()
        raise InternalError("a preemption was begun where no scheduler is")

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        for each in work:
            await each

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        return holds()

    def try_again(self, uid: str) -> None:
        pass

    def attempted(self) -> None:
        pass

    def chosen(self, victims: int) -> None:
        pass

    def ended(self, result: str, seconds: float) -> None:
        pass

    def wall(self) -> float:
        return 0.0


def _refused(pod: str) -> InternalError:
    return InternalError(f"pod {pod} was to be evicted where no scheduler is")
