"""Random numbers for choosing among nodes of equal score: one for each pod with several feasible nodes, in order.

All decisions draw from one `TieBits`, by kernels or plugin by plugin, so that a seed gives the same choices however
many pods are decided in one call.
"""

from __future__ import annotations

import random
import sys
from array import array
from typing import final

AHEAD = 1_024  # numbers drawn at a time


@final
class TieBits:
    """A source of random numbers of 32 bits to break ties. Its generator is used for nothing else."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = random.Random(rng.getrandbits(64))
        self._drawn: array[int] = array("Q")
        self._next = 0  # index of the first unused number in `_drawn`

    def draw(self) -> int:
        bits = self.next()
        self._next += 1
        return bits

    def ahead(self, count: int) -> array[int]:
        """Return the next `count` random numbers without consuming them; `use` consumes numbers."""
        end = self._next + count
        if end > len(self._drawn):
            self._drawn = self._drawn[self._next :] + self._further(max(AHEAD, count))
            self._next, end = 0, count
        return self._drawn[self._next : end]

    def next(self) -> int:
        """Return the next random number without consuming it; `use` consumes it."""
        if self._next == len(self._drawn):
            self.ahead(1)
        return self._drawn[self._next]

    def use(self, count: int) -> None:
        self._next += count

    def _further(self, count: int) -> array[int]:
        words = array("I", self._rng.getrandbits(32 * count).to_bytes(4 * count, "little"))
        if sys.byteorder == "big":
            words.byteswap()
        return array("Q", words)
