"""Objectives: conditions on the figures of a simulation, such as `pending p99 < 30s`.

    pending p99 < 30s          also p50, p99.9, max, mean: the time from a pod's creation to its binding
    unplaced <= 3              any figure of `kscheduler sweep`
    allocated:cpu < 80%
    gangs-wait-mean < 2m

A pod that never gets a node has waited for ever: a percentile cannot be met by leaving pods out.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from kscheduler.config.duration import Duration
from kscheduler.errors import ConfigError
from kscheduler.simulator.units import percent, seconds
from kscheduler.sweep.metrics import check_metric, metric_named, unit_of
from kscheduler.whatif.played_side import FOR_EVER, PlayedSide

EXAMPLE = "pending p99 < 30s"
_OBJECTIVE = re.compile(r"\s*(?P<metric>[^<>=]+?)\s*(?P<operator><=|>=|<|>)\s*(?P<value>[^<>=]+?)\s*")
_PENDING = re.compile(r"pending[ -](?:p(?P<percentile>\d{1,2}(?:\.\d{1,6})?)|(?P<other>max|mean))", re.ASCII)
_NUMBER = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,9})?)\s*(?P<percent>%)?", re.ASCII)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Objective:
    """One condition on a figure."""

    text: str
    metric: str
    operator: str
    value: float
    figure: Callable[[PlayedSide], float | None]
    share: float | None = None  # of the pods whose longest waiting time is the figure; None: it is another figure

    @classmethod
    def parse(cls, flag: str, text: str) -> Objective:
        """Parse `METRIC OPERATOR VALUE`. Raises ConfigError that says what was expected."""
        found = _OBJECTIVE.fullmatch(text)
        if found is None:
            raise ConfigError(
                f'{flag}: expected a metric, one of < <= > >= and a value, as in "{EXAMPLE}", got "{text}"'
            )
        metric = " ".join(found["metric"].split())
        pending = _PENDING.fullmatch(metric)
        figure = _named(flag, metric.replace(" ", "-")) if pending is None else _pending(pending)
        value = _value(flag, text, unit_of(metric), found["value"], is_duration=pending is not None)
        share = None if pending is None else _share(pending)
        return cls(" ".join(text.split()), metric, found["operator"], value, figure, share)

    @property
    def unit(self) -> str:
        """The unit of the value and the figure: "seconds", "share", or "" for a number."""
        return unit_of(self.metric)

    @property
    def is_about_nodes(self) -> bool:
        """True if nodes without pods change the figure, too."""
        return ":" in self.metric or self.metric.startswith("nodes")

    def is_met(self, played: PlayedSide) -> bool:
        """Return True if the figure is as wanted; False, too, if the simulation has no such figure."""
        figure = self.figure(played)
        return figure is not None and _OPERATORS[self.operator](figure, self.value)

    def may_miss(self, pods: int) -> int | None:
        """Return how many of the pods may wait for longer than the value; None if that is not what is to be met."""
        if self.share is None or self.operator not in ("<", "<="):
            return None
        return pods - max(1, math.ceil(round(self.share * pods, 9))) if pods else 0

    def shown(self, played: PlayedSide) -> str:
        """Return the figure in words, such as "pending p99 = 41 s"."""
        figure = self.figure(played)
        return f"{self.metric} = {self._in_words(figure)}"

    def _in_words(self, figure: float | None) -> str:
        if figure is None:
            return "not known"
        if figure == FOR_EVER:
            return "for ever"
        if self.unit == "seconds":
            return seconds(figure)
        return percent(figure, 2) if self.unit == "share" else f"{figure:,.6g}"


def _pending(found: re.Match[str]) -> Callable[[PlayedSide], float | None]:
    share = _share(found)
    if share is None:
        return lambda played: played.mean_wait_s
    return lambda played: played.waited_s(share)


def _share(found: re.Match[str]) -> float | None:
    """Return the share that a percentile is of; None for the mean."""
    if found["other"]:
        return 1.0 if found["other"] == "max" else None
    return float(found["percentile"]) / 100


def _named(flag: str, name: str) -> Callable[[PlayedSide], float | None]:
    check_metric(flag, name)
    if metric_named(name).is_speed:
        raise ConfigError(f'{flag}: expected a figure of the cluster, got "{name}", which depends on this machine')

    def figure(played: PlayedSide) -> float | None:
        played.run()
        return played.figures.get(name)

    return figure


def _value(flag: str, text: str, unit: str, value: str, *, is_duration: bool) -> float:
    """Parse the value: of times a duration, of most also a number of seconds, of shares also a percentage."""
    if is_duration or (unit == "seconds" and not _NUMBER.fullmatch(value)):
        return _duration(flag, text, value)
    return _number(flag, text, value, is_share=unit == "share")


def _duration(flag: str, text: str, value: str) -> float:
    try:
        return Duration.parse(value.replace(" ", "")).seconds
    except ValueError as error:
        raise ConfigError(f'{flag}: "{text}": {error}') from None


def _number(flag: str, text: str, value: str, *, is_share: bool) -> float:
    found = _NUMBER.fullmatch(value)
    if found is None or (found["percent"] and not is_share):
        raise ConfigError(f'{flag}: "{text}": expected a number{" or a percentage" if is_share else ""}, got "{value}"')
    return float(found["number"]) / (100 if found["percent"] else 1)
