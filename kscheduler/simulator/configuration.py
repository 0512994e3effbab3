"""Reads scheduler configurations, and checks that they can be simulated."""

from __future__ import annotations

from functools import partial

from kscheduler.assembly import check_supported
from kscheduler.config.gate_flag import with_gates
from kscheduler.config.live_metrics import names_live_metrics
from kscheduler.config.load import default_config, in_release, load_config, parse_config
from kscheduler.config.releases import DEFAULT_RELEASE, Release, release_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.simulator.options import SimulateArguments
from kscheduler.wasm.plugins import GuestPlugins


def simulated_config(arguments: SimulateArguments, guests: GuestPlugins) -> SchedulerConfig:
    """Return the configuration of --config, or else that in the record, or else the default one. Raises ConfigError."""
    release = simulated_release(arguments)
    if arguments.config is not None:
        return load_simulated(arguments.config, guests, release)
    config = None if arguments.record is None else recorded_config(arguments.record, guests, release)
    return default_config(release) if config is None else config


def simulated_release(arguments: SimulateArguments) -> Release:
    """Return the release of --emulated-version, or else that of the record, or else the default one.

    It has the feature gates that the arguments set. Raises ConfigError for one that it does not have.
    """
    return _with_gates(arguments)[0]


def warnings_on_gates(arguments: SimulateArguments) -> tuple[str, ...]:
    """Return warnings about feature gates that do less than they seem to."""
    return _with_gates(arguments)[1]


def _with_gates(arguments: SimulateArguments) -> tuple[Release, tuple[str, ...]]:
    if arguments.emulated_version is not None:
        release = release_of(arguments.emulated_version)
    else:
        release = DEFAULT_RELEASE if arguments.record is None else release_in(arguments.record)
    return with_gates(release, dict(arguments.feature_gates))


def release_in(record: str) -> Release:
    """Return the release that the scheduler of a record emulated. Raises ConfigError if it is not known here."""
    from kscheduler.record.emulation import recorded_release  # records need an extra
    from kscheduler.simulator.recorded import recorded_header

    return recorded_release(recorded_header(record), record)


def load_simulated(path: str, guests: GuestPlugins, release: Release) -> SchedulerConfig:
    """Read a configuration file. Raises ConfigError if it is invalid, or cannot be simulated."""
    config = load_config(path, find_plugins=partial(find_plugins, guests=guests), release=release)
    check_simulated(config, path, guests)
    return config


def recorded_config(record: str, guests: GuestPlugins, release: Release) -> SchedulerConfig | None:
    """Read the configuration in a record, as it is in a release; None if the record has none.

    Raises ConfigError as `load_simulated` does.
    """
    from kscheduler.simulator.recorded import recorded_header  # records need an extra

    header, source = recorded_header(record), f"{record}: configuration"
    if not header.configuration:
        return None
    find, own = partial(find_plugins, guests=guests), release_in(record)
    config = parse_config(header.configuration, source, find_plugins=find, release=own)
    config = in_release(config, release, source, find)
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
    if not names_live_metrics(config):
        return
    from kscheduler.config.metric_source_validation import KINDS, kind_of
    from kscheduler.telemetry.settings import telemetry_settings

    for source in telemetry_settings(config).sources:
        kind = KINDS[kind_of(source)]
        if kind not in ("resourceMetrics", "nodeFields"):
            expected = "a simulated cluster has resourceMetrics and nodeFields"
            raise ConfigError(f'metric source "{source.name}": {expected}; {kind} cannot be asked')
