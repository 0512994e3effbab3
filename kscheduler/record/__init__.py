"""A record of a cluster: all objects that decide where pods go, and their changes, in a file that can be replayed."""

from __future__ import annotations

from importlib import util

from kscheduler.errors import ConfigError

if util.find_spec("zstandard") is None:
    raise ConfigError("records need the package zstandard: pip install 'kscheduler[record]'")
