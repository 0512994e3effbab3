"""Collects what a profile's plugins state about pods of one signature, to make a pod class for the kernels.

Each plugin is asked once and states what it rejects and scores: by node class, by requested amounts, by row, or not at
all. Statements about an extension point at which the profile does not enable the plugin are dropped. Drafts with equal
keys share one pod class, and with it the kernels' cached filter and score results by row.
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


class ClassDraft:
    """A pod class under construction: how a profile's plugins filter and score the pods of one signature.

    Plugins call `depends_on` and the `filter_*`, `score_*` and other methods below it; `ClassCompiler` calls the rest.
    """

    def __init__(self, columns: NodeColumns, node_class_count: int) -> None:
        self._columns = columns
        self._node_class_count = node_class_count
        self._verdicts = bytes(node_class_count)  # node class id -> not 0 if a plugin rejects it
        self._request: PodRequest | None = None
        self._scores: list[tuple[Hashable, ...]] = []  # (kind, what, ..., weight)
        self._asked: list[tuple[RowAnswers, int]] = []  # (answers, weight; 0 for a filter)
        self._rules: list[tuple[MetricRules, bool, int]] = []  # (rules, do they filter, weight; 0 if they do not score)
        self.sources = {Source.NODES}
        self.terms: Joined | None = None
        self.filtering: list[str] = []  # plugins with work at Filter
        self.scoring: list[str] = []  # plugins with work at Score
        self.asks = False  # a plugin is asked before each pod is placed
        self.has_failed = False  # a plugin raised; it is asked again later
        self._plugin = ""  # the plugin that is being asked
        self.is_filtering = False  # does the profile enable that plugin at Filter?
        self.weight: int | None = None  # at Score; None: the profile does not enable it there

    def copy(self) -> ClassDraft:
        """Return an independent copy."""
        other = ClassDraft(self._columns, self._node_class_count)
        other._verdicts, other._request, other.terms = self._verdicts, self._request, self.terms
        other._scores, other.sources = list(self._scores), set(self.sources)
        other._asked, other._rules = list(self._asked), list(self._rules)
        other.filtering, other.scoring = list(self.filtering), list(self.scoring)
        other.has_failed = self.has_failed
        return other

    def begin(self, plugin: str, *, filters: bool, weight: int | None) -> None:
        """Attribute the next statements to this plugin. `filters`: is it enabled at Filter?

        `weight`: at Score, None if not.
        """
        self._plugin, self.is_filtering, self.weight = plugin, filters, weight

    # --- statements of plugins ---

    def depends_on(self, *sources: Source) -> None:
        """State that the plugin's answer, even if it cannot be compiled, holds until one of these sources changes."""
        self.sources.update(sources)

    def filter_node_classes(self, verdict_by_node_class: bytes | bytearray) -> None:
        """Reject the nodes of some node classes: those whose byte, by node class id, is not 0."""
        if not self.is_filtering:
            return
        self._note(self.filtering)
        self._check_length("verdict_by_node_class", len(verdict_by_node_class))
        mine = int.from_bytes(verdict_by_node_class, "little") | int.from_bytes(self._verdicts, "little")
        self._verdicts = mine.to_bytes(self._node_class_count, "little")

    def filter_fit(self, request: PodRequest) -> None:
        """Reject nodes without room for the request, which must be the one that nodes count the class's pods with."""
        if self.is_filtering:
            self._note(self.filtering)
            self._request = request

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
        """Set a raw score for each node class id (array 'q'), to be normalised like `default_normalize`.

        With `reverse` the lowest raw score becomes the highest.
        """
        self._check_length("value_by_node_class", len(value_by_node_class))
        if self._node_class_count and value_by_node_class.count(value_by_node_class[0]) < self._node_class_count:
            self._score("node classes", value_by_node_class.tobytes(), reverse)
        self.says_score()  # equal for all nodes, it changes nothing

    def score_rows(self, score_by_row: bytes) -> None:
        """Set scores 0..100 by row, one byte each, which are not normalised; rows past the end get 0."""
        if any(score_by_row):
            self._score("rows", score_by_row)
        self.says_score()

    def filter_asked(self, marks: RowAnswers) -> None:
        """Reject the rows that `marks` marks.

        Before each pod is placed, `marks` is asked again about rows that changed.
        """
        if self.is_filtering:
            self._note(self.filtering)
            self._asked.append((marks, 0))
            self.asks = True

    def score_asked(self, scores: RowAnswers) -> None:
        """Set scores 0..100, not normalised.

        Before each pod is placed, `scores` is asked again about rows that changed.
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
        """Filter and score by the pods in a node's topology domains, as spread constraints and pod affinity do.

        `asks`: before each pod is placed a guest (wasm plugin) is asked, which may fail to answer.
        """
        self.asks = self.asks or asks
        self.terms = terms if self.terms is None else self.terms.beside(terms)

    def says_filter(self) -> None:
        """Count the plugin as evaluated at Filter although it rejects no node, or rejects only by `add_terms`."""
        if self.is_filtering:
            self._note(self.filtering)

    def says_score(self) -> None:
        """Count the plugin as evaluated at Score although it scores all nodes equally, or only by `add_terms`."""
        if self.weight is not None:
            self._note(self.scoring)

    # --- the pod class ---

    @property
    def key(self) -> Hashable:
        """A value to compare drafts by: drafts with equal keys make equal pod classes."""
        return (self._verdicts, self._request, *self._scores, *self._asked, *self._rules, self.terms)

    def make(self) -> PodClass:
        """Return the pod class. Raises ValueError if the kernels cannot express it."""
        request = self._request
        if request is None:
            raise ValueError("expected a request that nodes need room for, got none")
        made = PodClass(self._columns, request, self._verdicts)
        for kind, *what, own in self._scores:
            self._add_score(made, request, cast(str, kind), what, cast(int, own))
        for answers, weight in self._asked:
            made.ask_rows(answers, weight)
        for rules, filters, weight in self._rules:
            made.follow_rules(rules, filters, weight)
        return made

    @property
    def bytes(self) -> int:
        """The approximate size of the pod class in bytes, without the kernels' caches by row."""
        by_node_class = sum(len(what) for _, what, *_ in self._scores if isinstance(what, bytes))
        return 2 * (len(self._verdicts) + by_node_class) + self._columns.rows * 8 * len(self._asked) + BYTES_OF_A_CLASS

    # --- inside ---

    @staticmethod
    def _add_score(made: PodClass, request: PodRequest, kind: str, what: list[Any], weight: int) -> None:
        if kind == "least":
            made.score_least_allocated(what[1], weight, what[0])
        elif kind == "most":
            made.score_most_allocated(what[1], weight, what[0])
        elif kind == "ratio":
            made.score_requested_to_capacity_ratio(what[1], what[2], weight, what[0])
        elif kind == "balanced":
            if what[0] != request:
                raise ValueError("expected pods to be balanced by what they are counted with, got another request")
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
