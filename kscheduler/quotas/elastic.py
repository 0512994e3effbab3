"""ElasticQuotas: what each namespace is guaranteed, may use at most, and uses, by CapacityScheduling's rules.

A namespace may use more than its `min` as long as all namespaces with a quota together stay within the sum of their
`min`: what one does not use is lent to the others. The rules of comparison are CapacityScheduling's, with their traps:

- In a `max` that is given, cpu, memory, ephemeral-storage and pods that it does not name are limited to 0; other
  resources that it does not name are not limited. Without a `max`, nothing is limited.
- In a `min`, whatever it does not name is 0.
- A pod is compared in cpu, memory, ephemeral-storage and pods, even if it requests none, and in the other resources
  that it names.

All pods on nodes are counted, by namespace, also while the namespace has no quota, so that one that is created later
counts the pods that are there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_

from kscheduler._fast import add_amounts
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import Pod, PodSpec
from kscheduler.errors import DecodeError
from kscheduler.quotas.accounts import Account, Accounts
from kscheduler.quotas.amounts import Request, at, parse_amounts
from kscheduler.quotas.pod_requests import requested_amounts
from kscheduler.quotas.priorities import Priorities
from kscheduler.quotas.running import RUNNING, RunningUse
from kscheduler.quotas.trial import Trial

log = logging.getLogger(__name__)

MAX_TEMPLATES = 1_024  # whose requests are found without reading a pod's containers
ALL = ""  # the account above those of all namespaces that have a quota


@dataclass(frozen=True, slots=True)
class _Quota:
    """An ElasticQuota that has been read. `max` is empty if there is none."""

    object: ElasticQuota
    min: Mapping[int, int]  # place -> amount
    max: dict[int, int]

    @property
    def age(self) -> tuple[str, str]:
        metadata = self.object.metadata
        return metadata.creation_timestamp or "", metadata.name


@dataclass(frozen=True, slots=True, eq=False)
class PodKind:
    """What pods have in common that are counted together. Compared by identity, which is fast."""

    namespace: str
    request: Request
    priority: int


class ElasticQuotas:
    """All ElasticQuotas, and what the pods on nodes use, by namespace."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.all = self.accounts.open(ALL)
        self._quotas: dict[str, dict[str, _Quota]] = {}  # namespace -> name -> quota
        self._valid: dict[str, _Quota] = {}  # namespace -> the quota that counts
        self._guaranteed: list[int] = []  # by place: the sum of `min` over all quotas that count
        # What `by_kind` was asked last, and its answer: pods are looked at before they are placed, and then counted.
        self._seen: tuple[Sequence[Pod], dict[PodKind, list[Pod]]] = ((), {})
        # id of containers -> a spec that has them, which keeps the id from meaning others, and its request.
        self._of_templates: dict[int, tuple[PodSpec, Request]] = {}
        self._requests: dict[Request, Request] = {}  # of templates; equal ones are the same object
        # Namespace, id of a spec -> this spec, which keeps the id from meaning another one, and the kind of its pods.
        self._of_specs: dict[tuple[str, int], tuple[PodSpec, PodKind]] = {}
        self._kinds: dict[tuple[str, int, int], PodKind] = {}  # namespace, id of a request of `_requests`, priority
        self.running = RunningUse()
        self.priorities = Priorities()
        self.stale: set[str] = set()  # namespaces whose quota's status may be out of date
        self.on_stale: Callable[[], object] = lambda: None  # called when one becomes so

    # --- quotas ---

    def set(self, quota: ElasticQuota) -> None:
        """Add a quota, or replace its older version. Of several in a namespace, the oldest counts.

        Raises DecodeError, naming field and value, for a malformed or negative amount; nothing has changed then.
        """
        spec, places = quota.spec, self.accounts.places
        least = dict(places.request(parse_amounts(spec.min or {}, "spec.min")))
        most = {} if spec.max is None else dict(places.request(parse_amounts(spec.max, "spec.max")))
        namespace = quota.metadata.namespace
        self._quotas.setdefault(namespace, {})[quota.metadata.name] = _Quota(quota, least, most)
        self._choose(namespace)

    def refresh(self, quota: ElasticQuota) -> None:
        """Take a newer version of a quota with an equal spec; one that is not known is ignored."""
        namespace, name = quota.metadata.namespace, quota.metadata.name
        known = self._quotas.get(namespace, {}).get(name)
        if known is None:
            return
        newer = self._quotas[namespace][name] = replace(known, object=quota)
        if self._valid.get(namespace) is known:
            self._valid[namespace] = newer
            self._note_stale(namespace)

    def remove(self, namespace: str, name: str) -> None:
        """Remove a quota; unknown names are ignored."""
        quotas = self._quotas.get(namespace)
        if quotas is None or quotas.pop(name, None) is None:
            return
        if not quotas:
            del self._quotas[namespace]
        self._choose(namespace)

    def of(self, namespace: str) -> ElasticQuota | None:
        """Return the quota that counts for the pods of a namespace; None if there is none."""
        found = self._valid.get(namespace)
        return None if found is None else found.object

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._valid

    @property
    def namespaces(self) -> KeysView[str]:
        """The namespaces that have a quota, as a view."""
        return self._valid.keys()

    def __len__(self) -> int:
        return len(self._valid)

    def __iter__(self) -> Iterator[ElasticQuota]:
        """Iterate over the quotas that count, one for each namespace that has any."""
        return (quota.object for quota in self._valid.values())

    def _choose(self, namespace: str) -> None:
        """Let the oldest quota of the namespace count."""
        old = self._valid.pop(namespace, None)
        new = min(self._quotas.get(namespace, {}).values(), key=lambda quota: quota.age, default=None)
        if old is not None:
            add_amounts(self._guaranteed, old.min.items(), -1)
        if new is None:
            account = self.accounts.get(namespace)
            if account is not None:
                account.limits = {}
                self.accounts.move(account, None)
                self._close_if_unused(account)
        else:
            account = self.accounts.open(namespace)
            account.limits = new.max
            self.accounts.move(account, self.all)
            add_amounts(self._guaranteed, new.min.items())
            self._valid[namespace] = new
            self._note_stale(namespace)

    # --- pods ---

    def request_of(self, pod: Pod) -> Request:
        """Return what a pod counts for. Raises DecodeError for a malformed or negative amount."""
        # Pods of one template share the parts that it is computed from (api/sharing.py).
        spec = pod.spec
        known, request = self._of_templates.get(id(spec.containers), (None, ()))
        if (
            known is not None
            and known.containers is spec.containers
            and known.init_containers is spec.init_containers
            and known.overhead is spec.overhead
        ):
            return request
        request = self.accounts.places.request(requested_amounts(pod))
        if len(self._of_templates) >= MAX_TEMPLATES:
            self._of_templates.clear()
            self._of_specs.clear()
            self._kinds.clear()
            self._requests.clear()  # after the kinds, which know them by their ids
        request = self._requests.setdefault(request, request)
        self._of_templates[id(spec.containers)] = spec, request
        return request

    def counted_request_of(self, pod: Pod) -> Request:
        """Return what a pod on a node counts for: nothing if its requests cannot be read, which is logged."""
        try:
            return self.request_of(pod)
        except DecodeError as error:
            log.error("pod counts for nothing in its quota", extra={"pod": pod.key, "err": str(error)})
            return ()

    def pod_added(self, pod: Pod) -> None:
        """Count a pod that is on a node, or assumed there, unless it is counted already.

        One whose requests cannot be read counts for nothing, which is logged.
        """
        request = self.counted_request_of(pod)
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        if self.accounts.charge(self.accounts.open(namespace), uid, request):
            self.priorities.count(namespace, pod.spec.priority or 0, 1)
        self._note_phase(pod)

    def pods_added(self, pods: Sequence[Pod]) -> None:
        """Count pods that are assumed together, those of one request together."""
        groups, accounts = self.by_kind(pods), self.accounts
        numbers = accounts.charge_holders(
            [
                (accounts.open(kind.namespace), [pod.metadata.uid for pod in of_kind], kind.request)
                for kind, of_kind in groups.items()
            ]
        )
        for kind, number in zip(groups, numbers, strict=True):
            if number:
                self.priorities.count(kind.namespace, kind.priority, number)
        running = self.running.uids
        for pod in pods:
            if pod.status.phase == RUNNING or (running and pod.metadata.uid in running):
                self._note_phase(pod)

    def by_kind(self, pods: Sequence[Pod]) -> Mapping[PodKind, Sequence[Pod]]:
        """Return pods by namespace, request and priority; one whose requests cannot be read counts for nothing."""
        seen = self._seen
        if len(seen[0]) == len(pods) and all(map(is_, seen[0], pods)):
            return seen[1]
        # 1. Pods of one template share their spec, or at least what their request is computed from.
        by_spec: dict[tuple[str, int], list[Pod]] = {}
        for pod in pods:
            key = pod.metadata.namespace, id(pod.spec)
            of_spec = by_spec.get(key)
            if of_spec is None:
                by_spec[key] = [pod]
            else:
                of_spec.append(pod)
        # 2. Templates of one namespace whose requests and priorities are equal are of one kind.
        found: dict[PodKind, list[Pod]] = {}
        of_specs = self._of_specs
        for key, of_spec in by_spec.items():
            known = of_specs.get(key)
            kind = self._kind_of(of_spec[0]) if known is None else known[1]
            of_kind = found.get(kind)
            if of_kind is None:
                found[kind] = of_spec
            else:
                of_kind.extend(of_spec)
        self._seen = pods, found
        return found

    def _kind_of(self, pod: Pod) -> PodKind:
        """Return the kind of a pod. That of one whose requests cannot be read is its own; it is logged each time."""
        namespace, spec = pod.metadata.namespace, pod.spec
        priority = spec.priority or 0
        try:
            request = self.request_of(pod)
        except DecodeError:
            return PodKind(namespace, self.counted_request_of(pod), priority)
        if len(self._of_specs) >= MAX_TEMPLATES:
            self._of_specs.clear()
            self._kinds.clear()
        look = namespace, id(request), priority
        kind = self._kinds.get(look)
        if kind is None:
            kind = self._kinds[look] = PodKind(namespace, request, priority)
        self._of_specs[namespace, id(spec)] = spec, kind
        return kind

    def pod_changed(self, old: Pod, new: Pod) -> None:
        """Take a newer version of a pod that is counted."""
        before, after = old.spec, new.spec
        if (
            after.containers is not before.containers
            or after.init_containers is not before.init_containers
            or after.overhead is not before.overhead
            or after.priority != before.priority
        ) and not _counts_equally(old, new):
            self.pod_removed(old)
            self.pod_added(new)
        elif new.status.phase == RUNNING or new.metadata.uid in self.running.uids:
            self._note_phase(new)

    def _note_phase(self, pod: Pod) -> None:
        try:
            has_changed = self.running.put(pod)
        except DecodeError:  # logged when it was counted
            has_changed = self.running.drop(pod)
        if has_changed:
            self._note_stale(pod.metadata.namespace)

    def _note_stale(self, namespace: str) -> None:
        if namespace in self._valid:
            self.stale.add(namespace)
            self.on_stale()

    def pod_removed(self, pod: Pod) -> None:
        """Count a pod no more; what it was counted for is taken back, even if the pod has changed."""
        if self.accounts.release(pod.metadata.uid):
            self.priorities.count(pod.metadata.namespace, pod.spec.priority or 0, -1)
        if self.running.drop(pod):
            self._note_stale(pod.metadata.namespace)
        account = self.accounts.get(pod.metadata.namespace)
        if account is not None:
            self._close_if_unused(account)

    def _close_if_unused(self, account: Account) -> None:
        if not account.holders and account.name not in self._valid:
            self.accounts.close(account)

    # --- what follows from them ---

    def view(self) -> ElasticView:
        """Return a view of what is used now, on which pods may be added and removed on trial."""
        return ElasticView(self, Trial(self.accounts))

    def guaranteed(self, namespace: str, place: int) -> int:
        """Return the `min` of a namespace for one resource; 0 without a quota."""
        quota = self._valid.get(namespace)
        return 0 if quota is None else quota.min.get(place, 0)

    @property
    def guaranteed_to_all(self) -> list[int]:
        """The sum of `min` over all quotas that count, by place. Read it only."""
        return self._guaranteed


