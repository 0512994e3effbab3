"""The two forms of the kernels side by side, whatever kscheduler._fast has picked for this process."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_PLAIN = (
    "codes", "reference.columns", "reference.scoring", "reference.topology", "reference.preemption",
    "reference.classes", "reference.joining", "reference.packing", "reference.answers", "reference.metric_rules",
    "reference.trimaran",
)  # fmt: skip
_COMPILED = (
    "codes", "columns", "verdicts", "filtering", "scoring", "selection", "topology", "preemption", "classes",
    "placement", "tallies", "joining", "packing", "answers", "metric_rules", "trimaran",
)  # fmt: skip


def _merge(label: str, names: tuple[str, ...]) -> ModuleType:
    """One module with the public names of several."""
    merged = ModuleType(label)
    for name in names:
        found = vars(import_module(f"kscheduler._fast.{name}"))
        vars(merged).update({key: value for key, value in found.items() if not key.startswith("_")})
    return merged


def load_compiled() -> ModuleType | None:
    """The compiled form, or None where it has not been built."""
    try:
        return _merge("compiled", _COMPILED)
    except ModuleNotFoundError:
        return None


reference = _merge("reference.scoring", _PLAIN)
