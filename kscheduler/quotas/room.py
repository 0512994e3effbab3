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
        self._of_namespace: dict[
            str, dict[int, int]
        ] = {}  # namespace -> place -> left below its max; others: unlimited

    def has(self, namespace: str, request: Request) -> bool:
        """Return True if a pod of a namespace with a quota exceeds neither its max nor what is guaranteed to all.

        If all together use too much of any resource, no pod may be placed, whatever it requests.
        """
        if self._is_overdrawn:
            return False
        of_all, of_namespace = self._of_all, self._left(namespace)
        return all(
            amount <= at(of_all, place) and amount <= of_namespace.get(place, amount) for place, amount in request
        )

    def count(self, namespace: str, request: Request) -> None:
        """Count a pod of a namespace with a quota, whether there was room for it or not."""
        of_all, of_namespace = self._of_all, self._left(namespace)
        for place, amount in request:
            if place >= len(of_all):
                of_all.extend([0] * (place + 1 - len(of_all)))
            of_all[place] -= amount
            self._is_overdrawn = self._is_overdrawn or of_all[place] < 0
            if place in of_namespace:
                of_namespace[place] -= amount

    def _left(self, namespace: str) -> dict[int, int]:
        left = self._of_namespace.get(namespace)
        if left is None:
            account = self._quotas.accounts.get(namespace)
            limits: Mapping[int, int] = {} if account is None else account.limits
            used = () if account is None else account.used
            left = self._of_namespace[namespace] = {place: limit - at(used, place) for place, limit in limits.items()}
        return left
