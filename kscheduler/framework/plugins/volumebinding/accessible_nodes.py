"""The nodes that can access a PersistentVolume: its node affinity, compiled once and matched with many nodes.

Only labels are read: as in kube-scheduler, a term's condition on the node's name always holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.api.labels import NameRequirement, NodeTerm, Operator, RequiredNodeAffinity, compile_node_selector_term
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm
from kscheduler.api.storage import PersistentVolume
from kscheduler.errors import DecodeError
from kscheduler.snapshot.node_classes import HOSTNAME

# Volumes and affinities remembered: several times what large clusters have. All are dropped when there are more.
MAX_KEPT = 100_000
_PATH = "spec.nodeAffinity.required.nodeSelectorTerms"

_OF_NO_NAME = (NameRequirement("", is_wanted=True),)  # what a term requires of the name; it is asked about ""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class AccessibleNodes:
    """The nodes that can access a volume. Volumes with equal affinity share one object, from `AccessibleNodesMemo`."""

    affinity: RequiredNodeAffinity | None  # None: all nodes
    reads_hostname: bool = field(init=False)
    is_of_hosts: bool = field(init=False)  # does it ask for the hostname and nothing else?
    # (label, values): a node without one of these values cannot access the volume. None: no such label is known.
    needs: tuple[str, frozenset[str]] | None = field(init=False)

    def __post_init__(self) -> None:
        affinity = self.affinity
        object.__setattr__(self, "reads_hostname", affinity is not None and HOSTNAME in affinity.label_keys)
        object.__setattr__(self, "is_of_hosts", affinity is not None and _asks_for_hosts_only(affinity))
        object.__setattr__(self, "needs", None if affinity is None else _needs(affinity))

    @property
    def hosts(self) -> frozenset[str] | None:
        """Return the hostnames of the only nodes that may access the volume; None if it is not limited to hostnames."""
        return self.needs[1] if self.needs is not None and self.needs[0] == HOSTNAME else None

    def matches(self, labels: Labels) -> bool:
        return self.affinity is None or self.affinity.matches(labels, "")


EVERYWHERE = AccessibleNodes(None)


class AccessibleNodesMemo:
    """Compiles the node affinity of volumes to AccessibleNodes, each once while the affinity stays the same object."""

    def __init__(self) -> None:
        self._of_volume: dict[str, tuple[NodeSelector, AccessibleNodes]] = {}  # volume -> its affinity, compiled
        self._known: dict[RequiredNodeAffinity, AccessibleNodes] = {}

    def of(self, volume: PersistentVolume) -> AccessibleNodes:
        affinity = volume.spec.node_affinity
        required = None if affinity is None else affinity.required
        if required is None:
            return EVERYWHERE
        known = self._of_volume.get(volume.metadata.name)
        if known is not None and known[0] is required:
            return known[1]
        if len(self._of_volume) >= MAX_KEPT:
            self._of_volume.clear()
        accessible = self.compile(required)
        self._of_volume[volume.metadata.name] = required, accessible
        return accessible

    def compile(self, required: NodeSelector) -> AccessibleNodes:
        affinity = RequiredNodeAffinity((), tuple(_term(term) for term in required.node_selector_terms))
        accessible = self._known.get(affinity)
        if accessible is None:
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            accessible = self._known[affinity] = AccessibleNodes(affinity)
        return accessible


def _term(term: NodeSelectorTerm) -> NodeTerm:
    """Compile a term; a malformed one matches nothing, as in kube-scheduler."""
    try:
        compiled = compile_node_selector_term(term, _PATH)
    except DecodeError:
        return NodeTerm()
    return NodeTerm(compiled.expressions, _OF_NO_NAME) if compiled.names else compiled


def _asks_for_hosts_only(affinity: RequiredNodeAffinity) -> bool:
    return all(
        len(term.expressions) == 1
        and not term.names
        and term.expressions[0].key == HOSTNAME
        and term.expressions[0].operator is Operator.IN
        for term in affinity.terms or ()
    )


def _needs(affinity: RequiredNodeAffinity) -> tuple[str, frozenset[str]] | None:
    """Return (label, values) such that every term requires one of the values; None if there is no such label.

    The hostname label is preferred.
    """
    terms = [
        {need.key: need.values for need in term.expressions if need.operator is Operator.IN}
        for term in affinity.terms or ()
        if term.expressions or term.names  # others match nothing
    ]
    if not terms:
        return HOSTNAME, frozenset()
    common = sorted(set(terms[0]).intersection(*terms[1:]), key=lambda key: (key != HOSTNAME, key))
    if not common:
        return None
    return common[0], frozenset().union(*(values[common[0]] for values in terms))
