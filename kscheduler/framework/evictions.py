"""What a preemption does to the cluster, and asks of the scheduler, beyond deciding whom it would hit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.errors import InternalError


class Evictions(Protocol):
    """Lent to preemption plugins by their Handle. What writes may raise the APIError family, and tries again itself."""

    # --- looking ---

    def current(self, key: str) -> Pod | None:
        """The pod `namespace/name` as the watch shows it now."""
        ...

    # --- writing ---

    def stop_binding(self, uid: str, plugin: str) -> bool:
        """Send a pod back to the queue that waits on Permit or is in PreBind; False if it is neither."""
        ...

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        """Write a condition of the pod with this uid; False if it is gone already."""
        ...

    async def delete(self, victim: Pod) -> bool:
        """End the pod with this uid, gracefully; False if it is gone already."""
        ...

    async def clear_nomination(self, pod: Pod) -> None:
        """The pod is nominated to no node any more; one that is gone already is ignored."""
        ...

    def tell(self, victim: Pod, preemptor: Pod, note: str) -> None:
        """Record the Event of the preemption."""
        ...

    # --- work beside the scheduling cycles ---

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside everything else; cancelled if this replica may write no more."""
        ...

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        """Run all to the end; the first to fail cancels the others, and its exception is raised."""
        ...

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait for this to hold; False if it does not within the time."""
        ...

    def try_again(self, uid: str) -> None:
        """Let a waiting pod be tried at once, without regard to backoff."""
        ...

    # --- measuring ---

    def attempted(self) -> None:
        """A pod that fits nowhere was looked at."""
        ...

    def chosen(self, victims: int) -> None:
        """A node was chosen, and so many pods have to leave it."""
        ...

    def ended(self, result: str, seconds: float) -> None:
        """The work for one preemption is over: "success" or "error"."""
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
        """A preemptor has chosen its victims: ends that come after this are as good as its own."""
        self._needed[preemptor] = self._latest

    def release(self, preemptor: str) -> None:
        """All its victims have ended; what nobody asks for any more is forgotten."""
        self._needed.pop(preemptor, None)
        oldest = min(self._needed.values(), default=self._latest)
        self._by_uid = {uid: each for uid, each in self._by_uid.items() if not each.number or each.number > oldest}

    def since_chosen(self, victim: str, preemptor: str) -> object | None:
        """How a victim ended since the preemptor chose it; None if it did not, or somebody failed to end it."""
        known = self._by_uid.get(victim)
        return known.end if known is not None and known.number > self._needed.get(preemptor, 0) else None

    def is_under_way(self, victim: str) -> bool:
        known = self._by_uid.get(victim)
        return known is not None and not known.number

    def begin(self, uid: str) -> Ending:
        ending = self._by_uid[uid] = Ending()
        return ending

    def finish(self, ending: Ending, end: object | None) -> None:
        """`end`: None if that failed."""
        self._latest += 1
        ending.number, ending.end = self._latest, end


class NoEvictions:
    """For profiles that are only looked at: no pod is known, and nothing may be done."""

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
