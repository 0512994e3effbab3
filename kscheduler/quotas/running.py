"""What the running pods of each namespace use: the status of ElasticQuotas.

As scheduler-plugins' controller does, it counts pods in phase Running only, and no overhead; a resource that the quota
names is there even if nothing is used. If that controller runs as well, the two never disagree.
"""

from __future__ import annotations

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import Pod, QuantityMap, RawQuantity
from kscheduler.api.quantity import parse_milli, parse_units
from kscheduler.api.resources import CPU
from kscheduler.quotas.accounts import Accounts
from kscheduler.quotas.pod_requests import stated_amounts

RUNNING = "Running"


class RunningUse:
    """The use of running pods, by namespace."""

    def __init__(self) -> None:
        self._accounts = Accounts()
        self.uids = self._accounts.holders  # of the pods that are counted, as a view

    def put(self, pod: Pod) -> bool:
        """Take a pod's newest version. Returns True if what its namespace uses has changed."""
        uid = pod.metadata.uid
        if pod.status.phase != RUNNING:
            return self.drop(pod)
        request = self._accounts.places.request(stated_amounts(pod))
        known = self._accounts.charge_of(uid)
        if known is not None and known[1] == request:
            return False
        self._accounts.release(uid)
        self._accounts.charge(self._accounts.open(pod.metadata.namespace), uid, request)
        return True

    def drop(self, pod: Pod) -> bool:
        """Forget a pod. Returns True if what its namespace uses has changed."""
        if not self._accounts.release(pod.metadata.uid):
            return False
        account = self._accounts.get(pod.metadata.namespace)
        if account is not None and not account.holders:
            self._accounts.close(account)
        return True

    def of(self, quota: ElasticQuota) -> dict[str, int]:
        """Return what the running pods of a quota's namespace use, by resource: cpu in thousandths, others in units."""
        used = dict.fromkeys([*(quota.spec.min or ()), *(quota.spec.max or ())], 0)
        account = self._accounts.get(quota.metadata.namespace)
        if account is not None:
            for request in account.holders.values():
                used.update(
                    (name, 0) for place, _ in request if (name := self._accounts.places.names[place]) not in used
                )
            used |= self._accounts.places.named(account.used)
        return used


def parse_used(quantities: QuantityMap | None) -> dict[str, int]:
    """Return the amounts in a status, by resource. Raises DecodeError, naming field and value, for a malformed one."""
    return {
        name: (parse_milli if name == CPU else parse_units)(quantity, f"status.used[{name}]")
        for name, quantity in (quantities or {}).items()
    }


def quantity_of(resource: str, amount: int) -> RawQuantity:
    """Return an amount as the API writes it: cpu in thousandths as "1500m" or "2", others in units."""
    if resource != CPU:
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)
