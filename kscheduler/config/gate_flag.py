"""The flag --feature-gates, which every command has that builds a scheduler."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from kscheduler.config.releases import RELEASES, Release
from kscheduler.errors import ConfigError

FLAG: Final = "--feature-gates"


def add_feature_gates(to: argparse._ActionsContainer, *, flag: str = FLAG, beside: str = "") -> None:
    """Add the flag; its value is a list of texts for `parsed_gates`. `beside`: what the help text adds."""
    to.add_argument(
        flag,
        action="append",
        default=[],
        metavar="Name=true,...",
        help=f"kube-scheduler's{beside}; those that change anything here: {', '.join(_switchable_gates())}",
    )


def _switchable_gates() -> list[str]:
    """Return the feature gates of any release that kscheduler switches."""
    return sorted(frozenset().union(*(release.switchable for release in RELEASES.values())))


def parsed_gates(texts: Sequence[str], flag: str = FLAG) -> dict[str, bool]:
    """Return the settings in the values of the flag. Raises ConfigError that names the flag."""
    if not texts:
        return {}
    from kscheduler.config.gate_settings import parse_gates  # with a table of all gates

    try:
        return parse_gates(texts)
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from error


def with_gates(release: Release, gates: Mapping[str, bool], flag: str = FLAG) -> tuple[Release, tuple[str, ...]]:
    """Return the release with its gates set, and warnings about settings that do less than they seem to.

    The warnings name the flag, and so does the ConfigError for a gate that is locked or not of the release.
    """
    if not gates:
        return release, ()
    from kscheduler.config.gate_settings import with_settings

    try:
        return with_settings(release, gates, flag)
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from error


def gates_in_words(gates: Mapping[str, bool]) -> str:
    """Return settings as the flag takes them, such as "GangScheduling=true,GenericWorkload=true"."""
    return ",".join(f"{name}={str(value).lower()}" for name, value in sorted(gates.items()))
