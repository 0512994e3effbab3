"""Decides how many writes may be under way at once: more while the apiserver answers quickly, fewer when it slows down.

The rule is applied once per round, i.e. after as many answers as the limit allows requests:
- The floor is the lowest mean latency of a round so far. It rises slowly, so that a cluster that has become slower for
  good gets a new floor. A round is fast if its mean latency is at most twice the floor or at most NEAR_S. It is slow if
  its mean latency is above four times the floor and above FAR_S.
- If a round was fast and all of the limit was used, the limit grows by its square root; until the first round that is
  not fast, it doubles. If a round was slow, the limit shrinks by a fifth. Otherwise it stays.
- If the apiserver pushes back (status 429, a server error or no answer), the limit is halved, at most once per round.
  The owner of the limit waits for Retry-After.

The limit starts low, so that the floor is measured before a queue builds up. The absolute bounds NEAR_S and FAR_S exist
because a few more milliseconds mean nothing: a write waits that long for etcd's disk, and many writes share one flush.

This module uses neither a clock nor an event loop.
"""

from __future__ import annotations

import math

MINIMUM = 4
START = 8
DEFAULT_BIND_CONCURRENCY = 64  # the ceiling for bindings if no --bind-concurrency is given
NEAR_S = 0.02
FAR_S = 0.1
_NEAR, _FAR = 2.0, 4.0  # times the floor
_SHRINK = 0.8
_FLOOR_DRIFT = 0.01  # of the distance, each round


class AdaptiveLimit:
    """A limit on concurrent requests, in `value`; it adapts to the server's latency and never exceeds `ceiling`."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.value = min(START, ceiling)
        self._floor_s = math.inf
        self._answers = 0  # of this round
        self._sum_s = 0.0
        self._was_full = False
        self._is_starting = True
        self._refusals_to_pass = 0  # answers until a refusal counts again

    def bound(self, ceiling: int) -> None:
        """Set a new ceiling, and lower the limit if it is above that."""
        self.ceiling = ceiling
        self.value = min(self.value, ceiling)

    def note_latency(self, latency_s: float, *, is_full: bool) -> None:
        """Record the latency of an answered write.

        `is_full` is true if the limit was used up: other writes had to wait, or no more could have been sent.
        """
        self._answers += 1
        self._sum_s += latency_s
        self._was_full = self._was_full or is_full
        if self._refusals_to_pass:
            self._refusals_to_pass -= 1
        if self._answers >= self.value:
            self._end_round()

    def pushed_back(self) -> None:
        """Halve the limit, at most once per round, because the server refused a write for now or failed under load."""
        if self._refusals_to_pass:
            self._refusals_to_pass -= 1
            return
        self._is_starting = False
        self._refusals_to_pass = self.value  # those under way were sent under the old limit
        self.value = max(min(MINIMUM, self.ceiling), self.value // 2)
        self._begin_round()

    def _end_round(self) -> None:
        mean_s = self._sum_s / self._answers
        if mean_s < self._floor_s:
            self._floor_s = mean_s
        else:
            self._floor_s += (mean_s - self._floor_s) * _FLOOR_DRIFT
        if mean_s <= max(_NEAR * self._floor_s, NEAR_S):
            if self._was_full:
                more = self.value if self._is_starting else max(1, math.isqrt(self.value))
                self.value = min(self.ceiling, self.value + more)
        else:
            self._is_starting = False
            if mean_s > max(_FAR * self._floor_s, FAR_S):
                self.value = max(min(MINIMUM, self.ceiling), int(self.value * _SHRINK))
        self._begin_round()

    def _begin_round(self) -> None:
        self._answers, self._sum_s, self._was_full = 0, 0.0, False
