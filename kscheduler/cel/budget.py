"""A bound of the work that costs do not bound: lists that hold the same list many times are walked as often.

A walk over the elements of lists or maps, and all that makes a value longer, asks first. The bound is far beyond what
any selector needs, and what is beyond it is answered as if the costs had exceeded their limit.
"""

from __future__ import annotations

from kscheduler.cel.faults import COST_EXCEEDED, Cancelled

MAX_ELEMENTS = 10_000_000  # in one evaluation: elements walked, and characters or elements made

_used = [0]


def renew() -> None:
    """Begin an evaluation."""
    _used[0] = 0


def use(elements: int) -> None:
    """Use up some of the bound. Raises Cancelled if nothing is left."""
    _used[0] += elements
    if _used[0] > MAX_ELEMENTS:
        raise Cancelled(COST_EXCEEDED)
