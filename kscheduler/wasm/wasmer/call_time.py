"""How long one call may go on: CPU time of the child and of what it asks of this process, or, in the end, any time."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.wasm import faults
from kscheduler.wasm.engine import patience_s

SHORTEST_S = 0.001  # between two looks at the clocks


class CallTime:
    """Begins when it is made."""

    def __init__(self, where: str, deadline_s: float, times: Callable[[], tuple[float, float]]) -> None:
        """`times`: (CPU time, time on the wall)."""
        self._where = where
        self._deadline_s = deadline_s
        self._times = times
        self._cpu_s, self._wall_s = times()

    def left_s(self) -> float:
        """After how long to ask again. Raises GuestFault when the time is over."""
        cpu_s, wall_s = self._times()
        cpu_left_s = self._deadline_s - (cpu_s - self._cpu_s)
        wall_left_s = patience_s(self._deadline_s) - (wall_s - self._wall_s)
        if cpu_left_s <= 0:
            raise faults.overdue(self._where, self._deadline_s, "")
        if wall_left_s <= 0:
            raise faults.stalled(self._where, self._deadline_s, "")
        return max(SHORTEST_S, min(cpu_left_s, wall_left_s))
