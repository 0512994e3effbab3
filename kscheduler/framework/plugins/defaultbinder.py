"""DefaultBinder: writes the binding to the apiserver."""

from __future__ import annotations

from kscheduler.errors import APIError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.status import Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

NAME = "DefaultBinder"


class DefaultBinder:
    name = NAME
    writes_default_binding = True

    def __init__(self, handle: Handle) -> None:
        self._bind = handle.bind

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        try:
            await self._bind(pod, node_name)
        except APIError as error:
            return error_status(error.explanation, error)
        return None
