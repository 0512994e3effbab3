"""InterPodAffinity's table form: the scores of `by_node` and the filter, for all nodes in one call, from kept counters.

Each counter has one number for each row (node), updated as pods come and go: how many pods there one of the pod's own
affinity terms matches, or how many affinity terms of one topology key, of pods there, match the pod. Kernels sum these
by topology domain. Python iterates over distinct terms and topology keys only, not over nodes or pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kscheduler._fast import (
    DomainSums,
    NodeColumns,
    RowMask,
    Scores,
    Verdicts,
    add_domain_sums,
    clear_raw,
    filter_inside,
    filter_outside,
    filter_without_domain,
    sum_by_domain,
)
from kscheduler.api.labels import Token
from kscheduler.api.pod_affinity import AffinityTerm, TermKind
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, all_mean
from kscheduler.framework.plugins.interpodaffinity.tallies import Summed
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_counters import RowCounter
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import LabelClass, TermHolders, pod_tokens
from kscheduler.snapshot.summed_domains import SummedDomains
from kscheduler.snapshot.topology import NO_DOMAIN, DomainColumn

# Topology keys of terms that are gone are forgotten when there are more than so many, and twice as many as in use.
MAX_KEYS = 64


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """How many matching pods (or affinity terms) each node has, and the topology by which to sum that.

    Valid for one decision.
    """

    topology_key: str
    counter: RowCounter
    column: DomainColumn

    def count_anything(self) -> bool:
        """Return True if a node with the topology key has a count, even if terms for and against sum to 0."""
        if not self.column.size:
            return False
        # The first row answers, unless the cluster's pods are on nodes that lack the topology key.
        ids = self.column.ids
        return any(ids[row] != NO_DOMAIN for group in self.counter.groups for row in group.rows)


@dataclass(frozen=True, slots=True)
class FilterInput:
    """The counts that Filter uses: of the pod's required affinity and anti-affinity, and of others' anti-affinity."""

    affinity: Sequence[DomainCounts]
    is_first: bool  # the pod matches its own required affinity, and no pod on any node does
    anti_affinity: Sequence[DomainCounts]
    existing: Sequence[DomainCounts]

    @property
    def is_empty(self) -> bool:
        return not self.affinity and not self.anti_affinity and not self.existing


@dataclass(frozen=True, slots=True)
class ScoreInput:
    """The counts by which Score judges nodes for a pod: the raw score is the sum of weight times count by domain.

    The domains are the topology domains of the node.
    """

    weighted: Sequence[tuple[int, DomainCounts]]

    @property
    def is_empty(self) -> bool:
        return not self.weighted


class Sums:
    """Sums counts by topology domain with kernels, to filter and score nodes; owns the kernels' buffers."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._nodes = RowMask()
        self._sums = DomainSums()

    def require(self, verdicts: Verdicts, counts: DomainCounts, code: int, detail: int) -> None:
        """Reject the nodes in whose topology domain nothing is counted, or that lack the topology key."""
        self._sum(counts)
        filter_outside(verdicts, self._sums, counts.column.ids, code, detail)

    def forbid(self, verdicts: Verdicts, counts: DomainCounts, code: int, detail: int) -> None:
        """Reject the nodes in whose topology domain something is counted."""
        if counts.counter.total:
            self._sum(counts)
            filter_inside(verdicts, self._sums, counts.column.ids, code, detail)

    def score(self, verdicts: Verdicts, scores: Scores, counts: DomainCounts, weight: int) -> None:
        self._sum(counts)
        add_domain_sums(verdicts, scores, self._sums, counts.column.ids, weight)

    def keep(self, counts: DomainCounts) -> SummedDomains:
        """Return the counts summed by topology domain, in a buffer of their own."""
        sums = DomainSums()
        self._sum_to(sums, counts)
        return SummedDomains(sums, counts.column)

    def _sum(self, counts: DomainCounts) -> None:
        self._sum_to(self._sums, counts)

    def _sum_to(self, sums: DomainSums, counts: DomainCounts) -> None:
        self._nodes.take_alive(self._columns)
        sum_by_domain(sums, counts.counter.values, counts.column.ids, counts.column.size, self._nodes)


