"""The share of their requests that generated pods use: a small language for workload files, and its sampling.

Shares: NUMBER | uniform:LOW,HIGH | normal:MEAN,DEVIATION | lognormal:MEDIAN,SIGMA     (1 is all that is requested)
A share below zero counts as none. All chance comes from the `random.Random` that is handed in.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from kscheduler.api.objects import QuantityMap
from kscheduler.api.quantity import parse_milli, parse_units
from kscheduler.api.resources import CPU, MEMORY
from kscheduler.errors import ConfigError
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY, USAGE_RAMP

SHARES = "NUMBER, uniform:LOW,HIGH, normal:MEAN,DEVIATION or lognormal:MEDIAN,SIGMA"
_FORMS = {"": 1, "uniform": 2, "normal": 2, "lognormal": 2}  # kind -> its numbers


ShareLaw = Callable[[random.Random], float]  # draws one share of a request


@dataclass(frozen=True, slots=True)
class UsageLaw:
    """The laws of cpu and memory; None means as requested."""

    cpu: ShareLaw | None = None
    memory: ShareLaw | None = None
    ramp_s: float = 0.0

    def annotations(self, requests: QuantityMap, limits: QuantityMap, source: random.Random) -> dict[str, str]:
        """Return one pod's annotations, drawn at random; never more than its limits allow."""
        drawn = {}
        if self.cpu is not None:
            drawn[USAGE_CPU] = f"{_used(self.cpu, CPU, requests, limits, source)}m"
        if self.memory is not None:
            drawn[USAGE_MEMORY] = str(_used(self.memory, MEMORY, requests, limits, source))
        if self.ramp_s:
            drawn[USAGE_RAMP] = f"{self.ramp_s:g}"
        return drawn


def parse_share(written: str | float, where: str) -> ShareLaw:
    """Parse one of the four forms. Raises ConfigError, naming `where`, for anything else."""
    text = str(written)
    kind, _, rest = text.rpartition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != _FORMS.get(kind) or not all(0 <= number < math.inf for number in numbers):
        raise ConfigError(f'{where}: expected {SHARES} with numbers of 0 or more, got "{text}"')
    if kind == "lognormal" and not numbers[0]:
        raise ConfigError(f'{where}: expected a median above zero, got "{text}"')
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise ConfigError(f'{where}: expected the lower share first, got "{text}"')
    return _sampler(kind, numbers)


def _sampler(kind: str, numbers: list[float]) -> ShareLaw:
    if kind == "uniform":
        return lambda source: source.uniform(*numbers)
    if kind == "normal":
        return lambda source: max(0.0, source.gauss(*numbers))
    if kind == "lognormal":
        return lambda source: source.lognormvariate(math.log(numbers[0]), numbers[1])
    return lambda _: numbers[0]


def _used(law: ShareLaw, resource: str, requests: QuantityMap, limits: QuantityMap, source: random.Random) -> int:
    parse = parse_milli if resource == CPU else parse_units
    used = round(law(source) * parse(requests.get(resource, 0), resource))
    limit = limits.get(resource)
    return used if limit is None else min(used, parse(limit, resource))
