"""A bound of the work that costs do not bound: lists that hold the same list many times are walked as often.

A walk over the elements of lists or maps, and all that makes a value longer, uses up some of it. The bound is far
beyond what any selector needs, and what is beyond it is answered as if the costs had exceeded their limit.
"""

from __future__ import annotations

from kscheduler.cel.faults import COST_EXCEEDED, Cancelled

MAX_ELEMENTS = 10_000_000  # in one evaluation: characters and elements made

_WALK = 50  # what looking at an element of a list takes, beside making a character

_used = [0]


def renew() -> None:
    """Begin an evaluation."""
    _used[0] = 0


def walk(elements: int) -> None:
    """Use up what looking at so many elements takes. Raises Cancelled if nothing is left."""
    use(_WALK * elements)


def use(elements: int) -> None:
    """Use up some of the bound. Raises Cancelled if nothing is left."""
    _used[0] += elements
    if _used[0] > MAX_ELEMENTS:
        raise Cancelled(COST_EXCEEDED)
