"""Waits for Ctrl-C or SIGTERM in the main thread."""

from __future__ import annotations

import queue
import signal


class StopSignal:
    """Set once by SIGINT or SIGTERM; made in the main thread.

    A handler runs between any two steps of the main thread, also while that one holds a lock. An Event's lock is not
    reentrant, so a handler that sets one may wait for ever for the very code it interrupted; SimpleQueue.put may not.
    """

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _: self._received.put(received))

    def wait(self, timeout_s: float) -> bool:
        """Whether a signal came, now or within `timeout_s`; each signal ends one wait."""
        try:
            self._received.get(timeout=timeout_s)
        except queue.Empty:
            return False
        return True