class AffinityIndex:
    """The node table's counters of pods and of their affinity terms, as InterPodAffinity filters and scores by them."""

    def __init__(self, table: NodeTable, namespaces: Namespaces) -> None:
        self._table = table
        self._namespaces = namespaces
        self._sums = Sums(table.columns)
        self._seen = -1  # id of the newest group of pods with an equal term whose topology key was read
        # Topology keys of the terms that pods on nodes hold, or have held; a dict for its order.
        self._forbidding: dict[str, None] = {}  # required anti-affinity
        self._scoring: dict[str, None] = {}  # all others
        self._most_keys = MAX_KEYS

    def filter_input(self, pod: PodInfo, own: OwnTerms) -> FilterInput:
        affinity = self.required(own)
        is_first = bool(affinity) and all_mean(own.affinity, pod) and not any(c.count_anything() for c in affinity)
        return FilterInput(affinity, is_first, self.required_away(own), list(self._existing(pod)))

    def score_input(self, pod: PodInfo, own: OwnTerms, hard_weight: int) -> ScoreInput:
        weighted = self.preferred(own)
        weighted += [(1, counts) for counts in self._preferring(pod, hard_weight)]
        return ScoreInput([(weight, counts) for weight, counts in weighted if counts.count_anything()])

    def shunning_keys(self) -> Collection[str]:
        """Return the topology keys of the required anti-affinity terms that pods on nodes have."""
        self._learn_keys()
        return self._forbidding.keys()

    def reject(self, verdicts: Verdicts, found: FilterInput, code: int, details: tuple[int, int, int]) -> None:
        """Reject nodes by affinity, by anti-affinity and by existing pods' anti-affinity, with these three `details`.

        A row keeps the first reason (detail) it gets, so that the order is that of the per-node form.
        """
        lacking, shunned, shunning = details
        for counts in found.affinity:
            if found.is_first:
                filter_without_domain(verdicts, counts.column.ids, code, lacking)
            else:
                self._sums.require(verdicts, counts, code, lacking)
        for counts in found.anti_affinity:
            self._sums.forbid(verdicts, counts, code, shunned)
        for counts in found.existing:
            self._sums.forbid(verdicts, counts, code, shunning)

    def sum_up(self, found: FilterInput) -> tuple[Summed, Summed, Summed]:
        """Return three counts by topology domain, by which single nodes are judged.

        They are of the pods that the affinity matches, of those that the anti-affinity matches, and of existing pods'
        anti-affinity terms that match the pod.
        """
        return self._kept(found.affinity), self._kept(found.anti_affinity), self._kept(found.existing)

    def _kept(self, questions: Sequence[DomainCounts]) -> Summed:
        return [(counts.topology_key, self._sums.keep(counts)) for counts in questions]

    def score(self, verdicts: Verdicts, scores: Scores, found: ScoreInput) -> None:
        clear_raw(verdicts, scores)
        for weight, counts in found.weighted:
            self._sums.score(verdicts, scores, counts, weight)

    # --- pods that the pod's own terms mean ---

    def required(self, own: OwnTerms) -> list[DomainCounts]:
        return [self._counts(own.affinity, term.topology_key) for term in own.affinity]

    def required_away(self, own: OwnTerms) -> list[DomainCounts]:
        return [self._counts((term,), term.topology_key) for term in own.anti_affinity]

    def preferred(self, own: OwnTerms) -> list[tuple[int, DomainCounts]]:
        return [(weight, self._counts((term,), term.topology_key)) for weight, term in own.preferred]

    def _counts(self, terms: tuple[AffinityTerm, ...], topology_key: str) -> DomainCounts:
        """Return the counts of the pods that all of these affinity terms match, to be summed by one topology."""

        def weigh(pods: LabelClass) -> int:
            return int(all(term.matches(pods.namespace, pods.labels, None) for term in terms))

        def narrow() -> list[list[Token]]:
            return [tokens for term in terms for tokens in term.narrowings()]

        counter = self._table.counters.by_labels.counter(("meant by", terms), weigh, narrow)
        return DomainCounts(topology_key, counter, self._table.topology.column(topology_key))

    # --- terms of existing pods that mean the pod ---

    def incoming(self, pod: PodInfo) -> Incoming:
        """Return what existing pods' affinity terms read of the pod; valid until a term reads other labels."""
        return Incoming(pod, self._namespaces, self._table.counters.label_keys_of_terms)

    def forbidding(self, incoming: Incoming) -> list[DomainCounts]:
        """Return the counts of existing pods' required anti-affinity terms that match the pod, by topology key."""
        self._learn_keys()
        found = [self._forbids(incoming, key) for key in self._forbidding]
        return [counts for counts in found if counts.counter.groups]

    def wanting(self, incoming: Incoming, hard_weight: int) -> list[DomainCounts]:
        """Return the weighted counts of existing pods' other affinity terms that match the pod, by topology key."""
        self._learn_keys()
        found = [self._wants(incoming, key, hard_weight) for key in self._scoring]
        return [counts for counts in found if counts.counter.groups]

    def _existing(self, pod: PodInfo) -> Iterator[DomainCounts]:
        """Yield the counts of existing pods' required anti-affinity terms that reject a node, one by topology key."""
        self._learn_keys()
        incoming = self.incoming(pod)
        for key in self._forbidding:
            counts = self._forbids(incoming, key)
            if counts.count_anything():
                yield counts

    def _preferring(self, pod: PodInfo, hard_weight: int) -> Iterator[DomainCounts]:
        """Yield the weighted counts of existing pods' other affinity terms that match the pod, one by topology key."""
        self._learn_keys()
        incoming = self.incoming(pod)
        for key in self._scoring:
            yield self._wants(incoming, key, hard_weight)

    def _forbids(self, incoming: Incoming, topology_key: str) -> DomainCounts:
        def weigh(holders: TermHolders) -> int:
            held = holders.term
            if held.kind is not TermKind.REQUIRED_ANTI_AFFINITY or held.term.topology_key != topology_key:
                return 0
            return int(incoming.is_meant_by(held.term))

        counter = self._table.counters.by_terms.counter(("forbid", incoming.look, topology_key), weigh, incoming.narrow)
        return DomainCounts(topology_key, counter, self._table.topology.column(topology_key))

    def _wants(self, incoming: Incoming, topology_key: str, hard_weight: int) -> DomainCounts:
        def weigh(holders: TermHolders) -> int:
            held = holders.term
            if held.kind is TermKind.REQUIRED_ANTI_AFFINITY or held.term.topology_key != topology_key:
                return 0
            weight = hard_weight if held.kind is TermKind.REQUIRED_AFFINITY else held.weight
            return weight if weight and incoming.is_meant_by(held.term) else 0

        key = ("want", incoming.look, topology_key, hard_weight)
        counter = self._table.counters.by_terms.counter(key, weigh, incoming.narrow)
        return DomainCounts(topology_key, counter, self._table.topology.column(topology_key))

    def _learn_keys(self) -> None:
        """Read the topology keys of the affinity terms that have appeared since the last call."""
        holders = self._table.counters.by_terms
        new: Iterable[TermHolders] = holders.since(self._seen)
        if len(self._forbidding) + len(self._scoring) > self._most_keys:
            self._forbidding.clear()
            self._scoring.clear()
            new = holders
        for group in new:
            held = group.term
            forbids = held.kind is TermKind.REQUIRED_ANTI_AFFINITY
            (self._forbidding if forbids else self._scoring)[held.term.topology_key] = None
        if new is holders:
            self._most_keys = max(MAX_KEYS, 2 * (len(self._forbidding) + len(self._scoring)))
        self._seen = holders.last_id


class Incoming:
    """What other pods' affinity terms read of a pod: its namespace, and those of its labels that such terms name.

    `label_keys`: the labels that terms name. Pods with an equal `look` are matched by the same terms, such as the pods
    of a StatefulSet, each of which has one label of its own.
    """

    __slots__ = ("_labels", "_namespace", "_namespace_labels", "look")

    def __init__(self, pod: PodInfo, namespaces: Namespaces, label_keys: Collection[str]) -> None:
        metadata = pod.pod.metadata
        self._namespace = metadata.namespace
        self._labels: Mapping[str, str] = metadata.labels or {}
        # For others' terms a namespace that was never reported counts as one without labels.
        self._namespace_labels: Mapping[str, str] = namespaces.get(metadata.namespace) or {}
        read = frozenset((key, value) for key, value in self._labels.items() if key in label_keys)
        self.look = (self._namespace, read, frozenset(self._namespace_labels.items()))

    def narrow(self) -> list[list[Token]]:
        """Return lookup tokens (labels and namespace), by which the affinity terms are found that may match the pod."""
        return [pod_tokens(self._namespace, self._labels)]

    def is_meant_by(self, term: AffinityTerm) -> bool:
        return term.matches(self._namespace, self._labels, self._namespace_labels)
