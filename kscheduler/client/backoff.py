"""The delay before another try: exponential, with jitter, reset by success. It knows no clock: it only counts."""

from __future__ import annotations

import random


class Backoff:
    """Delays of `initial_s`, doubling up to `maximum_s`, each drawn from its upper half so that clients spread."""

    def __init__(self, rng: random.Random, *, initial_s: float = 1.0, maximum_s: float = 30.0) -> None:
        if not 0 < initial_s <= maximum_s:
            raise ValueError(f"backoff needs 0 < initial <= maximum, not {initial_s} and {maximum_s}")
        self._rng = rng
        self._initial_s = initial_s
        self._maximum_s = maximum_s
        self._next_s = initial_s
        self.failures = 0  # since the last success

    def next_s(self, at_least_s: float | None = None) -> float:
        """Return the delay after one more failure, in seconds: at least what a server asked for (Retry-After)."""
        self.failures += 1
        delay = self._next_s * self._rng.uniform(0.5, 1.0)
        self._next_s = min(2.0 * self._next_s, self._maximum_s)
        return max(delay, at_least_s or 0.0)

    def reset(self) -> None:
        """Start again at `initial_s`, after a success."""
        self._next_s = self._initial_s
        self.failures = 0
