"""Loads a file to a checked `RoutingConfig`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kscheduler.config.decode import aggregate, decode, describe
from kscheduler.config.document import read_document
from kscheduler.config.routing import API_VERSION, KIND, RoutingConfig
from kscheduler.config.routing_validation import validate_plans_b, validate_routing
from kscheduler.config.types import Profile
from kscheduler.errors import ConfigError, InternalError


def load_routing(path: str, profiles: Sequence[Profile] | None = None) -> RoutingConfig:
    """Return the configuration in a YAML or JSON file, complete and valid; checked against `profiles`, if given.

    ConfigError names the file and every fault.
    """
    return _checked(read_document(path), path, profiles)


def _checked(document: dict[str, Any], source: str, profiles: Sequence[Profile] | None) -> RoutingConfig:
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != expected:
            raise ConfigError(f'{source}: {key}: expected "{expected}", got {describe(document.get(key))}')
    try:
        config = decode(RoutingConfig, document)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    if config is None:
        raise InternalError(f"{source}: not read, and nothing says why")
    faults = validate_routing(config)
    if profiles is not None:
        faults += validate_plans_b(config, profiles)
    if faults:
        raise ConfigError(f"{source}: {aggregate(faults)}")
    return config
