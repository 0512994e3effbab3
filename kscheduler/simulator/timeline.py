"""Samples a simulation's state over virtual time, with about a thousand samples however long the run is.

A sample holds from its time until the next one's. Samples are taken at changes only, so idle months cost nothing. When
there are too many, the minimum distance between samples doubles until half of them suffice; of those that are closer,
the one that held the longest stands for all.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_SAMPLES = 1_000
FIRST_INTERVAL_S = 0.01


class Sample(NamedTuple):
    at_s: float
    pending: int
    running: int
    used: tuple[int, ...]  # by resource, in the order in which resources first occurred
    capacity: tuple[int, ...]


class Timeline:
    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self.samples: list[Sample] = []
        self._max = max_samples
        self.interval_s = FIRST_INTERVAL_S  # the least between two samples, as of now
        self.last_s = float("-inf")  # when a sample was last taken

    def is_due(self, now: float) -> bool:
        return now - self.last_s >= self.interval_s

    def add(self, now: float, sample: Sample) -> None:
        """Add a sample: the state that held from `sample.at_s` until `now`."""
        self.samples.append(sample)
        self.last_s = now
        if len(self.samples) > self._max:
            while len(self.samples) > self._max // 2:
                self.interval_s *= 2
                self._thin(now)

    def _thin(self, until_s: float) -> None:
        # By time and not by number: else a burst at the start would leave no samples for the quiet hours after it.
        kept: list[Sample] = []
        longest_s = 0.0
        ends_s = [*(sample.at_s for sample in self.samples[1:]), until_s]
        for sample, end_s in zip(self.samples, ends_s, strict=True):
            held_s = end_s - sample.at_s
            if not kept or sample.at_s - kept[-1].at_s >= self.interval_s:
                kept.append(sample)
                longest_s = held_s
            elif held_s > longest_s:
                kept[-1] = sample._replace(at_s=kept[-1].at_s)
                longest_s = held_s
        self.samples = kept

    def close(self, sample: Sample) -> None:
        """Add the final state, even if the last sample was taken only shortly before."""
        self.samples.append(sample)
