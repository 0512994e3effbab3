"""Sets the log verbosity of single modules: klog's `--vmodule`, with Python modules in place of Go's files.

A pattern is a module's name without directories and without `.py`, or a glob of it: `queue=5`, `bind*=4`. That
is the last part of the logger's name, which each log line shows. As in klog, the first pattern that matches a
module counts, and it can only raise the verbosity above that of `-v`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from kscheduler.input.int32 import MAX_INT32

PACKAGE = Path(__file__).parents[1]


class ModuleVerbosity(NamedTuple):
    pattern: str
    verbosity: int


def parse_vmodule(text: str) -> tuple[ModuleVerbosity, ...]:
    """Parse comma-separated `pattern=N` settings. Raises ValueError, with klog's message, for a malformed one."""
    return tuple(_parse(setting) for setting in text.split(",") if setting)


def _parse(setting: str) -> ModuleVerbosity:
    pattern, equals, number = setting.partition("=")
    if not pattern or not equals or not number or "=" in number:
        raise ValueError(f'"{setting}" does not have the pattern=N format')
    if not re.fullmatch("[0-9]+", number) or int(number) > MAX_INT32:
        raise ValueError(f'parsing verbosity in "{setting}": expected an integer from 0 to {MAX_INT32}')
    return ModuleVerbosity(pattern, int(number))


def module_verbosities(settings: Sequence[ModuleVerbosity]) -> dict[str, int]:
    """Return full module name -> verbosity, for the modules of this package that match a pattern.

    No module is imported.
    """
    if not settings:
        return {}
    found = {}
    for path in PACKAGE.rglob("*.py*"):
        name = _module_of(path)
        base = name.rpartition(".")[2]
        fitting = next((one for one in settings if fnmatchcase(base, one.pattern)), None)
        if fitting is not None:
            found[name] = fitting.verbosity
    return found


def _module_of(path: Path) -> str:
    parts = [PACKAGE.name, *path.relative_to(PACKAGE).parts]
    parts[-1] = parts[-1].partition(".")[0]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
