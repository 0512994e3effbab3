"""Reads scheduler configurations, and checks that they can be simulated."""

from __future__ import annotations

from functools import partial

from kscheduler.config.load import default_config, load_config, parse_config
from kscheduler.config.metric_source_validation import KINDS, kind_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.scheduler import check_supported
from kscheduler.simulator.options import SimulateArguments
from kscheduler.telemetry.settings import telemetry_settings
from kscheduler.wasm.loading.plugins import GuestPlugins


def simulated_config(arguments: SimulateArguments, guests: GuestPlugins) -> SchedulerConfig:
    """Return the configuration of --config, or else that in the record, or else the default one. Raises ConfigError."""
    if arguments.config is not None:
        return load_simulated(arguments.config, guests)
    config = None if arguments.record is None else recorded_config(arguments.record, guests)
    return default_config() if config is None else config


def load_simulated(path: str, guests: GuestPlugins) -> SchedulerConfig:
    """Read a configuration file. Raises ConfigError if it is invalid, or cannot be simulated."""
    config = load_config(path, find_plugins=partial(find_plugins, guests=guests))
    check_simulated(config, path, guests)
    return config


def recorded_config(record: str, guests: GuestPlugins) -> SchedulerConfig | None:
    """Read the configuration in a record; None if it has none. Raises ConfigError as `load_simulated` does."""
    from kscheduler.simulator.recorded import recorded_configuration  # records need an extra

    text, source = recorded_configuration(record), f"{record}: configuration"
    if not text:
        return None
    config = parse_config(text, source, find_plugins=partial(find_plugins, guests=guests))
    check_simulated(config, source, guests)
    return config


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
