"""Arrivals and durations of pods: small languages for flags and workload files, and their sampling.

Arrivals:  now | constant:RATE | poisson:RATE | bursts:SIZE/SECONDS     (RATE in pods a second)
Durations: forever | constant:SECONDS | exp:MEAN | lognormal:MEDIAN,SIGMA
All chance comes from the `random.Random` that is handed in.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kscheduler.errors import ConfigError

ARRIVALS = "now, constant:RATE, poisson:RATE or bursts:SIZE/SECONDS"
DURATIONS = "forever, constant:SECONDS, exp:MEAN or lognormal:MEDIAN,SIGMA"


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """`times` yields arrival times without end, never decreasing, from 0 on."""

    text: str
    times: Callable[[random.Random], Iterator[float]]


@dataclass(frozen=True, slots=True)
class DurationLaw:
    """`draw` returns one duration in seconds, None for forever."""

    text: str
    draw: Callable[[random.Random], float | None]


def parse_arrival(text: str, where: str) -> ArrivalProcess:
    """Parse one of the four forms. Raises ConfigError, naming `where`, for anything else."""
    kind, _, rest = text.partition(":")
    if text == "now":
        return ArrivalProcess(text, _all_now)
    if kind == "constant":
        [rate] = _numbers(text, rest, ",", 1, where, ARRIVALS)
        return ArrivalProcess(text, lambda _: _every(1 / rate))
    if kind == "poisson":
        [rate] = _numbers(text, rest, ",", 1, where, ARRIVALS)
        return ArrivalProcess(text, lambda source: _poisson(rate, source))
    if kind == "bursts":
        size, seconds = _numbers(text, rest, "/", 2, where, ARRIVALS)
        if size != int(size):
            raise ConfigError(f'{where}: expected a whole number of pods a burst, got "{text}"')
        return ArrivalProcess(text, lambda _: _bursts(int(size), seconds))
    raise ConfigError(f'{where}: expected {ARRIVALS}, got "{text}"')


def parse_duration(text: str, where: str) -> DurationLaw:
    """Parse one of the four forms. Raises ConfigError, naming `where`, for anything else."""
    kind, _, rest = text.partition(":")
    if text == "forever":
        return DurationLaw(text, lambda _: None)
    if kind == "constant":
        [seconds] = _numbers(text, rest, ",", 1, where, DURATIONS)
        return DurationLaw(text, lambda _: seconds)
    if kind == "exp":
        [mean] = _numbers(text, rest, ",", 1, where, DURATIONS)
        return DurationLaw(text, lambda source: source.expovariate(1 / mean))
    if kind == "lognormal":
        median, sigma = _numbers(text, rest, ",", 2, where, DURATIONS)
        return DurationLaw(text, lambda source: source.lognormvariate(math.log(median), sigma))
    raise ConfigError(f'{where}: expected {DURATIONS}, got "{text}"')


def _numbers(text: str, rest: str, separator: str, count: int, where: str, forms: str) -> list[float]:
    """Return `count` numbers above zero. Raises ConfigError."""
    try:
        numbers = [float(part) for part in rest.split(separator)]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(0 < number < math.inf for number in numbers):
        raise ConfigError(f'{where}: expected {forms} with numbers above zero, got "{text}"')
    return numbers


def _all_now(_: random.Random) -> Iterator[float]:
    while True:
        yield 0.0


def _every(interval_s: float) -> Iterator[float]:
    count = 0
    while True:
        yield count * interval_s  # multiplied, not added up: no drift
        count += 1


def _poisson(rate: float, source: random.Random) -> Iterator[float]:
    now = 0.0
    while True:
        now += source.expovariate(rate)
        yield now


def _bursts(size: int, seconds: float) -> Iterator[float]:
    count = 0
    while True:
        yield (count // size) * seconds
        count += 1
