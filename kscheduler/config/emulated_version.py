"""Parses --emulated-version, with the grammar and the words of kube-scheduler's flag."""

from __future__ import annotations

import argparse
import csv
import re
from typing import Any, Final

from kscheduler.config.releases import DEFAULT_RELEASE, RELEASES, Release
from kscheduler.errors import ConfigError

FLAG: Final = "--emulated-version"
COMPONENT: Final = "kube"  # the only component whose version can be set here

_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


def add_emulated_version(
    to: argparse._ActionsContainer, default: str = DEFAULT_RELEASE.version, *, flag: str = FLAG
) -> None:
    """Add the flag; its value is a version such as "1.37", or None if it is not given. `default`: for the help text."""
    to.add_argument(
        flag,
        action=_EmulatedVersion,
        default=None,
        metavar="VERSION",
        help=f"release of Kubernetes whose kube-scheduler is emulated: {', '.join(RELEASES)} (default {default})",
    )


def parse_emulated_version(text: str) -> Release:
    """Return the release for one version, such as "1.37", "v1.37" or "kube=1.37". Raises ConfigError."""
    component, equals, version = text.partition("=")
    if not equals:
        component, version = COMPONENT, text
    else:
        component, version = component.strip(), version.strip()
    numbers = _numbers(version)
    minor = f"{numbers[0]}.{numbers[1]}"
    if len(numbers) > 2 and numbers[2]:
        raise ConfigError(f"patch version not allowed, got: {component}={'.'.join(map(str, numbers))}")
    if component != COMPONENT:
        raise ConfigError(f"component not registered: {component}")
    if minor not in RELEASES:
        oldest, *_, newest = RELEASES
        raise ConfigError(f"emulation version {minor} is not between [{oldest}, {newest}]")
    return RELEASES[minor]


def _numbers(text: str) -> list[int]:
    """Return the numbers of a version, at least two; what follows them counts for nothing."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ConfigError(f'could not parse "{text}" as version')
    parts = found[1].split(".")
    if len(parts) < 2:
        raise ConfigError(f'illegal version string "{text}"')
    if parts[0].startswith("0") and parts[0] != "0":
        raise ConfigError(f'illegal zero-prefixed version component "{parts[0]}" in "{text}"')
    if any(len(part) > 9 for part in parts):
        raise ConfigError(f'illegal version string "{text[:60]}"')
    return [int(part) for part in parts]


class _EmulatedVersion(argparse.Action):
    """Parses comma-separated versions; only one may be given, since there is one component."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        for text in next(csv.reader([values]), []):
            try:
                release = parse_emulated_version(text)
            except ConfigError as error:
                raise argparse.ArgumentError(self, str(error)) from error
            before = getattr(namespace, self.dest)
            if before is not None:
                pair = f"{COMPONENT}={before} and {COMPONENT}={release.version}"
                raise argparse.ArgumentError(self, f"duplicate version flag, {pair}")
            setattr(namespace, self.dest, release.version)
