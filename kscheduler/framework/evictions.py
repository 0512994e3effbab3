"""What a preemption does to the cluster, and asks of the scheduler, beyond deciding whom it would hit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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
