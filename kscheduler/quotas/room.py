"""What ElasticQuotas leave to pods that are placed one after the other, each counted before the next is compared.

The comparisons are those of `ElasticView` for a pod before which no nominated pods go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized

from kscheduler._fast import add_amounts, is_within
from kscheduler.quotas.amounts import Request, at
from kscheduler.quotas.elastic import ElasticQuotas, PodKind


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


def has_room_for_all(quotas: ElasticQuotas, pods: Mapping[PodKind, Sized]) -> bool:
    """Return True if quotas leave room for all these pods, by their kinds, each counted before the next one.

    Then there is for all of them together, and the other way round: whatever is counted makes no room. Pods of
    namespaces without a quota need none.
    """
    limited, accounts = quotas.namespaces, quotas.accounts
    # 1. Each namespace.
    in_all: dict[int, tuple[Request, int]] = {}  # id of a request -> it, and the number of pods
    first_of: dict[str, tuple[Request, int]] = {}  # the same of the first kind of each namespace; most have no other
    use_of: dict[str, list[int]] = {}  # namespace with others -> what it would use
    for kind, of_kind in pods.items():
        namespace, request, number = kind.namespace, kind.request, len(of_kind)
        if namespace not in limited:
            continue
        known = in_all.get(id(request))
        in_all[id(request)] = request, number if known is None else known[1] + number
        account = accounts.get(namespace)
        if account is None or not account.limits:
            continue
        limits, used, before = account.limits, account.used, first_of.get(namespace)
        if before is None:
            first_of[namespace] = request, number
        else:
            use = use_of.get(namespace)
            if use is None:
                use = use_of[namespace] = used.copy()
                add_amounts(use, *before)
            used = use
        if not is_within(limits, used, request, number):
            return False
        if before is not None:
            add_amounts(used, request, number)
    if not in_all:
        return True
    # 2. All together; resources that no pod names are compared, too.
    use = list(quotas.all.used)
    for request, number in in_all.values():
        add_amounts(use, request, number)
    guaranteed = quotas.guaranteed_to_all
    return not any(amount > at(guaranteed, place) for place, amount in enumerate(use))
