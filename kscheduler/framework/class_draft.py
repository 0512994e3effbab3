"""Collects what a profile's plugins say about pods of one signature, to make a class of the compiled core.

Each plugin is asked once and says how it takes part: what it rejects and scores by node class, by amounts or by row, or
nothing. Statements about a point at which the profile does not have the plugin are dropped. A draft that equals an
earlier one is the same class, and keeps that one's row caches.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, cast

from kscheduler._fast import MetricRules, NodeColumns, Placer, PodClass, PodRequest, RowAnswers

BYTES_OF_A_CLASS = 2_048


class Source(enum.IntEnum):
    """A part of the cluster, beside the pod, on which an answer may depend. All answers depend on NODES."""

    NODES = 0  # which nodes there are, their labels, taints and cordons
    IMAGES = 1  # what is where
    OWNERS = 2  # services and controllers
    NAMESPACES = 3  # their labels
    TERMS = 4  # kinds of affinity terms that pods on nodes state: one has appeared
    TERMS_GONE = 5  # one has vanished
    LABELS_OF_TERMS = 6  # which labels of other pods such terms have read so far
    OBJECTS = 7  # all that plugins see of nodes, annotations among it
    METRICS = 8  # policies over live metrics, and whether pods have to wait for values; values are always followed


class JoinedTerms(Protocol):
    """Conditions on the positions of other pods. A class with such terms is decided one pod a call: see `CompiledLane`.

    Terms that are equal make equal drafts.
    """

    def place(self, placer: Placer, pod_class: PodClass, random_bits: int | None) -> tuple[int, int]:
        """Return (row, feasible rows); row -1 if there is none. Draws as `Placer.place`; counts nothing on the row."""
        ...

    def beside(self, other: JoinedTerms) -> JoinedTerms:
        """Return these and another plugin's terms together."""
        ...


