"""How a namespace stands with its ElasticQuota, resource by resource: for explanations and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kscheduler.api.resources import CPU, PODS
from kscheduler.quotas.amounts import at
from kscheduler.quotas.elastic import ElasticQuotas

MILLI = 1000


@dataclass(frozen=True, slots=True)
class QuotaStanding:
    """What a namespace uses of one resource, as decisions count it. Amounts: cpu in thousandths, others in units."""

    resource: str
    place: int
    used: int
    min: int
    max: int | None  # None: unlimited


def standings(quotas: ElasticQuotas, namespace: str) -> Iterator[QuotaStanding]:
    """Yield how the namespace stands with each resource that is used, guaranteed or limited; nothing without a quota.

    Resource `pods` is left out: no pod requests any, so that nothing is ever used of it.
    """
    account = quotas.accounts.get(namespace)
    if account is None or namespace not in quotas:
        return
    for place, name in enumerate(quotas.accounts.places.names):
        used, least, most = at(account.used, place), quotas.guaranteed(namespace, place), account.limits.get(place)
        if name != PODS and (used or least or most is not None):
            yield QuotaStanding(name, place, used, least, most)


def quota_amounts(quotas: ElasticQuotas) -> dict[tuple[str, str, str], float]:
    """Return (namespace, resource, "used", "min" or "max") -> amount, cpu in cores, of all namespaces with a quota."""
    amounts: dict[tuple[str, str, str], float] = {}
    for quota in quotas:
        namespace = quota.metadata.namespace
        for each in standings(quotas, namespace):
            unit = MILLI if each.resource == CPU else 1
            amounts[namespace, each.resource, "used"] = each.used / unit
            amounts[namespace, each.resource, "min"] = each.min / unit
            if each.max is not None:
                amounts[namespace, each.resource, "max"] = each.max / unit
    return amounts


def over_min(quotas: ElasticQuotas, place: int) -> list[tuple[str, int]]:
    """Return the namespaces that use more of a resource than their `min`, and how much more, the most first."""
    found = []
    for quota in quotas:
        namespace = quota.metadata.namespace
        account = quotas.accounts.get(namespace)
        beyond = 0 if account is None else at(account.used, place) - quotas.guaranteed(namespace, place)
        if beyond > 0:
            found.append((namespace, beyond))
    return sorted(found, key=lambda each: (-each[1], each[0]))
