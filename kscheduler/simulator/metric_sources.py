"""Which sources of live metrics a simulated cluster has: what its apiserver serves, and its nodes' own fields.

There is no network in virtual time: whoever is out there would answer about another cluster, at another time.
"""

from __future__ import annotations

from kscheduler.config.metric_policy import Source
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.telemetry.settings import telemetry_settings


def check_metric_sources(config: SchedulerConfig) -> None:
    """ConfigError, naming the source, for one that is outside the cluster."""
    for source in telemetry_settings(config).sources:
        kind = _kind_outside(source)
        if kind:
            expected = "a simulated cluster has resourceMetrics and nodeFields"
            raise ConfigError(f'metric source "{source.name}": {expected}; {kind} cannot be asked')


def _kind_outside(source: Source) -> str:
    if source.prometheus is not None:
        return "prometheus"
    if source.load_watcher is not None:
        return "loadWatcher"
    if source.custom_metrics is not None:
        return "customMetrics"
    return "externalMetrics" if source.external_metrics is not None else ""
