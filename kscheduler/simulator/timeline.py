"""A step function of virtual time kept in about a thousand samples, however long and busy the run is.

A sample is the state from its time until the next one's. Nothing ticks: idle months cost nothing. When there are too
many samples, every other one is dropped and the least distance doubles.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_SAMPLES = 1_000
FIRST_INTERVAL_S = 0.01


class Sample(NamedTuple):
    at_s: float
    pending: int
    running: int
    used: tuple[int, ...]  # by resource, in the order the resources were first met
    capacity: tuple[int, ...]


class Timeline:
    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self.samples: list[Sample] = []
        self._max = max_samples
        self._interval_s = FIRST_INTERVAL_S
        self._last_s = float("-inf")  # when a sample was last taken

    def is_due(self, now: float) -> bool:
        return now - self._last_s >= self._interval_s

    def add(self, now: float, sample: Sample) -> None:
        """Keep the state that held from `sample.at_s` until now."""
        self.samples.append(sample)
        self._last_s = now
        if len(self.samples) > self._max:
            del self.samples[1::2]
            self._interval_s *= 2

    def close(self, sample: Sample) -> None:
        """Keep the last state, however close in time it is to the sample before."""
        self.samples.append(sample)
