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
        self.used = 0  # numbers of `_drawn` that are consumed; who consumes some adds to it

    def draw(self) -> int:
        bits = self.next()
        self.used += 1
        return bits

    def ahead(self, count: int) -> array[int]:
        """Return the next `count` random numbers without consuming them: the caller adds to `used` how many it uses."""
        end = self.used + count
        if end > len(self._drawn):
            self._drawn = self._drawn[self.used :] + self._further(max(AHEAD, count))
            self.used, end = 0, count
        return self._drawn[self.used : end]

    def next(self) -> int:
        """Return the next random number without consuming it: the caller adds 1 to `used` if it uses it."""
        if self.used == len(self._drawn):
            self.ahead(1)
        return self._drawn[self.used]

    def _further(self, count: int) -> array[int]:
        words = array("I", self._rng.getrandbits(32 * count).to_bytes(4 * count, "little"))
        if sys.byteorder == "big":
            words.byteswap()
        return array("Q", words)
