"""The terms of pod affinity and anti-affinity, compiled once and matched often.

A term selects pods by label selector and namespace. Its namespaces are those it lists and those that its namespace
selector matches. With neither, it is the namespace of the pod that has the term; an empty namespace selector selects
all namespaces. An absent label selector matches no pod, an empty one every pod. matchLabelKeys and mismatchLabelKeys
are not read, because the apiserver merges them into the label selector when the pod is created.

Compiled terms are equal if they select the same pods and have the same topology key, and are hashable, so that they can
be keys of counters. As in kube-scheduler, a malformed term invalidates all terms of its list; `fault` has the reason.
"""

from __future__ import annotations

import enum
import functools
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from kscheduler.api.labels import CompiledLabelSelector, Token, compile_label_selector
from kscheduler.api.objects import Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from kscheduler.errors import DecodeError

NO_NAMESPACES = CompiledLabelSelector(None)
ALL_NAMESPACES = CompiledLabelSelector(())

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_KEPT_TERMS = 16_384
_KEPT_LISTS = 4_096  # of all terms of a pod

_encode = msgspec.json.Encoder().encode

T = TypeVar("T", bound=Hashable)


def namespace_token(name: str) -> Token:
    """Return a namespace in the form of a (label, value) pair with an empty label key, which no real label has."""
    return "", name


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod affinity term: the pods that it selects, and the label `topology_key` by which nodes form domains."""

    selector: CompiledLabelSelector
    namespaces: frozenset[str]
    namespace_selector: CompiledLabelSelector
    topology_key: str
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Worked out once: every decision looks terms up, and the parts of one are many.
        parts = (self.selector, self.namespaces, self.namespace_selector, self.topology_key)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] | None) -> bool:
        """Return True if the term selects a pod of this namespace with these labels.

        `namespace_labels` is None if the namespace does not exist; then only a term for all namespaces selects the pod.
        """
        return self.matches_namespace(namespace, namespace_labels) and self.selector.matches(labels)

    def matches_namespace(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        if namespace in self.namespaces:
            return True
        return self.means_all_namespaces or (labels is not None and self.namespace_selector.matches(labels))

    @property
    def means_all_namespaces(self) -> bool:
        return self.namespace_selector.requirements == ()

    @property
    def selects_namespaces(self) -> bool:
        """True if the term has a namespace selector that depends on the labels of namespaces."""
        return bool(self.namespace_selector.requirements)

    def narrowings(self) -> list[list[Token]]:
        """Return lists of (label, value) for look-ups in an index: a selected pod has at least one of each list."""
        narrowings = self.selector.narrowings()
        if self.namespace_selector.requirements is None:
            narrowings.append([namespace_token(name) for name in self.namespaces])
        return narrowings

    def with_namespaces(self, selected: frozenset[str]) -> AffinityTerm:
        """Return the term with these namespaces, those its selector matches, instead of the selector."""
        return AffinityTerm(self.selector, self.namespaces | selected, NO_NAMESPACES, self.topology_key)

    def of_all_namespaces(self) -> AffinityTerm:
        """Return the term extended to the pods of all namespaces."""
        return AffinityTerm(self.selector, self.namespaces, ALL_NAMESPACES, self.topology_key)


class TermKind(enum.Enum):
    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED = "preferred"  # affinity, or with a negative weight anti-affinity


@dataclass(frozen=True, slots=True)
class HeldTerm:
    """A pod affinity term of pods that are on nodes.

    `weight` is that of a preferred term, negative for anti-affinity; it is 0 for required terms.
    """

    kind: TermKind
    term: AffinityTerm
    weight: int = 0
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind.value, self.term, self.weight)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class PodAffinityTerms:
    """All pod affinity and anti-affinity terms of one pod, in the order in which it lists them."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()  # (weight, term); the weight is negative for anti-affinity
    fault: DecodeError | None = None  # why some terms are missing here
    _held: tuple[tuple[HeldTerm, int], ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def held_counts(self) -> tuple[tuple[HeldTerm, int], ...]:
        """Each term with the number of times that the pod has it; computed once for all pods that share this object."""
        if self._held is None:
            object.__setattr__(self, "_held", tuple(Counter(self.held()).items()))
        return self._held or ()

    def held(self) -> tuple[HeldTerm, ...]:
        return (
            *(_interned(HeldTerm(TermKind.REQUIRED_AFFINITY, term)) for term in self.required_affinity),
            *(_interned(HeldTerm(TermKind.REQUIRED_ANTI_AFFINITY, term)) for term in self.required_anti_affinity),
            *(_interned(HeldTerm(TermKind.PREFERRED, term, weight)) for weight, term in self.preferred),
        )


NO_TERMS = PodAffinityTerms()


def has_preferred_terms(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    kinds = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(kind and kind.preferred_during_scheduling_ignored_during_execution for kind in kinds)


# --- compiling --------------------------------------------------------------------------------------------------


def compile_pod_affinity(pod: Pod) -> PodAffinityTerms:
    """Return the pod's terms. Malformed ones raise nothing: see `PodAffinityTerms.fault`."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    return _compile(_Stated(affinity.pod_affinity, affinity.pod_anti_affinity, pod.metadata.namespace))


class _Stated:
    """The uncompiled terms of a pod as a cache key, so that pods with equal terms share the compiled ones."""

    __slots__ = ("affinity", "anti_affinity", "key", "namespace")

    def __init__(self, affinity: PodAffinity | None, anti_affinity: PodAffinity | None, namespace: str) -> None:
        self.affinity = affinity
        self.anti_affinity = anti_affinity
        self.namespace = namespace
        self.key: Hashable = (_encode((affinity, anti_affinity)), namespace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stated) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@functools.lru_cache(maxsize=_KEPT_LISTS)
def _compile(stated: _Stated) -> PodAffinityTerms:
    compiling = _Compiling(stated.namespace)
    required, preferred = compiling.both(stated.affinity, "spec.affinity.podAffinity", 1)
    required_anti, preferred_anti = compiling.both(stated.anti_affinity, "spec.affinity.podAntiAffinity", -1)
    return PodAffinityTerms(required, required_anti, preferred + preferred_anti, compiling.fault)


class _Compiling:
    """Compiles the terms of one pod, and continues after an error."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.fault: DecodeError | None = None

    def both(
        self, affinity: PodAffinity | None, path: str, sign: int
    ) -> tuple[tuple[AffinityTerm, ...], tuple[tuple[int, AffinityTerm], ...]]:
        """Compile affinity or anti-affinity: return (required terms, preferred terms with weight · `sign`)."""
        if affinity is None:
            return (), ()
        required = affinity.required_during_scheduling_ignored_during_execution or ()
        preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
        return self._required(required, f"{path}.{_REQUIRED}"), self._preferred(preferred, f"{path}.{_PREFERRED}", sign)

    def _required(self, terms: Sequence[PodAffinityTerm], path: str) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(compile_affinity_term(term, self._namespace, f"{path}[{i}]") for i, term in enumerate(terms))
        except DecodeError as error:
            self.fault = self.fault or error
            return ()

    def _preferred(
        self, terms: Sequence[WeightedPodAffinityTerm], path: str, sign: int
    ) -> tuple[tuple[int, AffinityTerm], ...]:
        try:
            return tuple(
                (
                    sign * _weight(weighted.weight, f"{path}[{i}].weight"),
                    compile_affinity_term(weighted.pod_affinity_term, self._namespace, f"{path}[{i}].podAffinityTerm"),
                )
                for i, weighted in enumerate(terms)
            )
        except DecodeError as error:
            self.fault = self.fault or error
            return ()


def _weight(weight: int, path: str) -> int:
    """Check the weight of a preferred term.

    The apiserver accepts 1 to 100; a much larger one would overflow counters.
    """
    if not -(1 << 31) < weight < 1 << 31:
        raise DecodeError(f"{path}: expected 1..100, got {weight}")
    return weight


def compile_affinity_term(term: PodAffinityTerm, namespace: str, path: str) -> AffinityTerm:
    """Compile one term of a pod in `namespace`; `path` is its field path.

    Raises DecodeError for a malformed selector.
    """
    own = not term.namespaces and term.namespace_selector is None
    return _interned(
        AffinityTerm(
            compile_label_selector(term.label_selector, f"{path}.labelSelector"),
            frozenset((namespace,) if own else term.namespaces or ()),
            compile_label_selector(term.namespace_selector, f"{path}.namespaceSelector"),
            term.topology_key,
        )
    )


def _interned(value: T) -> T:
    """Return one object for all equal values, so that dict look-ups succeed by identity."""
    return _kept(value)  # type: ignore[return-value]


@functools.lru_cache(maxsize=_KEPT_TERMS)
def _kept(value: Hashable) -> Hashable:
    return value
