"""The two forms of the kernels side by side, whatever kscheduler._fast has picked for this process."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import kscheduler._fast.reference as references

NAMES = [module.name for module in iter_modules(references.__path__) if module.name != "checks"]


def _merge(label: str, package: str) -> ModuleType:
    """One module with the public names of those in `package` that have two forms."""
    merged = ModuleType(label)
    for found in map(import_module, ["kscheduler._fast.codes", *(f"{package}.{name}" for name in NAMES)]):
        vars(merged).update({key: value for key, value in vars(found).items() if not key.startswith("_")})
    return merged


def load_compiled() -> ModuleType | None:
    """The compiled form, or None where it has not been built."""
    try:
        return _merge("compiled", "kscheduler._fast")
    except ModuleNotFoundError:
        return None


reference = _merge("reference", references.__name__)
