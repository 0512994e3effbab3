"""What ElasticQuotas leave to pods that are placed one after the other, each counted before the next is compared.

The comparisons are those of `ElasticView` for a pod before which no nominated pods go.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.quotas.amounts import Request, add, at
from kscheduler.quotas.elastic import AlikePods, ElasticQuotas


class Room:
    """What is left to each namespace with a quota, and to all together. Valid until quotas or pods change."""

    def __init__(self, quotas: ElasticQuotas) -> None:
        self._quotas = quotas
        used, guaranteed = quotas.all.used, quotas.guaranteed_to_all
        # By place; of places past its end, nothing is used and nothing guaranteed.
        self._of_all = [at(guaranteed, place) - at(used, place) for place in range(max(len(used), len(guaranteed)))]
        self._is_overdrawn = any(left < 0 for left in self._of_all)
        # Namespace -> place -> what its max leaves it, without what was counted here; absent: the place has no limit.
        self._left: dict[str, dict[int, int]] = {}

    def has(self, namespace: str, request: Request, number: int = 1) -> bool:
        """Return True if so many pods of a namespace with a quota exceed neither its max nor what is guaranteed to all.

        If all together use too much of any resource, no pod may be placed, whatever it requests.
        """
        if self._is_overdrawn:
            return False
        of_all, left = self._of_all, self._left_to(namespace)
        many = len(of_all)
        for place, amount in request:
            asked = number * amount
            if asked > (of_all[place] if place < many else 0) or (place in left and asked > left[place]):
                return False
        return True

    def count(self, namespace: str, request: Request, number: int = 1) -> None:
        """Count so many pods of a namespace with a quota, whether there was room for them or not."""
        of_all, left = self._of_all, self._left_to(namespace)
        for place, amount in request:
            asked = number * amount
            if place >= len(of_all):
                of_all.extend([0] * (place + 1 - len(of_all)))
            of_all[place] -= asked
            if of_all[place] < 0:
                self._is_overdrawn = True
            if place in left:
                left[place] -= asked

    def _left_to(self, namespace: str) -> dict[int, int]:
        left = self._left.get(namespace)
        if left is None:
            account = self._quotas.accounts.get(namespace)
            limits, used = ({}, []) if account is None else (account.limits, account.used)
            left = self._left[namespace] = {place: limit - at(used, place) for place, limit in limits.items()}
        return left


def has_room_for_all(quotas: ElasticQuotas, pods: Sequence[AlikePods]) -> bool:
    """Return True if there is room for all these pods of namespaces with a quota, each counted before the next one.

    Then there is for all of them together, and the other way round: whatever is counted makes no room.
    """
    if not pods:
        return True
    # 1. Each namespace.
    in_all: dict[int, tuple[Request, int]] = {}  # id of a request -> it, and the number of pods
    use_of: dict[str, list[int]] = {}  # namespace -> what it would use
    for namespace, request, _, alike in pods:
        number = len(alike)
        known = in_all.get(id(request))
        in_all[id(request)] = request, number if known is None else known[1] + number
        account = quotas.accounts.get(namespace)
        if account is None:
            continue
        use = use_of.get(namespace)
        if use is None:
            use = use_of[namespace] = account.used.copy()
        add(use, request, number)
        limits = account.limits
        for place, _ in request if limits else ():
            if place in limits and use[place] > limits[place]:
                return False
    # 2. All together; resources that no pod names are compared, too.
    use = list(quotas.all.used)
    for request, number in in_all.values():
        add(use, request, number)
    guaranteed = quotas.guaranteed_to_all
    return not any(amount > at(guaranteed, place) for place, amount in enumerate(use))
