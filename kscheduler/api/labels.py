"""Node selectors and label selectors, compiled once and matched often.

NotIn and DoesNotExist also match an object without the label; Gt and Lt compare integers, and never match a label that
is not one. The requirements of a term are ANDed, the terms of a selector are ORed, and a term without requirements
matches nothing. A label selector without requirements matches everything, an absent one nothing.

Compiled values are equal if their requirements are equal, and hashable, so that they can be keys of caches. A malformed
selector raises DecodeError with the path of the field and the value found.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.objects import LabelSelector, NodeSelectorTerm, Pod, SelectorRequirement
from kscheduler.errors import DecodeError
from kscheduler.input.names import is_label_value, is_qualified_name

REQUIRED_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_PATH = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME_FIELD = "metadata.name"

Token = tuple[str, str]  # a label: key and value

_MAX_INT64 = (1 << 63) - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_KEPT_SELECTORS = 4_096


class Operator(enum.StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_OF_NODES = tuple(Operator)
_OF_LABELS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_OF_FIELDS = (Operator.IN, Operator.NOT_IN)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on the value of one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    bound: int = 0  # of Gt and Lt

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if operator is Operator.IN:
            return value in self.values
        if operator is Operator.NOT_IN:
            return value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        number = None if value is None else _parse_int64(value)
        if number is None:
            return False
        return number > self.bound if operator is Operator.GT else number < self.bound


@dataclass(frozen=True, slots=True)
class NameRequirement:
    """A condition on the node's name: equal to `name` or, if not `is_wanted`, different from it."""

    name: str
    is_wanted: bool

    def matches(self, node_name: str) -> bool:
        return (node_name == self.name) is self.is_wanted


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term: requirements on a node, ANDed; a term without requirements matches no node."""

    expressions: tuple[Requirement, ...] = ()
    names: tuple[NameRequirement, ...] = ()
    label_keys: frozenset[str] = field(init=False, compare=False)  # the labels it reads
    node_names: frozenset[str] | None = field(init=False, compare=False)  # the only nodes it can match, if it names any

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_keys", frozenset(requirement.key for requirement in self.expressions))
        wanted = [frozenset({requirement.name}) for requirement in self.names if requirement.is_wanted]
        object.__setattr__(self, "node_names", frozenset.intersection(*wanted) if wanted else None)

    @property
    def reads_node_name(self) -> bool:
        return bool(self.names)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        if not self.expressions and not self.names:
            return False
        for expression in self.expressions:
            if not expression.matches(labels):
                return False
        return all(requirement.matches(node_name) for requirement in self.names)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's node selector ANDed with its required node affinity terms, which are ORed; `terms` None means none."""

    selector: tuple[tuple[str, str], ...] = ()  # (label, value), sorted
    terms: tuple[NodeTerm, ...] | None = None
    label_keys: frozenset[str] = field(init=False, compare=False)
    node_names: frozenset[str] | None = field(
        init=False, compare=False
    )  # the only nodes it can match, if all terms name some

    def __post_init__(self) -> None:
        keys = {key for key, _ in self.selector}
        object.__setattr__(self, "label_keys", keys.union(*(term.label_keys for term in self.terms or ())))
        names = [term.node_names for term in self.terms or ()]
        named = [some for some in names if some is not None]
        is_complete = bool(names) and len(named) == len(names)
        object.__setattr__(self, "node_names", frozenset().union(*named) if is_complete else None)

    @property
    def reads_node_name(self) -> bool:
        return any(term.reads_node_name for term in self.terms or ())

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        for key, value in self.selector:
            if labels.get(key) != value:
                return False
        return self.terms is None or any(term.matches(labels, node_name) for term in self.terms)


@dataclass(frozen=True, slots=True)
class CompiledLabelSelector:
    """A label selector. `requirements` is None for an absent selector, which matches nothing."""

    requirements: tuple[Requirement, ...] | None

    @property
    def label_keys(self) -> frozenset[str]:
        return frozenset(requirement.key for requirement in self.requirements or ())

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.requirements is None:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def narrowings(self) -> list[list[Token]]:
        """Return lists of (label, value) for look-ups in an index: a matching object has at least one of each list."""
        if self.requirements is None:
            return [[]]
        return [
            [(requirement.key, value) for value in requirement.values]
            for requirement in self.requirements
            if requirement.operator is Operator.IN
        ]


# --- compiling --------------------------------------------------------------------------------------------------


def compile_required_node_affinity(pod: Pod) -> RequiredNodeAffinity | None:
    """Compile the pod's node selector and required node affinity; None if it has neither.

    Raises DecodeError if terms are malformed and no other term is left.
    """
    selector = tuple(sorted(pod.spec.node_selector.items())) if pod.spec.node_selector else ()
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return _of_selector(selector) if selector else None
    path = f"{REQUIRED_PATH}.nodeSelectorTerms"
    return RequiredNodeAffinity(selector, _compile_lenient(required.node_selector_terms, path))


