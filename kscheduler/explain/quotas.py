"""Describes how the namespace of a pending pod stands with its ElasticQuota, and how it would with the pod.

It is computed from what pods use when somebody asks, and costs nothing before. Nominated pods that go before the pod
are compared together with it when it is decided, and are not counted here.
"""

from __future__ import annotations

from typing import Any

from kscheduler.api.objects import Pod
from kscheduler.api.resources import EPHEMERAL_STORAGE, MEMORY
from kscheduler.errors import DecodeError
from kscheduler.quotas.amounts import at
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.quotas.quota_standings import over_min, standings
from kscheduler.quotas.running import quantity_of

MAX_BORROWERS = 5  # that are named for each resource
BEYOND_MAX, BEYOND_ALL = "max", "all"
_IN_BYTES = (MEMORY, EPHEMERAL_STORAGE)
_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))

Document = dict[str, Any]


class QuotaExplainer:
    """Compares pods with the quotas of their namespaces."""

    def __init__(self, quotas: ElasticQuotas) -> None:
        self._quotas = quotas

    def explain(self, pod: Pod) -> Document | None:
        """Return a JSON document about a pod that waits, or None if its namespace has no quota."""
        quotas, namespace = self._quotas, pod.metadata.namespace
        quota = quotas.of(namespace)
        if quota is None:
            return None
        try:
            request = dict(quotas.request_of(pod))
        except DecodeError:
            return None
        known = {each.place: each for each in standings(quotas, namespace)}
        all_used, all_min, names = quotas.all.used, quotas.guaranteed_to_all, quotas.accounts.places.names
        resources = []
        for place in sorted({*known, *(place for place, amount in request.items() if amount)}):
            name, requested, standing = names[place], request.get(place, 0), known.get(place)
            used, most = (0, None) if standing is None else (standing.used, standing.max)
            if standing is not None and not (requested or used or standing.min or most):
                continue  # a max of 0, which only means that the quota does not name the resource
            beyond_max = place in request and most is not None and used + requested > most
            beyond_all = at(all_used, place) + requested > at(all_min, place)
            borrowers = over_min(quotas, place) if beyond_all else []
            resources.append(
                {
                    "resource": name,
                    "requested": amount_text(name, requested),
                    "used": amount_text(name, used),
                    "min": amount_text(name, 0 if standing is None else standing.min),
                    "max": "" if most is None else amount_text(name, most),
                    "usedByAll": amount_text(name, at(all_used, place)),
                    "minOfAll": amount_text(name, at(all_min, place)),
                    "beyond": [BEYOND_MAX] * beyond_max + [BEYOND_ALL] * beyond_all,
                    "overMin": [
                        {"namespace": other, "amount": amount_text(name, amount)}
                        for other, amount in borrowers[:MAX_BORROWERS]
                    ],
                    "overMinLeftOut": max(len(borrowers) - MAX_BORROWERS, 0),
                }
            )
        return {"name": quota.key, "resources": resources}


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as people write it: "1500m" of cpu, "4Gi" of memory if it is a whole number of such units."""
    if amount and (resource in _IN_BYTES or resource.startswith("hugepages-")):
        for suffix, unit in _BINARY:
            if amount % unit == 0:
                return f"{amount // unit}{suffix}"
    return str(quantity_of(resource, amount))
