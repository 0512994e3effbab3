"""Refuses what is valid in a configuration, but not supported."""

from __future__ import annotations

from kscheduler.assembly import check_supported
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.wasm.plugins import GuestPlugins


def refuse_unsupported(config: SchedulerConfig, source: str, guests: GuestPlugins | None = None) -> None:
    """Raise ConfigError for settings of kube-scheduler that are not supported.

    `source`: the file's name, "" if none.
    """
    try:
        check_supported(config, guests)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}" if source else str(error)) from error
