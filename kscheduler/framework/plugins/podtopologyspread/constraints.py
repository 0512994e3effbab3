"""The topology spread constraints of a pod, its own or the profile's defaults, compiled once for equal pods.

A pod that states no constraint gets the profile's, with the selector of its owner (service or controller); a pod
without a known owner gets none. A constraint that the apiserver would refuse raises DecodeError with the path of the
field.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kscheduler.api.labels import CompiledLabelSelector, Operator, Requirement, Token, compile_label_selector
from kscheduler.api.objects import Pod, TopologySpreadConstraint
from kscheduler.api.pod_affinity import namespace_token
from kscheduler.api.topology_labels import ZONE
from kscheduler.errors import DecodeError
from kscheduler.input.int32 import MAX_INT32
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.owners import controller_of
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import LabelClass

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HONOR = "Honor"
IGNORE = "Ignore"
PATH = "spec.topologySpreadConstraints"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)

_KEPT = 4_096  # distinct constraints, with namespace and the labels they read


@dataclass(frozen=True, slots=True)
class CountedPods:
    """The pods that a constraint counts: in its pod's namespace, matched by its selector, and not terminating."""

    namespace: str
    selector: CompiledLabelSelector
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.namespace, self.selector)))

    def __hash__(self) -> int:
        return self._hash

    def weigh(self, pods: LabelClass) -> int:
        return int(not pods.is_terminating and self.counts(pods.namespace, pods.labels))

    def narrow(self) -> list[list[Token]]:
        """Return lookup tokens (labels, namespace): each counted pod has at least one token of every list."""
        return [[namespace_token(self.namespace)], *self.selector.narrowings()]

    def counts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return True if a pod with these labels is counted.

        A selector without requirements counts none, though it matches.
        """
        return bool(self.selector.requirements) and namespace == self.namespace and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Constraint:
    max_skew: int
    topology_key: str
    pods: CountedPods
    min_domains: int = 1
    honors_affinity: bool = True  # leave out nodes that the pod's node selector or required affinity does not match
    honors_taints: bool = False  # leave out nodes with taints that the pod does not tolerate

    def own(self, pod: PodInfo) -> int:
        """Return 1 if the pod itself will count once it is placed, even if the selector has no requirements; else 0."""
        return int(self.pods.selector.matches(pod.pod.metadata.labels or {}))


@dataclass(frozen=True, slots=True)
class Constraints:
    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    # Is a node that lacks one of the soft constraints' topology keys left out? Not with the system's defaults, so that
    # clusters without zones still spread over hosts.
    needs_all_keys: bool = True


NO_CONSTRAINTS = Constraints()


class Compiler:
    """Compiles the constraints of a profile's pods.

    `defaults` must be valid. `selector_of` returns the selector of a pod's owner, for pods that get the defaults.
    """

    def __init__(
        self,
        defaults: Sequence[TopologySpreadConstraint],
        is_system_defaulted: bool,
        selector_of: Callable[[Pod], CompiledLabelSelector | None],
    ) -> None:
        self._defaults = tuple(defaults)
        self._is_system_defaulted = is_system_defaulted
        self._selector_of = selector_of

    def compile(self, pod: Pod) -> Constraints:
        """Return the pod's constraints. Raises DecodeError for an invalid one."""
        stated = pod.spec.topology_spread_constraints
        if stated:
            return _compile_stated(_Stated(stated, pod.metadata.namespace, pod.metadata.labels or {}))
        selector = self._selector_of(pod) if self._defaults else None
        if selector is None:
            return NO_CONSTRAINTS
        pods = CountedPods(pod.metadata.namespace, selector)
        return Constraints(
            tuple(_constraint(each, pods) for each in self._defaults if each.when_unsatisfiable == HARD),
            tuple(_constraint(each, pods) for each in self._defaults if each.when_unsatisfiable == SOFT),
            not self._is_system_defaulted,
        )

    def sign(self, pod: Pod) -> Hashable:
        """Return everything in a pod on which its compiled spread constraints depend."""
        metadata, stated = pod.metadata, pod.spec.topology_spread_constraints
        if not stated and not self._defaults:
            return ()
        owner = controller_of(pod)
        return (
            msgspec.json.encode(stated) if stated else b"",
            metadata.namespace,
            frozenset((metadata.labels or {}).items()),
            owner and (owner.api_version, owner.kind, owner.name),
        )


class _Stated:
    """A pod's own constraints as a key, equal if they, the namespace and the labels they read are equal."""

    __slots__ = ("constraints", "key", "labels", "namespace")

    def __init__(
        self, constraints: Sequence[TopologySpreadConstraint], namespace: str, labels: Mapping[str, str]
    ) -> None:
        self.constraints = constraints
        self.namespace = namespace
        self.labels = labels
        read = tuple(labels.get(key) for each in constraints for key in each.match_label_keys or ())
        self.key: Hashable = (msgspec.json.encode(constraints), namespace, read)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stated) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@functools.lru_cache(maxsize=_KEPT)
def _compile_stated(stated: _Stated) -> Constraints:
    hard: list[Constraint] = []
    soft: list[Constraint] = []
    for i, each in enumerate(stated.constraints):
        _check(each, f"{PATH}[{i}]")
        selector = compile_label_selector(each.label_selector, f"{PATH}[{i}].labelSelector")
        selector = _with_label_keys(selector, each.match_label_keys or (), stated.labels)
        compiled = _constraint(each, CountedPods(stated.namespace, selector))
        (hard if each.when_unsatisfiable == HARD else soft).append(compiled)
    return Constraints(tuple(hard), tuple(soft))


def _with_label_keys(
    selector: CompiledLabelSelector, keys: Sequence[str], labels: Mapping[str, str]
) -> CompiledLabelSelector:
    """Restrict the selector to pods with equal values of these labels (matchLabelKeys); missing labels are skipped."""
    if selector.requirements is None:
        return selector  # matches nothing, and still does
    same = (Requirement(key, Operator.IN, frozenset({labels[key]})) for key in keys if key in labels)
    return CompiledLabelSelector((*same, *selector.requirements))


def _constraint(source: TopologySpreadConstraint, pods: CountedPods) -> Constraint:
    return Constraint(
        source.max_skew,
        source.topology_key,
        pods,
        1 if source.min_domains is None else source.min_domains,
        (source.node_affinity_policy or HONOR) == HONOR,
        (source.node_taints_policy or IGNORE) == HONOR,
    )


def _check(source: TopologySpreadConstraint, path: str) -> None:
    if not 1 <= source.max_skew <= MAX_INT32:
        raise DecodeError(f"{path}.maxSkew: expected 1..{MAX_INT32}, got {source.max_skew}")
    if not source.topology_key:
        raise DecodeError(f"{path}.topologyKey: expected the key of a node label, got none")
    if source.when_unsatisfiable not in (HARD, SOFT):
        raise DecodeError(f'{path}.whenUnsatisfiable: expected {HARD} or {SOFT}, got "{source.when_unsatisfiable}"')
    if source.min_domains is not None and not 1 <= source.min_domains <= MAX_INT32:
        raise DecodeError(f"{path}.minDomains: expected 1..{MAX_INT32}, got {source.min_domains}")
    for name, policy in (
        ("nodeAffinityPolicy", source.node_affinity_policy),
        ("nodeTaintsPolicy", source.node_taints_policy),
    ):
        if policy not in (None, "", HONOR, IGNORE):
            raise DecodeError(f'{path}.{name}: expected {HONOR} or {IGNORE}, got "{policy}"')
