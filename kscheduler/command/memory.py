"""Settings of Python's garbage collector. Most objects of a scheduler live long, and are never cyclic garbage.

Reference counts free nearly everything here at once; the collector is for cycles, such as an exception and the frames
it went through. It visits every object it tracks, half a microsecond each once they are many, while the event loop
stands still. With 50,000 pods and Python's own thresholds, that was 45 % of the time of the first list, with stalls of
0.4 s. So:

- While the first lists arrive, new objects are frozen (`gc.freeze`: hidden from the collector) every few milliseconds.
- Afterwards collections are rarer, and objects that survive a full collection are frozen again. So a collection costs
  as much as was added since the last one, whatever the size of the cluster.
- Frozen objects that have become cyclic garbage are found by every 16th full collection, which sees all objects.

Frozen objects are still freed when the last reference to them goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator

# A collection of the youngest generation after 2,000 new objects takes a millisecond; one of the second generation,
# after five of those, 5 to 10 ms; a full one, after four of these, 30 ms. Binding 50,000 pods made no cyclic garbage
# at all, and spent 18 % of the time in the collector with Python's thresholds, 7 % with these.
THRESHOLDS = (2_000, 5, 4)
FREEZE_PERIOD_S = 0.02  # while the first lists arrive: the time of some 500 pods
MOST_FREEZES = 3_000  # one minute: a kind that can never be listed must not hide objects from the collector for ever
FULL_SIGHT_EVERY = 16  # every 16th full collection sees frozen objects, too


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Collections:
    """Freezes the objects that survive full collections. Call `start` once, after all imports."""

    def __init__(self) -> None:
        self._full = 0  # full collections so far
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

    async def while_listing(self, is_synced: Callable[[], bool]) -> None:
        """Freeze the objects of the first lists as they arrive; return when `is_synced` is true, or after a minute."""
        for _ in range(MOST_FREEZES):
            if is_synced():
                break
            await asyncio.sleep(FREEZE_PERIOD_S)
            gc.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "stop":
            gc.freeze()
            return
        self._full += 1
        if self._full % FULL_SIGHT_EVERY == 0:
            gc.unfreeze()
