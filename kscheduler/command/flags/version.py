"""The options of `kscheduler version`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """The options of `kscheduler version [--output json]`, and of `kscheduler run --version`."""

    output: str = "text"  # or "json", or "short": what `kscheduler --version` prints