def _compile_lenient(terms: Sequence[NodeSelectorTerm], path: str) -> tuple[NodeTerm, ...]:
    """Compile terms. A malformed one, such as Gt with text, matches nothing, as in kube-scheduler.

    The apiserver accepts some of these. Raises the error of a malformed term if no other term is left.
    """
    compiled: list[NodeTerm] = []
    fault: DecodeError | None = None
    for i, term in enumerate(terms):
        try:
            compiled.append(compile_node_selector_term(term, f"{path}[{i}]"))
        except DecodeError as error:
            fault = fault or error
            compiled.append(NodeTerm())
    if fault is not None and all(term == NodeTerm() for term in compiled):
        raise fault
    return tuple(compiled)


@functools.lru_cache(maxsize=_KEPT_SELECTORS)
def _of_selector(selector: tuple[tuple[str, str], ...]) -> RequiredNodeAffinity:
    return RequiredNodeAffinity(selector)


def compile_preferred_terms(pod: Pod) -> tuple[tuple[int, NodeTerm], ...]:
    """Return (weight, term) of preferred node affinity, without terms that have no weight or no requirements.

    kube-scheduler ignores these, too.
    """
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
    return tuple(
        (term.weight, compile_node_selector_term(term.preference, f"{PREFERRED_PATH}[{i}].preference"))
        for i, term in enumerate(preferred or ())
        if term.weight and (term.preference.match_expressions or term.preference.match_fields)
    )


def compile_node_selector_term(term: NodeSelectorTerm, path: str) -> NodeTerm:
    """Compile one term of a node selector; `path` is its field path, for messages."""
    return NodeTerm(
        tuple(
            _requirement(expression, _OF_NODES, f"{path}.matchExpressions[{i}]")
            for i, expression in enumerate(term.match_expressions or ())
        ),
        tuple(
            _name_requirement(expression, f"{path}.matchFields[{i}]")
            for i, expression in enumerate(term.match_fields or ())
        ),
    )


def compile_label_selector(selector: LabelSelector | None, path: str) -> CompiledLabelSelector:
    """Compile a label selector; `path` is its field path, for messages."""
    if selector is None:
        return CompiledLabelSelector(None)
    exact = [
        _requirement(SelectorRequirement(key, Operator.IN.value, [value]), _OF_LABELS, f"{path}.matchLabels[{key}]")
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    expressions = [
        _requirement(expression, _OF_LABELS, f"{path}.matchExpressions[{i}]")
        for i, expression in enumerate(selector.match_expressions or ())
    ]
    return CompiledLabelSelector((*exact, *expressions))


def _requirement(source: SelectorRequirement, allowed: Sequence[Operator], path: str) -> Requirement:
    operator = _operator(source, allowed, path)
    values = source.values or []
    if not is_qualified_name(source.key):
        raise DecodeError(f'{path}.key: expected the key of a label, got "{source.key}"')
    for value in values:
        if not is_label_value(value):
            raise DecodeError(f'{path}.values: expected values of a label, got "{value}"')
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        if values:
            raise DecodeError(f"{path}.values: expected none for {operator.value}, got {_shown(values)}")
        return Requirement(source.key, operator)
    if operator in (Operator.GT, Operator.LT):
        bound = _parse_int64(values[0]) if len(values) == 1 else None
        if bound is None:
            raise DecodeError(f"{path}.values: expected one integer for {operator.value}, got {_shown(values)}")
        return Requirement(source.key, operator, bound=bound)
    if not values:
        raise DecodeError(f"{path}.values: expected at least one value for {operator.value}, got none")
    return Requirement(source.key, operator, frozenset(values))


def _name_requirement(source: SelectorRequirement, path: str) -> NameRequirement:
    if source.key != NODE_NAME_FIELD:
        raise DecodeError(f'{path}.key: expected {NODE_NAME_FIELD}, got "{source.key}"')
    operator = _operator(source, _OF_FIELDS, path)
    values = source.values or []
    if len(values) != 1:
        raise DecodeError(f"{path}.values: expected exactly one node name, got {_shown(values)}")
    return NameRequirement(values[0], operator is Operator.IN)


def _operator(source: SelectorRequirement, allowed: Sequence[Operator], path: str) -> Operator:
    for operator in allowed:
        if source.operator == operator.value:
            return operator
    names = ", ".join(operator.value for operator in allowed)
    raise DecodeError(f'{path}.operator: expected one of {names}, got "{source.operator}"')


def _shown(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values) or "none"


def _parse_int64(text: str) -> int | None:
    """Parse a decimal integer of at most 64 bits; None for anything else."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -_MAX_INT64 - 1 <= number <= _MAX_INT64 else None
