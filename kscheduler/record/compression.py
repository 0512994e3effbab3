"""Takes zstd from a package that only the extra `record` installs, when a record is opened.

Modules of this package are imported without it, since commands that can read records also work without any.
"""

from __future__ import annotations

import importlib
from typing import Any

from kscheduler.errors import ConfigError


def zstandard() -> Any:
    """Return the module `zstandard`. Raises ConfigError that names the extra if it is not installed."""
    try:
        return importlib.import_module("zstandard")
    except ModuleNotFoundError:
        raise ConfigError("records need the package zstandard: pip install 'kscheduler[record]'") from None
