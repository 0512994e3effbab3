"""Configures Python's garbage collector for a process whose objects mostly live long and are never cyclic garbage.

Reference counting frees nearly all objects at once; the collector is needed only for cycles, such as an exception and
the frames it passed through. While the event loop waits, the collector visits every object it tracks, which takes half
a microsecond each once there are many. With 50,000 pods and Python's default thresholds that took 45 % of the time of
the first lists, with pauses of 0.4 s. Therefore:

- While the first lists arrive, new objects are frozen (`gc.freeze`: hidden from the collector) every few milliseconds.
- Later, each collection visits only some thousand new objects and freezes the survivors. So each object is visited
  once, and a collection costs the same whatever the size of the cluster.
- Once in many collections all objects are visited, to free frozen objects that have become cyclic garbage.

Frozen objects are still freed when the last reference to them goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable

# A collection of 4,000 new objects takes two milliseconds. Survivors are frozen, so older generations stay empty.
# Binding 50,000 pods made no cyclic garbage at all, and spent 18 % of the time in the collector with Python's default
# thresholds, or 11 % if survivors passed through all three generations before they were frozen.
THRESHOLDS = (4_000, 1_000_000, 1_000_000)
FREEZE_PERIOD_S = 0.02  # between freezes while the first lists arrive; some 500 pods are decoded in this time
MOST_FREEZES = 3_000  # one minute, even if some kind can never be listed; later garbage is collected as usual
FULL_SIGHT_EVERY = 160  # all objects are collected after so many collections, i.e. 640,000 new objects


class Collections:
    """Freezes the objects that survive a garbage collection, i.e. hides them from later ones (`gc.freeze`).

    Call `start` once, after all imports.
    """

    def __init__(self) -> None:
        self._count = 0  # collections since the last one of all objects
        self._before = gc.get_threshold()

    def start(self) -> None:
        self.freeze()
        self._before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)

    def freeze(self) -> None:
        """Hide all present objects (modules, long-lived parts) from the collector. Takes next to no time."""
        gc.freeze()

    def stop(self) -> None:
        """Restore the collector's thresholds from before `start`, and let it see all objects again."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def collect_all(self) -> None:
        """Collect garbage among all objects, including those that are hidden from the collector (`gc.freeze`)."""
        gc.unfreeze()
        gc.collect()

    async def while_listing(self, is_synced: Callable[[], bool]) -> None:
        """Hide the objects of the first lists from the garbage collector (`gc.freeze`) as they arrive.

        Returns when `is_synced` is true, or after a minute.
        """
        for _ in range(MOST_FREEZES):
            if is_synced():
                break
            await asyncio.sleep(FREEZE_PERIOD_S)
            gc.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop":
            return
        gc.freeze()
        self._count += 1
        if self._count >= FULL_SIGHT_EVERY:
            with contextlib.suppress(RuntimeError):  # no loop runs, at the end for example
                asyncio.get_running_loop().call_soon(self.collect_all)  # not within this collection
                self._count = 0
