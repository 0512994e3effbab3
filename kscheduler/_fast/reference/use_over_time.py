"""Amounts of resources in use, and their integrals over time, for the accounts of a simulation."""

from __future__ import annotations

from typing import final


@final
class UseOverTime:
    """The amounts of several resources that are in use, exact integers, and their integrals over time."""

    def __init__(self, resources: int, since_s: float) -> None:
        """Build accounts of so many resources, of which nothing is in use from `since_s` on."""
        self._amounts = [0] * resources
        self._integrals = [0.0] * resources
        self._since_s = since_s

    @property
    def amounts(self) -> list[int]:
        """The amounts in use by resource index; not to be changed."""
        return self._amounts

    @property
    def integrals(self) -> list[float]:
        """Amount × seconds by resource index, up to the last change or `settle`, in a list of the caller's own."""
        return list(self._integrals)

    def add_resource(self) -> None:
        """Add a resource of which nothing is in use; its index is the number of those before it."""
        self._amounts.append(0)
        self._integrals.append(0.0)

    def settle(self, now_s: float) -> None:
        """Complete the integrals up to a time, which must not be before that of the last call."""
        passed_s, self._since_s = now_s - self._since_s, now_s
        for index, amount in enumerate(self._amounts):
            if amount:
                self._integrals[index] += amount * passed_s

    def change(self, parts: tuple[tuple[int, int], ...], sign: int, now_s: float, limits: list[int]) -> bool:
        """Settle, then add the parts, (resource index, amount), or subtract them if `sign` is negative.

        Returns True if one of the resources that they name is above its limit then. Raises IndexError for an index that
        is out of range, here or in `limits`.
        """
        is_above, resources = False, min(len(self._amounts), len(limits))
        for index, _ in parts:
            if not 0 <= index < resources:
                raise IndexError(f"resource {index}: expected one of {resources}")
        self.settle(now_s)
        for index, amount in parts:
            after = self._amounts[index] - amount if sign < 0 else self._amounts[index] + amount
            self._amounts[index] = after
            if after > limits[index]:
                is_above = True
        return is_above
