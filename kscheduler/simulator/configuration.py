"""Checks that a scheduler's configuration can be simulated."""

from __future__ import annotations

from kscheduler.config.metric_source_validation import KINDS, kind_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.scheduler import check_supported
from kscheduler.telemetry.settings import telemetry_settings
from kscheduler.wasm.loading.plugins import GuestPlugins


def check_simulated(config: SchedulerConfig, source: str, guests: GuestPlugins) -> None:
    """Raise ConfigError, naming `source`, if the scheduler or its metric sources do not exist in a simulation."""
    try:
        check_supported(config, guests)
        check_metric_sources(config)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def check_metric_sources(config: SchedulerConfig) -> None:
    """Raise ConfigError for a live metrics source that is neither the apiserver nor a field of the nodes.

    An external server cannot be queried in virtual time: it would report on another cluster, at another time.
    """
    for source in telemetry_settings(config).sources:
        kind = KINDS[kind_of(source)]
        if kind not in ("resourceMetrics", "nodeFields"):
            expected = "a simulated cluster has resourceMetrics and nodeFields"
            raise ConfigError(f'metric source "{source.name}": {expected}; {kind} cannot be asked')
