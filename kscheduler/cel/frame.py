"""The state of one evaluation, and the costs that it has run up.

A frame is a list, because nothing is faster to read: the device, the cost so far, and one slot for each variable of a
loop or of `cel.bind`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kscheduler.cel.faults import COST_EXCEEDED, Cancelled

Frame: TypeAlias = list[Any]
Evaluate: TypeAlias = Callable[[Frame], Any]

DEVICE: Final = 0
COST: Final = 1
FIRST_SLOT: Final = 2

MAX_COST: Final = 1_000_000  # resource.k8s.io: CELSelectorExpressionMaxCost


def spend(frame: Frame, cost: int) -> None:
    """Add to the cost. Raises Cancelled if it is more than a selector may cost."""
    frame[COST] += cost
    if frame[COST] > MAX_COST:
        raise Cancelled(COST_EXCEEDED)
