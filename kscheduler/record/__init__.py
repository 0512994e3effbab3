"""Records a cluster in a file that can be replayed: the objects that scheduling decisions depend on, and their
changes.
"""

from __future__ import annotations

from importlib import util

from kscheduler.errors import ConfigError

if util.find_spec("zstandard") is None:
    raise ConfigError("records need the package zstandard: pip install 'kscheduler[record]'")
