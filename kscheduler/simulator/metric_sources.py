"""The sources of live metrics in a simulated cluster: its apiserver's APIs, and its nodes' own fields.

There is no network in virtual time: an outside server would answer about another cluster, at another time.
"""

from __future__ import annotations

from kscheduler.config.metric_source_validation import KINDS, kind_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.telemetry.settings import telemetry_settings


def check_metric_sources(config: SchedulerConfig) -> None:
    """Raise ConfigError, naming the source, for one outside the cluster."""
    for source in telemetry_settings(config).sources:
        kind = KINDS[kind_of(source)]
        if kind not in ("resourceMetrics", "nodeFields"):
            expected = "a simulated cluster has resourceMetrics and nodeFields"
            raise ConfigError(f'metric source "{source.name}": {expected}; {kind} cannot be asked')
