"""The sources of live metrics in a simulated cluster: its apiserver's APIs, and its nodes' own fields.

There is no network in virtual time: an outside server would answer about another cluster, at another time.
"""

from __future__ import annotations

from kscheduler.config.metric_policy import Source
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.telemetry.settings import telemetry_settings


def check_metric_sources(config: SchedulerConfig) -> None:
    """Raise ConfigError, naming the source, for one outside the cluster."""
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
