"""Generates what share of their requests pods really use, from distributions written in workload files.

Shares: NUMBER | uniform:LOW,HIGH | normal:MEAN,DEVIATION | lognormal:MEDIAN,SIGMA     (1 is all that is requested)
A negative share counts as zero. All randomness comes from the `random.Random` that is passed in.
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
from kscheduler.simulator.processes import check_spread
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY, USAGE_RAMP

SHARES = "NUMBER, uniform:LOW,HIGH, normal:MEAN,DEVIATION or lognormal:MEDIAN,SIGMA"
MOST = 1e6  # times what is requested: far more than a pod uses, and what is computed of it stays finite
_FORMS = {"": 1, "uniform": 2, "normal": 2, "lognormal": 2}  # kind of distribution -> how many numbers it has


ShareLaw = Callable[[random.Random], float]  # draws the share of a request that one pod uses


@dataclass(frozen=True, slots=True)
class UsageLaw:
    """The distributions from which the CPU and memory use of pods is drawn; None for a resource used as requested."""

    cpu: ShareLaw | None = None
    memory: ShareLaw | None = None
    ramp_s: float = 0.0

    def annotations(self, requests: QuantityMap, limits: QuantityMap, source: random.Random) -> dict[str, str]:
        """Draw one pod's use, at most its limits, and return it as annotations."""
        drawn = {}
        if self.cpu is not None:
            drawn[USAGE_CPU] = f"{_used(self.cpu, CPU, requests, limits, source)}m"
        if self.memory is not None:
            drawn[USAGE_MEMORY] = str(_used(self.memory, MEMORY, requests, limits, source))
        if self.ramp_s:
            drawn[USAGE_RAMP] = f"{self.ramp_s:g}"
        return drawn


def parse_share(written: str | float, where: str) -> ShareLaw:
    """Parse one of the four forms. Raises ConfigError for anything else, with `where` (the field) in its message."""
    text = str(written)
    kind, _, rest = text.rpartition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != _FORMS.get(kind) or not all(0 <= number <= MOST for number in numbers):
        raise ConfigError(f'{where}: expected {SHARES} with numbers from 0 to {MOST:g}, got "{text}"')
    if kind == "lognormal":
        if not numbers[0]:
            raise ConfigError(f'{where}: expected a median above zero, got "{text}"')
        check_spread(numbers[0], numbers[1], text, where)
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