def _counts_equally(old: Pod, new: Pod) -> bool:
    """Return True if two versions of a pod state equal requests, and have one priority."""
    return (
        old.spec.priority == new.spec.priority
        and old.spec.containers == new.spec.containers
        and old.spec.init_containers == new.spec.init_containers
        and old.spec.overhead == new.spec.overhead
    )


class ElasticView:
    """What the namespaces use, with changes on trial; valid until quotas or pods change."""

    def __init__(self, quotas: ElasticQuotas, trial: Trial) -> None:
        self._quotas = quotas
        self._trial = trial

    def clone(self) -> ElasticView:
        """Return an independent copy."""
        return ElasticView(self._quotas, self._trial.clone())

    def has_quota(self, namespace: str) -> bool:
        return namespace in self._quotas

    # --- trials ---

    def add(self, pod: Pod) -> None:
        """Count a pod of a namespace with a quota, unless it is counted already."""
        account = self._account(pod.metadata.namespace)
        if account is not None:
            self._trial.charge(account, pod.metadata.uid, self._quotas.request_of(pod))

    def remove(self, pod: Pod) -> None:
        """Count a pod no more, if it is counted."""
        if self._account(pod.metadata.namespace) is not None:
            self._trial.release(pod.metadata.uid)

    # --- comparisons ---

    def exceeds_max(self, namespace: str, request: Request) -> bool:
        """Return True if the namespace would use more than its `max` with this request on top."""
        account = self._account(namespace)
        if account is None:
            return False
        limits, used_at = account.limits, self._trial.used_at
        return any(place in limits and used_at(account, place) + amount > limits[place] for place, amount in request)

    def exceeds_min(self, namespace: str, request: Request) -> bool:
        """Return True if the namespace would use more than its `min` with this request on top."""
        account = self._account(namespace)
        if account is None:
            return False
        guaranteed, used_at = self._quotas.guaranteed, self._trial.used_at
        return any(used_at(account, place) + amount > guaranteed(namespace, place) for place, amount in request)

    def is_over_min(self, namespace: str) -> bool:
        """Return True if the namespace uses more of any resource than its `min`."""
        account = self._account(namespace)
        if account is None:
            return False
        used = self._trial.used(account)
        return any(amount > self._quotas.guaranteed(namespace, place) for place, amount in enumerate(used))

    def exceeds_all_min(self, request: Request) -> bool:
        """Return True if all quotas together would use more of any resource than is guaranteed to them together.

        Resources that the request does not name are compared, too.
        """
        used = self._trial.used(self._quotas.all)
        add_amounts(used, request)
        guaranteed = self._quotas.guaranteed_to_all
        return any(amount > at(guaranteed, place) for place, amount in enumerate(used))

    def _account(self, namespace: str) -> Account | None:
        return self._quotas.accounts.get(namespace) if namespace in self._quotas else None
