"""Collects what a profile's plugins state about equal pods: a *draft*, from which the kernels' pod class is made.

A draft is about pods with one signature, i.e. pods that are equal in all that the plugins read. Each plugin is asked
once and states which nodes it rejects and how it scores them: by node class (nodes with equal labels and taints), by
requested amounts, by row (node), or not at all. Statements about an extension point at which the profile does not
enable the plugin are dropped. Drafts with equal keys share one pod class, and with it the kernels' cached filter and
score results by row.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Hashable, Sequence
from typing import Any, cast

from kscheduler._fast import MetricRules, NodeColumns, PodClass, PodRequest, RowAnswers
from kscheduler.framework.joined_terms import Joined

BYTES_OF_A_CLASS = 2_048


class Source(enum.IntEnum):
    """A part of the cluster's state on which a plugin's statements may depend. All statements depend on NODES."""

    NODES = 0  # the set of nodes, their labels, taints and cordons
    IMAGES = 1  # the images on nodes
    OWNERS = 2  # services and controllers
    NAMESPACES = 3  # labels of namespaces
    TERMS = 4  # affinity terms of pods on nodes: a new one appeared
    TERMS_GONE = 5  # affinity terms of pods on nodes: one vanished
    LABELS_OF_TERMS = 6  # label keys that such terms have read so far
    OBJECTS = 7  # everything of nodes that plugins see, also annotations
    METRICS = 8  # metric policies, and whether pods have to wait for values; not the values, which are always current
    DEVICES = 9  # which extended resources device classes back


class ClassDraft:
    """A pod class under construction: how a profile's plugins filter and score pods that are equal in all they read.

    Plugins call `depends_on` and the `filter_*`, `score_*` and other methods below it; `ClassCompiler` calls the rest.
    """

    def __init__(self, columns: NodeColumns, node_class_count: int) -> None:
        self._columns = columns
        self._node_class_count = node_class_count
        self._verdicts = bytes(node_class_count)  # node class id -> not 0 if a plugin rejects it
        self._request: PodRequest | None = None
        self.counted: PodRequest | None = None  # what a pod is counted with on its node, if that is another request
        self._scores: list[tuple[Hashable, ...]] = []  # (kind, what, ..., weight)
        self._asked: list[tuple[RowAnswers, int]] = []  # (answers, weight; 0 for a filter)
        self._rules: list[tuple[MetricRules, bool, int]] = []  # (rules, do they filter, weight; 0 if they do not score)
        self.sources = {Source.NODES}
        self.terms: Joined | None = None
        self.filtering: list[str] = []  # plugins with work at Filter
        self.scoring: list[str] = []  # plugins with work at Score
        self.asks = False  # a plugin is asked before each pod is placed
        self.ends_run = False  # a pod must be reserved before the next one is placed
        self.has_failed = False  # a plugin raised; it is asked again later
        self._plugin = ""  # the plugin that is being asked
        self.is_filtering = False  # does the profile enable that plugin at Filter?
        self.weight: int | None = None  # at Score; None: the profile does not enable it there

    def copy(self) -> ClassDraft:
        """Return an independent copy of this draft."""
        other = ClassDraft(self._columns, self._node_class_count)
        other._verdicts, other._request, other.terms = self._verdicts, self._request, self.terms
        other.counted = self.counted
        other._scores, other.sources = list(self._scores), set(self.sources)
        other._asked, other._rules = list(self._asked), list(self._rules)
        other.filtering, other.scoring = list(self.filtering), list(self.scoring)
        other.has_failed = self.has_failed
        return other

    def begin(self, plugin: str, *, filters: bool, weight: int | None) -> None:
        """Attribute the statements that follow to this plugin.

        `filters`: the profile enables it at Filter. `weight`: its weight at Score; None if it is not enabled there.
        """
        self._plugin, self.is_filtering, self.weight = plugin, filters, weight

    # --- statements of plugins ---

    def depends_on(self, *sources: Source) -> None:
        """State that what the plugin states holds until one of these sources changes.

        A plugin that cannot state how it decides calls this, too, so that it is asked again after such a change.
        """
        self.sources.update(sources)

    def filter_node_classes(self, verdict_by_node_class: bytes | bytearray) -> None:
        """Reject the nodes of some node classes: those whose byte, by node class id, is not 0.

        A node class has the nodes with equal labels and taints.
        """
        if not self.is_filtering:
            return
        self._note(self.filtering)
        self._check_length("verdict_by_node_class", len(verdict_by_node_class))
        mine = int.from_bytes(verdict_by_node_class, "little") | int.from_bytes(self._verdicts, "little")
        self._verdicts = mine.to_bytes(self._node_class_count, "little")

    def filter_fit(self, request: PodRequest, counted: PodRequest | None = None) -> None:
        """Reject nodes without room for this request, by which the pods of the class are also counted on nodes.

        `counted`: by which they are counted instead; each is then placed by itself.
        """
        if self.is_filtering:
            self._note(self.filtering)
            self._request = request
            self.counted = None if counted == request else counted

    def score_least_allocated(self, request: PodRequest, resources: Sequence[tuple[int, int]]) -> None:
        self._score("least", request, tuple(resources))

    def score_most_allocated(self, request: PodRequest, resources: Sequence[tuple[int, int]]) -> None:
        self._score("most", request, tuple(resources))

    def score_requested_to_capacity_ratio(
        self, request: PodRequest, resources: Sequence[tuple[int, int]], shape: Sequence[tuple[int, int]]
    ) -> None:
        self._score("ratio", request, tuple(resources), tuple(shape))

    def score_balanced(self, request: PodRequest, resources: Sequence[int]) -> None:
        self._score("balanced", request, tuple(resources))

    def score_node_classes(self, value_by_node_class: array[int], *, reverse: bool) -> None:
        """Set a raw score for each node class (nodes with equal labels and taints), by its id; an array('q').

        It is normalised like `default_normalize`. With `reverse` the lowest raw score becomes the highest.
        """
        self._check_length("value_by_node_class", len(value_by_node_class))
        if self._node_class_count and value_by_node_class.count(value_by_node_class[0]) < self._node_class_count:
            self._score("node classes", value_by_node_class.tobytes(), reverse)
        self.says_score()  # equal for all nodes, it changes nothing

    def score_rows(self, score_by_row: bytes) -> None:
        """Set scores 0..100 by row (node), one byte each, which are not normalised; rows past the end get 0."""
        if any(score_by_row):
            self._score("rows", score_by_row)
        self.says_score()

    def filter_asked(self, marks: RowAnswers) -> None:
        """Reject the rows (nodes) that have a mark other than 0, by a plugin's answers about each row.

        Before each pod is placed, the plugin is asked again about rows that changed.
        """
        if self.is_filtering:
            self._note(self.filtering)
            self._asked.append((marks, 0))
            self.asks = True

    def score_asked(self, scores: RowAnswers) -> None:
        """Set scores 0..100, which are not normalised, by a plugin's answers about each row (node).

        Before each pod is placed, the plugin is asked again about rows that changed.
        """
        if self.weight is not None:
            self._note(self.scoring)
            self._asked.append((scores, self.weight))
            self.asks = True

    def follow_rules(self, rules: MetricRules, *, filters: bool, scores: bool) -> None:
        """Filter or score (or both: `filters`, `scores`) by rules on live metrics, evaluated as each pod is placed."""
        filters = filters and self.is_filtering
        weight = self.weight if scores else None
        if filters:
            self._note(self.filtering)
        if weight is not None:
            self._note(self.scoring)
        if filters or weight:
            self._rules.append((rules, filters, weight or 0))

    def add_terms(self, terms: Joined, *, asks: bool = False) -> None:
        """Filter and score by constraints on the pods in a node's topology domain, as spreading and pod affinity do.

        `asks`: before each pod is placed a guest (wasm plugin) is asked, which may fail to answer.
        """
        self.asks = self.asks or asks
        self.terms = terms if self.terms is None else self.terms.beside(terms)

    def says_filter(self) -> None:
        """Count the plugin as evaluated at Filter although it rejects no node.

        Also call it for a plugin that rejects nodes only by topology terms (`add_terms`).
        """
        if self.is_filtering:
            self._note(self.filtering)

    def says_score(self) -> None:
        """Count the plugin as evaluated at Score although it scores all nodes equally.

        Also call it for a plugin that scores nodes only by topology terms (`add_terms`).
        """
        if self.weight is not None:
            self._note(self.scoring)

    # --- the pod class ---

    @property
    def key(self) -> Hashable:
        """A value that is equal for drafts of equal pod classes."""
        return (self._verdicts, self._request, self.counted, *self._scores, *self._asked, *self._rules, self.terms)

    def make(self) -> PodClass:
        """Return the pod class by which kernels filter and score. Raises ValueError if kernels cannot express it."""
        request = self._request
        if request is None:
            raise ValueError("expected a request that nodes need room for, got none")
        made = PodClass(self._columns, request, self._verdicts)
        for kind, *what, own in self._scores:
            if kind == "balanced" and not _agree(cast(PodRequest, what[0]), request, cast("tuple[int, ...]", what[1])):
                raise ValueError("expected pods to be balanced by what they need room for, got another request")
            self._add_score(made, cast(str, kind), what, cast(int, own))
        for answers, weight in self._asked:
            made.ask_rows(answers, weight)
        for rules, filters, weight in self._rules:
            made.follow_rules(rules, filters, weight)
        return made

    @property
    def bytes(self) -> int:
        """The approximate size of the pod class in bytes, without the results by row (node) that kernels cache."""
        by_node_class = sum(len(what) for _, what, *_ in self._scores if isinstance(what, bytes))
        return 2 * (len(self._verdicts) + by_node_class) + self._columns.rows * 8 * len(self._asked) + BYTES_OF_A_CLASS

    # --- inside ---

    @staticmethod
    def _add_score(made: PodClass, kind: str, what: list[Any], weight: int) -> None:
        if kind == "least":
            made.score_least_allocated(what[1], weight, what[0])
        elif kind == "most":
            made.score_most_allocated(what[1], weight, what[0])
        elif kind == "ratio":
            made.score_requested_to_capacity_ratio(what[1], what[2], weight, what[0])
        elif kind == "balanced":
            made.score_balanced(what[1], weight)
        elif kind == "node classes":
            values = array("q")
            values.frombytes(what[0])
            made.score_node_classes(values, what[1], weight)
        else:
            made.score_rows(what[0], weight)

    def _score(self, kind: str, *what: Hashable) -> None:
        if self.weight is not None:
            self._note(self.scoring)
            self._scores.append((kind, *what, self.weight))

    def _note(self, plugins: list[str]) -> None:
        if self._plugin not in plugins:
            plugins.append(self._plugin)

    def _check_length(self, what: str, length: int) -> None:
        if length != self._node_class_count:
            raise ValueError(f"{what}: expected {self._node_class_count} values, got {length}")


def _agree(one: PodRequest, other: PodRequest, columns: Sequence[int]) -> bool:
    """Return whether two requests ask for equal amounts of the resources in these columns."""
    first, second = dict(one.entries), dict(other.entries)
    return all(first.get(column) == second.get(column) for column in columns)
