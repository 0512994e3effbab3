"""When Python's garbage collector looks at what. Most of what a scheduler keeps is never garbage that it could find.

Reference counts free nearly everything here at once; the collector is for cycles, such as an exception and the frames
it went through. What it costs is a visit to every object it tracks, half a microsecond each once they are many, while
the event loop stands still. With 50,000 pods and Python's own thresholds, that was 45 % of the time of the first list,
with stalls of 0.4 s. So:

- While the first lists arrive, what has arrived is frozen every few milliseconds: kept out of the collector's sight.
- Afterwards it comes less often, and what a full collection has found alive is frozen again. Each costs as much as
  has been added since, not as much as the cluster is big.
- What was frozen and has become a cycle of garbage later is found by every 16th full collection, which sees all.

Objects that are frozen are still freed when the last reference to them goes: a cluster may come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator

# New objects until the youngest are looked at: a millisecond of work. After five of these what they left is looked at,
# 5 to 10 ms; after four of those everything that is not frozen, 30 ms. Binding 50,000 pods made no garbage for the
# collector at all, and took it 18 % of the time with Python's thresholds, 7 % with these.
THRESHOLDS = (2_000, 5, 4)
FREEZE_PERIOD_S = 0.02  # while the first lists arrive; some 500 pods
MOST_FREEZES = 3_000  # a minute: a kind that can never be listed must not keep the collector away for ever
FULL_SIGHT_EVERY = 16  # full collections


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Collections:
    """Freezes what full collections have found alive. `start` once, when everything is imported."""

    def __init__(self) -> None:
        self._full = 0  # full collections so far
        self._before = gc.get_threshold()

    def start(self) -> None:
        self.freeze()
        self._before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)

    def freeze(self) -> None:
        """What is alive now stays: imported modules and built parts are never garbage. Costs nothing."""
        gc.freeze()

    def stop(self) -> None:
        """As Python would have it again."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    async def while_listing(self, is_synced: Callable[[], bool]) -> None:
        """Keep the collector away from what the first lists bring; returns when they are complete."""
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
