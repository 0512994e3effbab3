"""Loads both implementations of the kernels, compiled and Python reference, whichever this process uses."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import kscheduler._fast.reference as references

NAMES = [module.name for module in iter_modules(references.__path__) if module.name != "checks"]


def _merge(label: str, package: str) -> ModuleType:
    """Return one module with the public names of all modules of `package` that exist in both implementations."""
    merged = ModuleType(label)
    for found in map(import_module, ["kscheduler._fast.codes", *(f"{package}.{name}" for name in NAMES)]):
        vars(merged).update({key: value for key, value in vars(found).items() if not key.startswith("_")})
    return merged


def load_compiled() -> ModuleType | None:
    """Return the compiled kernels as one module; None if they are not built."""
    try:
        return _merge("compiled", "kscheduler._fast")
    except ModuleNotFoundError:
        return None


reference = _merge("reference", references.__name__)
