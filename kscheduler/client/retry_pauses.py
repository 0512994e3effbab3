"""Pauses before failed requests are repeated, which end early once the apiserver answers again.

Each task that repeats requests has its own backoff, and half a minute is right while nothing answers, but not once
something does. So every success of any request ends all pauses, and while nothing succeeds one of the waiting tasks, in
turn, may try every second. A pause lasts at least half a second after the failure, so that an apiserver that answers
every other request gets no more requests than after a first failure.
"""

from __future__ import annotations

import asyncio
import random

SOONEST_S = 0.5  # after a failure, whatever succeeds elsewhere; an informer's shortest first pause
PROBE_PERIOD_S = 1.0  # one sleeper tries, while nothing succeeds
_JITTER = (0.75, 1.25)  # so that the replicas do not probe in step


class Backoff:
    """Delays that start at `initial_s` and double up to `maximum_s`, each drawn from its upper half to spread clients.

    A success resets it. It uses no clock; it only counts failures.
    """

    def __init__(self, rng: random.Random, *, initial_s: float = 1.0, maximum_s: float = 30.0) -> None:
        if not 0 < initial_s <= maximum_s:
            raise ValueError(f"backoff needs 0 < initial <= maximum, not {initial_s} and {maximum_s}")
        self._rng = rng
        self._initial_s = initial_s
        self._maximum_s = maximum_s
        self._next_s = initial_s
        self.failures = 0  # since the last success

    def next_s(self, at_least_s: float | None = None) -> float:
        """Count one more failure and return the delay in seconds, at least `at_least_s` (the server's Retry-After)."""
        self.failures += 1
        delay = self._next_s * self._rng.uniform(0.5, 1.0)
        self._next_s = min(2.0 * self._next_s, self._maximum_s)
        return max(delay, at_least_s or 0.0)

    def reset(self) -> None:
        """Start again at `initial_s`, after a success."""
        self._next_s = self._initial_s
        self.failures = 0


class RetryPauses:
    """Lets all tasks that use one apiserver pause before they repeat failed requests. Belongs to one event loop."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.successes = 0
        self.sleepers: dict[asyncio.Future[None], bool] = {}  # may it probe; the one that slept longest comes first
        self._probe: asyncio.TimerHandle | None = None

    def succeeded(self) -> None:
        """End all pauses, because the apiserver has carried out a request."""
        self.successes += 1
        if self.sleepers:
            for sleeper in self.sleepers:
                _wake(sleeper)
            self.sleepers.clear()

    async def pause(self, delay_s: float, *, at_least_s: float = 0.0, may_probe: bool = True) -> None:
        """Sleep for `delay_s` seconds, or until a later request succeeds, but at least `at_least_s` seconds.

        With `may_probe` this caller may also be woken early as the one that tries while nothing succeeds.
        """
        successes = self.successes
        soonest_s = min(delay_s, max(at_least_s, SOONEST_S))
        await asyncio.sleep(soonest_s)
        if soonest_s >= delay_s or self.successes != successes:
            return
        sleeper = asyncio.get_running_loop().create_future()
        self.sleepers[sleeper] = may_probe
        self._probe_later()
        try:
            await asyncio.wait([sleeper], timeout=delay_s - soonest_s)
        finally:
            self.sleepers.pop(sleeper, None)
            sleeper.cancel()
            if not self.sleepers and self._probe is not None:
                self._probe.cancel()
                self._probe = None

    def _probe_later(self) -> None:
        if self._probe is None and any(self.sleepers.values()):
            delay_s = PROBE_PERIOD_S * self._rng.uniform(*_JITTER)
            self._probe = asyncio.get_running_loop().call_later(delay_s, self._let_one_try)

    def _let_one_try(self) -> None:
        self._probe = None
        sleeper = next((sleeper for sleeper, may_probe in self.sleepers.items() if may_probe), None)
        if sleeper is not None:
            del self.sleepers[sleeper]
            _wake(sleeper)
        if any(self.sleepers.values()):
            self._probe_later()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
