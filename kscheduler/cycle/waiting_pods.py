"""Pods that wait because a Permit plugin answered Wait, until they are allowed, rejected or timed out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kscheduler.cut_text import cut_text
from kscheduler.framework.plain_text import plain_text
from kscheduler.framework.status import Status, error_status, unschedulable
from kscheduler.snapshot.pod_info import PodInfo


class WaitingPod:
    """A pod that waits on Permit until every plugin that answered Wait has allowed it, each within its timeout."""

    def __init__(self, pod: PodInfo, waits: dict[str, float]) -> None:
        loop = asyncio.get_running_loop()
        self.pod = pod
        self._decided: asyncio.Future[Status | None] = loop.create_future()
        self._timers = {  # plugin that has not allowed yet -> when its time is over
            plugin: loop.call_later(timeout_s, self._time_out, plugin, timeout_s) for plugin, timeout_s in waits.items()
        }
        if not waits:
            self._decide(None)

    @property
    def pending_plugins(self) -> list[str]:
        return list(self._timers)

    def allow(self, plugin: str) -> None:
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, message: str) -> None:
        """Send the pod back to the queue for the plugin's reason. Raises TypeError if that is no text."""
        if not isinstance(message, str):  # a plugin's mistake, which is to fail there and not where the pod waits
            raise TypeError(f"expected the reason as a text, got a {type(message).__name__}")
        self._decide(unschedulable(cut_text(plain_text(message))).of(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Send the pod back to the queue because it was preempted.

        Returns False if it was already allowed or rejected.
        """
        if self._decided.done():
            return False
        self._decide(error_status(message).of(plugin))
        return True

    async def wait(self) -> Status | None:
        """Return None once all plugins have allowed the pod, else the first rejection; a timeout is a rejection."""
        return await self._decided

    def close(self) -> None:
        """Cancel the timers, since the wait is over."""
        for timer in self._timers.values():
            timer.cancel()

    def _time_out(self, plugin: str, timeout_s: float) -> None:
        self.reject(plugin, f"rejected due to timeout after waiting {timeout_s:g}s at plugin {plugin}")

    def _decide(self, status: Status | None) -> None:
        if not self._decided.done():
            self._decided.set_result(status)


class WaitingPods:
    """All pods that wait on Permit, for the plugins that allow or reject them.

    `on_change` is called whenever a pod begins to wait.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self.by_uid: dict[str, WaitingPod] = {}  # changed here only

    def __len__(self) -> int:
        return len(self.by_uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over the waiting pods, the longest waiting first."""
        return iter(list(self.by_uid.values()))

    def get(self, uid: str) -> WaitingPod | None:
        return self.by_uid.get(uid)

    def add(self, pod: PodInfo, waits: dict[str, float]) -> WaitingPod:
        waiting = self.by_uid[pod.uid] = WaitingPod(pod, waits)
        self._on_change()
        return waiting

    def remove(self, uid: str) -> None:
        waiting = self.by_uid.pop(uid, None)
        if waiting is not None:
            waiting.close()
