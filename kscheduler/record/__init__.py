"""Records a cluster in a replayable file: the objects that scheduling decisions depend on, and their changes."""

from __future__ import annotations

from importlib import util

from kscheduler.errors import ConfigError

if util.find_spec("zstandard") is None:
    raise ConfigError("records need the package zstandard: pip install 'kscheduler[record]'")
