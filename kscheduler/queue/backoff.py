"""How long a pod that failed has to wait before it is tried again. kube-scheduler's arithmetic.

The n-th failure in a row waits initial·2^(n−1) seconds, at most `max_s`. The end of the wait is cut to the whole
second it falls in, its *window*: a pod backs off until its window has passed, and pods of one window leave together,
in queue order. Times are monotonic seconds; windows are whole seconds of that clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kscheduler.queue.pod_info import NO_BACKOFF, QueuedPodInfo

WINDOW_S = 1.0
_MAX_DOUBLINGS = 62  # beyond any configurable maximum, and 2.0**n does not overflow


@dataclass(frozen=True, slots=True)
class Backoff:
    initial_s: float = 1.0
    max_s: float = 10.0  # 0 switches backoff off

    def delay_s(self, failures: int) -> float:
        """The wait after so many failures; 0 failures do not wait."""
        if failures <= 0 or self.max_s == 0:
            return 0.0
        return float(min(self.max_s, self.initial_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)))

    def expiration(self, qpi: QueuedPodInfo) -> float:
        """The window in which the pod's wait ends, counted from its timestamp; NO_BACKOFF if it need not wait.

        Faults count by themselves: a long history of rejections must not turn one lost connection into a long wait.
        """
        failures = qpi.consecutive_errors_count or qpi.unschedulable_count
        if failures == 0 or self.max_s == 0:
            return NO_BACKOFF
        return window(qpi.timestamp + self.delay_s(failures))


def window(moment: float) -> float:
    """The start of the window a moment falls in."""
    return math.floor(moment / WINDOW_S) * WINDOW_S


def is_backing_off(qpi: QueuedPodInfo, now: float) -> bool:
    """A pod whose window is the current one still waits."""
    return qpi.backoff_expiration >= window(now)
