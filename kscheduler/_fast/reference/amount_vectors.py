"""Amounts of resources that pods of equal requests use together, added to vectors and compared with limits."""

from __future__ import annotations

from collections.abc import Iterable


def add_amounts(vector: list[int], request: Iterable[tuple[int, int]], times: int = 1) -> None:
    """Add a request, as pairs of a place and an amount, to a vector in place, so many times; -1 subtracts it.

    The vector grows as needed.
    """
    for place, amount in request:
        if place < 0:
            raise IndexError(f"place: expected at least 0, got {place}")
        vector.extend([0] * (place + 1 - len(vector)))
        vector[place] += times * amount


def is_within(limits: dict[int, int], used: list[int], request: tuple[tuple[int, int], ...], number: int) -> bool:
    """Return whether so many equal requests beside what is used exceed no limit of the resources that they name.

    `limits`: place -> the most that may be used; other resources have none. Past its end, nothing is used. An amount of
    zero is compared, too: its limit may be exceeded already.
    """
    for place, amount in request:
        limit = limits.get(place)
        if limit is not None and sum(used[place : place + 1]) + number * amount > limit:
            return False
    return True
