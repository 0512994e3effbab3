"""Records when each pod was created and when it got a node, as reported by the cluster; waits for pods read this.

Times are those of time.monotonic(), which all processes of a machine share. A pod counts once: a later pod with the
same name is ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kscheduler.testing.controlplane import HarnessError

LOOK_PERIOD_S = 0.05  # how often those who wait look again
CHECK_PERIOD_S = 1.0  # and how often they ask whether it can still come


class PodLog:
    """The times of pods; one thread writes, others read."""

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}  # namespace/name -> when it was created
        self._asked_s: dict[str, float] = {}  # namespace/name -> when the apiserver was asked to bind it
        self._bound_s: dict[str, float] = {}  # namespace/name -> when it got a node

    def note(self, key: str, now_s: float, has_node: bool) -> None:
        """Record that a pod was created or bound; the two may be recorded in either order."""
        times = self._bound_s if has_node else self._created_s
        times.setdefault(key, now_s)

    def note_asked(self, key: str, now_s: float) -> None:
        """Record that the request to bind a pod arrived; called before the binding is recorded."""
        self._asked_s.setdefault(key, now_s)

    def created_s(self, key: str) -> float | None:
        return self._created_s.get(key)

    def asked_s(self, key: str) -> float | None:
        """None where there is no request."""
        return self._asked_s.get(key)

    def bound_s(self, key: str) -> float | None:
        return self._bound_s.get(key)

    def is_bound(self, key: str) -> bool:
        """Whether it has had a node."""
        return key in self._bound_s

    def bound(self) -> list[str]:
        """The pods that have had a node."""
        return list(self._bound_s)

    def wait_bound(self, keys: Iterable[str], timeout_s: float, check: Callable[[], None]) -> None:
        """Wait until all have had a node. `check` is asked meanwhile and raises when that will never be."""
        missing = wanted = list(keys)
        started_s = checked_s = time.monotonic()
        while missing := [key for key in missing if key not in self._bound_s]:
            now_s = time.monotonic()
            if now_s - checked_s >= CHECK_PERIOD_S:
                checked_s = now_s
                check()
            if now_s - started_s >= timeout_s:
                done = len(wanted) - len(missing)
                raise HarnessError(
                    f"{done} of {len(wanted)} pods were bound within {timeout_s:.0f} s; {missing[0]} was not"
                )
            time.sleep(LOOK_PERIOD_S)