class ClassDraft:
    """A class in the making. Plugins use the methods from `depends_on` on, the class compiler the others."""

    def __init__(self, columns: NodeColumns, profile_count: int) -> None:
        self._columns = columns
        self._profile_count = profile_count
        self._verdicts = bytes(profile_count)  # profile id -> 0, or somebody rejects it
        self._request: PodRequest | None = None
        self._scores: list[tuple[Hashable, ...]] = []  # (kind, what, ..., weight)
        self._asked: list[tuple[RowAnswers, int]] = []  # with the weights of scores
        self._rules: list[tuple[MetricRules, bool, int]] = []  # do they filter, and the weights of their points
        self.sources = {Source.NODES}
        self.terms: JoinedTerms | None = None
        self.filtering: list[str] = []  # plugins that had something to say at Filter
        self.scoring: list[str] = []  # and at Score
        self.asks = False  # somebody is asked before a pod is placed
        self.has_failed = False  # a plugin raised, and may do better another time
        self._plugin = ""  # the one that is asked
        self._filters = False
        self._weight: int | None = None

    def copy(self) -> ClassDraft:
        """Return a copy to continue with, while this one stays as it is."""
        other = ClassDraft(self._columns, self._profile_count)
        other._verdicts, other._request, other.terms = self._verdicts, self._request, self.terms
        other._scores, other.sources = list(self._scores), set(self.sources)
        other._asked, other._rules = list(self._asked), list(self._rules)
        other.filtering, other.scoring = list(self.filtering), list(self.scoring)
        other.has_failed = self.has_failed
        return other

    def begin(self, plugin: str, *, filters: bool, weight: int | None) -> None:
        """Attribute all that follows to this plugin. `weight` is None for a plugin that is not to score."""
        self._plugin, self._filters, self._weight = plugin, filters, weight

    # --- what plugins say ---

    def depends_on(self, *sources: Source) -> None:
        """State that the answer, also a refusal, holds until one of these sources changes."""
        self.sources.update(sources)

    def filter_profiles(self, verdict_by_profile: bytes | bytearray) -> None:
        """Reject nodes of node classes with a verdict other than 0."""
        if not self._filters:
            return
        self._note(self.filtering)
        self._check_length("verdict_by_profile", len(verdict_by_profile))
        mine = int.from_bytes(verdict_by_profile, "little") | int.from_bytes(self._verdicts, "little")
        self._verdicts = mine.to_bytes(self._profile_count, "little")

    def filter_fit(self, request: PodRequest) -> None:
        """Reject nodes without room for the request; pods of the class must be counted with the same request."""
        if self._filters:
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

    def score_profiles(self, value_by_profile: array[int], *, reverse: bool) -> None:
        """Set raw scores by node class id, array('q'), to be normalised by default."""
        self._check_length("value_by_profile", len(value_by_profile))
        if self._profile_count and value_by_profile.count(value_by_profile[0]) < self._profile_count:
            self._score("profiles", value_by_profile.tobytes(), reverse)
        self.says_score()  # alike for all, it makes no difference

    def score_rows(self, score_by_row: bytes) -> None:
        """Set scores 0..100 that stay as they are; a row past the end has 0."""
        if any(score_by_row):
            self._score("rows", score_by_row)
        self.says_score()

    def filter_asked(self, marks: RowAnswers) -> None:
        """Reject marked rows. `marks` is asked again before a pod is placed, about rows that have changed."""
        if self._filters:
            self._note(self.filtering)
            self._asked.append((marks, 0))
            self.asks = True

    def score_asked(self, scores: RowAnswers) -> None:
        """Set scores 0..100 that stay as they are, asked in the same way as `filter_asked`."""
        if self._weight is not None:
            self._note(self.scoring)
            self._asked.append((scores, self._weight))
            self.asks = True

    def follow_rules(self, rules: MetricRules, *, filters: bool, scores: bool) -> None:
        """Filter and score, each if the rules do so, by what they say of rows at the time of placing."""
        filters = filters and self._filters
        weight = self._weight if scores else None
        if filters:
            self._note(self.filtering)
        if weight is not None:
            self._note(self.scoring)
        if filters or weight:
            self._rules.append((rules, filters, weight or 0))

    def add_terms(self, terms: JoinedTerms, *, asks: bool = False) -> None:
        """Filter and score, each as far as the plugin does so, by the positions of other pods.

        `asks`: a guest is asked before a pod is placed, which may fail to answer.
        """
        self.asks = self.asks or asks
        self.terms = terms if self.terms is None else self.terms.beside(terms)

    def says_filter(self) -> None:
        """Count the plugin as evaluated at Filter: it takes part by `add_terms` or by letting all pass."""
        if self._filters:
            self._note(self.filtering)

    def says_score(self) -> None:
        """Count the plugin as evaluated at Score: it takes part by `add_terms` or by scoring all alike."""
        if self._weight is not None:
            self._note(self.scoring)

    @property
    def is_filtering(self) -> bool:
        """True if the profile has the plugin that is asked at Filter."""
        return self._filters

    @property
    def weight(self) -> int | None:
        """The weight of the plugin that is asked; None if the profile does not have it at Score."""
        return self._weight

    # --- what comes of it ---

    @property
    def key(self) -> Hashable:
        """A value that is equal for drafts whose classes place pods alike."""
        return (self._verdicts, self._request, *self._scores, *self._asked, *self._rules, self.terms)

    def make(self) -> PodClass:
        """Return the class. Raises ValueError if the compiled core cannot take it."""
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
        """About how many bytes the class takes, without its row caches."""
        by_profile = sum(len(what) for _, what, *_ in self._scores if isinstance(what, bytes))
        return 2 * (len(self._verdicts) + by_profile) + self._columns.rows * 8 * len(self._asked) + BYTES_OF_A_CLASS

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
        elif kind == "profiles":
            values = array("q")
            values.frombytes(what[0])
            made.score_profiles(values, what[1], weight)
        else:
            made.score_rows(what[0], weight)

    def _score(self, kind: str, *what: Hashable) -> None:
        if self._weight is not None:
            self._note(self.scoring)
            self._scores.append((kind, *what, self._weight))

    def _note(self, plugins: list[str]) -> None:
        if self._plugin not in plugins:
            plugins.append(self._plugin)

    def _check_length(self, what: str, length: int) -> None:
        if length != self._profile_count:
            raise ValueError(f"{what}: expected {self._profile_count} values, got {length}")
