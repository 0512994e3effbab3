"""All policies over live metrics: those of the configuration, and those of objects in the cluster.

A pod that names none is under its profile's default. An object comes before a policy of its name in the
configuration. An object that is changed for the worse leaves the last valid version in force; so policies only change
to what somebody has checked. No I/O, no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kscheduler.api.metric_policies import MetricPolicyObject, PolicyObject, TASPolicyObject
from kscheduler.config.decode import Faults, decode
from kscheduler.config.field_errors import invalid, required
from kscheduler.config.metric_policy import Metric, PolicySpec
from kscheduler.config.metric_policy_profiles import metric_policy_args
from kscheduler.config.metric_policy_validation import validate_policy
from kscheduler.config.types import Profile
from kscheduler.framework.telemetry import POLICY_KEY, TAS_KEY, PolicyRef
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.telemetry.tas_policies import metrics_of, translate

Kind = Literal["MetricPolicy", "TASPolicy"]
TAS_PREFIX = "taspolicy/"  # of the name in a PolicyRef, which a MetricPolicy in the namespace may also have


class Verdict(NamedTuple):
    """What was found of the present version of an object."""

    kind: Kind
    object: PolicyObject
    faults: tuple[str, ...]  # by field; none: it is in force
    notes: tuple[str, ...]  # what it says and is not done
    is_in_force: bool  # this version, or the last valid one


class _Entry(NamedTuple):
    policy: PolicySpec | None  # the last valid version
    faults: tuple[str, ...]  # of the present one
    notes: tuple[str, ...]


OnVerdict = Callable[[Verdict], object]


def _tell_nobody(verdict: Verdict) -> None:
    pass


class PolicyBook:
    """`put` and `remove` are called with what is in the cluster; the rest is for whoever decides pods."""

    def __init__(self, profiles: Sequence[Profile], on_verdict: OnVerdict = _tell_nobody) -> None:
        """`on_verdict` hears of every version of an object."""
        found = {profile.scheduler_name: metric_policy_args(profile) for profile in profiles}
        self._args = {name: args for name, args in found.items() if args is not None}  # scheduler name -> arguments
        self._own = {  # scheduler name -> name of a policy -> policy
            name: {policy.name: policy for policy in args.policies} for name, args in self._args.items()
        }
        self._profiles = frozenset(found)
        self._configured = frozenset(metric.name for args in self._args.values() for metric in args.metrics)
        self._tas_source = _custom_source(self._args.values())
        self._entries: dict[tuple[Kind, str, str], _Entry] = {}  # kind, namespace, name -> what is known of it
        self._brought: dict[tuple[Kind, str, str], list[str]] = {}  # the same -> metrics that only it names
        self._watchers: list[Callable[[], object]] = []
        self._on_verdict = on_verdict
        self._is_held = self._changed_while_held = False
        self.version = 0

    @property
    def follows_metric_policies(self) -> bool:
        return any(args.policy_objects for args in self._args.values())

    @property
    def follows_tas_policies(self) -> bool:
        return any(args.tas_policies for args in self._args.values())

    def watch(self, changed: Callable[[], object]) -> None:
        """From now on call this after `version` has grown."""
        self._watchers.append(changed)

    def hold(self) -> None:
        """Until `release` changes are not told of: what many objects bring at once is one change."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        if self._changed_while_held:
            self._changed_while_held = False
            self._changed()

    # --- what a pod is under ---

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """LookupError, with the name and the reason, if the pod names a policy that is not in force."""
        meta = pod.pod.metadata
        return self.policy_for(pod.pod.spec.scheduler_name, meta.namespace, meta.labels or {}, meta.annotations or {})

    def policy_for(
        self, scheduler_name: str, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> tuple[PolicyRef, PolicySpec] | None:
        """The same for a pod that may not be there yet."""
        args = self._args.get(scheduler_name)
        if args is None:
            return None
        name = labels.get(POLICY_KEY) or annotations.get(POLICY_KEY)
        if name:
            return self._named(scheduler_name, namespace, name)
        if args.tas_policies and (name := labels.get(TAS_KEY)):
            return self._of_tas(namespace, name)
        # None also where an object of that name is in other namespaces only: the pod did not ask for it.
        return self._find(scheduler_name, namespace, args.default_policy) if args.default_policy else None

    def _named(self, scheduler_name: str, namespace: str, name: str) -> tuple[PolicyRef, PolicySpec]:
        found = self._find(scheduler_name, namespace, name)
        if found is not None:
            return found
        follows = self._args[scheduler_name].policy_objects
        entry = self._entries.get(("MetricPolicy", namespace, name)) if follows else None
        if entry is not None:
            raise LookupError(f'MetricPolicy "{name}" is invalid: {entry.faults[0]}')
        where = f' in namespace "{namespace}" and' if follows else ""
        raise LookupError(f'there is no metric policy "{name}"{where} in the configuration')

    def _find(self, scheduler_name: str, namespace: str, name: str) -> tuple[PolicyRef, PolicySpec] | None:
        if self._args[scheduler_name].policy_objects:
            entry = self._entries.get(("MetricPolicy", namespace, name))
            if entry is not None and entry.policy is not None:
                return PolicyRef(namespace, name), entry.policy
            if entry is not None:
                return None  # what the namespace's own policy should be is not known; the other is not meant
        own = self._own[scheduler_name].get(name)
        return None if own is None else (PolicyRef("", name), own)

    def _of_tas(self, namespace: str, name: str) -> tuple[PolicyRef, PolicySpec]:
        entry = self._entries.get(("TASPolicy", namespace, name))
        if entry is None:
            raise LookupError(f'there is no TASPolicy "{name}" in namespace "{namespace}"')
        if entry.policy is None:
            raise LookupError(f'TASPolicy "{name}" is invalid: {entry.faults[0]}')
        return PolicyRef(namespace, TAS_PREFIX + name), entry.policy

    def knows(self, policy: PolicyRef) -> bool:
        """Is there such a policy, valid or not?"""
        if not policy.namespace:
            return any(policy.name in own for own in self._own.values())
        kind: Kind = "TASPolicy" if policy.name.startswith(TAS_PREFIX) else "MetricPolicy"
        return (kind, policy.namespace, policy.name.removeprefix(TAS_PREFIX)) in self._entries

    # --- metrics that objects bring ---

    def metrics(self) -> tuple[Metric, ...]:
        """What TASPolicies read and the configuration does not define: asked of the first source of custom metrics."""
        names = dict.fromkeys(name for names in self._brought.values() for name in names)
        return tuple(Metric(name=name, source=self._tas_source, metric=name) for name in names)

    # --- objects ---

    def put(self, item: PolicyObject) -> None:
        """An object came, or was changed."""
        kind, key = _key(item)
        before = self._entries.get(key)
        entry = self._judge(item)
        if entry.policy is None and before is not None:
            entry = entry._replace(policy=before.policy)
        self._entries[key] = entry
        if kind == "TASPolicy" and entry.policy is not None:
            self._brought[key] = [name for name in metrics_of(entry.policy) if name not in self._configured]
        self._on_verdict(Verdict(kind, item, entry.faults, entry.notes, entry.policy is not None))
        # A pod may be told of another fault now, so this counts as a change too.
        if before is None or (before.policy, before.faults) != (entry.policy, entry.faults):
            self._changed()

    def remove(self, item: PolicyObject) -> None:
        """An object is gone."""
        _, key = _key(item)
        self._brought.pop(key, None)
        if self._entries.pop(key, None) is not None:
            self._changed()

    def states(self) -> Mapping[tuple[str, str], int]:
        """(kind, valid or invalid) -> how many objects."""
        return Counter((kind, "invalid" if entry.faults else "valid") for (kind, _, _), entry in self._entries.items())

    def _judge(self, item: PolicyObject) -> _Entry:
        if isinstance(item, TASPolicyObject):
            return self._judge_tas(item.spec)
        faults, policy = read_policy(item.spec, metrics=self._configured, profiles=self._profiles)
        return _Entry(policy, tuple(faults), ())

    def _judge_tas(self, spec: Any) -> _Entry:
        policy, faults, notes = translate(spec)
        if policy is not None and not self._tas_source:
            unknown = [name for name in metrics_of(policy) if name not in self._configured]
            detail = "no metric of that name is configured, and no source of kind customMetrics"
            faults = tuple(invalid("spec.strategies", name, detail) for name in unknown)
        return _Entry(None if faults else policy, faults, notes)

    def _changed(self) -> None:
        if self._is_held:
            self._changed_while_held = True
            return
        self.version += 1
        for watcher in self._watchers:
            watcher()


def read_policy(
    document: Any, *, metrics: frozenset[str] | None = None, profiles: frozenset[str] | None = None
) -> tuple[list[str], PolicySpec | None]:
    """(faults by field, the policy) from the spec of an object; None if there are faults."""
    if document is None:
        return [required("spec")], None
    found = Faults()
    policy = decode(PolicySpec, document, "spec", faults=found)
    faults = found.wrong + found.unknown
    if policy is not None:
        faults += validate_policy("spec", policy, metrics=metrics, profiles=profiles)
    return faults, None if faults else policy


def _custom_source(every: Any) -> str:
    """The first source of custom metrics of a profile that follows TASPolicies; "" if there is none."""
    names = (
        source.name
        for args in every
        if args.tas_policies
        for source in args.sources
        if source.custom_metrics is not None
    )
    return next(names, "")


def _key(item: PolicyObject) -> tuple[Kind, tuple[Kind, str, str]]:
    kind: Kind = "MetricPolicy" if isinstance(item, MetricPolicyObject) else "TASPolicy"
    return kind, (kind, item.metadata.namespace, item.metadata.name)
