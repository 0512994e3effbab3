"""All policies over live metrics: those in the configuration, and the policy objects of the cluster.

A pod that names no policy gets its profile's default. A policy object takes precedence over a policy of the same name
in the configuration. If an object becomes invalid, its last valid version stays in force. There is no I/O and no clock
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kscheduler.api.objects import MetricPolicyObject, PolicyObject, TASPolicyObject
from kscheduler.config.decode import Faults, decode
from kscheduler.config.field_errors import invalid, required
from kscheduler.config.metric_policy import Metric, PolicySpec
from kscheduler.config.metric_policy_profiles import metric_policy_args
from kscheduler.config.metric_policy_validation import validate_policy
from kscheduler.config.types import Profile
from kscheduler.framework.telemetry import POLICY_KEY, TAS_KEY, PolicyRef
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.telemetry.tas_policies import translate

Kind = Literal["MetricPolicy", "TASPolicy"]
TAS_PREFIX = "taspolicy/"  # of names in a PolicyRef: a MetricPolicy of the namespace may have the same name


class Verdict(NamedTuple):
    """The result of validating the current version of a policy object."""

    kind: Kind
    object: PolicyObject
    faults: tuple[str, ...]  # messages with the path of the field; empty: this version is in force
    notes: tuple[str, ...]  # settings of the object that are ignored
    is_in_force: bool  # whether this version, or the last valid one, is used


class _Entry(NamedTuple):
    policy: PolicySpec | None  # the last valid version
    faults: tuple[str, ...]  # of the current version
    notes: tuple[str, ...]


OnVerdict = Callable[[Verdict], object]


class PolicyBook:
    """All policies. Informers `put` and `remove` the cluster's policy objects; the telemetry reads the policies."""

    def __init__(self, profiles: Sequence[Profile], on_verdict: OnVerdict) -> None:
        """Build the book. `on_verdict` is called with the result of validating each version of a policy object."""
        found = {profile.scheduler_name: metric_policy_args(profile) for profile in profiles}
        self._args = {name: args for name, args in found.items() if args is not None}  # scheduler name -> arguments
        self._own = {  # scheduler name -> name of a policy -> policy
            name: {policy.name: policy for policy in args.policies} for name, args in self._args.items()
        }
        self._profiles = frozenset(found)
        self._configured = frozenset(metric.name for args in self._args.values() for metric in args.metrics)
        self._tas_source = _custom_source(self._args.values())
        self._entries: dict[tuple[Kind, str, str], _Entry] = {}  # (kind, namespace, name) of an object -> its entry
        self._brought: dict[tuple[Kind, str, str], list[str]] = {}  # object -> its metrics that are not configured
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
        """Register a function that is called each time a policy changes, i.e. when `version` has grown."""
        self._watchers.append(changed)

    def hold(self) -> None:
        """Hold back notices of changed policies until `release`, which then reports all changes as one."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        if self._changed_while_held:
            self._changed_while_held = False
            self._changed()

    # --- the policy of a pod ---

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """Return the policy that applies to the pod; None if there is none.

        Raises LookupError, with name and reason, if the pod names a policy that is not in force.
        """
        meta = pod.pod.metadata
        return self.policy_for(pod.pod.spec.scheduler_name, meta.namespace, meta.labels or {}, meta.annotations or {})

    def policy_for(
        self, scheduler_name: str, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> tuple[PolicyRef, PolicySpec] | None:
        """Return the policy that applies to a pod described by these properties, which may not exist yet.

        Raises LookupError.
        """
        args = self._args.get(scheduler_name)
        if args is None:
            return None
        name = labels.get(POLICY_KEY) or annotations.get(POLICY_KEY)
        if name:
            return self._named(scheduler_name, namespace, name)
        if args.tas_policies and (name := labels.get(TAS_KEY)):
            return self._of_tas(namespace, name)
        # None also if only other namespaces have a default policy object: the pod did not name it, so this is no error.
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
                return None  # the namespace's own policy is invalid; the configuration's is not meant instead
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
        """Return whether the policy exists, valid or not."""
        if not policy.namespace:
            return any(policy.name in own for own in self._own.values())
        kind: Kind = "TASPolicy" if policy.name.startswith(TAS_PREFIX) else "MetricPolicy"
        return (kind, policy.namespace, policy.name.removeprefix(TAS_PREFIX)) in self._entries

    def is_in_plan_b(
        self,
        scheduler_name: str,
        namespace: str,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        failures: Callable[[str], int],
    ) -> bool:
        """Return whether the policy for such a pod has switched to its plan B, the fallback while sources fail.

        `failures` returns the number of consecutive failures of a metric. Without a policy the answer is False.
        """
        try:
            found = self.policy_for(scheduler_name, namespace, labels, annotations)
        except LookupError:
            return False  # the pod names a policy that is not there, and waits for it
        return found is not None and found[1].is_in_plan_b(failures)

    # --- metrics that objects add ---

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of TASPolicies that are not configured; the first custom metrics source provides them."""
        names = dict.fromkeys(name for names in self._brought.values() for name in names)
        return tuple(Metric(name=name, source=self._tas_source, metric=name) for name in names)

    # --- objects ---

    def put(self, item: PolicyObject) -> None:
        """Add or update a policy object."""
        kind, key = _key(item)
        before = self._entries.get(key)
        entry = self._judge(item)
        if entry.policy is None and before is not None:
            entry = entry._replace(policy=before.policy)
        self._entries[key] = entry
        if kind == "TASPolicy" and entry.policy is not None:
            self._brought[key] = [name for name in entry.policy.metrics() if name not in self._configured]
        self._on_verdict(Verdict(kind, item, entry.faults, entry.notes, entry.policy is not None))
        # Other faults count as a change too: the message for the pods that name the policy changes.
        if before is None or (before.policy, before.faults) != (entry.policy, entry.faults):
            self._changed()

    def remove(self, item: PolicyObject) -> None:
        """Remove a policy object that was deleted."""
        _, key = _key(item)
        self._brought.pop(key, None)
        if self._entries.pop(key, None) is not None:
            self._changed()

    def states(self) -> Mapping[tuple[str, str], int]:
        """Return the number of policy objects by (kind, "valid" or "invalid")."""
        return Counter((kind, "invalid" if entry.faults else "valid") for (kind, _, _), entry in self._entries.items())

    def _judge(self, item: PolicyObject) -> _Entry:
        if isinstance(item, TASPolicyObject):
            return self._judge_tas(item.spec)
        faults, policy = read_policy(item.spec, metrics=self._configured, profiles=self._profiles)
        return _Entry(policy, tuple(faults), ())

    def _judge_tas(self, spec: Any) -> _Entry:
        policy, faults, notes = translate(spec)
        if policy is not None and not self._tas_source:
            unknown = [name for name in policy.metrics() if name not in self._configured]
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
    """Decode and validate the spec of a policy object. Returns its errors with field paths, and the policy or None."""
    if document is None:
        return [required("spec")], None
    found = Faults()
    policy = decode(PolicySpec, document, "spec", faults=found)
    faults = found.wrong + found.unknown
    if policy is not None:
        faults += validate_policy("spec", policy, metrics=metrics, profiles=profiles)
    return faults, None if faults else policy


def _custom_source(every: Any) -> str:
    """Return the name of the first custom metrics source in a profile whose pods use TASPolicies; "" without one."""
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
