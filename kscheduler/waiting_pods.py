"""Pods that a Permit plugin told to wait: allowed, rejected, or timed out. The only place that waits for them."""

from __future__ import annotations

import asyncio

from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.snapshot.pod_info import PodInfo


class WaitingPod:
    """One waiting pod. It goes on when every plugin that asked for the wait has allowed it."""

    def __init__(self, pod: PodInfo, waits: dict[str, float]) -> None:
        self.pod = pod
        self._pending = dict(waits)  # plugin name -> timeout in seconds
        self._decided: asyncio.Future[Status | None] = asyncio.get_running_loop().create_future()

    @property
    def pending_plugins(self) -> list[str]:
        return list(self._pending)

    def allow(self, plugin: str) -> None:
        self._pending.pop(plugin, None)
        if not self._pending and not self._decided.done():
            self._decided.set_result(None)

    def reject(self, plugin: str, message: str) -> None:
        if not self._decided.done():
            self._decided.set_result(unschedulable(message).of(plugin))

    async def wait(self) -> Status | None:
        """None when allowed by all, else the rejection; the shortest timeout asked for counts."""
        if not self._pending:
            return None
        plugin, timeout_s = min(self._pending.items(), key=lambda item: item[1])
        try:
            return await asyncio.wait_for(asyncio.shield(self._decided), timeout_s)
        except asyncio.TimeoutError:
            reason = f"rejected due to timeout after waiting {timeout_s:g}s at plugin {plugin}"
            return Status(Code.UNSCHEDULABLE, (reason,), plugin)


class WaitingPods:
    """All waiting pods, for the plugins that decide about them."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}  # pod uid -> its wait

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, pod: PodInfo, waits: dict[str, float]) -> WaitingPod:
        waiting = self._pods[pod.uid] = WaitingPod(pod, waits)
        return waiting

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
