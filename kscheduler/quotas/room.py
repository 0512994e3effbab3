"""What ElasticQuotas leave to pods that are placed one after the other, each counted before the next is compared.

The comparisons are those of `ElasticView` for a pod before which no nominated pods go.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.quotas.amounts import Request, at
from kscheduler.quotas.elastic import ElasticQuotas


class Room:
    """What is left to each namespace with a quota, and to all together. Valid until quotas or pods change."""

    def __init__(self, quotas: ElasticQuotas) -> None:
        self._quotas = quotas
        used, guaranteed = quotas.all.used, quotas.guaranteed_to_all
        # By place; of places past its end, nothing is used and nothing guaranteed.
        self._of_all = [at(guaranteed, place) - at(used, place) for place in range(max(len(used), len(guaranteed)))]
        self._is_overdrawn = any(left < 0 for left in self._of_all)
        self._counted: dict[str, dict[int, int]] = {}  # namespace -> place -> what was counted here

    def has(self, namespace: str, request: Request, number: int = 1) -> bool:
        """Return True if so many pods of a namespace with a quota exceed neither its max nor what is guaranteed to all.

        If all together use too much of any resource, no pod may be placed, whatever it requests.
        """
        if self._is_overdrawn:
            return False
        of_all, account, counted = self._of_all, self._quotas.accounts.get(namespace), self._counted.get(namespace)
        limits: Mapping[int, int] = {} if account is None else account.limits
        used = [] if account is None else account.used
        many, places = len(of_all), len(used)
        for place, amount in request:
            asked = number * amount
            if asked > (of_all[place] if place < many else 0):
                return False
            if place in limits:
                if counted is not None:
                    asked += counted.get(place, 0)
                if asked > limits[place] - (used[place] if place < places else 0):
                    return False
        return True

    def count(self, namespace: str, request: Request, number: int = 1) -> None:
        """Count so many pods of a namespace with a quota, whether there was room for them or not."""
        of_all, counted = self._of_all, self._counted.get(namespace)
        if counted is None:
            counted = self._counted[namespace] = {}
        for place, amount in request:
            if place >= len(of_all):
                of_all.extend([0] * (place + 1 - len(of_all)))
            of_all[place] = left = of_all[place] - number * amount
            if left < 0:
                self._is_overdrawn = True
            counted[place] = counted.get(place, 0) + number * amount
