"""Reads from a record's header which release of Kubernetes its scheduler emulated."""

from __future__ import annotations

from kscheduler.config.releases import DEFAULT_RELEASE, Release, release_of
from kscheduler.errors import ConfigError
from kscheduler.record.entries import Header


def recorded_release(header: Header, path: str) -> Release:
    """Return the release, with its feature gates; the default one if the record does not say.

    Raises ConfigError, naming `path`, for a release that this program does not know.
    """
    if not header.emulated_version:
        return DEFAULT_RELEASE
    try:
        return release_of(header.emulated_version).with_gates(header.feature_gates)
    except ConfigError as error:
        raise ConfigError(f"{path}: emulated release: {error}") from None
