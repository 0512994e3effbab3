"""Settings of Python's garbage collector. Most objects of a scheduler live long, and are never cyclic garbage.

Reference counts free nearly everything here at once; the collector is for cycles, such as an exception and the frames
it went through. It visits every object it tracks, half a microsecond each once they are many, while the event loop
stands still. With 50,000 pods and Python's own thresholds, that was 45 % of the time of the first list, with stalls of
0.4 s. So:

- While the first lists arrive, new objects are frozen (`gc.freeze`: hidden from the collector) every few milliseconds.
- Afterwards only new objects are looked at, some thousands at a time, and those that are alive then are frozen: each
  object is visited once. So a collection costs the same whatever the size of the cluster.
- Frozen objects that have become cyclic garbage are found when, seldom, a collection sees all objects.

Frozen objects are still freed when the last reference to them goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator

# A collection of 4,000 new objects takes two milliseconds; the older generations stay empty: survivors are frozen.
# Binding 50,000 pods made no cyclic garbage at all, and spent 18 % of the time in the collector with Python's
# thresholds, 11 % when survivors passed through all three generations before they were frozen.
THRESHOLDS = (4_000, 1_000_000, 1_000_000)
FREEZE_PERIOD_S = 0.02  # while the first lists arrive: the time of some 500 pods
MOST_FREEZES = 3_000  # one minute: a kind that can never be listed must not hide objects from the collector for ever
FULL_SIGHT_EVERY = 160  # collections, until one sees all objects: 640,000 objects were new


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Collections:
    """Freezes the objects that survive collections. Call `start` once, after all imports."""

    def __init__(self) -> None:
        self._count = 0  # collections since all objects were seen
        self._before = gc.get_threshold()

    def start(self) -> None:
        self.freeze()
        self._before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)

    def freeze(self) -> None:
        """Hide all present objects (modules, long-lived parts) from the collector. Takes no time."""
        gc.freeze()

    def stop(self) -> None:
        """Restore the thresholds from before `start`, and unfreeze all objects."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def collect_all(self) -> None:
        """Look for garbage among all objects, the frozen ones included."""
        gc.unfreeze()
        gc.collect()

    async def while_listing(self, is_synced: Callable[[], bool]) -> None:
        """Freeze the objects of the first lists as they arrive; return when `is_synced` is true, or after a minute."""
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
