"""The two forms of the kernels side by side, whatever kscheduler._fast has picked for this process."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kscheduler._fast import codes, reference

__all__ = ["load_compiled", "reference"]

_MODULES = ("columns", "verdicts", "filtering", "scoring", "selection")


def load_compiled() -> ModuleType | None:
    """One module with all compiled names, or None where they have not been built."""
    merged = ModuleType("compiled")
    for name in _MODULES:
        try:
            found = import_module(f"kscheduler._fast.{name}")
        except ModuleNotFoundError:
            return None
        vars(merged).update({key: value for key, value in vars(found).items() if not key.startswith("_")})
    vars(merged).update({key: value for key, value in vars(codes).items() if key.isupper()})
    return merged
