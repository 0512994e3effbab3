"""Generates the arrival times and durations of pods, from distributions written in flags and workload files.

Arrivals:  now | constant:RATE | poisson:RATE | daily:LOW,HIGH | bursts:SIZE/SECONDS     (rates in pods per second),
           or several of them joined by "+"
Durations: forever | constant:SECONDS | exp:MEAN | lognormal:MEDIAN,SIGMA
All randomness comes from the `random.Random` that is passed in.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, repeat

from kscheduler.errors import ConfigError

ARRIVALS = 'now, constant:RATE, poisson:RATE, daily:LOW,HIGH or bursts:SIZE/SECONDS, several joined by "+"'
DAY_S = 86_400.0
# Of a normal distribution: from numbers of 53 bits no draw is so many standard deviations from the mean.
DEVIATIONS = 13
LARGEST = 700.0  # of which the exponential is a float
DURATIONS = "forever, constant:SECONDS, exp:MEAN or lognormal:MEDIAN,SIGMA"


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """A process by which pods arrive.

    `times` yields arrival times in seconds from 0 on, never decreasing and without end.
    """

    text: str
    times: Callable[[random.Random], Iterator[float]]


@dataclass(frozen=True, slots=True)
class DurationLaw:
    """A distribution of how long pods run. `draw` returns one duration in seconds, or None for forever."""

    text: str
    draw: Callable[[random.Random], float | None]


def parse_arrival(text: str, where: str) -> ArrivalProcess:
    """Parse `now`, `constant:RATE`, `poisson:RATE`, `daily:LOW,HIGH` or `bursts:PODS/SECONDS`, or a sum of them.

    Raises ConfigError for anything else, with `where` (the flag or field) in its message.
    """
    parts = [_parse_one(part, where) for part in text.split("+")]
    if len(parts) == 1:
        return parts[0]
    return ArrivalProcess(text, lambda source: heapq.merge(*(part.times(source) for part in parts)))


def _parse_one(text: str, where: str) -> ArrivalProcess:
    kind, _, rest = text.partition(":")
    if text == "now":
        return ArrivalProcess(text, lambda _: repeat(0.0))
    if kind in ("constant", "poisson"):
        [rate] = _numbers(text, rest, ",", 1, where, ARRIVALS)
        if kind == "constant":
            return ArrivalProcess(text, lambda _: (index * (1 / rate) for index in count()))  # no sums: no drift
        return ArrivalProcess(text, lambda source: _poisson(rate, source))
    if kind == "daily":
        low, high = _numbers(text, rest, ",", 2, where, ARRIVALS)
        if low > high:
            raise ConfigError(f'{where}: expected daily:LOW,HIGH with LOW at most HIGH, got "{text}"')
        return ArrivalProcess(text, lambda source: _daily(low, high, source))
    if kind == "bursts":
        size, seconds = _numbers(text, rest, "/", 2, where, ARRIVALS)
        if size != int(size):
            raise ConfigError(f'{where}: expected a whole number of pods a burst, got "{text}"')
        return ArrivalProcess(text, lambda _: ((index // int(size)) * seconds for index in count()))
    raise ConfigError(f'{where}: expected {ARRIVALS}, got "{text}"')


def parse_duration(text: str, where: str) -> DurationLaw:
    """Parse `forever`, `constant:S`, `exp:MEAN` or `lognormal:MEDIAN,SIGMA`.

    Raises ConfigError for anything else, with `where` (the flag or field) in its message.
    """
    kind, _, rest = text.partition(":")
    if text == "forever":
        return DurationLaw(text, lambda _: None)
    if kind in ("constant", "exp"):
        [mean] = _numbers(text, rest, ",", 1, where, DURATIONS)
        return DurationLaw(text, lambda source: mean if kind == "constant" else source.expovariate(1 / mean))
    if kind == "lognormal":
        median, sigma = _numbers(text, rest, ",", 2, where, DURATIONS)
        check_spread(median, sigma, text, where)
        return DurationLaw(text, lambda source: source.lognormvariate(math.log(median), sigma))
    raise ConfigError(f'{where}: expected {DURATIONS}, got "{text}"')


def check_spread(median: float, sigma: float, text: str, where: str) -> None:
    """Raise ConfigError if a draw of this lognormal distribution might be no float."""
    most = (LARGEST - math.log(median)) / DEVIATIONS
    if sigma > most:
        raise ConfigError(
            f'{where}: expected a SIGMA, the standard deviation of the logarithm, of at most {most:.3g}, got "{text}"'
        )


def _numbers(text: str, rest: str, separator: str, expected: int, where: str, forms: str) -> list[float]:
    """Parse `rest` as `expected` positive numbers. Raises ConfigError that quotes `text` and the accepted `forms`."""
    try:
        numbers = [float(part) for part in rest.split(separator)]
    except ValueError:
        numbers = []
    if len(numbers) != expected or not all(0 < number < math.inf for number in numbers):
        raise ConfigError(f'{where}: expected {forms} with numbers above zero, got "{text}"')
    return numbers


def _poisson(rate: float, source: random.Random) -> Iterator[float]:
    now = 0.0
    while True:
        now += source.expovariate(rate)
        yield now


def _daily(low: float, high: float, source: random.Random) -> Iterator[float]:
    """Yield the times of a Poisson process whose rate is `low` at midnight, time 0, and `high` at noon."""
    for now in _poisson(high, source):
        rate = low + (high - low) * (1 - math.cos(2 * math.pi * now / DAY_S)) / 2
        if source.random() * high < rate:
            yield now
